"""TLC: counts in the nodes of the first tree."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from bagwise.datasets import make_bags
from bagwise.embedding import TwoLevelClassifier


@pytest.fixture
def fitted():
    X, y = make_bags(30, n_features=4, shift=1.5, random_state=0)
    return TwoLevelClassifier(random_state=0).fit(X, y), X, y


def counts(model, X):
    return model._rows(X).toarray()


def test_root_counts_all_instances(fitted):
    model, X, _ = fitted
    np.testing.assert_array_equal(counts(model, X)[:, 0], X.sizes)


def test_children_add_up_to_their_parent(fitted):
    model, X, _ = fitted
    rows, tree = counts(model, X), model.tree_.tree_
    inner = np.flatnonzero(tree.children_left >= 0)
    assert len(inner) > 2
    for v in inner:
        left, right = tree.children_left[v], tree.children_right[v]
        np.testing.assert_array_equal(rows[:, v], rows[:, left] + rows[:, right])
    leaves = np.flatnonzero(tree.children_left < 0)
    np.testing.assert_array_equal(rows[:, leaves].sum(axis=1), X.sizes)


def test_counts_by_walking_down_the_tree(fitted):
    model, X, _ = fitted
    rows, tree = counts(model, X), model.tree_.tree_
    expected = np.zeros_like(rows)
    data = (X.data - model.column_shift_) / model.column_scale_
    for x, i in zip(data.astype(np.float32), X.bag_index, strict=True):
        v = 0
        while v >= 0:
            expected[i, v] += 1
            down = x[tree.feature[v]] <= tree.threshold[v]
            v = tree.children_left[v] if down else tree.children_right[v]
    np.testing.assert_array_equal(rows, expected)


def test_the_tree_is_that_of_the_raw_columns_with_other_units(fitted):
    """Powers of two change no digit: the same tree on raw columns, up to its units."""
    model, X, y = fitted
    raw = DecisionTreeClassifier(
        criterion="entropy", min_samples_leaf=2, random_state=0
    ).fit(X.data, np.repeat(y, X.sizes), sample_weight=1 / np.repeat(X.sizes, X.sizes))
    ours, tree = model.tree_.tree_, raw.tree_
    np.testing.assert_array_equal(ours.feature, tree.feature)
    inner = tree.feature >= 0
    columns = tree.feature[inner]
    assert not model.column_shift_.any()
    np.testing.assert_allclose(
        ours.threshold[inner] * model.column_scale_[columns], tree.threshold[inner]
    )
    far = X.with_data(X.data * 1e-9 + 5.0)
    moved = TwoLevelClassifier(random_state=0).fit(far, y)
    np.testing.assert_array_equal(counts(moved, far), counts(model, X))


def test_every_bag_weighs_the_same_in_the_tree(fitted):
    """The root holds the weighted share of the classes: that of the bags."""
    model, _, y = fitted
    share = model.tree_.tree_.value[0, 0]
    np.testing.assert_allclose(share / share.sum(), np.bincount(y) / len(y))


def test_weights_of_bags_reach_both_levels():
    X, y = make_bags(24, n_features=3, shift=1.5, random_state=1)
    weight = 1.0 + np.arange(24) % 3
    second = LogisticRegression(max_iter=1000)
    model = TwoLevelClassifier(second, random_state=0).fit(X, y, weight)
    share = model.tree_.tree_.value[0, 0]
    expected = np.bincount(y, weights=weight) / weight.sum()
    np.testing.assert_allclose(share / share.sum(), expected)
    alone = LogisticRegression(max_iter=1000)
    alone.fit(model._rows(X), y, sample_weight=weight)
    np.testing.assert_allclose(model.estimator_.coef_, alone.coef_, atol=1e-10)


def test_decision_is_that_of_the_second_level(fitted):
    model, X, y = fitted
    rows = model._rows(X)
    np.testing.assert_array_equal(
        model.decision_function(X), model.estimator_.decision_function(rows)
    )
    assert model.score(X, y) > 0.9


def test_instances_are_bags_of_one(fitted):
    model, X, _ = fitted
    paths = model.tree_.decision_path(model._units(X))
    np.testing.assert_array_equal(
        model.instance_scores(X).values, model.estimator_.decision_function(paths)
    )


def test_forest_on_sparse_rows_and_depth():
    X, y = make_bags(30, n_features=4, random_state=0)
    data = np.where(np.abs(X.data) < 0.5, 0.0, X.data)
    forest = RandomForestClassifier(20, random_state=0)
    scores = []
    for layout in (np.asarray, sp.csr_matrix):
        bags = X.with_data(layout(data))
        model = TwoLevelClassifier(forest, max_depth=2, random_state=0).fit(bags, y)
        assert model.tree_.get_depth() <= 2
        scores.append(model.predict_proba(bags))
    np.testing.assert_allclose(*scores, atol=1e-12)
