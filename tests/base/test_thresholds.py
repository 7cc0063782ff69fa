"""The shared threshold against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression

from bagwise.base import bag_folds
from bagwise.base.thresholds import (
    best_threshold,
    out_of_fold_scores,
    sigmoid_threshold,
)
from bagwise.compose import WrapperMI
from bagwise.datasets import make_bags

scored = st.lists(
    st.tuples(st.integers(-3, 3), st.booleans(), st.integers(1, 3)),
    min_size=1,
    max_size=12,
)


@given(scored)
def test_no_cut_is_better(rows):
    score, positive, weight = (np.array(c) for c in zip(*rows, strict=True))
    cut = best_threshold(score, positive, weight)
    assert cut not in score

    def accuracy(c):
        return weight[(score > c) == positive].sum()

    candidates = np.concatenate([score - 0.5, score + 0.5])
    assert accuracy(cut) == max(accuracy(c) for c in candidates)


def log_loss_of(score, positive, weight):
    """Return the ridge log loss of slope and level, in plain numpy."""
    z = (score - np.average(score, weights=weight)) / np.sqrt(
        np.average((score - np.average(score, weights=weight)) ** 2, weights=weight)
    )
    sign = np.where(positive, 1.0, -1.0)

    def value(p):
        loss = np.logaddexp(0.0, -sign * (p[0] * z + p[1]))
        return np.average(loss, weights=weight) + 0.5e-3 * p[0] ** 2

    return value, z


def drawn_scores(seed, n=40, shift=1.0):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    # A uniform draw has no outer tenth that matters: nothing is drawn in but the ends.
    return rng.uniform(size=n) + shift * positive, positive, rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("seed", range(4))
def test_the_sigmoid_cut_is_the_middle_of_the_best_sigmoid(seed):
    score, positive, weight = drawn_scores(seed)
    order = np.argsort(score)
    share = np.cumsum(weight[order]) / weight.sum()
    low = score[order][np.flatnonzero(share >= 0.1)[0]]
    back = np.cumsum(weight[order][::-1]) / weight.sum()
    high = score[order][::-1][np.flatnonzero(back >= 0.1)[0]]
    drawn = np.clip(score, low, high)
    value, z = log_loss_of(drawn, positive, weight)
    slope, level = minimize(value, [1.0, 0.0], method="Nelder-Mead", tol=1e-12).x
    middle = np.interp(-level / slope, np.sort(z), np.sort(drawn))
    assert sigmoid_threshold(score, positive, weight) == pytest.approx(middle, abs=1e-5)


def test_the_sigmoid_cut_is_fair():
    """Weights are repeats, exchanged classes turn it, units scale it."""
    score, positive, _ = drawn_scores(7, n=30)
    times = np.random.default_rng(0).integers(1, 4, 30)
    cut = sigmoid_threshold(score, positive, times.astype(float))
    again = sigmoid_threshold(np.repeat(score, times), np.repeat(positive, times))
    assert cut == pytest.approx(again, abs=1e-9)
    turned = sigmoid_threshold(-score, ~positive, times.astype(float))
    assert turned == pytest.approx(-cut, abs=1e-9)
    scaled = sigmoid_threshold(1e6 * score + 3.0, positive, times.astype(float))
    assert scaled == pytest.approx(1e6 * cut + 3.0, rel=1e-9)


def test_the_sigmoid_cut_where_there_is_none():
    positive = np.array([True, False, True, False, True, True])
    for score in (np.ones(6), np.where(positive, -1.0, 1.0)):
        assert sigmoid_threshold(score, positive) == best_threshold(score, positive)
    apart = np.where(positive, 2.0, 1.0)  # scores that separate are cut in between
    assert 1.0 < sigmoid_threshold(apart, positive) < 2.0
    far = np.concatenate([np.full(20, -1.0), np.full(20, 1.0), [1e9]])
    cut = sigmoid_threshold(far, far > 0)  # an outlier moves nothing
    assert abs(cut) < 0.5


def test_few_cuts_are_as_good_as_the_best_of_many():
    """Of 40 scores the sigmoid finds a better cut for others than the best gap does."""
    rng = np.random.default_rng(0)
    lost = np.zeros(2)
    for _ in range(60):
        positive = np.arange(40) % 2 == 0
        score = rng.normal(size=40) + 1.5 * positive
        for k, find in enumerate((best_threshold, sigmoid_threshold)):
            cut = find(score, positive)  # true accuracy of a cut of two normals
            lost[k] += ndtr(0.75) - 0.5 * (ndtr(cut) + ndtr(1.5 - cut))
    assert lost[1] < 0.5 * lost[0]


def test_thousands_of_bags_need_one_fold():
    X, y = make_bags(5500, n_features=2, bag_size=1, shift=2.0, random_state=0)
    model = WrapperMI(LogisticRegression(), threshold="zero").fit(X, y)
    t = np.where(y == 1, 1.0, -1.0)
    scores = out_of_fold_scores(model, X, t, np.ones(len(t)))
    assert np.isfinite(scores).sum() == 1100


@pytest.mark.parametrize(
    ("n_bags", "n_positive", "n_scored"),
    [(200, 100, 120), (100, 50, 100), (1000, 50, 1000), (1000, 150, 400)],
)
def test_folds_end_with_enough_scores_of_each_class(n_bags, n_positive, n_scored):
    """60 scores of the smaller class are wanted."""
    X, _ = make_bags(n_bags, n_features=2, bag_size=1, random_state=0)
    y = (np.arange(n_bags) < n_positive).astype(int)
    model = WrapperMI(LogisticRegression(), threshold="zero").fit(X, y)
    scores = out_of_fold_scores(model, X, 2.0 * y - 1.0, np.ones(n_bags))
    assert np.isfinite(scores).sum() == n_scored


def test_scores_of_a_fold_ignore_its_labels():
    """A fold is scored by a model that was fitted without it."""
    X, y = make_bags(60, n_features=3, bag_size=4, random_state=0)
    t = np.where(y == 1, 1.0, -1.0)
    model = WrapperMI(LogisticRegression(), threshold="zero").fit(X, y)
    scores = out_of_fold_scores(model, X, t, np.ones(60), 4)
    for train, test in bag_folds(X, t, 4):
        one = WrapperMI(LogisticRegression(), threshold="zero").fit(X[train], y[train])
        np.testing.assert_allclose(scores[test], one.decision_function(X[test]))


@pytest.mark.parametrize("threshold", ["train", "cv"])
def test_the_cut_moves_decisions_and_instance_scores(threshold):
    X, y = make_bags(40, bag_size=(6, 12), random_state=0)
    base = LogisticRegression(C=0.1)
    plain = WrapperMI(base, threshold="zero").fit(X, y)
    moved = WrapperMI(base, threshold=threshold).fit(X, y)
    shift = plain.decision_function(X) - moved.decision_function(X)
    np.testing.assert_allclose(shift, moved.threshold_, atol=1e-12)
    shift = plain.instance_scores(X).values - moved.instance_scores(X).values
    np.testing.assert_allclose(shift, moved.threshold_, atol=1e-12)
    assert moved.threshold_ != 0
    np.testing.assert_array_equal(
        moved.predict_proba(X)[:, 1] > 0.5, moved.predict(X) == 1
    )
    odds = [m.predict_proba(X)[:, 1] / m.predict_proba(X)[:, 0] for m in (plain, moved)]
    assert np.ptp(np.log(odds[0] / odds[1])) < 1e-9  # one factor for all bags
    if threshold == "train":
        known = sigmoid_threshold(plain.decision_function(X), y == 1)
        assert moved.threshold_ == pytest.approx(known)
