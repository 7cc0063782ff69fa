"""The default classifier: its views, its plan, and awkward data."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise import BagClassifier, Bags
from bagwise.datasets import make_bags
from bagwise.ensemble import _bag_classifier as module
from bagwise.ensemble._views import (
    ClippedScaler,
    DefaultViews,
    InstanceScaler,
    statistics,
)
from bagwise.kernels import emd_distances


@pytest.fixture(scope="module")
def fitted():
    X, y = make_bags(60, n_features=4, random_state=0)
    return X, y, BagClassifier(random_state=0).fit(X[:40], y[:40])


def test_learns_and_explains(fitted, tmp_path):
    X, y, model = fitted
    assert roc_auc_score(y[40:], model.decision_function(X[40:])) > 0.9
    assert len(model.members_) == len(model.member_weights_) == 10
    assert model.plan_["dropped"] == {}
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(p[:, 1] > 0.5, model.decision_function(X) > 0)
    assert model.key_instances(X).shape == (60,)
    bagwise.save(model, tmp_path / "m")
    again = bagwise.load(tmp_path / "m")
    np.testing.assert_array_equal(
        again.decision_function(X), model.decision_function(X)
    )


def test_workers_change_nothing(fitted):
    X, y, model = fitted
    two = BagClassifier(random_state=0, n_jobs=2).fit(X[:40], y[:40])
    np.testing.assert_allclose(
        two.decision_function(X), model.decision_function(X), atol=1e-12
    )


def test_folds_see_only_columns_of_their_own_bags():
    X, _ = make_bags(12, n_features=3, random_state=1)
    names = {"prototypes", "emd"}
    views = DefaultViews(
        X, names, max_prototypes=None, max_emd=40, n_jobs=None, random_state=0
    )
    np.testing.assert_array_equal(views.columns["prototypes"], X.bag_index)
    np.testing.assert_array_equal(views.columns["emd"], np.arange(12))
    assert views.train["prototypes"].shape == (12, X.n_instances)
    # The views of the training bags as new bags are the training views.
    for name, matrix in views.of(X).items():
        if name in names:
            np.testing.assert_allclose(matrix, views.train[name], atol=1e-10)


def test_views_are_what_they_are_called():
    X, _ = make_bags(10, n_features=3, random_state=2)
    wide = X.with_data(np.column_stack([X.data, np.full(X.n_instances, 3.0)]))
    scaler = InstanceScaler(wide, 0)
    Z = scaler.rows(wide)
    np.testing.assert_allclose(Z.data, StandardScaler().fit_transform(X.data))
    rows = statistics(Z)
    bag = Z[4]
    expected = np.r_[bag.mean(0), bag.std(0), bag.min(0), bag.max(0), np.log(len(bag))]
    np.testing.assert_allclose(rows[4], expected)
    cube = scaler.cube(wide)
    assert cube.data.min() == 0
    assert cube.data.max() == 1
    views = DefaultViews(
        X, {"emd"}, max_prototypes=None, max_emd=40, n_jobs=None, random_state=0
    )
    D = emd_distances(Z)
    mean = D[~np.eye(10, dtype=bool)].mean()
    np.testing.assert_allclose(views.train["emd"], np.exp(-D / mean), atol=1e-9)


def test_clipped_scaler_drops_what_hardly_varies():
    rows = np.column_stack([np.arange(10.0), 1.0 + 1e-9 * np.arange(10)])
    scaler = ClippedScaler().fit(rows)
    assert list(scaler.columns_) == [0]
    far = np.array([[1e6, 7.0]])
    np.testing.assert_array_equal(scaler.transform(far), [[5.0]])


def test_large_data_change_the_plan(monkeypatch):
    X, y = make_bags(40, n_features=3, random_state=0)
    monkeypatch.setattr(module, "_MANY_BAGS", 20)
    monkeypatch.setattr(module, "_MAX_PROTOTYPES", 30)
    model = BagClassifier(random_state=0, cv=2).fit(X, y)
    assert model.plan_["max_prototypes"] == 30
    assert model.members_["MILES"].n_features_in_ == 30
    assert model.plan_["max_tree_instances"] is None
    monkeypatch.setattr(module, "_MANY_INSTANCES", 50)
    monkeypatch.setattr(module, "_QUADRATIC_LIMIT", 30)
    model = BagClassifier(random_state=0, cv=2).fit(X, y)
    assert set(model.plan_["dropped"]) == set(module._QUADRATIC)
    assert len(model.members_) == 6
    assert model.plan_["max_tree_instances"] == 50
    forest = model.members_["instance forest"].estimator_
    assert [tree.tree_.weighted_n_node_samples[0] for tree in forest] == [50] * 100
    monkeypatch.setattr(module, "_QUADRATIC_LIMIT", 5000)
    monkeypatch.setenv("BAGWISE_MEMORY", "10KB")
    assert "memory" in BagClassifier()._too_large(X)["EMD"]


def test_time_budget_drops_the_dearest_and_says_so():
    X, y = make_bags(30, n_features=3, random_state=0)
    with pytest.warns(UserWarning, match="leaves out statistics trees"):
        model = BagClassifier(random_state=0, cv=2, time_budget=0.5).fit(X, y)
    assert "statistics trees" in model.plan_["dropped"]
    assert model.plan_["estimated_seconds"] <= 0.5


@pytest.mark.parametrize(
    "make",
    [
        lambda X: X[:6],
        lambda X: Bags(X.data[X.offsets[:-1]], np.arange(len(X) + 1))[:20],
        lambda X: X.with_data(sp.csr_matrix(np.round(X.data)))[:20],
        lambda X: X.with_data(np.column_stack([X.data, 1e-9 * X.data]))[:20],
        lambda X: X.with_data(X.data.astype(np.float32))[:20],
    ],
    ids=["six bags", "bags of one", "sparse", "nearly constant", "float32"],
)
def test_awkward_data(make):
    X, y = make_bags(30, n_features=3, random_state=5)
    bags = make(X)
    model = BagClassifier(random_state=0, cv=2).fit(bags, y[: len(bags)])
    assert np.isfinite(model.decision_function(bags)).all()
    assert np.isfinite(model.instance_scores(bags).values).all()


def test_wide_sparse_rows_are_projected():
    rng = np.random.default_rng(0)
    rows = sp.random(150, 400, 0.05, format="csr", random_state=0)
    X = Bags(rows, np.arange(0, 151, 5))
    scaler = InstanceScaler(X, 0)
    assert scaler.dense(X, X).n_features == 100
    assert scaler.rows(X) is X
    norms = np.sqrt(scaler.cube(X).data.multiply(scaler.cube(X).data).sum(axis=1))
    np.testing.assert_allclose(norms[norms > 0], 1.0)
    y = rng.permutation(np.arange(30) % 2)
    assert np.isfinite(BagClassifier(cv=2).fit(X, y).decision_function(X)).all()
