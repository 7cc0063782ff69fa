"""Downloads from a server on this machine: good ones are cached, bad ones refused."""

import dataclasses
import gzip
import io
import socket
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from test_lzw import compress

from bagwise.bags import Bags
from bagwise.datasets import fetch, make_bags
from bagwise.datasets._fetch import content_hash
from bagwise.datasets._registry import REGISTRY, DatasetInfo, Source

DATA, LABELS = make_bags(6, n_features=3, random_state=0)
DATA = Bags(DATA.data.round(4), DATA.offsets)


def musk_text(X, y):
    lines = []
    for i, (bag, label) in enumerate(zip(X, y, strict=True)):
        for j, row in enumerate(bag):
            values = ",".join(f"{v:g}" for v in row)
            lines.append(f"M{i},c{j},{values},{label}.")
    return ("\n".join(lines) + "\n").encode()


def svmlight_text(X, y):
    lines = ["# instance:bag:label"]
    for i, (bag, label) in enumerate(zip(X, y, strict=True)):
        dense = bag.toarray() if X.is_sparse else bag
        for row in dense:
            pairs = " ".join(f"{j + 1}:{row[j]:.6g}" for j in np.flatnonzero(row))
            lines.append(f"{len(lines) - 1}:{i}:{1 if label else -1} {pairs}")
    return ("\n".join(lines) + "\n").encode()


def zipped(name, raw):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Index", "other")
        archive.writestr(name, raw)
    return stream.getvalue()


