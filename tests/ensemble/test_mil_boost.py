"""MILBoost: exact gradients, monotone likelihood, logistic boosting as special case."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from bagwise.bags import Bags
from bagwise.datasets import make_bags
from bagwise.ensemble import MILBoost
from bagwise.ensemble._mil_boost import (
    BOOSTING_POOLINGS,
    BagLikelihood,
    bag_log_odds,
    line_search,
    log_probabilities,
)

ALPHA = 6.0


def definition(F, pooling, alpha=ALPHA):
    p = expit(F)
    if pooling == "noisy_or":
        return 1 - np.prod(1 - p)
    if pooling == "power":
        return np.mean(p**alpha) ** (1 / alpha)
    if pooling == "lse":
        return np.log(np.mean(np.exp(alpha * p))) / alpha
    odds = np.sum(p / (1 - p))
    return odds / (1 + odds)


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 7, 15))])
    positive = rng.random(15) < 0.5
    return rng.normal(scale=2.0, size=offsets[-1]), offsets, positive, rng.random(15)


@pytest.mark.parametrize("pooling", BOOSTING_POOLINGS)
def test_probability_is_the_definition(scores, pooling):
    F, offsets, _, _ = scores
    yes, no = log_probabilities(F, offsets, pooling, ALPHA)
    expected = np.array(
        [
            definition(F[a:b], pooling)
            for a, b in zip(offsets, offsets[1:], strict=False)
        ]
    )
    np.testing.assert_allclose(np.exp(yes), expected, rtol=1e-11)
    np.testing.assert_allclose(np.exp(no), 1 - expected, atol=1e-13)


@pytest.mark.parametrize("pooling", BOOSTING_POOLINGS)
def test_weights_are_central_differences(scores, pooling):
    F, offsets, positive, weight = scores
    L = BagLikelihood(offsets, positive, weight, pooling, ALPHA)
    w = L.gradient(F)
    step = 1e-5
    for j in range(len(F)):
        up, down = F.copy(), F.copy()
        up[j] += step
        down[j] -= step
        slope = (L.value(up) - L.value(down)) / (2 * step)
        assert slope == pytest.approx(w[j], rel=1e-6, abs=1e-9)


def test_noisy_or_weights_are_those_of_the_paper(scores):
    F, offsets, positive, _ = scores
    L = BagLikelihood(offsets, positive, np.ones(len(positive)), "noisy_or", 1.0)
    bag = np.repeat(np.arange(len(positive)), np.diff(offsets))
    P = np.array([definition(F[bag == i], "noisy_or") for i in range(len(positive))])
    expected = ((positive - P) / P)[bag] * expit(F)
    np.testing.assert_allclose(L.gradient(F), expected, rtol=1e-9)


@pytest.mark.parametrize("pooling", BOOSTING_POOLINGS)
@pytest.mark.parametrize("value", [-300.0, 0.0, 300.0])
def test_huge_bags_stay_finite(pooling, value):
    """Bags of 5000: 1 - P underflows, its logarithm and the weights must not."""
    offsets = np.array([0, 5000, 5001, 10001])
    F = np.full(10001, value)
    L = BagLikelihood(offsets, np.array([True, True, False]), np.ones(3), pooling, 10.0)
    assert np.isfinite(L.value(F))
    w = L.gradient(F)
    assert np.isfinite(w).all()
    assert (w[5001:] <= 0).all()
    assert (w[:5001] >= 0).all()
    assert np.isfinite(bag_log_odds(F, offsets, pooling, 10.0)).all()


def test_noisy_or_log_odds_of_a_huge_bag():
    """Log-odds of 2000 equal scores of zero: log(2^2000 - 1), not infinity."""
    odds = bag_log_odds(np.zeros(2000), np.array([0, 2000]), "noisy_or", 1.0)
    assert odds[0] == pytest.approx(2000 * np.log(2), rel=1e-12)


@pytest.mark.parametrize("pooling", BOOSTING_POOLINGS)
def test_likelihood_rises_in_every_round(pooling):
    X, y = make_bags(40, n_features=5, shift=2.0, random_state=2)
    model = MILBoost(40, pooling=pooling).fit(X, y)
    path = model.objective_path_
    assert len(path) == model.n_iter_ + 1
    assert (np.diff(path) < 0).all()
    assert model.objective_ == path[-1]
    # The path is what the fitted scores give, and the first entry that of F = 0.
    L = BagLikelihood(X.offsets, y == 1, np.ones(len(X)), pooling, model.alpha)
    assert path[0] == pytest.approx(-L.value(np.zeros(X.n_instances)), rel=1e-12)
    F = model.instance_scores(X).values
    assert path[-1] == pytest.approx(-L.value(F), rel=1e-9)
    p = model.predict_proba(X)[:, 1]
    nll = -np.log(np.where(y == 1, p, 1 - p)).sum()
    assert nll == pytest.approx(path[-1], rel=1e-6)


def logistic_boosting(rows, t, n_rounds):
    """Boost the logistic loss of rows with stumps found by trying all thresholds."""
    F, steps = np.zeros(len(t)), []
    for _ in range(n_rounds):
        w = t * expit(-t * F)
        best = np.sign(w.sum()) * np.ones(len(t))
        for f in range(rows.shape[1]):
            for threshold in np.unique(rows[:, f]):
                h = np.where(rows[:, f] > threshold, 1.0, -1.0)
                h = h if w @ h > 0 else -h
                if w @ h > w @ best + 1e-9:
                    best = h
        loss = lambda c, best=best, F=F: np.logaddexp(0, -t * (F + c * best)).sum()  # noqa: E731
        found = minimize_scalar(
            loss, bounds=(0, 5), method="bounded", options={"xatol": 1e-10}
        )
        F = F + found.x * best
        steps.append(found.x)
    return F, np.array(steps)


@pytest.mark.parametrize("pooling", BOOSTING_POOLINGS)
def test_bags_of_one_are_logistic_boosting(pooling):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(40, 3))
    t = np.where(rows[:, 0] + rng.normal(size=40) > 0, 1.0, -1.0)
    X = Bags(rows, np.arange(41))
    model = MILBoost(8, pooling=pooling).fit(X, t)
    F, steps = logistic_boosting(rows, t, 8)
    np.testing.assert_allclose(model.learner_weights_, steps, atol=1e-5)
    np.testing.assert_allclose(model.decision_function(X), F, atol=1e-4)
    np.testing.assert_allclose(
        model.decision_function(X), model.instance_scores(X).values, atol=1e-8
    )


@pytest.mark.parametrize("pooling", BOOSTING_POOLINGS)
def test_step_is_where_the_slope_is_zero(scores, pooling):
    F, offsets, positive, weight = scores
    L = BagLikelihood(offsets, positive, weight, pooling, ALPHA)
    w = L.gradient(F)
    rng = np.random.default_rng(1)
    for _ in range(20):
        h = rng.choice([-1.0, 1.0], size=len(F))
        h *= np.sign(w @ h)
        step, value = line_search(L, F, h, L.value(F))
        assert 0 < step <= 5
        assert value > L.value(F)
        slope = L.gradient(F + step * h) @ h
        assert abs(slope) < 1e-9 or step == 5.0


@pytest.mark.parametrize("pooling", BOOSTING_POOLINGS)
def test_stages_end_at_the_decision(pooling):
    X, y = make_bags(24, n_features=4, random_state=0)
    model = MILBoost(12, pooling=pooling).fit(X, y)
    stages = list(model.staged_decision_function(X))
    assert len(stages) == model.n_iter_
    np.testing.assert_allclose(stages[-1], model.decision_function(X), atol=1e-12)
    short = MILBoost(3, pooling=pooling).fit(X, y)
    np.testing.assert_allclose(stages[2], short.decision_function(X), atol=1e-12)


def test_stages_of_three_classes():
    X, y = make_bags(30, n_features=4, n_classes=3, random_state=0)
    model = MILBoost(12).fit(X, y)
    stages = list(model.staged_decision_function(X))
    assert len(stages) == model.n_iter_
    assert stages[0].shape == (30, 3)
    np.testing.assert_allclose(stages[-1], model.decision_function(X), atol=1e-12)


@pytest.mark.parametrize("pooling", BOOSTING_POOLINGS)
def test_weights_are_repeated_bags(pooling):
    X, y = make_bags(20, n_features=4, random_state=1)
    weight = np.arange(20) % 3 + 1
    again = np.repeat(np.arange(20), weight)
    a = MILBoost(20, pooling=pooling).fit(X, y, sample_weight=weight)
    b = MILBoost(20, pooling=pooling).fit(X[again], y[again])
    np.testing.assert_allclose(
        a.decision_function(X), b.decision_function(X), atol=1e-7
    )


@pytest.mark.parametrize("pooling", ["power", "lse"])
def test_repeated_instances_change_nothing(pooling):
    X, y = make_bags(20, n_features=4, random_state=1)
    twice = Bags.from_list([np.repeat(b, 2, axis=0) for b in X])
    a = MILBoost(20, pooling=pooling).fit(X, y).decision_function(X)
    b = MILBoost(20, pooling=pooling).fit(twice, y).decision_function(X)
    np.testing.assert_allclose(a, b, atol=1e-8)


@pytest.mark.parametrize("pooling", BOOSTING_POOLINGS)
def test_order_of_bags_and_instances(pooling):
    X, y = make_bags(30, n_features=6, random_state=4)
    expected = MILBoost(30, pooling=pooling).fit(X, y).decision_function(X)
    rng = np.random.default_rng(0)
    order = rng.permutation(30)
    other = Bags.from_list([X[i][rng.permutation(len(X[i]))] for i in order])
    model = MILBoost(30, pooling=pooling).fit(other, y[order])
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-7)


def test_sparse_rows_give_the_same_model():
    X, y = make_bags(30, n_features=6, random_state=4)
    data = np.where(np.abs(X.data) < 0.5, 0.0, X.data)
    dense, sparse = X.with_data(data), X.with_data(sp.csr_matrix(data))
    a, b = MILBoost(25).fit(dense, y), MILBoost(25).fit(sparse, y)
    np.testing.assert_allclose(
        a.decision_function(dense), b.decision_function(sparse), atol=1e-9
    )


@pytest.mark.parametrize(
    "base", [DecisionTreeClassifier(max_depth=2), LogisticRegression(C=10.0)]
)
def test_any_weighted_classifier_is_a_base(base):
    X, y = make_bags(30, n_features=4, random_state=0)
    model = MILBoost(10, estimator=base, pooling="power", random_state=0).fit(X, y)
    assert (np.diff(model.objective_path_) < 0).all()
    assert model.score(X, y) > 0.8
    again = MILBoost(10, estimator=base, pooling="power", random_state=0).fit(X, y)
    np.testing.assert_array_equal(
        model.decision_function(X), again.decision_function(X)
    )


def test_base_without_weights_is_refused():
    X, y = make_bags(20, random_state=0)
    with pytest.raises(ValueError, match="KNeighborsClassifier does not take"):
        MILBoost(estimator=KNeighborsClassifier()).fit(X, y)


def test_early_stopping_keeps_the_best_round():
    X, y = make_bags(80, n_features=5, shift=2.0, random_state=3)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(80) < 0.25, 1 - y, y)  # wrong labels: over-fitting hurts
    model = MILBoost(
        200, n_iter_no_change=5, validation_fraction=0.3, random_state=0
    ).fit(X, y)
    path = model.validation_path_
    assert model.n_iter_ < 200
    assert len(path) == model.n_iter_ + 6
    assert len(model.objective_path_) == model.n_iter_ + 1
    assert path[model.n_iter_] <= path[1:].min() + 1e-4


def test_early_stopping_needs_bags_of_both_classes():
    X, y = make_bags(10, random_state=0)
    with pytest.raises(ValueError, match="hold out"):
        MILBoost(n_iter_no_change=2).fit(X, y)


def test_nothing_to_learn_warns():
    X = Bags(np.ones((12, 2)), np.arange(0, 13, 2))
    with pytest.warns(ConvergenceWarning, match="same score"):
        model = MILBoost().fit(X, [0, 1, 0, 0, 1, 0])
    # The best constant: every bag has the probability of the positive class.
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / 3, atol=1e-6)


def test_separable_bags_end_with_certain_labels():
    """Boosting goes on past the last mistake without trouble in the numbers."""
    X = Bags(np.array([[0.0], [1.0], [0.1], [0.9]]), np.arange(5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MILBoost(400).fit(X, [0, 1, 0, 1])
    assert np.isfinite(model.decision_function(X)).all()
    np.testing.assert_array_equal(model.predict(X), [0, 1, 0, 1])


def test_unknown_pooling_lists_the_known():
    X, y = make_bags(10, random_state=0)
    with pytest.raises(ValueError, match="noisy_or"):
        MILBoost(pooling="median").fit(X, y)
