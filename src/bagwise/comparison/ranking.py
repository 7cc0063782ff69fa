"""Rank methods by cross-validated results, with intervals and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bagwise.bags.segments import segment_argmax_share, segment_max, segment_sum
from bagwise.comparison.catalog import Method
from bagwise.comparison.contributions import Contributions, contributions
from bagwise.comparison.evaluate import METRICS, GroupCounts, group_rows
from bagwise.comparison.inference import (
    MARGIN,
    Difference,
    Interval,
    Winner,
    bags_needed,
    detectable,
    difference,
    holm,
    interval,
    selected,
    unreliable,
)
from bagwise.comparison.problem import Problem
from bagwise.comparison.protocols import Protocol as SplitProtocol
from bagwise.comparison.tasks import task_of

__all__ = ["RankRow", "Results", "cautions", "rank_methods", "select_method"]

ALPHA = 0.05
FEW = 50  # units, below which a warning limits the conclusions
NAN = float("nan")
Arrays = dict[str, NDArray[Any]]


class Results(Protocol):
    """What a ranking is made from."""

    problem: Problem
    methods: list[Method]
    metric: str
    protocol: SplitProtocol
    margin: float
    arrays: dict[str, dict[str, NDArray[Any]]]

    def runs(self, method: str) -> list[dict[str, Any]]:
        """Return the finished rows of a method, in the order of folds."""

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The rows of failed runs."""

    @property
    def ranking(self) -> list[RankRow]:
        """Methods from best to worst."""


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
        "best"; "worse" (adjusted p below 0.05); "equivalent" (the difference from the
        best method is known to be smaller than `margin`); "not significantly different"
        (neither is known); or "untested" where folds or bags are missing.
    reliable : bool
        False with fewer than 10 bags or 3 groups: the intervals are unreliable.
    effect, effect_low, effect_high : float
        By how much the best method is better, with its 95% interval.
    p_equivalent, margin : float
        Of the test for equivalence, and the difference that does not matter.
    fit_time, tune_time, predict_time : float
        Seconds, mean over folds.
    peak_memory : float
        Bytes, the largest over folds.
    accuracy, auroc, average_precision, balanced_accuracy, log_loss : float
        Over all test bags; NaN where undefined. See `METRICS`.
    key_success, group_accuracy, group_auroc : float
        Over all test bags or groups; NaN where undefined. See `METRICS`.
    group_low, group_high : float
        95% interval of `group_auroc`.
    r2, rmse, mae, spearman, concordance : float
        Over all test bags; NaN where undefined. See `METRICS`.
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
    reliable: bool = True
    effect: float = NAN
    effect_low: float = NAN
    effect_high: float = NAN
    p_equivalent: float = NAN
    margin: float = NAN
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
    group_low: float = NAN
    group_high: float = NAN
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
    """Return what the intervals and p values are, in plain words."""
    unit, units = "bag", "bags"
    if comparison.problem.groups is not None:
        unit, units = "group of bags", "groups of bags"
    elif comparison.problem.copies is not None:
        unit = "bag (copies of a bag are one unit)"
    metric = METRICS[comparison.metric]
    models = "the fitted models" if _n_runs(comparison) > 1 else "the fitted model"
    first = comparison.ranking[0]
    if first.n_folds and not first.reliable:
        return (
            f"Intervals should contain the {metric.in_text} that {models} reach on new"
            f" data in 95 of 100 studies. There are too few {units} for that."
        )
    return (
        f"Intervals: if the study were repeated with new {units}, 95 of 100 such"
        f" intervals would contain the {metric.in_text} that {models} reach on"
        f" new data. Their unit is the {unit}, and they include that training sets"
        " overlap. Tests against the best: paired t test over the same"
        f" {units}, p values adjusted by Holm's procedure (1979). Not significantly"
        " different does not mean equal: equivalent methods are known to differ by less"
        f" than {_margin_text(comparison)}."
    )


def _margin_text(comparison: Results) -> str:
    if _is_relative(comparison.metric):
        return f"{100 * comparison.margin:g}% of the best figure"
    return f"{comparison.margin:g}"


def _is_relative(name: str) -> bool:
    """Return whether differences are relative to the figure of the best method."""
    return not np.isfinite(METRICS[name].high)


def _n_runs(comparison: Results) -> int:
    problem = comparison.problem
    return len(comparison.protocol.folds(len(problem.y), problem.units))


# From stored predictions to figures ---------------------------------------------------


