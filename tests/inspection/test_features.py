"""Importance and contributions of features against exact values."""

import io
import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from _exact_models import Pooled, PooledRegressor
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.inspection import permutation_importance
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from bagwise import Bags
from bagwise.bags import as_bags
from bagwise.bags.segments import segment_mean
from bagwise.compose import OnInstances, SimpleMI
from bagwise.datasets import make_bags
from bagwise.ensemble import MILBoost
from bagwise.inspection import (
    bag_permutation_importance,
    feature_contributions,
    plot_bag_contributions,
    plot_feature_importance,
)
from bagwise.inspection.features import _source, _swapper
from bagwise.linear_model import MILogisticRegression
from bagwise.svm import MISVM, BagSVC


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 7, 30)
    return Bags.from_list([rng.standard_normal((n, 3)) for n in sizes])


class Product(RegressorMixin, BaseEstimator):
    """The mean over instances of x0 * x1 + x2."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def predict(self, X):
        X = as_bags(X)
        x = X.data
        return segment_mean(x[:, 0] * x[:, 1] + x[:, 2], X.offsets)


# Permutation -------------------------------------------------------------------------


def test_scikit_learns_own_fails_on_bags_and_ours_does_not(bags):
    model = PooledRegressor().fit(bags)
    y = model.predict(bags)
    with pytest.raises((TypeError, ValueError, AttributeError)):
        permutation_importance(model, bags, y)
    found = bag_permutation_importance(model, bags, y, random_state=0)
    assert found.baseline == 1.0
    assert (found.importances_mean > 0).all()
    order = np.argsort(np.abs(model.coef_))
    assert found.importances_mean.argmax() == order[-1]


def test_irrelevant_feature_has_none(bags):
    model = PooledRegressor().fit(bags)
    model.coef_ = np.array([1.0, 0.0, -1.0])
    y = model.predict(bags)
    for over in ("all", "between"):
        found = bag_permutation_importance(model, bags, y, over=over, random_state=0)
        np.testing.assert_allclose(found.importances[1], 0.0, atol=1e-12)
        assert (found.importances_mean[[0, 2]] > 0).all()


def test_within_shows_only_what_meets_in_an_instance(bags):
    """Permutation within bags keeps the mean of a feature, but not of a product."""
    y = Product().fit(bags).predict(bags)
    found = bag_permutation_importance(
        Product().fit(bags), bags, y, over="within", random_state=0
    )
    assert (found.importances_mean[:2] > 0).all()
    np.testing.assert_allclose(found.importances[2], 0.0, atol=1e-12)


def test_rows_are_taken_as_each_way_says(bags):
    rng = np.random.RandomState(0)
    bag = bags.bag_index
    for over in ("all", "within"):
        assert sorted(_source(bags, over, rng)) == list(range(bags.n_instances))
    np.testing.assert_array_equal(bag[_source(bags, "within", rng)], bag)
    source = _source(bags, "between", rng)
    for i in range(len(bags)):
        rows = source[bags.offsets[i] : bags.offsets[i + 1]]
        assert len(set(bag[rows])) == 1
        assert len(set(rows)) == min(len(rows), bags.sizes[bag[rows[0]]])


def test_groups_are_permuted_together_dense_and_sparse(bags):
    """Two features that are permuted together keep their sum per row."""
    named = bags.with_data(bags.data, feature_names=["a", "b", "c"])
    source = np.random.RandomState(1).permutation(bags.n_instances)
    columns = np.array([2, 0])
    dense = _swapper(named)(columns, source)
    np.testing.assert_array_equal(dense.data[:, [0, 2]], named.data[source][:, [0, 2]])
    np.testing.assert_array_equal(dense.data[:, 1], named.data[:, 1])
    thin = named.with_data(
        sp.csr_matrix(named.data * (named.data > 0)), feature_names=named.feature_names
    )
    moved = _swapper(thin)(columns, source)
    expected = thin.data.toarray()
    expected[:, columns] = expected[np.ix_(source, columns)]
    np.testing.assert_array_equal(moved.data.toarray(), expected)
    assert list(moved.feature_names) == ["a", "b", "c"]
    model = PooledRegressor().fit(named)
    y = model.predict(named)
    found = bag_permutation_importance(
        model, named, y, groups={"ends": ["a", "c"], "middle": 1}, random_state=0
    )
    assert found.names == ["ends", "middle"]
    assert found.importances.shape == (2, 5)


def test_same_seed_same_importances():
    X, y = make_bags(random_state=0)
    model = MISVM(kernel="linear").fit(X, y)
    one, two = (
        bag_permutation_importance(
            model, X, y, scoring="roc_auc", n_repeats=2, random_state=3
        ).importances
        for _ in range(2)
    )
    np.testing.assert_array_equal(one, two)


# Contributions -----------------------------------------------------------------------


def test_linear_parts_sum_to_the_score(bags):
    model = PooledRegressor().fit(bags)
    for level in ("instance", "bag"):
        found = feature_contributions(model, bags, level=level)
        assert found.kind == "linear"
        assert found.exact
        total = found.values.sum(axis=1) + found.base
        np.testing.assert_allclose(total, found.scores, atol=1e-12)
        rows = bags.data if level == "instance" else segment_mean(*_both(bags))
        expected = (rows - bags.data.mean(axis=0)) * model.coef_
        np.testing.assert_allclose(found.values, expected, atol=1e-10)
    np.testing.assert_allclose(found.scores, model.predict(bags))


def _both(bags):
    return bags.data, bags.offsets


def test_fitted_linear_models_through_a_scaler():
    X, y = make_bags(30, random_state=0)
    X = X.with_data(X.data * np.array([1e4, 1e-4, 1.0, 3.0, 1.0]))
    model = make_pipeline(
        OnInstances(StandardScaler()), MILogisticRegression(random_state=0)
    ).fit(X, y)
    found = feature_contributions(model, X)
    assert found.kind == "linear"
    slope = model[-1].coef_ / model[0].transformer_.scale_
    expected = (X.data - X.data.mean(axis=0)) * slope
    np.testing.assert_allclose(found.values, expected, atol=1e-7)
    simple = make_pipeline(
        OnInstances(StandardScaler()), SimpleMI(LinearSVC(random_state=0))
    ).fit(X, y)
    bag = feature_contributions(simple, X, level="bag")
    assert bag.kind == "linear"
    total = bag.values.sum(axis=1) + bag.base
    np.testing.assert_allclose(total, simple.decision_function(X), atol=1e-6)


def test_boosted_stumps_are_additive():
    X, y = make_bags(24, random_state=0)
    model = MILBoost(10).fit(X, y)
    found = feature_contributions(model, X)
    assert found.kind == "additive"
    total = found.values.sum(axis=1) + found.base
    np.testing.assert_allclose(total, model.instance_scores(X).values, atol=1e-9)
    # The contribution of one feature with the others at the baseline.
    for j in range(X.n_features):
        rows = np.tile(X.data.mean(axis=0), (X.n_instances, 1))
        rows[:, j] = X.data[:, j]
        alone = model.instance_scores(X.with_data(rows)).values
        np.testing.assert_allclose(found.values[:, j], alone - found.base, atol=1e-9)


def test_sampled_parts_are_shapley_values(bags):
    """All orders of three features, against the definition."""
    model = Product().fit(bags)
    base = np.array([0.5, -1.0, 2.0])
    found = feature_contributions(
        model, bags, baseline=base, n_permutations=400, random_state=0
    )
    assert found.kind == "sampled"
    x = bags.data
    exact = np.zeros_like(x)
    for order in itertools.permutations(range(3)):
        rows = np.tile(base, (len(x), 1))
        for j in order:
            before = rows[:, 0] * rows[:, 1] + rows[:, 2]
            rows[:, j] = x[:, j]
            exact[:, j] += rows[:, 0] * rows[:, 1] + rows[:, 2] - before
    exact /= math.factorial(3)
    # Any order and its reverse split x0 * x1 equally: no sampling error.
    np.testing.assert_allclose(found.values, exact, atol=1e-10)


def test_parts_of_any_model_sum_to_the_score():
    X, y = make_bags(20, random_state=0)
    model = BagSVC(kernel="emd").fit(X, y)
    for level in ("instance", "bag"):
        found = feature_contributions(model, X, level=level, n_permutations=2)
        total = found.values.sum(axis=1) + found.base
        np.testing.assert_allclose(total, found.scores, atol=1e-10)
    assert found.kind == "sampled"
    np.testing.assert_allclose(found.scores, model.decision_function(X))
    assert found.mean_absolute().argmax() == 0


def test_classes_and_signs(bags):
    two = Pooled("mean", classes=("no", "yes")).fit(bags)
    yes = feature_contributions(two, bags)
    no = feature_contributions(two, bags, pos_label="no")
    np.testing.assert_allclose(no.values, -yes.values)
    three = Pooled("mean", classes=(0, 1, 2)).fit(bags)
    with pytest.raises(ValueError, match="pass one"):
        feature_contributions(three, bags)
    found = feature_contributions(three, bags, pos_label=2)
    np.testing.assert_allclose(found.scores, bags.data @ three.coef_[:, 2])


def test_groups_and_the_rest_sum_up(bags):
    model = Product().fit(bags)
    found = feature_contributions(model, bags, groups={"pair": [0, 1]})
    assert found.names == ["pair", "other features"]
    assert found.kind == "additive"  # the product is inside one group
    total = found.values.sum(axis=1) + found.base
    np.testing.assert_allclose(total, found.scores, atol=1e-12)


def test_sparse_linear_model():
    X, y = make_bags(20, random_state=0)
    thin = X.with_data(sp.csr_matrix(X.data * (np.abs(X.data) > 1)))
    model = MILogisticRegression(random_state=0).fit(thin, y)
    found = feature_contributions(model, thin)
    assert found.kind == "linear"
    np.testing.assert_allclose(found.values, thin.data.toarray() * model.coef_)
    np.testing.assert_allclose(found.base, model.intercept_ - model.threshold_)


# Plots and messages ------------------------------------------------------------------


def test_charts(bags):
    named = bags.with_data(bags.data, feature_names=["height", "b" * 40, "width"])
    model = PooledRegressor().fit(named)
    found = bag_permutation_importance(
        model, named, model.predict(named), random_state=0
    )
    ax = plot_feature_importance(found, n=2)
    assert len(ax.patches) == 2
    top = named.feature_names[found.importances_mean.argmax()][:23]
    assert ax.get_yticklabels()[-1].get_text().startswith(top)
    parts = feature_contributions(model, named)
    assert len(plot_feature_importance(parts).patches) == 3
    bag = int(named.sizes.argmax())
    ax = plot_bag_contributions(parts, bag)
    assert ax.images[0].get_array().shape == (3, named.sizes[bag])
    labels = [tick.get_text() for tick in ax.get_xticklabels()]
    best = parts.scores[named.offsets[bag] : named.offsets[bag + 1]].argmax()
    assert labels[0] == f"#{best}"
    whole = feature_contributions(model, named, level="bag")
    assert len(plot_bag_contributions(whole, 0).patches) == 3
    assert "linear" in repr(whole)


def test_refuses(bags):
    model = PooledRegressor().fit(bags)
    y = model.predict(bags)
    with pytest.raises(ValueError, match="within"):
        bag_permutation_importance(model, bags, y, over="rows")
    with pytest.raises(ValueError, match="n_repeats"):
        bag_permutation_importance(model, bags, y, n_repeats=0)
    with pytest.raises(ValueError, match="29 entries for 30"):
        bag_permutation_importance(model, bags, y[1:])
    with pytest.raises(ValueError, match="'height'"):
        bag_permutation_importance(model, bags, y, groups={"size": ["height"]})
    with pytest.raises(ValueError, match="x1 is listed twice"):
        bag_permutation_importance(model, bags, y, groups={"a": [0, 1], "b": [1]})
    with pytest.raises(TypeError, match="dict"):
        bag_permutation_importance(model, bags, y, groups=[[0, 1]])
    with pytest.raises(ValueError, match="level"):
        feature_contributions(model, bags, level="row")
    with pytest.raises(ValueError, match="baseline"):
        feature_contributions(model, bags, baseline=[0.0])
    with pytest.raises(ValueError, match="n_permutations"):
        feature_contributions(model, bags, n_permutations=1)
    with pytest.raises(ValueError, match="no bag 99"):
        plot_bag_contributions(feature_contributions(model, bags), 99)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_linear_models_are_found_in_single_precision(dtype):
    """Features in single precision: scores have the same precision."""
    X, y = make_bags(30, random_state=0)
    X = X.with_data(X.data.astype(dtype))
    model = MILogisticRegression(random_state=0).fit(X, y)
    found = feature_contributions(model, X)
    assert found.kind == "linear"
    rows = X.data.astype(np.float64)
    expected = (rows - rows.mean(axis=0)) * model.coef_
    np.testing.assert_allclose(found.values, expected, atol=1e-5)
    total = found.values.sum(axis=1) + found.base
    np.testing.assert_allclose(total, found.scores, atol=1e-4)
    curved = MISVM().fit(X, y)
    assert feature_contributions(curved, X, n_permutations=2).kind == "sampled"


def test_names_that_look_like_formulas_are_drawn_as_they_are(bags):
    odd = r"$\frac$"
    X = Bags(
        bags.data,
        bags.offsets,
        ids=[odd] * len(bags),
        feature_names=[odd, "US$5", "a $b$"],
        instance_ids=[odd] * bags.n_instances,
    )
    model = Product().fit(X)
    parts = feature_contributions(model, X)
    falls = bag_permutation_importance(model, X, model.predict(X), random_state=0)
    for ax in (
        plot_feature_importance(falls),
        plot_bag_contributions(parts, 0),
        plot_bag_contributions(feature_contributions(model, X, level="bag"), 0),
    ):
        ax.figure.savefig(io.BytesIO())  # matplotlib parses formulas when it renders
        assert r"\$\frac\$" in [text.get_text() for text in ax.get_yticklabels()]
