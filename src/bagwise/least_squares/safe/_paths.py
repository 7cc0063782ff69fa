"""Scores of many candidates on the same folds, from shared kernels and paths.

A fold costs one kernel matrix per width; all values of `rho` and of the variance weight
follow on its paths of solutions.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import get_scorer

from bagwise.least_squares.safe._cv_kernel import Fold, kernel_decisions
from bagwise.least_squares.safe._cv_moments import moment_decisions
from bagwise.least_squares.safe.problem import LabelTargets, Settings, Training
from bagwise.least_squares.weights import class_factor

AXES = ("gamma", "rho", "variance_weight")


def candidate_scores(model, candidates, X, y, splits, scoring):
    """Return the mean score of every candidate, or None where nothing is shared.

    Parameters
    ----------
    model : SAFE
        What is tuned; unfitted.
    candidates : list of dict
        Parameters to try.
    X, y : Bags, ndarray
        Training bags and labels.
    splits : list of (train, test)
        Folds.
    scoring : str or callable
        As in scikit-learn.
    """
    known = {*AXES, "aggregation"}
    if (
        model.loss != "squared"
        or model.variance_weight_abs is not None
        or not all(set(params) <= known for params in candidates)
    ):
        return None
    full = [
        {name: params.get(name, getattr(model, name)) for name in known}
        for params in candidates
    ]
    if any(params["aggregation"] == "max" for params in full):
        return None
    classes, codes = np.unique(y, return_inverse=True)
    count = np.ones(len(codes))
    folds = make_folds(codes, count, classes, model.class_weight, splits)
    score = partial(score_fold, scoring, classes, X, y, None)
    found = np.empty(len(full))
    for aggregation in dict.fromkeys(params["aggregation"] for params in full):
        mine = [k for k, p in enumerate(full) if p["aggregation"] == aggregation]
        values = [list(dict.fromkeys(full[k][name] for k in mine)) for name in AXES]
        settings = Settings.of(clone(model).set_params(aggregation=aggregation))
        factor = class_factor(model.class_weight, classes, codes, count)
        columns = LabelTargets(len(classes)).columns(codes)
        training = Training(X, columns, count, count * factor[codes])
        fixed = model.class_weight != "balanced"
        grid = grid_scores(settings, training, folds, values, score, fixed=fixed)
        for k in mine:
            place = [values[a].index(full[k][name]) for a, name in enumerate(AXES)]
            found[k] = grid[tuple(place)].mean()
    return found


def make_folds(codes, count, classes, class_weight, splits):
    """Return the folds with the weights and targets of their training bags."""
    targets = LabelTargets(len(classes))
    columns = targets.columns(codes)
    folds = []
    for number, (train, test) in enumerate(splits):
        train = train[count[train] > 0]  # a bag without weight is not there
        kind, mine = codes[train], count[train]
        missing = np.setdiff1d(np.arange(len(classes)), kind)
        if missing.size:
            raise ValueError(
                f"Fold {number} has no training bag of class "
                f"{classes[missing[0]]}. Use fewer or stratified folds."
            )
        factor = class_factor(class_weight, classes, kind, mine)
        Y = columns[train] @ targets.mix(None)
        folds.append(Fold(number, train, test, mine, mine * factor[kind], Y))
    return folds


def grid_scores(settings, training, folds, values, score, *, fixed):
    """Return the scores, of shape (gammas, rhos, variance weights, folds)."""
    gammas, rhos, shares = values
    grid = (folds, gammas, rhos, shares)
    targets = LabelTargets(training.columns.shape[1])
    if settings.uses_features(training.X):
        decided = moment_decisions(settings, training, targets, *grid, fixed=fixed)
    else:
        Y = training.columns @ targets.mix(training.totals)
        decided = kernel_decisions(settings, training, Y, *grid, fixed=fixed)
    scores = np.empty((len(gammas), len(rhos), len(shares), len(folds)))
    for i, decisions in enumerate(decided):
        for g in range(len(shares)):
            for j, fold in enumerate(folds):
                for r in range(len(rhos)):
                    scores[i, r, g, j] = score(decisions[g][j][r], fold.test)
    return scores


def score_fold(scoring, classes, X, y, count, values, test):
    """Score of one fold; bags count as often as they weigh, if they do."""
    values = values[:, 0] if values.shape[1] == 1 else values
    fold = _Decided(classes, values)
    weight = None if count is None else count[test]
    if scoring is None:
        return float(np.average(fold.predict(None) == y[test], weights=weight))
    extra = {} if weight is None else {"sample_weight": weight}
    return get_scorer(scoring)(fold, X[test], y[test], **extra)


class _Decided(ClassifierMixin, BaseEstimator):
    """A classifier that has decided already, for scorers."""

    def __init__(self, classes=None, values=None):
        self.classes_ = classes
        self.values = values
        self.classes = classes

    def decision_function(self, X):
        return self.values

    def predict(self, X):
        if self.values.ndim == 1:
            return self.classes_[(self.values > 0).astype(np.intp)]
        return self.classes_[self.values.argmax(axis=1)]