def figure_of(comparison: Results, method: str, name: str = "") -> Contributions:
    """Return a figure of a method with what every bag or group contributes.

    Parameters
    ----------
    comparison : Comparison
        The results.
    method : str
        The method.
    name : str, default=""
        The metric; the one that ranks by default. That of "rmse" is its square.
    """
    return figure_of_runs(
        comparison.problem,
        comparison.runs(method),
        comparison.arrays,
        name or comparison.metric,
        fixed=_n_runs(comparison) == 1,
    )


def figure_of_runs(
    problem: Problem,
    runs: Sequence[Mapping[str, Any]],
    arrays: Mapping[str, Arrays],
    name: str,
    *,
    fixed: bool = False,
) -> Contributions:
    """Return a figure of stored runs with what every bag or group contributes.

    Parameters
    ----------
    problem : Problem
        The data of all runs.
    runs : sequence of dict
        Rows of finished runs, with ``key`` and ``repeat``.
    arrays : dict
        The arrays of the store, by key.
    name : str
        The metric.
    fixed : bool, default=False
        Whether they are tests of one model.
    """
    per_group = name.startswith("group_")
    parts: list[Arrays] = []
    for number, row in enumerate(runs):
        found = _rows(problem, arrays.get(row["key"], {}), name)
        if found is None:
            continue
        n = len(found["bag"])
        found["run"] = np.full(n, number)
        found["repeat"] = np.full(n, row["repeat"])
        parts.append(found)
    if not parts:
        return contributions("accuracy", {}, np.empty(0, dtype=np.int64))
    columns = [column for column in parts[0] if all(column in part for part in parts)]
    whole = {column: np.concatenate([p[column] for p in parts]) for column in columns}
    bag = whole.pop("bag")
    groups = None if per_group else problem.units
    return contributions(
        name.removeprefix("group_"),
        whole,
        bag,
        run=whole.pop("run"),
        repeat=whole.pop("repeat"),
        groups=None if groups is None else groups[bag].astype(str),
        fixed=fixed,
    )


def _rows(problem: Problem, arrays: Arrays, name: str) -> Arrays | None:
    """Return the predictions of a run, an entry for each test bag or group."""
    if "test" not in arrays:
        return None
    test = arrays["test"].astype(np.int64)
    if name == "key_success":
        hit = _key_hits(problem, arrays, test)
        return None if hit is None else {"bag": test, "hit": hit}
    found = task_of(problem).measured(arrays, test)
    if not name.startswith("group_"):
        return {**found, "bag": test}
    if problem.groups is None or problem.task != "classification":
        return None
    values = found.get("probability", found["score"])
    threshold = 0.5 if "probability" in found else 0.0
    return group_rows(found["truth"], values, threshold, problem.groups[test])


