"""Where a bag score is cut: one implementation for every method that offers it."""

import numpy as np

from bagwise.base._folds import bag_folds, most_folds


def best_threshold(score, positive, sample_weight=None):
    """Return the cut of `score` with the highest weighted accuracy.

    Parameters
    ----------
    score : array-like of shape (n,)
        Higher is more positive; a score above the cut is called positive.
    positive : array-like of bool of shape (n,)
        The truth.
    sample_weight : array-like of shape (n,), default=None
        Weights; 1 by default.

    Returns
    -------
    float
        The middle of a gap between two neighbouring distinct scores, or a point just
        outside all of them. Of several equally good cuts the middle one is taken.
    """
    score = np.asarray(score, dtype=np.float64)
    positive = np.asarray(positive, dtype=bool)
    weight = np.ones(score.shape) if sample_weight is None else sample_weight
    order = np.argsort(score, kind="stable")
    ranked, gain = score[order], np.where(positive, -weight, weight)[order]
    # right[k]: accuracy (up to a constant) when the k lowest are called negative.
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


def choose_threshold(estimator, X, t, weight):
    """Return the cut that `estimator.threshold` asks for.

    Parameters
    ----------
    estimator : BinaryBagClassifier
        A fitted two-class method with a parameter `threshold`: "zero" keeps the
        method's own cut, "train" takes the best cut of the training scores, "cv" the
        best cut of out-of-fold scores.
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
    return best_threshold(scores, t > 0, weight)


def out_of_fold_scores(estimator, X, t, weight, n_splits=5):
    """Score every bag by a model that did not see it, or None with too few bags."""
    n_splits = most_folds(X, t, n_splits)
    if n_splits < 2:
        return None
    scores = np.empty(len(t))
    for train, test in bag_folds(X, t, n_splits, random_state=0):
        one = estimator._unfitted_copy()
        one._prepare(X[train])
        one._fit_binary(X[train], t[train], weight[train])
        scores[test] = one._score_bags(X[test])
    return scores
