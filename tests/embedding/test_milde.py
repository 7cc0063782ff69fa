"""MILDE: the equations by plain loops, and exact contributions."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from bagwise.bags import Bags
from bagwise.base import bag_folds
from bagwise.embedding import MILDE


@pytest.fixture(scope="module")
def bags():
    """Two kinds of instances; the label depends on a direction in one of them."""
    rng = np.random.default_rng(0)
    parts = []
    for i in range(80):
        near = rng.normal(size=(3, 4))
        far = rng.normal(size=(rng.integers(0, 4), 4)) + 20.0
        near[0, 1] += 8.0 * (i % 2)
        parts.append(np.vstack([near, far]))
    return Bags.from_list(parts), np.arange(80) % 2


def nearest(rows, centers):
    return ((rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)


def ridge(bags, t, centers, alpha):
    """Weighted ridge regression of each cluster by its normal equations."""
    rows = np.vstack(bags)
    label = np.concatenate([np.full(len(b), s) for b, s in zip(bags, t, strict=True)])
    weight = np.concatenate([np.full(len(b), 1 / len(b)) for b in bags])
    found = []
    for k in range(len(centers)):
        own = nearest(rows, centers) == k
        A, v = np.column_stack([rows[own], np.ones(own.sum())]), weight[own]
        penalty = np.full(A.shape[1], alpha * rows[own].var(axis=0).sum() * v.sum())
        penalty[-1] = 0.0
        H = A.T * v @ A + np.diag(penalty)
        found.append(np.linalg.solve(H, A.T * v @ label[own]))
    return np.array(found)


def responses(bags, functions, centers):
    out = np.zeros((len(bags), len(centers)))
    for i, bag in enumerate(bags):
        for k in set(nearest(bag, centers)):
            own = bag[nearest(bag, centers) == k]
            out[i, k] = (own @ functions[k][:-1] + functions[k][-1]).max()
    return out


def test_equals_the_equations_by_plain_loops(bags):
    X, y = bags
    t = np.where(y == 1, 1.0, -1.0)
    model = MILDE(2, alpha=0.2, C=0.5, random_state=0).fit(X, y)
    centers = model.cluster_centers_
    whole = ridge(X.to_list(), t, centers, 0.2)
    np.testing.assert_allclose(model.instance_coef_, whole[:, :-1], atol=1e-8)
    np.testing.assert_allclose(model.instance_intercept_, whole[:, -1], atol=1e-7)
    unseen = np.empty((len(X), 2))
    for train, test in bag_folds(X, t, 5):
        functions = ridge(X[train].to_list(), t[train], centers, 0.2)
        unseen[test] = responses(X[test].to_list(), functions, centers)
    svm = LinearSVC(C=0.5, intercept_scaling=10.0, dual=False).fit(unseen, t > 0)
    expected = svm.decision_function(responses(X.to_list(), whole, centers))
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-5)


@pytest.mark.parametrize("n_clusters", [1, 2, 5])
def test_contributions_add_up_to_the_decision(bags, n_clusters):
    X, y = bags
    model = MILDE(n_clusters, random_state=0).fit(X, y)
    sums = [scores.sum() for scores in model.instance_scores(X).to_list()]
    np.testing.assert_allclose(
        sums, model.decision_function(X) - model.intercept_, atol=1e-12
    )


def test_learns_a_direction_inside_one_cluster(bags):
    X, y = bags
    model = MILDE(2, random_state=0).fit(X[:40], y[:40])
    assert model.score(X[40:], y[40:]) >= 0.95
    near = abs(model.cluster_centers_[:, 0]).argmin()  # the cluster near the origin
    assert model.coef_[near] * model.instance_coef_[near, 1] > 0


def test_units_of_the_features_do_not_matter(bags):
    X, y = bags
    scores = MILDE(2, random_state=0).fit(X, y).decision_function(X)
    moved = X.with_data(1e4 * X.data)
    again = MILDE(2, random_state=0).fit(moved, y).decision_function(moved)
    np.testing.assert_allclose(again, scores, atol=1e-6)


def test_equal_instances_and_few_bags():
    X = Bags(np.zeros((4, 2)), [0, 2, 4])
    assert MILDE().fit(X, [0, 1]).decision_function(X).shape == (2,)


def test_sparse_rows_give_the_same_decision(bags):
    X, y = bags
    sparse = X.with_data(sp.csr_matrix(X.data))
    a = MILDE(2, random_state=0).fit(X, y).decision_function(X)
    b = MILDE(2, random_state=0).fit(sparse, y).decision_function(sparse)
    np.testing.assert_allclose(a, b, atol=1e-3)
