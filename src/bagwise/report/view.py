"""A comparison as a page shows it: classes and scores, numbers and axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.comparison.comparison import Comparison

__all__ = [
    "FoldPredictions",
    "View",
    "figure",
    "memory",
    "p_value",
    "place",
    "plain",
    "round_axis",
    "seconds",
]


@dataclass(frozen=True)
class FoldPredictions:
    """The test bags of one fold, and the predictions of a method for them.

    Attributes
    ----------
    repeat : int
        Number of the repeat of the protocol.
    test : ndarray of shape (n,)
        Positions of the bags.
    truth, label : ndarray of shape (n,) or (n, n_labels)
        Indices of the true and of the predicted class; zeros and ones for several
        labels per bag; the true and the predicted value in regression; the time and
        the risk in survival analysis.
    score, probability : ndarray of shape (n,) or (n, n_classes), or None
        For two classes one column, high for the positive class.
    instances : ndarray of shape (n_test_instances,) or (.., n_classes), or None
        Scores of the instances of these bags, concatenated.
    scored : ndarray of int
        Positions in `test` of the bags whose instance scores were stored.
    """

    repeat: int
    test: NDArray[Any]
    truth: NDArray[Any]
    label: NDArray[Any]
    instances: NDArray[Any] | None
    scored: NDArray[Any]
    score: NDArray[Any] | None = None
    probability: NDArray[Any] | None = None


class View:
    """A comparison with class indices and scores toward the positive class.

    Parameters
    ----------
    comparison : Comparison
        The results.

    Attributes
    ----------
    task : {"classification", "multilabel", "regression", "survival"}
        Kind of target.
    names : list of str
        The classes in the order of their indices; empty in regression.
    positive : int or None
        Index of the positive class; None unless there are two.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison, self.problem = comparison, comparison.problem
        self.pooled = bool(comparison.protocol.pooled)
        self.task, self.positive = self.problem.task, self.problem.positive
        self.names = [str(label) for label in self.problem.classes]
        if self.task == "multilabel":
            numbered = [f"label {k + 1}" for k in range(len(self.names))]
            self.names = list(self.problem.label_names or numbered)
        self._folds: dict[str, list[FoldPredictions]] = {}

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

    def folds(self, method: str) -> list[FoldPredictions]:
        """Return the finished folds of a method."""
        if method not in self._folds:
            self._folds[method] = [
                self._fold(row) for row in self.comparison.runs(method)
            ]
        return self._folds[method]

    def first_repeat(self, method: str) -> list[FoldPredictions]:
        """Return the finished folds of the first repeat, which test a bag once."""
        return [fold for fold in self.folds(method) if fold.repeat == 0]

    def _fold(self, row: dict[str, Any]) -> FoldPredictions:
        arrays = self.comparison.arrays[row["key"]]
        test = np.asarray(arrays["test"]).astype(np.int64)
        about: dict[str, Any] = {
            "repeat": int(row["repeat"]),
            "test": test,
            "truth": self.truth[test],
            "instances": arrays.get("instances"),
            "scored": np.asarray(arrays.get("instance_bags", np.arange(len(test)))),
        }
        if self.task == "regression":
            return FoldPredictions(label=np.asarray(arrays["prediction"]), **about)
        if self.task == "survival":
            return FoldPredictions(label=np.asarray(arrays["score"]), **about)
        label = np.asarray(arrays["label"]).astype(np.int64)
        score, probability = arrays.get("score"), arrays.get("probability")
        if score is not None and len(score) != len(test):  # it predicts labels only
            score = None
        if self.positive == 0:  # stored for the second class, as in scikit-learn
            score = None if score is None else -score
            probability = None if probability is None else 1.0 - probability
        return FoldPredictions(
            label=label, score=score, probability=probability, **about
        )

    def member(self, fold: FoldPredictions, k: int) -> NDArray[Any]:
        """Return which test bags are of class `k`."""
        return np.asarray(fold.truth == k if fold.truth.ndim == 1 else fold.truth[:, k])

    def called(self, fold: FoldPredictions, k: int) -> NDArray[Any]:
        """Return which test bags are predicted to be of class `k`."""
        return np.asarray(fold.label == k if fold.label.ndim == 1 else fold.label[:, k])

    def against_rest(self, fold: FoldPredictions, values: NDArray[Any], k: int) -> Any:
        """Return which bags are of class `k`, and their scores for this class."""
        member = self.member(fold, k).astype(bool)
        if values.ndim == 1:
            return member, values if k == self.positive else -values
        return member, values[:, k]

    def own_class(self) -> list[int]:
        """Return the classes of a mean curve: the positive one, or all."""
        return [self.positive] if self.positive is not None else list(self.all_classes)


def figure(value: float | None) -> str:
    """Format a number with three decimals; empty if it is missing."""
    return f"{value:.3f}" if value is not None and math.isfinite(value) else ""


def p_value(value: float) -> str:
    """Format a p value; empty if it is missing."""
    if not math.isfinite(value):
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def seconds(value: float) -> str:
    """Format a time with three digits and a unit; empty if it is missing."""
    if not math.isfinite(value):
        return ""
    if value < 0.9995:
        return f"{1000 * value:.3g} ms" if value >= 0.001 else "< 1 ms"
    return f"{value:.3g} s" if value < 90 else f"{value / 60:.1f} min"


def memory(value: float) -> str:
    """Format a number of bytes with a unit; empty if it is missing."""
    if not math.isfinite(value):
        return ""
    if value < 1e6:
        return "< 1 MB"
    return f"{value / 1e6:.0f} MB" if value < 1e9 else f"{value / 1e9:.1f} GB"


def plain(value: Any, digits: int = 4) -> float | None:
    """Return a rounded number for JSON, None if it is not finite."""
    number = float(value)
    return round(number, digits) if math.isfinite(number) else None


def round_axis(
    low: float, high: float, *, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> dict[str, Any]:
    """Return an axis with round ends that contains both values.

    The axis has a positive length even if all values are equal, and stays within
    `bounds`.

    Examples
    --------
    >>> axis = round_axis(1.0, 1.0, bounds=(0.0, 1.0))
    >>> axis["low"], axis["high"], [tick["text"] for tick in axis["ticks"]]
    (0.98, 1.0, ['0.98', '0.985', '0.99', '0.995', '1'])
    """
    least = 0.02 if bounds[1] == 1.0 else max(0.02 * abs(high), 1e-12)
    if high - low < least:
        low = max(bounds[0], high - least)
        high = min(bounds[1], low + least)
    span = high - low
    power = 10.0 ** math.floor(math.log10(span / 5.5))
    step = next(f * power for f in (1, 2, 5, 10) if span / (f * power) <= 5.5)
    first, last = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
    low, high = first * step, last * step
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return {
        "low": low,
        "high": high,
        "ticks": [
            {
                "at": round(100 * (k - first) / (last - first), 2),
                "text": _tick(k * step, digits),
            }
            for k in range(first, last + 1)
        ],
    }


def _tick(value: float, digits: int) -> str:
    if value and (abs(value) >= 1e5 or digits > 4):
        return f"{value:.3g}"
    text = f"{value:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def place(value: float, axis: dict[str, Any]) -> float | None:
    """Return the position of a value on an axis in percent; None if it is missing."""
    if not math.isfinite(value):
        return None
    share = 100 * (value - axis["low"]) / (axis["high"] - axis["low"])
    return round(float(np.clip(share, 0.0, 100.0)), 2)
