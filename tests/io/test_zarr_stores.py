"""Zarr stores that were made to run code; each is written as files, without zarr."""

import json
import pickle

import numpy as np
import pytest

from bagwise.io import read_bags

pytest.importorskip("zarr")


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return open, (self.target, "w")


PICKLE = {"id": "pickle", "protocol": 5}
PLAIN_2 = {
    "zarr_format": 2,
    "shape": [4, 3],
    "chunks": [4, 3],
    "dtype": "<f4",
    "compressor": None,
    "filters": None,
    "fill_value": 0.0,
    "order": "C",
}
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
PLAIN_3 = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4, 3],
    "data_type": "float32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 3]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0.0,
    "codecs": [BYTES],
    "attributes": {},
    "storage_transformers": [],
}
SHARDS = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [4, 3],
        "codecs": [BYTES],
        "index_codecs": [BYTES, {"name": "crc32c"}],
    },
}


def put(folder, name, document):
    folder.mkdir(parents=True, exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / name).write_text(text)


def save_2(store, array=PLAIN_2, chunk=None, at="features"):
    put(store, ".zgroup", {"zarr_format": 2})
    put(store / at, ".zarray", array)
    if chunk is None:
        chunk = np.arange(12, dtype="<f4").tobytes()
    (store / at / "0.0").write_bytes(chunk)


def save_3(store, array=PLAIN_3, chunk=None, group=None, at="features"):
    put(store, "zarr.json", group or {"zarr_format": 3, "node_type": "group"})
    put(store / at, "zarr.json", array)
    (store / at / "c" / "0").mkdir(parents=True, exist_ok=True)
    if chunk is None:
        chunk = np.arange(12, dtype="<f4").tobytes()
    (store / at / "c" / "0" / "0").write_bytes(chunk)


def hostile():
    """Yield a name and a function that writes a store, given a pickle."""
    for part in ("compressor", "filters", "both"):
        for dtype in ("<f4", "|O"):
            array = {**PLAIN_2, "dtype": dtype, "fill_value": 0}
            array |= {"compressor": PICKLE} if part != "filters" else {}
            array |= {"filters": [PICKLE]} if part != "compressor" else {}
            yield f"2-{part}-{dtype[1]}", lambda s, p, a=array: save_2(s, a, p)
    for codec in ("json2", "msgpack2", "vlen-array", "unknown", 7, None):
        array = {**PLAIN_2, "filters": [{"id": codec}], "dtype": "|O"}
        yield f"2-{codec}", lambda s, p, a=array: save_2(s, a, p)
    structured = [["a", "<f4"], ["b", "|O"]]
    array = {**PLAIN_2, "dtype": structured, "filters": [PICKLE]}
    yield "2-structured", lambda s, p, a=array: save_2(s, a, p)

    def fill(store, payload):
        import base64

        text = base64.standard_b64encode(payload).decode()
        save_2(store, {**PLAIN_2, "dtype": "|O", "filters": [PICKLE]} | {
            "fill_value": text
        })  # fmt: skip
        (store / "features" / "0.0").unlink()

    yield "2-fill-value", fill

    def beside(store, payload):
        save_2(store)
        save_2(store, {**PLAIN_2, "compressor": PICKLE}, payload, at="coords")

    yield "2-beside", beside

    def root(store, payload):
        put(store, ".zarray", {**PLAIN_2, "compressor": PICKLE})
        (store / "0.0").write_bytes(payload)

    yield "2-root", root

    def consolidated_2(store, payload):
        save_2(store, chunk=payload)
        found = {".zgroup": {"zarr_format": 2}}
        found["features/.zarray"] = {**PLAIN_2, "compressor": PICKLE}
        put(store, ".zmetadata", {"zarr_consolidated_format": 1, "metadata": found})

    yield "2-consolidated", consolidated_2
    names = ("numcodecs.pickle", "pickle", "numcodecs.json2", "unknown", None, 3)
    for codec in names:
        array = {**PLAIN_3, "codecs": [BYTES, {"name": codec, "configuration": {}}]}
        yield f"3-{codec}", lambda s, p, a=array: save_3(s, a, p)
        array = {**PLAIN_3, "codecs": [codec]}
        yield f"3-short-{codec}", lambda s, p, a=array: save_3(s, a, p)
    for part in ("codecs", "index_codecs"):
        inner = {**SHARDS["configuration"], part: [{"name": "numcodecs.pickle"}]}
        array = {**PLAIN_3, "codecs": [{**SHARDS, "configuration": inner}]}
        yield f"3-shards-{part}", lambda s, p, a=array: save_3(s, a, p)
    for dtype in ("object", "|O", {"name": "numpy.object", "configuration": {}}):
        array = {**PLAIN_3, "data_type": dtype}
        yield f"3-dtype-{str(dtype)[:8]}", lambda s, p, a=array: save_3(s, a, p)
    array = {**PLAIN_3, "storage_transformers": [{"name": "x"}]}
    yield "3-transformer", lambda s, p, a=array: save_3(s, a, p)
    array = {**PLAIN_3, "chunk_grid": {"name": "x"}}
    yield "3-grid", lambda s, p, a=array: save_3(s, a, p)
    array = {**PLAIN_3, "chunk_key_encoding": {"name": "x"}}
    yield "3-keys", lambda s, p, a=array: save_3(s, a, p)

    def consolidated_3(store, payload):
        found = {"features": {**PLAIN_3, "codecs": [{"name": "numcodecs.pickle"}]}}
        inner = {"kind": "inline", "must_understand": False, "metadata": found}
        group = {"zarr_format": 3, "node_type": "group", "consolidated_metadata": inner}
        save_3(store, chunk=payload, group=group)

    yield "3-consolidated", consolidated_3


