"""Outlier scores of stacks: known distances, calibration, bags far away."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

import bagwise
from bagwise import BagClassifier, BagRegressor
from bagwise.datasets import make_bags
from bagwise.ensemble._inputs import DenseRows, Made, StandardRows, Statistics
from bagwise.ensemble._outliers import TrainingDistances
from bagwise.linear_model import MILinearRegression
from bagwise.svm import MISVM

MEMBERS = [("svm", MISVM(threshold="zero"))]


def fitted(X):
    return TrainingDistances.fit(Made(X, fit=True), [], X)


def test_distances_are_those_to_the_nearest_bag_of_another_group():
    X, _ = make_bags(30, n_features=3, bag_size=(3, 6), random_state=0)
    X = X.with_groups(np.arange(30) // 2)
    found = fitted(X)
    rows = Made(X, fit=True).of(Statistics(DenseRows(StandardRows())))
    rows = rows / rows.std(axis=0)
    D = cdist(rows, rows)
    np.testing.assert_allclose(found(X), 0.0, atol=1e-6)
    D[X.groups[:, None] == X.groups] = np.inf
    np.testing.assert_allclose(found.usual, np.sort(D.min(axis=1)))


def test_the_share_grows_with_the_distance():
    X, _ = make_bags(9, n_features=2, random_state=0)
    found = fitted(X)
    distance = np.concatenate([[0.0], found.usual, found.usual[-1] * np.arange(2, 5)])
    share = found.share_nearer(distance)
    assert share[0] == 0.0
    # Two bags that are nearest to each other have the same distance.
    rank = np.searchsorted(found.usual, found.usual, side="right")
    np.testing.assert_allclose(share[1:10], rank / 10)
    np.testing.assert_allclose(share[10:], 1.0 - 0.1 / np.arange(2, 5))


def test_bags_of_the_same_source_have_even_scores_and_others_high_ones(tmp_path):
    X, y = make_bags(400, n_features=5, bag_size=(4, 8), random_state=0)
    model = BagClassifier(MEMBERS, cv=2, random_state=0).fit(X[:200], y[:200])
    same = model.outlier_scores(X[200:])
    # Shares of a uniform distribution, by more than three standard errors.
    for level in (0.5, 0.9, 0.95):
        spread = np.sqrt(level * (1 - level) * (1 / 200 + 1 / 200))
        assert abs(np.mean(same <= level) - level) < 3.5 * spread
    one_column = X[200:].with_data(X[200:].data + [8.0, 0.0, 0.0, 0.0, 0.0])
    assert (model.outlier_scores(one_column) > 0.95).mean() > 0.95
    other_units = X[200:].with_data(1000.0 * X[200:].data)
    assert (model.outlier_scores(other_units) > 200 / 201).all()
    bagwise.save(model, tmp_path / "m")
    again = bagwise.load(tmp_path / "m")
    np.testing.assert_array_equal(again.outlier_scores(X), model.outlier_scores(X))


@pytest.mark.parametrize("wide", [4, 400])
def test_sparse_and_missing_values_have_scores(wide):
    rng = np.random.default_rng(0)
    X, y = make_bags(40, n_features=4, random_state=0)
    rows = np.hstack([X.data, rng.poisson(0.02, (X.n_instances, wide))])
    rows[3, 1] = np.nan
    gaps = X.with_data(rows)
    model = BagClassifier(MEMBERS, cv=2).fit(X.with_data(np.nan_to_num(rows)), y)
    assert np.isfinite(model.outlier_scores(X.with_data(np.nan_to_num(rows)))).all()
    model = fitted(gaps)
    assert np.isfinite(model(gaps)).all()
    sparse = X.with_data(sp.csr_matrix(np.nan_to_num(rows)))
    far = X.with_data(sp.csr_matrix(np.nan_to_num(rows) + 30.0))
    model = fitted(sparse)
    assert model(far).min() > model(sparse).max()


def test_a_regressor_has_scores(tmp_path):
    X, _ = make_bags(30, n_features=3, random_state=0)
    y = np.array([bag[:, 0].mean() for bag in X])
    members = [("linear", MILinearRegression())]
    model = BagRegressor(members, cv=2, random_state=0).fit(X, y)
    far = X.with_data(X.data + 50.0)
    assert model.outlier_scores(far).min() > model.outlier_scores(X).max()
    # Bags on disk, and members that do not standardize them piece by piece.
    np.save(tmp_path / "rows.npy", X.data)
    stored = bagwise.Bags(np.load(tmp_path / "rows.npy", mmap_mode="r"), X.offsets)
    model._distances = TrainingDistances.fit(Made(stored, fit=True), [], stored)
    with pytest.raises(ValueError, match="outlier scores need"):
        model.outlier_scores(X)
