"""Decision thresholds of bag scores, for every method with the parameter."""

import numpy as np
from scipy.special import expit

from bagwise.base.folds import bag_folds, most_folds

# Ridge on the slope of the sigmoid of standardized scores, relative to a mean loss:
# without it, separable scores would have an infinite slope.
_RIDGE = 1e-3
# Scores beyond these quantiles are clipped: outliers must not determine the sigmoid.
_TAIL = 0.10
# More out-of-fold scores of each class hardly improve the threshold (by .001 of the
# accuracy in simulations): further folds are skipped.
_ENOUGH = 60


def best_threshold(score, positive, sample_weight=None):
    """Return the threshold of `score` with the highest weighted accuracy.

    Parameters
    ----------
    score : array-like of shape (n,)
        Higher is more positive; a score above the threshold is predicted as positive.
    positive : array-like of bool of shape (n,)
        The true labels.
    sample_weight : array-like of shape (n,), default=None
        Weights; 1 by default.

    Returns
    -------
    float
        The middle of a gap between two neighboring distinct scores, or a point just
        outside all of them. Of several equally good thresholds the middle one is taken.
    """
    score = np.asarray(score, dtype=np.float64)
    positive = np.asarray(positive, dtype=bool)
    weight = np.ones(score.shape) if sample_weight is None else sample_weight
    order = np.argsort(score, kind="stable")
    ranked, gain = score[order], np.where(positive, -weight, weight)[order]
    # right[k]: accuracy (up to a constant) if the k lowest are predicted as negative.
    right = np.concatenate([[0.0], np.cumsum(gain)])
    allowed = np.concatenate([[True], np.diff(ranked) > 0, [True]])
    right[~allowed] = -np.inf
    top = right.max()
    tied = np.flatnonzero(right >= top - 1e-12 * max(1.0, abs(top)))
    k = tied[(len(tied) - 1) // 2]
    margin = 0.5 * (ranked[-1] - ranked[0]) / len(ranked) or 0.5
    if k == 0:
        return float(ranked[0] - margin)
    if k == len(ranked):
        return float(ranked[-1] + margin)
    return float(0.5 * (ranked[k - 1] + ranked[k]))


def sigmoid_threshold(score, positive, sample_weight=None):
    r"""Return the threshold where a sigmoid fitted to the scores equals one half.

    The sigmoid :math:`1 / (1 + e^{-(a z + b)})` of the standardized scores :math:`z`
    minimizes its mean log loss plus :math:`10^{-3} a^2 / 2`. Few scores determine its
    middle much better than the gap with the highest accuracy, and it moves little when
    one of them does.

    Parameters
    ----------
    score : array-like of shape (n,)
        Higher is more positive; a score above the threshold is predicted as positive.
        Scores beyond the outer tenths count as the first within them.
    positive : array-like of bool of shape (n,)
        The true labels.
    sample_weight : array-like of shape (n,), default=None
        Weights; 1 by default.

    Returns
    -------
    float
        The threshold, at most the range of the scores outside of them: if the weights
        favor one class. That of `best_threshold` if the scores are constant or do not
        increase with the labels.
    """
    score = np.asarray(score, dtype=np.float64)
    positive = np.asarray(positive, dtype=bool)
    weight = np.ones(score.shape) if sample_weight is None else sample_weight
    share = weight / weight.sum()
    # If one class has almost no weight, all its scores lie in the tails: do not clip.
    for values in (np.clip(score, *_tails(score, share)), score):
        center = share @ values
        spread = np.sqrt(share @ (values - center) ** 2)
        if not spread > 1e-12 * np.abs(score).max():
            continue
        slope, level = _fit_sigmoid((values - center) / spread, positive, share)
        if slope > 1e-9:
            break
    else:
        return best_threshold(score, positive, weight)
    low, high = score.min(), score.max()
    cut = center - spread * level / slope
    return float(np.clip(cut, low - (high - low), high + (high - low)))


def _tails(score, share):
    """Return the lowest and highest score within the outer shares of the weight."""
    order = np.argsort(score, kind="stable")
    tail = _TAIL - 1e-9  # tolerates rounding errors of the cumulative sum
    low = order[np.searchsorted(np.cumsum(share[order]), tail)]
    high = order[::-1][np.searchsorted(np.cumsum(share[order[::-1]]), tail)]
    return score[low], score[high]


def _fit_sigmoid(z, positive, share, max_iter=100):
    """Minimize the ridge log loss of ``a z + b`` by Newton steps that never rise."""
    y = positive.astype(np.float64)

    def value(p):
        u = p[0] * z + p[1]
        return share @ (np.logaddexp(0.0, u) - y * u) + 0.5 * _RIDGE * p[0] ** 2

    rate = share @ y
    p = np.array([0.0, np.log(rate / (1.0 - rate))])
    now = value(p)
    for _ in range(max_iter):
        q = expit(p[0] * z + p[1])
        g, h = share * (q - y), share * q * (1.0 - q)
        gradient = np.array([g @ z + _RIDGE * p[0], g.sum()])
        if np.abs(gradient).max() < 1e-12:
            break
        off = h @ z
        hessian = np.array([[h @ z**2 + _RIDGE, off], [off, h.sum() + 1e-15]])
        step = np.linalg.solve(hessian, gradient)
        length = 1.0
        while length > 1e-10 and value(p - length * step) > now:
            length *= 0.5
        if length <= 1e-10:
            break
        p = p - length * step
        now = value(p)
    return p


def choose_threshold(estimator, X, t, weight):
    """Return the threshold that the parameter `estimator.threshold` selects.

    Parameters
    ----------
    estimator : BinaryBagClassifier
        A fitted two-class method with a parameter `threshold`: "zero" keeps the
        method's own threshold, "train" finds one from training scores, "cv" from
        out-of-fold scores, by the method's `_find_threshold`, which is
        `sigmoid_threshold` by default.
    X : Bags
        The training bags.
    t : ndarray of shape (n_bags,)
        -1 and 1.
    weight : ndarray of shape (n_bags,)
        Weights of the bags.

    Returns
    -------
    float
        What is subtracted from scores.
    """
    if estimator.threshold == "zero":
        return 0.0
    if estimator.threshold == "train":
        scores = estimator._score_bags(X)
    else:
        scores = out_of_fold_scores(estimator, X, t, weight)
    if scores is None:
        return 0.0
    known = np.isfinite(scores)
    return type(estimator)._find_threshold(scores[known], t[known] > 0, weight[known])


def out_of_fold_scores(estimator, X, t, weight, n_splits=5):
    """Score bags by a model that did not see them, or None with too few bags.

    Only as many folds are fitted as give 60 scores of each class; the other bags have
    NaN.
    """
    n_splits = most_folds(X, t, n_splits)
    if n_splits < 2:
        return None
    scores = np.full(len(t), np.nan)
    for train, test in bag_folds(X, t, n_splits, random_state=0):
        one = estimator._fitted_to_fold(X, t, weight, train)
        scores[test] = one._score_bags(X[test])
        known = t[np.isfinite(scores)] > 0
        if min(known.sum(), (~known).sum()) >= _ENOUGH:
            break
    return scores
