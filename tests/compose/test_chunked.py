"""Methods that read memory maps in pieces give what they give in memory."""

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils import get_tags

from bagwise.bags import Bags, _check
from bagwise.bags import chunks as _chunks
from bagwise.bags import stored as _stored
from bagwise.compose import OnInstances, SampleInstances, SimpleMI
from bagwise.embedding import MiFV, SlicedWassersteinEmbedding, _sliced_wasserstein
from bagwise.kernels import set_kernel
from bagwise.least_squares import SAFE, SAFERegressor
from bagwise.least_squares import safe_moments as _features
from bagwise.linear_model import MILinearRegression, MILogisticRegression
from bagwise.solvers import interior_point as working_set
from bagwise.svm import MISVM, BagSVC
from bagwise.svm import _base as svm_base


@pytest.fixture
def both(tmp_path, monkeypatch):
    """The same bags in memory and on disk, in many pieces."""
    monkeypatch.setattr(_stored, "COPIED_BELOW", 0)
    monkeypatch.setattr(_chunks, "_CHUNK_BYTES", 4 * 5 * 40)
    rng = np.random.default_rng(0)
    sizes, y = rng.integers(3, 12, 50), np.arange(50) % 2
    rows = rng.normal(np.repeat(y, sizes)[:, None], 1.0, (sizes.sum(), 5))
    rows = (rows + [0, 1, 2, 3, 4]).astype(np.float16)
    np.save(tmp_path / "rows.npy", rows)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    plain = Bags(rows.astype(np.float64), offsets)
    stored = Bags(np.load(tmp_path / "rows.npy", mmap_mode="r"), offsets)
    # Selections of bags that are not neighbors stay on disk as well.
    order = rng.permutation(50)
    return plain[order], stored[order], y[order]


TRANSFORMERS = {
    "mean": SimpleMI(RidgeClassifier()),
    "mean+std": SimpleMI(RidgeClassifier(), pooling="mean+std"),
    "minmax": SimpleMI(RidgeClassifier(), pooling="minmax"),
    "miFV": MiFV(random_state=0),
    "miFV sample": MiFV(max_samples=90, random_state=0),
    "sliced": SlicedWassersteinEmbedding(7, random_state=0),
    "sample": SampleInstances(4, random_state=0),
    "SAFE linear": SAFE(kernel="linear", variance_weight=0.5),
    "SAFE landmarks": SAFE(n_components=20, random_state=0, variance_weight=0.5),
    "SAFE ksc": SAFE(n_components=20, random_state=0, core="ksc"),
    "SAFE rff": SAFE(n_components=20, approximation="rff", random_state=0),
    "SAFE median": SAFE(n_components=20, gamma="median", random_state=0),
    "SAFE huber": SAFE(n_components=20, loss="huber", random_state=0),
    "SAFERegressor": SAFERegressor(kernel="linear"),
    "linear mean": MILinearRegression(),
    "linear max": MILinearRegression("max", n_init=2, random_state=0),
    "MI-SVM": MISVM(C=0.5, kernel="linear", tol=1e-6),
    "MILR": MILogisticRegression(random_state=0, n_init=1),
    "MILR gmean": MILogisticRegression(C=0.5, pooling="gmean", loss="log", tol=1e-7),
}


def answer(model, X):
    for name in ("decision_function", "transform", "predict"):
        if hasattr(model, name):
            out = getattr(model, name)(X)
            return out.data if isinstance(out, Bags) else out
    raise AssertionError("the model says nothing")


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_same_answers_from_disk(name, both, monkeypatch):
    plain, stored, y = both
    model = TRANSFORMERS[name]
    assert get_tags(model).input_tags.chunked
    expected = answer(model.fit(plain, y), plain)
    if name != "miFV":  # its mixture may see all instances

        def refuse(self):
            raise AssertionError("all instances were read at once")

        monkeypatch.setattr(svm_base, "_STORED_FROM", 0)
        monkeypatch.setattr(working_set, "_SMALL", 60)
        monkeypatch.setattr(working_set, "_MOST_READ", 20)
        monkeypatch.setattr(_check, "_CHUNK_BYTES", 400)
        monkeypatch.setattr(_sliced_wasserstein, "_CHUNK", 40)
        monkeypatch.setattr(_features, "_CHUNK_BYTES", 400)
        read = limited_read(stored.n_instances)
        monkeypatch.setattr(_stored.StoredRows, "read", read)
        monkeypatch.setattr(Bags, "in_memory", refuse)
    found = answer(model.fit(stored, y), stored)
    # Single precision hides differences r of the objective, hence sqrt(2 r / ridge) in
    # the minimum of MILR: 8e-5 in its weights.
    tol = 5e-4 if name == "MILR gmean" else 2e-5
    np.testing.assert_allclose(found, expected, rtol=tol, atol=tol)


