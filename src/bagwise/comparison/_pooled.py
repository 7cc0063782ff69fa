"""Results per bag: leave-one-bag-out and single splits have no spread over folds.

Intervals come from drawing bags again, tests from letting two methods change places on
them; where bags belong to groups, it is groups that are drawn and changed.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, rankdata

from bagwise.comparison.catalog import Method
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.problem import Problem
from bagwise.comparison.protocols import Protocol as SplitProtocol
from bagwise.comparison.statistics import (
    Interval,
    paired_permutation_test,
    percentile_interval,
)
from bagwise.comparison.tasks import task_of

__all__ = ["Results", "pool", "pooled_figure", "pooled_interval", "pooled_test"]

NAN = float("nan")
Arrays = dict[str, NDArray[Any]]


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


def pool(results: Results, method: str) -> Arrays:
    """Join the test bags of all folds of repeat 0, in the order of the bags."""
    task = task_of(results.problem)
    parts = []
    for row in results.runs(method):
        if row["repeat"] == 0:
            arrays = results.arrays[row["key"]]
            test = arrays["test"].astype(np.int64)
            parts.append({**task.measured(arrays, test), "test": test})
    names = [name for name in parts[0] if all(name in part for part in parts)]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in names}
    order = np.argsort(whole["test"], kind="stable")
    return {name: values[order] for name, values in whole.items()}


def pooled_figure(results: Results, method: str) -> dict[str, float]:
    """Return the metrics of all test bags together."""
    found = task_of(results.problem).figures(pool(results, method))
    return {name: NAN if value is None else value for name, value in found.items()}


def pooled_interval(results: Results, method: str) -> Interval:
    """Return the metric that ranks with a bootstrap interval."""
    if not results.runs(method):
        return Interval(NAN, NAN, NAN)
    name = results.metric
    if not _per_bag(name):
        found = [row[name] for row in results.runs(method) if row[name] is not None]
        return Interval(float(np.mean(found)) if found else NAN, NAN, NAN)
    task, whole = task_of(results.problem), pool(results, method)
    members = _members(results, whole)

    def statistic(chosen: NDArray[np.int64]) -> float:
        rows = np.concatenate([members[unit] for unit in chosen])
        return task.figure(name, {key: values[rows] for key, values in whole.items()})

    return percentile_interval(statistic, len(members))


def pooled_test(results: Results, best: str, other: str) -> float:
    """Return the p value of two methods changing places, NaN where there is none."""
    name, problem = results.metric, results.problem
    parts = [pool(results, best), pool(results, other)]
    if not _per_bag(name) or parts[0].get("score", np.empty(0)).ndim > 1:
        return NAN
    if name == "log_loss" and not all("probability" in part for part in parts):
        return NAN
    if name == "accuracy" and problem.groups is None:
        return _mcnemar(parts)
    for part in parts:
        if "score" in part:  # scores of two methods are comparable as ranks only
            part["score"] = rankdata(part["score"])
    members = _members(results, parts[0])
    unit = np.empty(len(parts[0]["test"]), dtype=np.int64)
    for k, rows in enumerate(members):
        unit[rows] = k
    task = task_of(problem)

    def difference(swap: NDArray[np.bool_]) -> float:
        there = swap[unit]
        values = []
        for one, two in (parts, parts[::-1]):
            mixed = {n: np.where(there, two[n], one[n]) for n in one if n in two}
            values.append(task.figure(name, mixed))
        return float(values[0] - values[1])

    return paired_permutation_test(difference, len(members))


def _per_bag(name: str) -> bool:
    """Tell whether a metric is a figure of bags, not of groups or instances."""
    return METRICS[name].name not in ("key_success", "group_accuracy", "group_auroc")


def _mcnemar(parts: list[Arrays]) -> float:
    """Return the p value of the same test for hits, without drawing."""
    hits = [part["truth"] == part["label"] for part in parts]
    only, other_only = (hits[0] & ~hits[1]).sum(), (hits[1] & ~hits[0]).sum()
    both = int(only + other_only)
    return float(binomtest(int(only), both).pvalue) if both else 1.0


def _members(results: Results, whole: Arrays) -> list[NDArray[np.int64]]:
    """Return the rows of every unit that is drawn: a bag, or a group of bags."""
    groups = results.problem.groups
    if groups is None:
        return list(np.arange(len(whole["test"]))[:, None])
    _, unit = np.unique(groups[whole["test"]].astype(str), return_inverse=True)
    return [np.flatnonzero(unit == k) for k in range(unit.max() + 1)]