def tarred(members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, raw in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(raw)
            archive.addfile(entry, io.BytesIO(raw))
    return stream.getvalue()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        answer = self.server.answers.get(self.path)
        if answer is None:
            self.send_error(404)
            return
        raw, promised = answer
        self.send_response(200)
        self.send_header("Content-Length", str(promised))
        self.end_headers()
        self.wfile.write(raw)
        self.close_connection = True

    def log_message(self, *args):
        """Stay silent."""


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.answers, httpd.asked = {}, []
        httpd.url = f"http://127.0.0.1:{httpd.server_port}"
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        yield httpd
        httpd.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("BAGWISE_DATA", raising=False)
    monkeypatch.setenv("BAGWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def serve(server, path, raw, promised=None):
    server.answers[path] = (raw, len(raw) if promised is None else promised)


def register(monkeypatch, name, *sources, **changes):
    info = DatasetInfo(
        name=name,
        n_bags=6,
        n_instances=DATA.n_instances,
        n_features=3,
        n_positive=3,
        sha256=content_hash(DATA, [LABELS]),
        title="A toy.",
        reference="Nobody, 2000.",
        sources=sources,
    )
    monkeypatch.setitem(REGISTRY, name, dataclasses.replace(info, **changes))


def nothing_cached(cache):
    return not cache.exists() or not list(cache.iterdir())


@pytest.mark.parametrize("packing", ["zip", "zip of .Z", ".Z"])
def test_good_download_is_cached(server, cache, monkeypatch, packing):
    raw = musk_text(DATA, LABELS)
    content = {
        "zip": lambda: zipped("clean.data", raw),
        "zip of .Z": lambda: zipped("musk/clean.data.Z", compress(raw)),
        ".Z": lambda: compress(raw),
    }[packing]()
    serve(server, "/toy+one.zip", content)
    source = Source(f"{server.url}/toy+one.zip", "clean.data", "musk")
    register(monkeypatch, "toy", source)
    data = fetch("toy")
    np.testing.assert_array_equal(data.X.data, DATA.data)
    np.testing.assert_array_equal(data.y, LABELS)
    assert data.X.ids.tolist() == [f"M{i}" for i in range(6)]
    assert [p.name for p in cache.iterdir()] == ["toy.npz"]
    again = fetch("toy")
    assert server.asked == ["/toy+one.zip"]
    np.testing.assert_array_equal(again.X.data, DATA.data)
    assert again.X.ids.tolist() == data.X.ids.tolist()


def test_archive_of_several_sets_is_downloaded_once(server, cache, monkeypatch):
    raw = svmlight_text(DATA, LABELS)
    members = {
        "MilData/A/data.svm": raw,
        "MilData/B/data.svm": raw,
        "MilData/C/data.svm": raw.replace(b":1 ", b":-1 "),
    }
    serve(server, "/mil.tgz", tarred(members))
    for name in "abc":
        source = Source(f"{server.url}/mil.tgz", f"{name.upper()}/data.svm", "svmlight")
        register(monkeypatch, name, source)
    np.testing.assert_array_equal(fetch("a").y, LABELS)
    np.testing.assert_array_equal(fetch("b").X.data, DATA.data)
    assert server.asked == ["/mil.tgz"]
    # The wrong set of the archive is neither cached nor accepted.
    assert sorted(p.name for p in cache.iterdir()) == ["a.npz", "b.npz"]
    with pytest.raises(ValueError, match="3 positive bags"):
        fetch("c")


def test_labels_of_instances_make_bag_labels(server, cache, monkeypatch):
    """One positive instance suffices, as the format's authors define it."""
    lines = svmlight_text(DATA, LABELS).decode().splitlines()
    seen, changed = set(), []
    for line in lines:
        bag = line.split(":")[1]
        changed.append(line.replace(":1 ", ":-1 ", 1) if bag in seen else line)
        seen.add(bag)
    serve(server, "/m.tgz", tarred({"d.svm": "\n".join(changed).encode()}))
    register(monkeypatch, "toy", Source(f"{server.url}/m.tgz", "d.svm", "svmlight"))
    np.testing.assert_array_equal(fetch("toy").y, LABELS)


GOOD = musk_text(DATA, LABELS)
ONE_DIGIT = GOOD.replace(b"0.", b"9.", 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped("clean.data", ONE_DIGIT), "fingerprint .* refused"),
        (zipped("clean.data", GOOD[: len(GOOD) // 2]), "refused|truncated"),
        (zipped("clean.data", b"\xff\xfe" + GOOD), "not a text file"),
        (zipped("clean.data.Z", compress(GOOD)[:-40]), "refused|truncated"),
        (zipped("clean.data.Z", b"\x1f\x9d\x90\xff\xff\xff"), "damaged"),
        (zipped("other.data", GOOD), "does not contain clean.data"),
        (zipped("clean.data", GOOD)[:-30], "damaged or incomplete"),
        (tarred({"clean.data": GOOD})[:200], "damaged or incomplete"),
        (gzip.compress(b"x" * 2000), "damaged or incomplete"),
        (tarred({"other": GOOD}), "does not contain"),
        (b"<html>Please log in</html>", "no zip, tar or .Z archive"),
        (b"", "no zip, tar or .Z archive"),
    ],
    # Archives hold the time they were made: names must not be made of them.
    ids=range(12),
)
def test_wrong_content_is_refused(server, cache, monkeypatch, content, message):
    serve(server, "/toy.zip", content)
    source = Source(f"{server.url}/toy.zip", "clean.data", "musk")
    register(monkeypatch, "toy", source)
    with pytest.raises(ValueError, match=message) as caught:
        fetch("toy")
    assert f"{server.url}/toy.zip" in str(caught.value)
    assert "BAGWISE_DATA" in str(caught.value)
    assert nothing_cached(cache)


def test_truncated_download(server, cache, monkeypatch):
    content = zipped("clean.data", GOOD)
    serve(server, "/toy.zip", content[:-50], promised=len(content))
    source = Source(f"{server.url}/toy.zip", "clean.data", "musk")
    register(monkeypatch, "toy", source)
    with pytest.raises(
        (ConnectionError, ValueError), match="incomplete|cut off|truncated"
    ):
        fetch("toy")
    assert nothing_cached(cache)


def test_not_found(server, cache, monkeypatch):
    source = Source(f"{server.url}/absent.zip", "clean.data", "musk")
    register(monkeypatch, "toy", source)
    with pytest.raises(ConnectionError, match=r"404 .* set the environment .*DATA"):
        fetch("toy")
    assert nothing_cached(cache)


def test_offline(server, cache, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    source = Source(f"http://127.0.0.1:{port}/toy.zip", "clean.data", "musk")
    register(monkeypatch, "toy", source)
    with pytest.raises(ConnectionError, match=r"no connection .* Put toy\.npz or toy"):
        fetch("toy")
    assert nothing_cached(cache)


def test_second_source_is_tried(server, cache, monkeypatch):
    serve(server, "/wrong.zip", b"moved")
    serve(server, "/good.zip", zipped("clean.data", GOOD))
    sources = [
        Source(f"{server.url}/{name}.zip", "clean.data", "musk")
        for name in ("gone", "wrong", "good")
    ]
    register(monkeypatch, "toy", *sources)
    np.testing.assert_array_equal(fetch("toy").y, LABELS)
    assert server.asked == ["/gone.zip", "/wrong.zip", "/good.zip"]


def test_archive_downloaded_by_hand(cache, monkeypatch, tmp_path):
    (tmp_path / "toy+one.zip").write_bytes(zipped("clean.data", GOOD))
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path))
    source = Source("http://127.0.0.1:9/toy%2Bone.zip", "clean.data", "musk")
    register(monkeypatch, "toy", source)
    data = fetch("toy")
    np.testing.assert_array_equal(data.X.data, DATA.data)
    assert data.path.endswith("toy+one.zip")


def test_real_sets_through_their_formats(server, tmp_path, monkeypatch, benchmark):
    """Musk 1 as UCI packs it and Fox as Andrews does pass their real pins."""
    musk, fox = benchmark("musk1"), benchmark("fox")
    monkeypatch.delenv("BAGWISE_DATA")
    monkeypatch.setenv("BAGWISE_CACHE", str(tmp_path))
    order = np.random.default_rng(0).permutation(92)
    text = musk_text(musk.X[order], musk.y[order])
    serve(server, "/musk.zip", zipped("clean1.data.Z", compress(text)))
    serve(
        server,
        "/m.tgz",
        tarred({"M/Fox/data_100x100.svm": svmlight_text(fox.X, fox.y)}),
    )
    for name, file in (("musk1", "musk.zip"), ("fox", "m.tgz")):
        info = REGISTRY[name]
        place = dataclasses.replace(info.sources[0], url=f"{server.url}/{file}")
        changed = dataclasses.replace(info, sources=(place,))
        monkeypatch.setitem(REGISTRY, name, changed)
    np.testing.assert_array_equal(fetch("musk1").y, musk.y[order])
    again = fetch("fox")
    np.testing.assert_allclose(again.X.data, fox.X.data, rtol=1e-5)
    assert again.data_hash == fox.data_hash
