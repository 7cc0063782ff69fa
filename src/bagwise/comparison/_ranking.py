"""Rank methods by cross-validated results, with intervals and tests."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, rankdata

from bagwise.comparison._evaluate import METRICS, auroc, bag_metrics
from bagwise.comparison._problem import Problem
from bagwise.comparison._protocols import Protocol as SplitProtocol
from bagwise.comparison._statistics import (
    Interval,
    corrected_interval,
    corrected_t_test,
    holm,
    paired_permutation_test,
    percentile_interval,
)
from bagwise.comparison.catalogue import Method

__all__ = ["RankRow", "rank_methods"]

ALPHA = 0.05
NAN = float("nan")


class Results(Protocol):
    """What a ranking is made from."""

    problem: Problem
    methods: list[Method]
    metric: str
    protocol: SplitProtocol
    arrays: dict[str, dict[str, NDArray[Any]]]

    def runs(self, method: str) -> list[dict[str, Any]]:
        """Return the finished rows of a method, in the order of folds."""

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The rows of failed runs."""


@dataclass(frozen=True)
class RankRow:
    """One line of a ranking.

    `verdict` is "best", "not told apart" (adjusted p of at least 0.05), "worse", or
    "untested" where folds are missing.
    """

    rank: int
    method: str
    n_folds: int
    n_failed: int
    mean: float
    low: float
    high: float
    p: float
    p_holm: float
    verdict: str
    accuracy: float
    auroc: float
    balanced_accuracy: float
    log_loss: float
    key_success: float
    fit_time: float
    tune_time: float
    predict_time: float
    peak_memory: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, None for what is undefined."""
        values = asdict(self)
        for name, value in values.items():
            if isinstance(value, float) and np.isnan(value):
                values[name] = None
        return values


def explain_test(comparison: Results) -> str:
    """Say what the intervals and p values are."""
    if comparison.protocol.pooled:
        return (
            "Intervals: 95% percentile bootstrap over test bags. Tests against the"
            " best: paired permutation of the two methods' results on each bag (for"
            " accuracy in its exact form, McNemar's test), p values adjusted by Holm's"
            " procedure (1979)."
        )
    return (
        "Intervals: 95%, t distribution with the variance of the mean corrected for"
        " overlapping training sets, cut to the range of the metric."
        " Tests against the best: corrected resampled t-test on the same folds (Nadeau"
        " and Bengio, Machine Learning 52, 2003), p values adjusted by Holm's"
        " procedure (1979). The best method was chosen on these same folds, so its"
        " own figure is slightly flattering."
    )


def rank_methods(comparison: Results) -> list[RankRow]:
    """Return the ranking of a comparison.

    Methods with a failed fold come after all that finished every fold; their mean is
    over the folds they finished, and they are not tested.
    """
    metric = METRICS[comparison.metric]
    total = len(comparison.protocol.folds(len(comparison.problem.y)))
    pooled = comparison.protocol.pooled
    intervals: dict[str, Interval] = {}
    for method in comparison.methods:
        intervals[method.name] = (
            _pooled_interval(comparison, method.name)
            if pooled
            else _fold_interval(comparison, method.name)
        )
    done = {m.name: len(comparison.runs(m.name)) for m in comparison.methods}

    def order(name: str) -> tuple[bool, bool, float]:
        mean = intervals[name].mean
        missing = np.isnan(mean)
        value = 0.0 if missing else (-mean if metric.higher else mean)
        return done[name] < total, bool(missing), round(value, 12)

    names = sorted(intervals, key=order)
    complete = [name for name in names if done[name] == total]
    p_values = {
        name: _test(comparison, complete[0], name, pooled) for name in complete[1:]
    }
    adjusted = holm(p_values)
    rows = []
    rank = 0
    for place, name in enumerate(names, 1):
        if rank == 0 or order(name) != order(names[place - 2]):
            rank = place  # equals share theirs
        p, p_holm = p_values.get(name, NAN), adjusted.get(name, NAN)
        if complete and name == complete[0]:
            verdict = "best"
        elif np.isnan(p_holm):
            verdict = "untested"
        else:
            verdict = "worse" if p_holm < ALPHA else "not told apart"
        rows.append(
            _line(comparison, rank, name, intervals[name], p, p_holm, verdict, pooled)
        )
    return rows


def _line(
    comparison: Results,
    rank: int,
    name: str,
    interval: Interval,
    p: float,
    p_holm: float,
    verdict: str,
    pooled: bool,
) -> RankRow:
    runs = comparison.runs(name)
    failed = [row for row in comparison.failures if row["method"] == name]

    def mean(column: str) -> float:
        values = [row[column] for row in runs if row[column] is not None]
        return float(np.mean(values)) if values else NAN

    figures = {column: mean(column) for column in METRICS}
    if pooled and runs:
        whole = pool(comparison, name)
        figures["auroc"] = auroc(whole["truth"], whole["score"])
        labels = whole["truth"], whole["label"]
        n_classes = len(comparison.problem.classes)
        both = bag_metrics(*labels, whole["score"], None, n_classes)
        figures["balanced_accuracy"] = both["balanced_accuracy"] or 0.0
    memory = [row["peak_memory"] for row in runs]
    return RankRow(
        rank,
        name,
        len(runs),
        len(failed),
        interval.mean,
        interval.low,
        interval.high,
        p,
        p_holm,
        verdict,
        **figures,
        fit_time=mean("fit_time"),
        tune_time=mean("tune_time"),
        predict_time=mean("predict_time"),
        peak_memory=float(max(memory)) if memory else NAN,
    )


def _values(comparison: Results, method: str) -> dict[tuple[int, int], float]:
    return {
        (row["repeat"], row["fold"]): row[comparison.metric]
        for row in comparison.runs(method)
        if row[comparison.metric] is not None
    }


def _fold_interval(comparison: Results, method: str) -> Interval:
    values = list(_values(comparison, method).values())
    share = comparison.protocol.test_share(comparison.problem.y)
    found = corrected_interval(values, share)
    top = 1.0 if METRICS[comparison.metric].higher else np.inf
    low, high = np.clip([found.low, found.high], 0.0, top).tolist()
    return Interval(found.mean, low, high)


def _test(comparison: Results, best: str, other: str, pooled: bool) -> float:
    if pooled:
        return _pooled_test(comparison, best, other)
    first, second = _values(comparison, best), _values(comparison, other)
    shared = [fold for fold in first if fold in second]
    if len(shared) < len(first):
        return NAN
    return corrected_t_test(
        [first[fold] for fold in shared],
        [second[fold] for fold in shared],
        comparison.protocol.test_share(comparison.problem.y),
    )


# Leave-one-bag-out and single splits: one result per bag ------------------------------


def pool(comparison: Results, method: str) -> dict[str, NDArray[Any]]:
    """Join the test bags of all folds of repeat 0."""
    parts = [
        comparison.arrays[row["key"]]
        for row in comparison.runs(method)
        if row["repeat"] == 0
    ]
    whole = {
        name: np.concatenate([part[name] for part in parts])
        for name in ("test", "label", "score", "probability")
        if all(name in part for part in parts)
    }
    y = comparison.problem.y[whole["test"]]
    whole["truth"] = np.searchsorted(comparison.problem.classes, y)
    return whole


def _statistic(comparison: Results, whole: dict[str, NDArray[Any]]) -> Any:
    n_classes = len(comparison.problem.classes)
    name = comparison.metric

    def value(chosen: NDArray[Any]) -> float:
        if name == "accuracy":
            return float((whole["truth"][chosen] == whole["label"][chosen]).mean())
        if name == "auroc":
            return auroc(whole["truth"][chosen], whole["score"][chosen])
        probability = whole.get("probability")
        figures = bag_metrics(
            whole["truth"][chosen],
            whole["label"][chosen],
            whole["score"][chosen],
            None if probability is None else probability[chosen],
            n_classes,
        )
        found = figures.get(name)
        return NAN if found is None else found

    return value


def _pooled_interval(comparison: Results, method: str) -> Interval:
    if not comparison.runs(method):
        return Interval(NAN, NAN, NAN)
    if comparison.metric == "key_success":
        values = list(_values(comparison, method).values())
        return Interval(float(np.mean(values)) if values else NAN, NAN, NAN)
    whole = pool(comparison, method)
    return percentile_interval(_statistic(comparison, whole), len(whole["truth"]))


def _pooled_test(comparison: Results, best: str, other: str) -> float:
    first, second = pool(comparison, best), pool(comparison, other)
    if comparison.metric == "key_success" or first["score"].ndim > 1:
        return NAN
    if comparison.metric == "log_loss" and not (
        "probability" in first and "probability" in second
    ):
        return NAN
    order = np.argsort(first["test"]), np.argsort(second["test"])
    parts = [
        {name: values[rows] for name, values in whole.items()}
        for whole, rows in zip((first, second), order, strict=True)
    ]
    if comparison.metric == "accuracy":  # the same test without drawing (McNemar)
        hits = [part["truth"] == part["label"] for part in parts]
        only, other_only = (hits[0] & ~hits[1]).sum(), (hits[1] & ~hits[0]).sum()
        both = int(only + other_only)
        return float(binomtest(int(only), both).pvalue) if both else 1.0
    for part in parts:  # scores of two methods are comparable as ranks only
        part["score"] = rankdata(part["score"])
    everyone = np.arange(len(parts[0]["truth"]))

    def difference(swap: NDArray[np.bool_]) -> float:
        values = []
        for one, two in (parts, parts[::-1]):
            mixed = {
                name: np.where(swap, two[name], one[name])
                for name in one
                if name in two
            }
            values.append(_statistic(comparison, mixed)(everyone))
        return float(values[0] - values[1])

    return paired_permutation_test(difference, len(everyone))
