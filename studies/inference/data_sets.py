"""Data sets of one cell: out-of-fold scores and the truth about the models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.inference.generators import GROUPED, simulate
from studies.inference.learners import fold_scores
from studies.inference.real import REAL, subsample

N_SPLITS = 5
TRUTHS = ("accuracy", "auroc", "balanced_accuracy", "average_precision", "log_loss")
NOISE = 0.8  # noise in the features of the third method, which makes it worse


@dataclass
class DataSet:
    """Results of three methods on one data set, and the truth about the first.

    Parameters
    ----------
    y, groups : ndarray of shape (n_bags,)
        Labels, and groups or None.
    fold : ndarray of shape (n_repeats, n_bags)
        In which fold a bag was tested.
    scores : ndarray of shape (3, n_repeats, n_bags)
        Out-of-fold scores. The second method is as good as the first one, and sees
        other features (of real data, the same ones); the third one sees the features
        of the first with noise.
    truth : ndarray of shape (n_repeats, len(TRUTHS))
        Mean figures of the fitted models of the first method on new bags.
    rest : float
        Share of the new bags in a finite population, from which both were taken.
    """

    y: Any
    groups: Any
    fold: Any
    scores: Any
    truth: Any
    rest: float = 1.0


def stratified(y: Any, groups: Any, rng: Any, n_splits: int = N_SPLITS) -> Any:
    """Return the fold of every bag; groups, which have one label, stay together."""
    _, first = np.unique(groups, return_index=True)
    own = np.empty(len(first), dtype=np.int64)
    dealt = 0
    for label in (0, 1):
        at = rng.permutation(np.flatnonzero(y[first] == label))
        own[at] = (np.arange(len(at)) + dealt) % n_splits
        dealt += len(at)
    return own[groups]


def data_set(
    kind: str, learner: str, n: int, rng: Any, n_repeats: int = 1
) -> DataSet | None:
    """Return one data set; None if it has too few bags of a class for two folds."""
    if kind in REAL:
        own, y, new_own, new_y = subsample(kind, n, rng)
        X, new_X, groups = np.stack([own, own]), [new_own], np.arange(n)
        rest = len(new_y) / (len(new_y) + n)
    else:
        X, y, groups = simulate(kind, n, rng)
        new_X, new_y, _ = simulate(kind, max(40 * n, 3000), rng, 1)
        rest = 1.0
    _, first = np.unique(groups, return_index=True)
    n_splits = min(N_SPLITS, *np.bincount(y[first], minlength=2))
    if n_splits < 2:
        return None
    noisy = X[0] + NOISE * X[0].std(axis=0) * rng.normal(size=X[0].shape)
    fold = np.stack([stratified(y, groups, rng, n_splits) for _ in range(n_repeats)])
    scores = np.empty((3, n_repeats, n))
    truth = []
    for r in range(n_repeats):
        scores[0, r], new = fold_scores(learner, X[0], y, fold[r], new_X[0])
        scores[1, r], _ = fold_scores(learner, X[1], y, fold[r], None)
        scores[2, r], _ = fold_scores(learner, noisy, y, fold[r], None)
        truth.append(np.mean([figures(new_y, own) for own in new], axis=0))
    own_groups = groups if kind in GROUPED else None
    return DataSet(y, own_groups, fold, scores, np.array(truth), rest)


def figures(y: Any, scores: Any) -> list[float]:
    """Return the figures of `TRUTHS` of one model on new bags."""
    right = (scores > 0) == y
    recalls = (right[y == 1].mean(), right[y == 0].mean())
    loss = np.logaddexp(0.0, np.where(y == 1, -scores, scores)).mean()
    order = np.argsort(-scores)
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(y) - 1)
    found = np.cumsum(y[order])[last]  # true and false positives at each threshold
    other = last + 1 - found
    m = found[-1]
    gain = np.diff(found, prepend=0)
    area = 1.0 - gain @ (other - np.diff(other, prepend=0) / 2.0) / (m * other[-1])
    precision = gain @ (found / (last + 1.0)) / m
    return [right.mean(), area, np.mean(recalls), precision, loss]
