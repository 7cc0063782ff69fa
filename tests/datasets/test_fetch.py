"""Known data sets: found, checked, and refused when they are something else."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from bagwise.bags import Bags, segments
from bagwise.datasets import _fetch, available, fetch, make_bags
from bagwise.datasets._fetch import content_hash
from bagwise.datasets._registry import REGISTRY, DatasetInfo
from bagwise.io import write_npz

X, y = make_bags(6, n_features=3, random_state=0)
TOY = DatasetInfo(
    name="toy",
    n_bags=6,
    n_instances=X.n_instances,
    n_features=3,
    n_positive=3,
    sha256=content_hash(X, [y]),
    title="A toy.",
    reference="Nobody, 2000.",
)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A registered toy set, an empty data folder and an empty cache."""
    (tmp_path / "data").mkdir()
    monkeypatch.setitem(REGISTRY, "toy", TOY)
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("BAGWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_benchmark_data_have_their_pins(name, benchmark):
    info = REGISTRY[name]
    data = benchmark(info.file or name)
    assert data.X.n_bags == len(data.y) == info.n_bags
    assert data.X.n_instances == info.n_instances
    assert data.X.n_features == info.n_features
    assert data.name in data.DESCR
    if info.n_classes:
        assert len(data.classes) == info.n_classes == len(np.unique(data.y))
        assert data.y.dtype == np.int64
    else:
        assert data.X_test.n_bags == len(data.y_test) == info.n_bags


def test_newsgroups_have_two_labellings(benchmark):
    data = benchmark("newsgroups_comp.graphics")
    by_instances = fetch("newsgroups_comp.graphics", label="y")
    expected = segments.segment_max(
        data.instance_labels.values.astype(float), data.X.offsets
    )
    np.testing.assert_array_equal(by_instances.y, expected)
    assert data.y.sum() == 50
    assert by_instances.y.sum() == 49
    with pytest.raises(ValueError, match="has the labels y_zhou, y, got 'z'"):
        fetch("newsgroups_comp.graphics", label="z")


def test_found_in_the_data_folder(toy):
    write_npz(toy / "data" / "toy.npz", X, y)
    data = fetch("TOY")
    np.testing.assert_array_equal(data.X.data, X.data)
    np.testing.assert_array_equal(data.y, y)
    assert data.path == str(toy / "data" / "toy.npz")
    assert data.classes == ["negative", "positive"]
    assert data.instance_labels is None
    assert data.data_hash == TOY.sha256
    pair = fetch("toy", return_X_y=True)
    np.testing.assert_array_equal(pair[1], y)
    assert available()["toy"].status == "local"


def test_found_in_the_cache_in_another_order_and_sparse(toy):
    (toy / "cache").mkdir()
    order = np.arange(6)[::-1]
    shuffled = X[order]
    shuffled = Bags(sp.csr_array(shuffled.data), shuffled.offsets)
    write_npz(toy / "cache" / "toy.npz", shuffled, y[order])
    data = fetch("toy")
    np.testing.assert_array_equal(data.y, y[order])
    assert available()["toy"].status == "cached"
    assert fetch("toy", data_home=toy / "cache").X.n_bags == 6


def test_missing_without_a_source(toy):
    with pytest.raises(FileNotFoundError, match=r"was not found .* Put toy\.npz into"):
        fetch("toy")
    assert available()["toy"].status == "missing"
    with pytest.raises(FileNotFoundError, match="network may not be used.*musk"):
        fetch("musk1", download_if_missing=False)
    assert available()["musk1"].status == "download"
    assert available()["musk1"].source.startswith("https://archive.ics.uci.edu")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.update(X=a["X"] + 1e-3), "fingerprint .* refused"),
        (lambda a: a.update(y=1 - a["y"]), "fingerprint .* refused"),
        (lambda a: a.update(y=np.ones(6)), "3 positive bags.* has 6"),
        (lambda a: a.update(X=a["X"][:, :2]), "3 features.* has 2"),
        (lambda a: a.update(X=a["X"][:-1], bag=a["bag"][:-1]), "instances.* refused"),
        (lambda a: a.update(y=a["y"][:-1]), "one number for each of the 6 bags"),
        (lambda a: a.pop("y"), "one number for each of the 6 bags"),
        (lambda a: a.pop("bag"), "no array 'bag'"),
        (lambda a: a.pop("X"), "neither 'X'"),
        (lambda a: a.update(inst_y=np.zeros(2)), "inst_y"),
        (lambda a: a.update(ids=np.arange(3)), "one name for each bag"),
    ],
)
def test_wrong_files_are_refused(toy, change, message):
    path = toy / "data" / "toy.npz"
    arrays = {"X": X.data, "bag": X.bag_index, "y": y}
    change(arrays)
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=rf"toy\.npz: .*{message}"):
        fetch("toy")


def test_damaged_file(toy):
    path = toy / "data" / "toy.npz"
    write_npz(path, X, y)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"toy\.npz: not a readable npz"):
        fetch("toy")


def test_unknown_name():
    with pytest.raises(ValueError, match="no data set 'mask1'. Known: musk1, musk2"):
        fetch("mask1")


def test_cache_folder_of_the_system(monkeypatch):
    monkeypatch.delenv("BAGWISE_CACHE", raising=False)
    assert "bagwise" in str(_fetch._cache_folder(None))


def test_registry_is_sound():
    for name, info in REGISTRY.items():
        assert name == info.name == name.lower()
        assert len(info.sha256) == 64
        assert dataclasses.is_dataclass(info)
        for source in info.sources:
            assert source.format in ("musk", "svmlight")
