"""Inputs of members: what they are, in parts and wide, and what folds see of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from bagwise import BagClassifier, Bags
from bagwise.datasets import make_bags
from bagwise.embedding import MiFV, PrototypeEmbedding
from bagwise.ensemble._inputs import (
    ClippedScaler,
    CubeRows,
    DenseRows,
    Embedded,
    Input,
    Made,
    PooledColumns,
    Prototypes,
    StandardRows,
    Statistics,
    ThinnedRows,
)
from bagwise.ensemble._members import EarthMover, NearBags, SetKernel, SlicedDistance
from bagwise.kernels import emd_distances

ROWS = StandardRows


@pytest.fixture
def toy():
    return make_bags(12, n_features=3, random_state=1)[0]


def kernels():
    """Inputs whose columns stand for training bags or for their instances."""
    rows = ROWS()
    return [
        Prototypes(rows, PrototypeEmbedding(random_state=0)),
        NearBags(rows, EarthMover(40), 1.0),
        NearBags(CubeRows(rows), SlicedDistance(), 0.25),
        SetKernel(rows),
    ]


@pytest.mark.parametrize("which", range(4))
def test_folds_see_only_columns_of_their_own_bags(toy, which):
    one = kernels()[which]
    matrix = Made(toy, fit=True).of(one)
    expected = toy.bag_index if which == 0 else np.arange(12)
    np.testing.assert_array_equal(one.column_bags, expected)
    seen = one.select(matrix, np.array([0, 5]), np.array([1, 4]))
    np.testing.assert_array_equal(seen, matrix[[0, 5]][:, np.isin(expected, [1, 4])])
    # Training bags as new bags have the same rows.
    np.testing.assert_allclose(Made(toy).of(one), matrix, atol=1e-10)


def test_shared_inputs_are_made_once(toy):
    calls = []

    class Counted(Input):
        def transform(self, X):
            calls.append(len(X))
            return X

    first = Counted()
    one, two = Statistics(first), Statistics(first)
    made = Made(toy)
    np.testing.assert_array_equal(made.of(one), made.of(two))
    made.of(one)
    assert calls == [12]
    assert made.of(Input()) is toy


@pytest.mark.parametrize(
    "make",
    [
        Statistics,
        lambda rows: Embedded(rows, MiFV(2, energy=0.9, random_state=0)),
        lambda rows: Prototypes(rows, PrototypeEmbedding(random_state=0)),
    ],
)
def test_chunks_do_not_change_an_input(toy, make, monkeypatch):
    whole = Made(toy, fit=True).of(make(ROWS()))
    monkeypatch.setattr("bagwise.ensemble._inputs._CHUNK", 15)
    assert len(list(toy.iter_chunks(15))) > 3
    one = make(ROWS())
    np.testing.assert_allclose(Made(toy, fit=True).of(one), whole, atol=1e-12)
    np.testing.assert_allclose(Made(toy).of(one), whole, atol=1e-12)


def test_thinned_bags_are_for_fitting_and_all_instances_for_scoring():
    X, _ = make_bags(30, n_features=3, bag_size=(6, 12), random_state=1)
    rows = ROWS()
    thin = ThinnedRows(rows, 4)
    made = Made(X, fit=True)
    assert made.of(thin).sizes.max() == 4
    assert made.of(thin.scored).n_instances == X.n_instances
    prototypes = Prototypes(rows, PrototypeEmbedding(random_state=0), 4)
    assert made.of(prototypes).shape == (30, 4 * 30)


def test_inputs_are_what_they_are_called(toy):
    rows = ROWS()
    wide = toy.with_data(np.column_stack([toy.data, np.full(toy.n_instances, 3.0)]))
    made = Made(wide, fit=True)
    Z = made.of(rows)
    np.testing.assert_allclose(Z.data, StandardScaler().fit_transform(toy.data))
    bag = Z[4]
    expected = np.r_[bag.mean(0), bag.std(0), bag.min(0), bag.max(0), np.log(len(bag))]
    np.testing.assert_allclose(made.of(Statistics(rows))[4], expected)
    cube = made.of(CubeRows(rows))
    assert cube.data.min() == 0
    assert cube.data.max() == 1
    D = emd_distances(Z)
    mean = D[~np.eye(12, dtype=bool)].mean()
    near = made.of(NearBags(rows, EarthMover(40), 0.5))
    np.testing.assert_allclose(near, np.exp(-0.5 * D / mean), atol=1e-9)


def test_units_of_columns_do_not_count():
    X, y = make_bags(20, n_features=3, random_state=2)
    units = X.with_data(X.data * np.array([1e-12, 1.0, 1e9]))
    Z = ROWS().fit_transform(units)
    np.testing.assert_allclose(Z.data, ROWS().fit_transform(X).data, atol=1e-9)
    # A constant whose mean is rounded is still a constant.
    level = np.full((X.n_instances, 1), 0.1)
    level[::2] = np.nextafter(0.1, 1)
    both = X.with_data(np.hstack([X.data, level]))
    assert ROWS().fit_transform(both).n_features == 3
    with pytest.warns(UserWarning, match="all columns of X are constant"):
        ROWS().fit_transform(X.with_data(level))


def test_storage_at_prediction_is_that_of_training(toy):
    sparse = toy.with_data(sp.csr_matrix(toy.data))
    rows = ROWS()
    expected = rows.fit_transform(toy)
    np.testing.assert_array_equal(rows.transform(sparse).data, expected.data)
    rows.fit_transform(sparse)
    assert (rows.transform(toy).data != sparse.data).nnz == 0


def test_sliced_distances_of_nearly_equal_bags_keep_their_digits():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, 30)
    offsets = np.append(0, np.cumsum(sizes))
    X = Bags(rng.normal(size=(offsets[-1], 40)) + 5.0, offsets)
    few = X[:12].with_data(X[:12].data + 1e-7 * rng.normal(size=X[:12].data.shape))
    sliced = SlicedDistance()
    D = sliced.fit(X)
    rows = sliced.embedding.transform(X)
    np.testing.assert_allclose(D, cdist(rows, rows), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(np.diag(D), 0.0)
    for other in (X[5:9], few, few.with_data(3.0 * few.data)):
        expected = cdist(sliced.embedding.transform(other), rows)
        np.testing.assert_allclose(sliced.between(other), expected, atol=2e-6)


def test_wide_rows_on_principal_axes():
    rng = np.random.default_rng(0)
    rows = (3.0 + rng.normal(size=(120, 310))) * np.arange(1, 311)
    X = Bags(rows, np.arange(0, 121, 10))
    Z = ROWS().fit_transform(X).data
    axes = PCA(100, random_state=0).fit_transform(StandardScaler().fit_transform(rows))
    overall = np.sqrt((axes**2).sum() / (119 * 100))
    np.testing.assert_allclose(np.abs(Z), np.abs(axes) / overall, rtol=1e-6)


def test_clipped_scaler_drops_what_hardly_varies():
    rows = np.column_stack([np.arange(10.0), 1.0 + 1e-9 * np.arange(10)])
    scaler = ClippedScaler().fit(rows)
    assert list(scaler.columns_) == [0]
    far = np.array([[1e6, 7.0]])
    np.testing.assert_array_equal(scaler.transform(far), [[5.0]])


def test_wide_sparse_rows_are_projected():
    rng = np.random.default_rng(0)
    rows = sp.random(150, 400, 0.05, format="csr", random_state=0)
    X = Bags(rows, np.arange(0, 151, 5))
    made, source = Made(X, fit=True), ROWS()
    assert made.of(DenseRows(source)).n_features == 100
    assert made.of(source) is X
    cube = made.of(CubeRows(source)).data
    norms = np.sqrt(cube.multiply(cube).sum(axis=1))
    np.testing.assert_allclose(norms[norms > 0], 1.0)
    y = rng.permutation(np.arange(30) % 2)
    assert np.isfinite(BagClassifier(cv=2).fit(X, y).decision_function(X)).all()


def test_missing_values_are_filled_and_marked():
    X, y = make_bags(40, n_features=4, random_state=3)
    data = X.data.copy()
    data[::3, 1] = np.nan
    holes = X.with_data(data)
    Z = ROWS().fit_transform(holes)
    assert Z.n_features == 5  # the last says where
    where = np.isnan(data[:, 1])
    assert len(np.unique(Z.data[where, 4])) == len(np.unique(Z.data[~where, 4])) == 1
    filled = Z.data[where, 1] * data[~where, 1].std()
    assert np.ptp(filled) == pytest.approx(0.0, abs=1e-12)
    model = BagClassifier(random_state=0, cv=2).fit(holes, y)
    assert np.isfinite(model.decision_function(holes)).all()
    assert np.mean(model.predict(holes) == y) > 0.8
    # Bags without a gap, and gaps where training had none.
    assert np.isfinite(model.decision_function(X)).all()


def test_original_columns_of_wide_rows_are_pooled():
    rng = np.random.default_rng(0)
    rows = (3.0 + rng.normal(size=(60, 320))) * np.arange(1, 321)
    X = Bags(rows, np.arange(0, 61, 6))
    pooled = Made(X, fit=True).of(PooledColumns())
    Z = StandardScaler().fit_transform(rows).reshape(10, 6, 320)
    ops = [Z.mean(1), Z.std(1), Z.min(1), Z.max(1), np.full((10, 1), np.log(6))]
    np.testing.assert_allclose(pooled, np.hstack(ops), rtol=1e-5, atol=1e-6)


def test_columns_of_most_bags_are_chosen(monkeypatch):
    rows = np.zeros((40, 400))
    rows[::4, 7] = rows[1::8, 30] = 2.0  # in ten and in five bags
    rows[0, 100:] = 1.0
    monkeypatch.setattr("bagwise.ensemble._inputs.POOLED", 2)
    one = PooledColumns()
    X = Bags(sp.csr_matrix(rows), np.arange(0, 41, 4))
    pooled = Made(X, fit=True).of(one)
    assert list(one.columns) == [7, 30]
    np.testing.assert_allclose(pooled[:, :2].T, [[0.5] * 10, [0.5, 0.0] * 5])


def test_wide_rows_that_are_mostly_zero_are_sparse():
    rng = np.random.default_rng(0)
    rows = sp.random(150, 400, 0.02, format="csr", random_state=0)
    X = Bags(rows, np.arange(0, 151, 5))
    dense = X.with_data(rows.toarray())
    y = rng.permutation(np.arange(30) % 2)
    one, two = (BagClassifier(cv=2, random_state=0).fit(b, y) for b in (X, dense))
    assert {"statistics L1", "statistics logistic"} <= set(one.members_)
    expected = one.decision_function(X)
    for model, bags in ((two, dense), (two, X), (one, dense)):
        np.testing.assert_allclose(model.decision_function(bags), expected, atol=1e-6)
    narrow = dense.with_data(dense.data[:, :200])
    assert not ROWS().fit_transform(narrow).is_sparse
