"""The views of the default stacks: what they are called, in parts and wide."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from bagwise import BagClassifier, Bags
from bagwise.datasets import make_bags
from bagwise.ensemble._plan import Plan, default_members
from bagwise.ensemble._views import (
    ClippedScaler,
    DefaultViews,
    InstanceScaler,
    distances,
    statistics,
)
from bagwise.kernels import emd_distances


def test_folds_see_only_columns_of_their_own_bags():
    X, _ = make_bags(12, n_features=3, random_state=1)
    names = {"prototypes", "near"}
    for plan in (Plan(), Plan(exact_distances=False)):
        views = DefaultViews(X, names, plan, n_jobs=None, random_state=0)
        np.testing.assert_array_equal(views.columns["prototypes"], X.bag_index)
        np.testing.assert_array_equal(views.columns["near"], np.arange(12))
        assert views.train["prototypes"].shape == (12, X.n_instances)
        # The views of the training bags as new bags are the training views.
        for name, matrix in views.of(X).items():
            if name in names:
                np.testing.assert_allclose(matrix, views.train[name], atol=1e-10)


def test_views_in_parts_are_the_views(monkeypatch):
    X, _ = make_bags(12, n_features=3, random_state=1)
    names = {"fisher", "prototypes", "statistics"}
    whole = DefaultViews(X, names, Plan(), n_jobs=None, random_state=0)
    monkeypatch.setattr("bagwise.ensemble._views._CHUNK", 15)
    parts = DefaultViews(X, names, Plan(), n_jobs=None, random_state=0)
    assert len(list(X.iter_chunks(15))) > 3
    for name in names:
        np.testing.assert_allclose(parts.train[name], whole.train[name], atol=1e-12)
        np.testing.assert_allclose(parts.of(X)[name], whole.train[name], atol=1e-12)


def test_thinned_bags_are_for_fitting_and_all_instances_for_scoring():
    X, y = make_bags(30, n_features=3, bag_size=(6, 12), random_state=1)
    plan = Plan(max_bag_size=4)
    names = {m.view for m in default_members(plan)}
    assert {"thin_rows", "thin_dense"} <= names
    views = DefaultViews(X, names, plan, n_jobs=None, random_state=0)
    assert views.train["thin_rows"].sizes.max() == 4
    assert views.columns["prototypes"].size == 4 * 30
    for member in default_members(plan):
        assert not member.score_view.startswith("thin")
    assert views.of(X)["rows"].n_instances == X.n_instances


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
    scaler.find_cube(Z)
    cube = scaler.cube(Z)
    assert cube.data.min() == 0
    assert cube.data.max() == 1
    views = DefaultViews(X, {"near"}, Plan(), n_jobs=None, random_state=0)
    D = emd_distances(Z)
    mean = D[~np.eye(10, dtype=bool)].mean()
    np.testing.assert_allclose(views.train["near"], np.exp(-D / mean), atol=1e-9)


def test_units_of_columns_do_not_count():
    X, y = make_bags(20, n_features=3, random_state=2)
    units = np.array([1e-12, 1.0, 1e9])
    scaler = InstanceScaler(X.with_data(X.data * units), 0)
    Z = scaler.rows(X.with_data(X.data * units))
    np.testing.assert_allclose(Z.data, InstanceScaler(X, 0).rows(X).data, atol=1e-9)
    # A constant whose mean is rounded is still a constant.
    level = np.full((X.n_instances, 1), 0.1)
    level[::2] = np.nextafter(0.1, 1)
    assert InstanceScaler(X.with_data(np.hstack([X.data, level])), 0).n_columns == 3
    with pytest.warns(UserWarning, match="no column of X varies"):
        InstanceScaler(X.with_data(level), 0)


def test_distances_of_nearly_equal_rows_keep_their_digits():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 40)) + 5.0
    B = np.vstack([A[:4], A[4:8] + 1e-7 * rng.normal(size=(4, 40)), A[20:] ** 2])
    np.testing.assert_allclose(distances(A, B), cdist(A, B), rtol=1e-9, atol=0)


def test_wide_rows_on_principal_axes():
    rng = np.random.default_rng(0)
    rows = (3.0 + rng.normal(size=(120, 310))) * np.arange(1, 311)
    X = Bags(rows, np.arange(0, 121, 10))
    Z = InstanceScaler(X, 0).rows(X).data
    axes = PCA(100, random_state=0).fit_transform(StandardScaler().fit_transform(rows))
    overall = np.sqrt((axes**2).sum() / (119 * 100))
    np.testing.assert_allclose(np.abs(Z), np.abs(axes) / overall, rtol=1e-6)


def test_clipped_scaler_drops_what_hardly_varies():
    rows = np.column_stack([np.arange(10.0), 1.0 + 1e-9 * np.arange(10)])
    scaler = ClippedScaler().fit(rows)
    assert list(scaler.columns_) == [0]
    far = np.array([[1e6, 7.0]])
    np.testing.assert_array_equal(scaler.transform(far), [[5.0]])


def test_missing_values_are_filled_and_marked():
    X, y = make_bags(40, n_features=4, random_state=3)
    data = X.data.copy()
    data[::3, 1] = np.nan
    holes = X.with_data(data)
    Z = InstanceScaler(holes, 0).rows(holes)
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