def limited_read(n_instances):
    read = _stored.StoredRows.read

    def guarded(self):
        assert self.shape[0] < n_instances, "all instances were read at once"
        return read(self)

    return guarded


@pytest.mark.parametrize(
    "inner",
    [
        StandardScaler(),
        MinMaxScaler(),
        RBFSampler(gamma="scale", n_components=6, random_state=0),
    ],
    ids=lambda inner: type(inner).__name__,
)
def test_transformed_instances_go_to_disk(inner, both):
    plain, stored, _ = both
    expected = OnInstances(inner).fit_transform(plain)
    model = OnInstances(inner).fit(stored)
    found = model.transform(stored)
    assert found.on_disk
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_allclose(found.data, expected.data, rtol=2e-3, atol=2e-3)
    # Only the stored result is rounded to half precision.
    np.testing.assert_allclose(
        model.transform(plain).data, expected.data, rtol=1e-5, atol=1e-5
    )


def test_other_methods_get_bags_in_memory(both, monkeypatch):
    plain, stored, y = both
    model = BagSVC(kernel="set")
    assert not get_tags(model).input_tags.chunked
    np.testing.assert_allclose(
        model.fit(stored, y).decision_function(stored),
        model.fit(plain, y).decision_function(plain),
        atol=1e-3,
    )
    np.testing.assert_allclose(set_kernel(stored), set_kernel(plain), rtol=1e-5)
    monkeypatch.setenv("BAGWISE_MEMORY", "1KB")
    with pytest.raises(ValueError, match=r"instances of 50 bags .*SampleInstances"):
        model.fit(stored, y)


def test_instances_are_sampled_without_replacement():
    rng = np.random.default_rng(0)
    X = Bags(
        np.arange(300.0).reshape(150, 2),
        [0, 100, 103, 150],
        instance_ids=[f"i{k}" for k in range(150)],
        coords=rng.normal(size=(150, 2)),
        groups=["a", "b", "b"],
    )
    out = SampleInstances(20, random_state=0).fit_transform(X)
    np.testing.assert_array_equal(out.sizes, [20, 3, 20])
    place = (out.data[:, 0] / 2).astype(int)
    assert len(np.unique(place)) == 43
    for bag, rows in zip(range(3), np.split(place, [20, 23]), strict=True):
        assert ((rows >= X.offsets[bag]) & (rows < X.offsets[bag + 1])).all()
    np.testing.assert_array_equal(out.coords, X.coords[place])
    np.testing.assert_array_equal(out.instance_ids, X.instance_ids[place])
    np.testing.assert_array_equal(out.groups, X.groups)
    same = SampleInstances(20, random_state=0).fit_transform(X)
    np.testing.assert_array_equal(out.data, same.data)
    counts = np.zeros(100)
    for seed in range(200):
        sampled = SampleInstances(20, random_state=seed).fit_transform(X[:1])
        counts[(sampled.data[:, 0] / 2).astype(int)] += 1
    # 200 draws of a fifth: 40 each, with a standard deviation of 5.7.
    assert counts.min() > 15
    assert counts.max() < 65


def test_clipping_reads_chunks(both):
    plain, stored, _ = both
    model = OnInstances(StandardScaler(), clip=True)
    expected = model.fit(plain[:30]).transform(plain).data
    found = model.fit(stored[:30]).transform(stored).data
    np.testing.assert_allclose(found, expected, atol=2e-3)
    assert found.max() <= model.range_.max() + 2e-3
