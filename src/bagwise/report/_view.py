"""A comparison as a page reads it: classes by name, scores towards the positive one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.comparison.comparison import Comparison

__all__ = ["Fold", "View"]


@dataclass(frozen=True)
class Fold:
    """The test bags of one fold, and what a method said about them.

    Attributes
    ----------
    repeat : int
        Which repeat of the protocol.
    test : ndarray of shape (n,)
        Positions of the bags.
    truth, label : ndarray of shape (n,) or (n, n_labels)
        Indices of the true and of the predicted class; zeros and ones for several
        labels a bag; the true and the predicted value for real ones; the time and the
        risk for survival.
    score, probability : ndarray of shape (n,) or (n, n_classes), or None
        Of two classes one column, high for the positive one.
    instances : ndarray of shape (n_test_instances,) or (.., n_classes), or None
        Scores of the instances of these bags, one bag after the other.
    scored : ndarray of int
        Places in `test` of the bags whose instance scores were kept.
    """

    repeat: int
    test: NDArray[Any]
    truth: NDArray[Any]
    label: NDArray[Any]
    score: NDArray[Any] | None
    probability: NDArray[Any] | None
    instances: NDArray[Any] | None
    scored: NDArray[Any]


class View:
    """What several parts of a page ask of a comparison.

    Parameters
    ----------
    comparison : Comparison
        The results.

    Attributes
    ----------
    task : {"classification", "multilabel", "regression", "survival"}
        What is predicted.
    names : list of str
        The classes, in the order of their indices; none for real values.
    positive : int or None
        Index of the positive class; None unless there are two.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison, self.problem = comparison, comparison.problem
        self.pooled = bool(comparison.protocol.pooled)
        self.task, self.positive = self.problem.task, self.problem.positive
        self.names = [str(label) for label in self.problem.classes]
        if self.task == "multilabel":
            self.names = [f"label {k + 1}" for k in range(len(self.names))]
        self._folds: dict[str, list[Fold]] = {}

    @cached_property
    def finished(self) -> list[str]:
        """Methods with at least one finished fold, the best first."""
        return [row.method for row in self.comparison.ranking if row.n_folds]

    @cached_property
    def truth(self) -> NDArray[Any]:
        """Class index, labels, value or time of every bag."""
        if self.task == "survival":
            return np.asarray(self.problem.y["time"])
        if self.task != "classification":
            return np.asarray(self.problem.targets)
        return np.searchsorted(self.problem.classes, self.problem.y)

    @property
    def all_classes(self) -> range:
        """Indices of the classes."""
        return range(len(self.names))

    def folds(self, method: str) -> list[Fold]:
        """Return the finished folds of a method."""
        if method not in self._folds:
            self._folds[method] = [
                self._fold(row) for row in self.comparison.runs(method)
            ]
        return self._folds[method]

    def _fold(self, row: dict[str, Any]) -> Fold:
        arrays = self.comparison.arrays[row["key"]]
        test = np.asarray(arrays["test"]).astype(np.int64)
        truth, repeat = self.truth[test], int(row["repeat"])
        instances = arrays.get("instances")
        scored = np.asarray(arrays.get("instance_bags", np.arange(len(test))))
        if self.task == "regression":
            found = np.asarray(arrays["prediction"])
            return Fold(repeat, test, truth, found, None, None, instances, scored)
        if self.task == "survival":
            found = np.asarray(arrays["score"])
            return Fold(repeat, test, truth, found, None, None, instances, scored)
        label = np.asarray(arrays["label"]).astype(np.int64)
        score, probability = arrays.get("score"), arrays.get("probability")
        if score is not None and len(score) != len(test):  # labels were all it gave
            score = None
        if self.positive == 0:  # stored towards the second class, as scikit-learn does
            score = None if score is None else -score
            probability = None if probability is None else 1.0 - probability
        return Fold(repeat, test, truth, label, score, probability, instances, scored)

    def member(self, fold: Fold, k: int) -> NDArray[Any]:
        """Tell which test bags are of class `k`."""
        return np.asarray(fold.truth == k if fold.truth.ndim == 1 else fold.truth[:, k])

    def called(self, fold: Fold, k: int) -> NDArray[Any]:
        """Tell which test bags were called `k`."""
        return np.asarray(fold.label == k if fold.label.ndim == 1 else fold.label[:, k])

    def against_rest(self, fold: Fold, values: NDArray[Any], k: int) -> Any:
        """Return which bags are of class `k`, and the column that speaks for it."""
        member = self.member(fold, k).astype(bool)
        if values.ndim == 1:
            return member, values if k == self.positive else -values
        return member, values[:, k]

    def own_class(self) -> list[int]:
        """Return the classes a mean curve goes over: the positive one, or all."""
        return [self.positive] if self.positive is not None else list(self.all_classes)