def _key_hits(
    problem: Problem, arrays: Arrays, test: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    """Return whether the top instance of a bag is truly positive, NaN without one."""
    scores, known = arrays.get("instances"), problem.instance_labels
    if scores is None or known is None or scores.ndim > 1:
        return None
    hit = np.full(len(test), NAN)
    kept = np.arange(len(test))
    if "instance_bags" in arrays:
        kept = arrays["instance_bags"].astype(np.int64)
    bags, X = test[kept], problem.X
    rows = np.concatenate([np.arange(X.offsets[i], X.offsets[i + 1]) for i in bags])
    offsets = np.append(0, np.cumsum(X.sizes[bags]))
    positive = (np.asarray(known)[rows] > 0).astype(np.float64)
    share = segment_argmax_share(scores.astype(np.float64), offsets)
    holding = segment_max(positive, offsets) > 0
    holding &= problem.targets[bags] == 1
    success = segment_sum(share * positive, offsets)
    hit[kept[holding]] = success[holding]
    return hit


def figure_interval(found: Contributions, name: str, times: float = 1) -> Interval:
    """Return the interval of a figure within the range of its metric."""
    metric = METRICS[name]
    result = interval(found, low=metric.low, high=metric.high, times=times)
    if metric.squared:
        return Interval(*np.sqrt([result.mean, result.low, result.high]).tolist())
    return result


# Ranking ------------------------------------------------------------------------------


def rank_methods(comparison: Results) -> list[RankRow]:
    """Return the ranking of a comparison.

    Methods with a failed fold come after all that finished every fold; their figure is
    that of the folds they finished, and they are not tested.
    """
    metric = METRICS[comparison.metric]
    total = _n_runs(comparison)
    found = {m.name: figure_of(comparison, m.name) for m in comparison.methods}
    done = {name: len(comparison.runs(name)) for name in found}

    def order(name: str) -> tuple[bool, bool, float]:
        value = found[name].value
        missing = bool(np.isnan(value))
        value = 0.0 if missing else (-value if metric.higher else value)
        return done[name] < total, missing, round(value, 12)

    names = sorted(found, key=order)
    complete = [name for name in names if done[name] == total]
    tests = {name: compare_two(comparison, complete[0], name) for name in complete[1:]}
    adjusted = holm({name: test.p for name, test in tests.items()})
    rows = []
    rank = 0
    for place, name in enumerate(names, 1):
        if rank == 0 or order(name) != order(names[place - 2]):
            rank = place  # ties share a rank
        best = bool(complete) and name == complete[0]
        p_holm = adjusted.get(name, NAN)
        verdict = "best" if best else _verdict(tests.get(name), p_holm)
        rows.append(
            RankRow(
                rank,
                name,
                n_folds=done[name],
                n_failed=sum(row["method"] == name for row in comparison.failures),
                **asdict(figure_interval(found[name], comparison.metric)),
                p_holm=p_holm,
                verdict=verdict,
                reliable=not _too_few(found[name]),
                **_of_test(tests.get(name)),
                **_of_runs(comparison, name),
            )
        )
    return rows


def compare_two(comparison: Results, first: str, second: str) -> Difference:
    """Return by how much the first of two methods is better, with tests.

    Parameters
    ----------
    comparison : Comparison
        The results.
    first, second : str
        Names of two methods that have finished the same runs.
    """
    name = comparison.metric
    # R2 is tested by its squared errors: both have the same variance of y.
    tested = "rmse" if name == "r2" else name
    one, two = (figure_of(comparison, m, tested) for m in (first, second))
    variance = float(np.var(comparison.problem.targets)) if name == "r2" else 1.0
    return paired_difference(name, one, two, variance, comparison.margin)


def paired_difference(
    name: str,
    one: Contributions,
    two: Contributions,
    variance: float = 1.0,
    margin: float = MARGIN,
) -> Difference:
    """Return by how much the first of two figures is better, in units of the metric.

    Parameters
    ----------
    name : str
        The metric; of "rmse" and "r2" the figures are squared errors.
    one, two : Contributions
        Of the same bags and runs.
    variance : float, default=1.0
        For "r2", that of the true values.
    margin : float, default=0.02
        Differences up to this do not matter; of errors, relative to the first one.
    """
    metric = METRICS[name]
    tested = "rmse" if name == "r2" else name
    scale = 1.0
    if name == "r2":
        scale = variance
    elif metric.squared:  # a^2 - b^2 = (a - b) (a + b)
        scale = float(np.sqrt(one.value) + np.sqrt(two.value)) or 1.0
        margin *= float(np.sqrt(one.value))
    elif _is_relative(name):
        margin *= one.value
    higher = METRICS[tested].higher
    found = difference(one, two, higher=higher, margin=margin * scale)
    return replace(
        found,
        effect=found.effect / scale,
        low=found.low / scale,
        high=found.high / scale,
        margin=margin,
        error=found.error / scale,
    )


def _verdict(test: Difference | None, p_holm: float) -> str:
    if test is None or np.isnan(p_holm):
        return "untested"
    if p_holm < ALPHA:
        return "worse"
    return "equivalent" if test.p_equivalent < ALPHA else "not significantly different"


def _of_test(test: Difference | None) -> dict[str, float]:
    if test is None:
        return {"p": NAN}
    return {
        "p": test.p,
        "effect": test.effect,
        "effect_low": test.low,
        "effect_high": test.high,
        "p_equivalent": test.p_equivalent,
        "margin": test.margin,
    }


def _of_runs(comparison: Results, name: str) -> dict[str, float]:
    """Return times, memory and all metrics of a method."""
    runs = comparison.runs(name)
    times = {}
    for column in ("fit_time", "tune_time", "predict_time"):
        values = [row[column] for row in runs if row.get(column) is not None]
        times[column] = float(np.mean(values)) if values else NAN
    memory = [row["peak_memory"] for row in runs]
    counts = group_counts(comparison)
    grouped = counts is not None and counts.enough
    figures = {}
    for column in task_of(comparison.problem).metrics():
        shown = grouped or not column.startswith("group_")
        value = figure_of(comparison, name, column).value if shown and runs else NAN
        figures[column] = float(np.sqrt(value)) if METRICS[column].squared else value
    if grouped and runs:
        ends = figure_interval(
            figure_of(comparison, name, "group_auroc"), "group_auroc"
        )
        figures |= {"group_low": ends.low, "group_high": ends.high}
    return {**times, "peak_memory": float(max(memory, default=NAN)), **figures}


def group_counts(comparison: Results) -> GroupCounts | None:
    """Count the groups of the bags that were tested; None without groups or classes.

    Parameters
    ----------
    comparison : Comparison
        The results.
    """
    problem = comparison.problem
    # Failed runs have no arrays.
    arrays = [own["test"] for own in comparison.arrays.values() if "test" in own]
    if problem.groups is None or problem.task != "classification" or not arrays:
        return None
    tested = np.unique(np.concatenate(arrays)).astype(np.int64)
    truth = np.searchsorted(problem.classes, problem.y)[tested]
    return GroupCounts.of(truth, problem.groups[tested], len(problem.classes))


# How reliable the figures are --------------------------------------------------------


def select_method(comparison: Results, reported: str = "") -> Winner | None:
    """Return the best method with its figure corrected for having been selected.

    None where fewer than two methods have finished every fold, or bags are too few.

    Parameters
    ----------
    comparison : Comparison
        The results.
    reported : str, default=""
        The figure to return; the one that ranks by default.
    """
    metric, total = METRICS[comparison.metric], _n_runs(comparison)
    found = {
        row.name: figure_of(comparison, row.name)
        for row in comparison.methods
        if len(comparison.runs(row.name)) == total
    }
    found = {name: one for name, one in found.items() if not np.isnan(one.value)}
    if len(found) < 2 or _too_few(next(iter(found.values()))):
        return None
    shown = METRICS[reported] if reported else metric
    winner = selected(
        found,
        reported={name: figure_of(comparison, name, reported) for name in found},
        higher=metric.higher,
        low=shown.low,
        high=shown.high,
        n_resamples=500,
    )
    if not shown.squared:
        return winner
    ends = [
        Interval(*np.sqrt([one.mean, one.low, one.high]).tolist())
        for one in (winner.corrected, winner.uncorrected)
    ]
    return Winner(winner.method, ends[0], ends[1], winner.shares)


def _too_few(found: Contributions) -> str:
    grouped = found.n_bags != found.n_units
    return unreliable(found.n_bags, found.n_units if grouped else None)


def cautions(comparison: Results) -> list[str]:
    """Return what cannot be concluded from so many bags, and how many are needed.

    Parameters
    ----------
    comparison : Comparison
        The results.

    Returns
    -------
    list of str
        Sentences; empty where no method has finished every fold.
    """
    metric, total = METRICS[comparison.metric], _n_runs(comparison)
    found = {
        m.name: figure_of(comparison, m.name)
        for m in comparison.methods
        if len(comparison.runs(m.name)) == total
    }
    found = {name: one for name, one in found.items() if not np.isnan(one.value)}
    names = sorted(found, key=lambda n: found[n].value, reverse=metric.higher)
    if not names:
        return []
    best = found[names[0]]
    reason = _too_few(best)
    if reason:
        return [f"Intervals are unreliable and methods are not tested: {reason}."]
    unit = "bags" if best.n_units == best.n_bags else "groups"
    now = figure_interval(best, comparison.metric)
    text = []
    for times in (2, 4):
        more = figure_interval(best, comparison.metric, times)
        text.append(f"{metric.show(more.high - more.low)} with {times} times")
    sentences = [
        f"The interval of {names[0]} is {metric.show(now.high - now.low)} wide with"
        f" {best.n_units} {unit}; expect {' and '.join(text)} as many."
    ]
    test = compare_two(comparison, *names[:2]) if len(names) > 1 else None
    if test and np.isfinite(needed := bags_needed(test, best.n_units)):
        sentences[0] += (
            f" Detecting the difference from {names[1]} ({metric.show(test.effect)})"
            f" takes about {needed:,.0f} {unit} (80% power)."
        )
    if best.n_units < FEW and np.isfinite(now.low):
        sentences.append(
            f"With only {best.n_units} {unit}, it cannot be concluded which"
            f" {metric.in_text} between {metric.show(now.low)} and"
            f" {metric.show(now.high)} holds for new data"
        )
        if test and np.isfinite(test.error):
            sentences[-1] += (
                f", nor that methods are equally good: a difference between {names[0]}"
                f" and {names[1]} below {metric.show(detectable(test))} is likely to be"
                " missed (power below 80%)"
            )
        sentences[-1] += "."
    return sentences
