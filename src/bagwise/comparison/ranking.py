"""Rank methods by cross-validated results, with intervals and tests."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bagwise.comparison._pooled import (
    Results,
    pooled_figure,
    pooled_interval,
    pooled_test,
)
from bagwise.comparison.evaluate import METRICS, GroupCounts
from bagwise.comparison.statistics import (
    Interval,
    corrected_interval,
    corrected_t_test,
    holm,
)
from bagwise.comparison.tasks import task_of

__all__ = ["RankRow", "fold_interval", "group_counts", "rank_methods"]

ALPHA = 0.05
NAN = float("nan")


@dataclass(frozen=True)
class RankRow:
    """One line of a ranking.

    Parameters
    ----------
    rank, method : int, str
        Place and name.
    n_folds, n_failed : int
        Folds that were finished, and those that failed.
    mean, low, high : float
        The metric that ranks, with its 95% interval.
    p, p_holm : float
        Of the test against the best method, and adjusted for the number of tests.
    verdict : str
        "best", "not told apart" (adjusted p of at least 0.05), "worse", or "untested"
        where folds are missing.
    fit_time, tune_time, predict_time : float
        Seconds, mean over folds.
    peak_memory : float
        Bytes, the largest over folds.
    accuracy, auroc, average_precision, balanced_accuracy, log_loss : float
        Means over folds; NaN where undefined. See `METRICS`.
    key_success, group_accuracy, group_auroc : float
        Means over folds; NaN where undefined. See `METRICS`.
    r2, rmse, mae, spearman, concordance : float
        Means over folds; NaN where undefined. See `METRICS`.
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
    fit_time: float = NAN
    tune_time: float = NAN
    predict_time: float = NAN
    peak_memory: float = NAN
    accuracy: float = NAN
    auroc: float = NAN
    average_precision: float = NAN
    balanced_accuracy: float = NAN
    log_loss: float = NAN
    key_success: float = NAN
    group_accuracy: float = NAN
    group_auroc: float = NAN
    r2: float = NAN
    rmse: float = NAN
    mae: float = NAN
    spearman: float = NAN
    concordance: float = NAN

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
        units, several = "bag", "bags"
        exact = " (for accuracy in its exact form, McNemar's test)"
        if comparison.problem.groups is not None:
            units, several, exact = "group of bags", "groups of bags", ""
        return (
            f"Intervals: 95% percentile bootstrap over test {several}. Tests against"
            f" the best: paired permutation of the two methods' results on each {units}"
            f"{exact}, p values adjusted by Holm's procedure (1979)."
        )
    squares = ""
    if comparison.metric in ("r2", "rmse"):
        squares = " Both are of squared errors."
    return (
        "Intervals: 95%, t distribution with the variance of the mean corrected for"
        f" overlapping training sets, cut to the range of the metric.{squares}"
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
    problem = comparison.problem
    total = len(comparison.protocol.folds(len(problem.y), problem.groups))
    pooled = comparison.protocol.pooled
    intervals: dict[str, Interval] = {}
    for method in comparison.methods:
        intervals[method.name] = (
            pooled_interval(comparison, method.name)
            if pooled
            else fold_interval(comparison, method.name)
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
        values = [row[column] for row in runs if row.get(column) is not None]
        if not values:
            return NAN
        if column in METRICS and METRICS[column].squared:
            return float(np.sqrt(np.mean(np.square(values))))
        return float(np.mean(values))

    names = task_of(comparison.problem).metrics()
    figures = {column: mean(column) for column in names}
    if pooled and runs:
        figures |= pooled_figure(comparison, name)
    counts = group_counts(comparison)
    if counts is not None and not counts.enough:
        figures |= dict.fromkeys(("group_accuracy", "group_auroc"), NAN)
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
        fit_time=mean("fit_time"),
        tune_time=mean("tune_time"),
        predict_time=mean("predict_time"),
        peak_memory=float(max(memory)) if memory else NAN,
        **figures,
    )


def group_counts(comparison: Results) -> GroupCounts | None:
    """Count the groups of the bags that were tested; None without groups or classes.

    Parameters
    ----------
    comparison : Comparison
        The results.
    """
    problem, arrays = comparison.problem, comparison.arrays.values()
    if problem.groups is None or problem.task != "classification" or not arrays:
        return None
    tested = np.unique(np.concatenate([own["test"] for own in arrays])).astype(np.int64)
    truth = np.searchsorted(problem.classes, problem.y)[tested]
    return GroupCounts.of(truth, problem.groups[tested], len(problem.classes))


def _values(
    comparison: Results, method: str, name: str = ""
) -> dict[tuple[int, int], float]:
    """Return the figure of every fold; its square where errors add up in squares."""
    name = name or comparison.metric
    power = 2 if METRICS[name].squared else 1
    return {
        (row["repeat"], row["fold"]): row[name] ** power
        for row in comparison.runs(method)
        if row.get(name) is not None
    }


def fold_interval(comparison: Results, method: str, name: str = "") -> Interval:
    """Return the mean of a metric over folds with its interval.

    Parameters
    ----------
    comparison : Comparison
        The results.
    method : str
        The method.
    name : str, default=""
        The metric; the one that ranks by default.
    """
    metric = METRICS[name or comparison.metric]
    values = list(_values(comparison, method, name).values())
    share = comparison.protocol.test_share(comparison.problem.targets)
    found = corrected_interval(values, share)
    low, high = np.clip([found.low, found.high], metric.low, metric.high).tolist()
    if metric.squared:
        return Interval(*np.sqrt([found.mean, low, high]).tolist())
    return Interval(found.mean, low, high)


def _test(comparison: Results, best: str, other: str, pooled: bool) -> float:
    if pooled:
        return pooled_test(comparison, best, other)
    first, second = _values(comparison, best), _values(comparison, other)
    shared = [fold for fold in first if fold in second]
    if len(shared) < len(first):
        return NAN
    return corrected_t_test(
        [first[fold] for fold in shared],
        [second[fold] for fold in shared],
        comparison.protocol.test_share(comparison.problem.targets),
    )