HOSTILE = dict(hostile())


@pytest.mark.parametrize("layout", HOSTILE)
def test_no_code_runs_and_one_message_comes(tmp_path, layout):
    mark = tmp_path / "ran"
    payload = pickle.dumps(Payload(mark))
    HOSTILE[layout](tmp_path / "slides" / "a.zarr", payload)
    with pytest.raises(ValueError, match="not opened") as caught:
        read_bags(tmp_path / "slides")
    assert not mark.exists()
    assert "'a'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["../b/.zarray", "/tmp/.zarray", "x/../../.zarray"])
def test_consolidated_metadata_name_no_path_outside(tmp_path, key):
    store = tmp_path / "slides" / "a.zarr"
    save_2(store)
    found = {key: PLAIN_2}
    put(store, ".zmetadata", {"zarr_consolidated_format": 1, "metadata": found})
    with pytest.raises(ValueError, match="a path outside of the store"):
        read_bags(tmp_path / "slides")


def test_consolidated_metadata_of_version_3_name_no_path_outside(tmp_path):
    inner = {"kind": "inline", "must_understand": False, "metadata": {"../b": PLAIN_3}}
    group = {"zarr_format": 3, "node_type": "group", "consolidated_metadata": inner}
    save_3(tmp_path / "slides" / "a.zarr", group=group)
    with pytest.raises(ValueError, match="a path outside of the store"):
        read_bags(tmp_path / "slides")


@pytest.mark.parametrize("what", ["chunk", "folder"])
def test_links_are_refused(tmp_path, what):
    store = tmp_path / "slides" / "a.zarr"
    save_2(store)
    if what == "chunk":
        (tmp_path / "secret").write_bytes(b"x" * 48)
        (store / "features" / "0.0").unlink()
        (store / "features" / "0.0").symlink_to(tmp_path / "secret")
    else:
        save_2(tmp_path / "other")
        (store / "coords").symlink_to(tmp_path / "other" / "features")
    with pytest.raises(ValueError, match="is a link to somewhere else"):
        read_bags(tmp_path / "slides")


@pytest.mark.parametrize(
    "text",
    ['{"zarr_format": 2, "zarr_format": 2}', "{", "[1]", "[" * 10**5, '"' + "\0"],
    ids=["twice", "cut-off", "list", "deep", "nul"],
)
def test_metadata_that_are_no_object(tmp_path, text):
    store = tmp_path / "slides" / "a.zarr"
    save_2(store)
    put(store, ".zgroup", text)
    with pytest.raises(ValueError, match=r"\.zgroup is .*not opened"):
        read_bags(tmp_path / "slides")


def test_chunk_larger_than_the_memory_budget(tmp_path):
    array = {**PLAIN_2, "chunks": [10**7, 10**7]}
    save_2(tmp_path / "slides" / "a.zarr", array)
    with pytest.raises(ValueError, match="a chunk of features/.zarray would take"):
        read_bags(tmp_path / "slides")


@pytest.mark.parametrize("save", [save_2, save_3])
def test_plain_stores_are_read(tmp_path, save):
    zarr = pytest.importorskip("zarr")
    if save is save_3 and zarr.__version__.startswith("2"):
        pytest.skip("zarr 2 reads version 2")
    save(tmp_path / "slides" / "a.zarr")
    X, _ = read_bags(tmp_path / "slides")
    np.testing.assert_array_equal(X.data, np.arange(12.0).reshape(4, 3))


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_stores_of_zarr_itself_are_read(tmp_path):
    """Every compressor that zarr offers by name for plain rows, and shards."""
    zarr = pytest.importorskip("zarr")
    if zarr.__version__.startswith("2"):
        pytest.skip("arguments of zarr 3")
    from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

    rows = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    folder = tmp_path / "slides"
    for i, codec in enumerate((BloscCodec(), GzipCodec(), ZstdCodec())):
        group = zarr.open_group(str(folder / f"s{i}.zarr"), mode="w")
        group.create_array(
            "features", data=rows, chunks=(10, 5), shards=(30, 5), compressors=codec
        )
        zarr.consolidate_metadata(str(folder / f"s{i}.zarr"))
    import numcodecs

    for i, old in enumerate((numcodecs.Blosc(), numcodecs.Zlib(), numcodecs.BZ2())):
        group = zarr.open_group(str(folder / f"t{i}.zarr"), mode="w", zarr_format=2)
        group.create_array("features", data=rows, compressors=old)
        zarr.consolidate_metadata(str(folder / f"t{i}.zarr"))
    X, _ = read_bags(folder)
    for bag in X:
        np.testing.assert_array_equal(bag, rows)
