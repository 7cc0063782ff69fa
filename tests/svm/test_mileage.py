"""MILEAGE: shares by brute force, convex steps by clarabel, and what it contains."""

import numpy as np
import pytest
from sklearn.svm import SVC

from bagwise.bags.segments import bag_matrix, segment_max, segment_mean
from bagwise.datasets import make_bags
from bagwise.kernels.instance import instance_kernel
from bagwise.svm import MILEAGE, MISVM
from bagwise.svm._mileage import best_shares


@pytest.fixture(scope="module")
def data():
    return make_bags(n_bags=24, random_state=0)


def _cost(share, local, whole, t, prior, rigidity):
    margin = t * (share * local + (1.0 - share) * whole)
    return np.maximum(0.0, 1.0 - margin) + rigidity / 2 * (share - prior) ** 2


@pytest.mark.parametrize("prior", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("rigidity", [0.0, 0.3, 1.0, 20.0])
def test_shares_cost_least(rng, prior, rigidity):
    local, whole = 1.5 * rng.standard_normal((2, 80))
    local[:5] = whole[:5]  # both views say the same: nothing is to be gained
    t = np.where(rng.random(80) < 0.5, 1.0, -1.0)
    found = best_shares(local, whole, t, prior, rigidity)
    assert found.min() >= 0.0
    assert found.max() <= 1.0
    np.testing.assert_array_equal(found[:5], prior)
    every = np.linspace(0.0, 1.0, 2001)[:, None]
    least = _cost(every, local, whole, t, prior, rigidity).min(axis=0)
    assert np.all(_cost(found, local, whole, t, prior, rigidity) <= least + 1e-12)


def test_nothing_moves_where_moving_costs_everything(rng):
    local, whole = rng.standard_normal((2, 20))
    np.testing.assert_array_equal(
        best_shares(local, whole, np.ones(20), 0.4, np.inf), 0.4
    )


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_the_best_instance_alone_is_mi_svm(data, kernel):
    X, y = data
    options = {"kernel": kernel, "tol": 1e-8, "threshold": "zero"}
    model = MILEAGE(3.0, local_share=1.0, rigidity=np.inf, **options).fit(X, y)
    other = MISVM(3.0, init="feature_mean", **options).fit(X, y)
    np.testing.assert_array_equal(model.shares_, 1.0)
    np.testing.assert_array_equal(model.witnesses_, other.witnesses_)
    assert model.objective_ == pytest.approx(other.objective_, rel=1e-6)
    np.testing.assert_allclose(
        model.decision_function(X), other.decision_function(X), atol=1e-4
    )


def test_the_bag_as_a_whole_alone_is_an_svm_on_means(data):
    X, y = data
    options = {"gamma": 0.3, "tol": 1e-8, "threshold": "zero"}
    model = MILEAGE(3.0, local_share=0.0, rigidity=np.inf, **options).fit(X, y)
    means = bag_matrix(X.offsets, mean=True)
    K = means @ (means @ instance_kernel(X.data, gamma=0.3)).T
    other = SVC(C=3.0, kernel="precomputed", tol=1e-9).fit(K, y)
    np.testing.assert_allclose(
        model.decision_function(X), other.decision_function(K), atol=1e-5
    )


def test_last_step_equals_clarabel(data, clarabel_rows):
    X, y = data
    model = MILEAGE(2.0, gamma=0.2, tol=1e-9, threshold="zero").fit(X, y)
    values, vectors = np.linalg.eigh(instance_kernel(X.data, gamma=0.2))
    kept = values > 1e-12
    Z = vectors[:, kept] * np.sqrt(values[kept])
    means = bag_matrix(X.offsets, mean=True) @ Z
    point = np.r_[np.flatnonzero((y == 0)[X.bag_index]), model.witnesses_]
    bag = X.bag_index[point]
    share = model.shares_[bag][:, None]
    sign = np.where(y[bag], 1.0, -1.0)
    rows = share * Z[point] + (1.0 - share) * means[bag]
    group = np.unique(bag, return_inverse=True)[1]
    value, w, b = clarabel_rows(sign[:, None] * rows, sign, 1.0, 2.0, group)
    value += 2.0 * 0.5 * ((model.shares_ - 0.5) ** 2).sum()
    assert model.objective_ == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(model.instance_scores(X).values, Z @ w + b, atol=1e-4)


def test_the_label_of_least_cost_is_that_of_the_even_mixture(data):
    """Why a new bag, whose share is not known, is scored with half and half."""
    X, y = data
    model = MILEAGE(5.0, rigidity=0.2, gamma=0.3, threshold="zero").fit(X, y)
    new, _ = make_bags(n_bags=40, random_state=1)
    f = model.instance_scores(new).values
    local, whole = segment_max(f, new.offsets), segment_mean(f, new.offsets)
    cost = {}
    for t in (-1.0, 1.0):
        share = best_shares(local, whole, t * np.ones(40), 0.5, 0.2)
        cost[t] = _cost(share, local, whole, t, 0.5, 0.2)
    scores = model.decision_function(new)
    np.testing.assert_array_equal(scores > 0.0, cost[1.0] < cost[-1.0])
    assert 0 < (scores > 0.0).sum() < 40


def test_free_shares_lower_the_objective_and_say_who_used_them(data):
    X, y = data
    options = {"C": 5.0, "gamma": 0.3, "tol": 1e-6}
    rigid = MILEAGE(rigidity=np.inf, **options).fit(X, y)
    free = MILEAGE(rigidity=0.1, **options).fit(X, y)
    assert free.objective_ < rigid.objective_
    moved = free.shares_ != 0.5
    assert moved.any()
    # A bag of one instance has one view, and keeps the common share.
    single, label = make_bags(n_bags=12, bag_size=1, random_state=2)
    alone = MILEAGE(rigidity=0.1).fit(single, label)
    np.testing.assert_array_equal(alone.shares_, 0.5)
