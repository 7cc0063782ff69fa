"""One cell of a re-run table: figure, interval, verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from bagwise.base.thresholds import best_threshold
from bagwise.comparison import interval
from bagwise.comparison._search import widen_note
from bagwise.comparison.contributions import FIGURES
from bagwise.comparison.inference import standard_error
from bagwise.comparison.problem import Problem
from bagwise.comparison.ranking import figure_of_runs
from studies.optimism import best_on_reported_folds
from studies.tables import UNITS, Cell

__all__ = ["RULE", "Measured", "judge", "measure"]

NAN = float("nan")
RULE = (
    "Reached: the measured mean is equal to the published figure, better, or worse by"
    " at most its own standard error (of `bagwise.comparison.interval`: its unit is the"
    " bag or the group of bags, and it includes that training sets overlap). Cells"
    " whose standard error is marked with \\* were run before this rule, and have that"
    " of the mean over folds after Nadeau and Bengio (2003). Not reached: it is"
    " worse by more. Not comparable: the data, splits or printed figures of the paper"
    " are not available, or the comparison would be one of computers. Not run: no"
    " whole repeat of the protocol has finished. The rule is the same for every cell."
    " Where the measured mean is worse, the difference is given in brackets; the"
    " summary also counts the cells that are equal or better. Parameters are tuned"
    " inside the training folds. The optimistic figure is that of the best values of"
    " the grid on the reported test folds. Optimism is given as the reason where this"
    " figure is reached by the same rule and closes at least half of the difference."
    " For accuracies that were not reached, the page also gives the accuracy at the"
    " best threshold of every test fold. No method can know this threshold, and on"
    " small folds it gains some points by chance. A difference that remains is"
    " certainly not one of the threshold. (The first measurements were judged by the"
    " end of the 95% interval. That rule called a figure reached that was 0.08 worse,"
    " as intervals of five folds are wide, and was replaced.)"
)


@dataclass(frozen=True)
class Measured:
    """A cell and what was measured for it, in the unit of the table.

    `verdict` is "reached", "not reached", "not comparable" or "not run"; `reason`
    explains the last two. `best_threshold` is the figure of the same scores
    at the best threshold of every test fold: no method can know it, but a difference
    that remains is not one of the threshold. `optimistic` is the figure of the same
    grid with the values chosen on the reported folds; `grid_ends` lists the parameters
    that were chosen at an end of their grid; `error_of` says what the standard error is
    made from, "bags" or "runs".
    """

    cell: Cell
    mean: float
    std_error: float
    low: float
    high: float
    verdict: str
    reason: str
    repeats: int
    n_folds: int
    n_failed: int
    cpu_seconds: float
    cpu_per_repeat: float
    data_hash: str = ""
    seed: int = 0
    finished: float = NAN
    versions: dict[str, str] = field(default_factory=dict)
    best_threshold: float = NAN
    optimistic: float = NAN
    grid_ends: tuple[str, ...] = ()
    error_of: str = ""

    @property
    def behind(self) -> bool:
        """Whether the measured mean is worse than the published figure."""
        gap = self.difference if self.cell.lower else -self.difference
        return gap > 0

    @property
    def cause(self) -> str:
        """Why a figure was not reached, in one word; empty if unknown."""
        if self.verdict != "not reached":
            return ""
        return cause_of(
            self.cell.published,
            self.mean,
            self.optimistic,
            self.std_error,
            lower_is_better=self.cell.lower,
        )

    @property
    def difference(self) -> float:
        """Measured minus published."""
        return self.mean - self.cell.published


def judge(
    published: float, mean: float, std_error: float, *, lower_is_better: bool
) -> str | None:
    """Apply the rule to one figure; None where it cannot be applied.

    Parameters
    ----------
    published : float
        The printed figure.
    mean, std_error : float
        The measured figure and its standard error.
    lower_is_better : bool
        True for errors and times.

    Examples
    --------
    >>> judge(0.92, 0.91, 0.02, lower_is_better=False)
    'reached'
    >>> judge(0.08, 0.11, 0.02, lower_is_better=True)
    'not reached'
    """
    if any(math.isnan(value) for value in (published, mean, std_error)):
        return None
    behind = mean - published if lower_is_better else published - mean
    return "reached" if behind <= std_error else "not reached"


def cause_of(
    published: float,
    mean: float,
    optimistic: float,
    std_error: float,
    *,
    lower_is_better: bool,
) -> str:
    """Return "optimism" if values chosen on the reported folds reach the figure.

    They must close at least half of the difference: with a large standard error they
    could reach the figure without any change.

    Examples
    --------
    >>> cause_of(85.0, 80.0, 84.0, 2.0, lower_is_better=False)
    'optimism'
    >>> cause_of(85.0, 80.0, 81.0, 4.5, lower_is_better=False)
    ''
    """
    found = judge(published, optimistic, std_error, lower_is_better=lower_is_better)
    gain = mean - optimistic if lower_is_better else optimistic - mean
    enough = gain >= 0.5 * abs(published - mean)
    return "optimism" if found == "reached" and enough else ""


def measure(
    cell: Cell,
    keys: Sequence[Sequence[str]],
    rows: Mapping[str, Mapping[str, Any]],
    arrays: Mapping[str, Mapping[str, NDArray[Any]]],
    problems: Mapping[str, Problem],
    *,
    missing: str = "",
    on_test: Sequence[NDArray[Any]] = (),
) -> Measured:
    """Summarize the runs of a cell.

    Parameters
    ----------
    cell : Cell
        The published cell.
    keys : list of list of str
        Keys of the runs of each repeat.
    rows, arrays : dict
        Content of the store, by key; arrays of finished runs only.
    problems : dict
        Data by their hash.
    missing : str
        Why there are no data, if there are none.
    on_test : sequence of ndarray
        Scores of all candidates on the test bags, for each fold.

    Notes
    -----
    Only repeats of which every run has finished count.
    """
    done = [row for row in rows.values() if row["status"] == "ok"]
    n_failed = len(rows) - len(done)
    whole = [
        part
        for part in keys
        if part and all(rows.get(k, {}).get("status") == "ok" for k in part)
    ]
    values, bests = [], []
    for key in (key for part in whole for key in part):
        problem = problems[rows[key]["data_hash"]]
        values.append(_figure(cell, rows[key], arrays[key], problem))
        bests.append(_best_threshold(cell, arrays[key], problem))
    figures = np.array([value for value in values if not math.isnan(value)])
    cpu = [_cpu(row, arrays[row["key"]]) for row in done]
    per_repeat = float(np.mean(cpu)) * cell.scheme.n_runs if cpu else NAN
    mean = float(figures.mean()) if len(figures) else NAN
    error_of, std_error, low, high = _error(
        cell, whole, rows, arrays, problems, figures
    )
    verdict, reason = _verdict(cell, mean, std_error, len(figures), rows, keys, missing)
    ends = [row.get("grid_ends") or {} for row in done]
    optimistic = best_on_reported_folds(list(on_test))
    last = max(done, key=lambda row: row["finished"], default=None)
    return Measured(
        cell,
        mean,
        std_error,
        low,
        high,
        verdict,
        reason,
        len(whole),
        sum(len(part) for part in whole),
        n_failed,
        float(np.sum(cpu)),
        per_repeat,
        "" if last is None else str(last["data_hash"]),
        0 if last is None else int(last["random_state"]),
        NAN if last is None else float(last["finished"]),
        {} if last is None else dict(last["versions"]),
        float(np.mean(bests)) if bests else NAN,
        NAN if math.isnan(optimistic) else _in_unit(cell, optimistic),
        tuple(widen_note(ends)) if cell.tuning is not None else (),
        error_of,
    )


def _error(
    cell: Cell,
    repeats: Sequence[Sequence[str]],
    rows: Mapping[str, Mapping[str, Any]],
    arrays: Mapping[str, Mapping[str, NDArray[Any]]],
    problems: Mapping[str, Problem],
    figures: NDArray[np.float64],
) -> tuple[str, float, float, float]:
    """Return unit, standard error and interval of a figure in the unit of the table.

    Data that are simulated anew for each run, Rand indices and times have those of the
    mean over runs.
    """
    keys = [key for part in repeats for key in part]
    hashes = {rows[key]["data_hash"] for key in keys}
    if len(hashes) == 1 and cell.metric in FIGURES:
        runs = [
            {"key": key, "repeat": number}
            for number, part in enumerate(repeats)
            for key in part
        ]
        found = figure_of_runs(
            problems[hashes.pop()], runs, arrays, cell.metric, fixed=len(keys) == 1
        )
        if not math.isnan(found.value):
            ends = interval(found)
            low, high = sorted(_in_unit(cell, value) for value in (ends.low, ends.high))
            return "bags", UNITS[cell.unit] * standard_error(found), low, high
    if len(figures) < 2:
        return "", NAN, NAN, NAN
    mean = float(figures.mean())
    error = float(np.std(figures, ddof=1)) / math.sqrt(len(figures))
    half = float(stats.t.ppf(0.975, len(figures) - 1)) * error
    return "runs", error, mean - half, mean + half


def _verdict(
    cell: Cell,
    mean: float,
    std_error: float,
    n_figures: int,
    rows: Mapping[str, Mapping[str, Any]],
    keys: Sequence[Sequence[str]],
    missing: str,
) -> tuple[str, str]:
    if cell.not_comparable:
        failed = "" if n_figures else _why_not(cell, rows, keys, missing)
        also = f"; not run: {failed}" if failed and cell.dataset else ""
        return "not comparable", cell.not_comparable + also
    if not n_figures:
        return "not run", _why_not(cell, rows, keys, missing)
    found = judge(cell.published, mean, std_error, lower_is_better=cell.lower)
    if found is None:
        return "not run", "one figure has no standard error; more repeats are needed"
    return found, ""


def _why_not(
    cell: Cell,
    rows: Mapping[str, Mapping[str, Any]],
    keys: Sequence[Sequence[str]],
    missing: str,
) -> str:
    if cell.skip or missing:
        return cell.skip or missing
    failed = [row for row in rows.values() if row["status"] == "failed"]
    if failed:
        return f"{len(failed)} runs failed: {failed[0]['error']}"
    n_done = max((sum(key in rows for key in part) for part in keys), default=0)
    return (
        f"{n_done} of {cell.scheme.n_runs} runs of a repeat are done" if n_done else ""
    )


def _figure(
    cell: Cell,
    row: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    problem: Problem,
) -> float:
    """Return the figure of one run in the unit of the table."""
    if cell.metric == "seconds":
        return float(row["fit_time"] + row["predict_time"])
    if cell.metric == "ari":
        value = _rand_index(arrays, problem)
    else:
        found = row[cell.metric]
        value = NAN if found is None else float(found)
    return _in_unit(cell, value)


def _in_unit(cell: Cell, value: float) -> float:
    return UNITS[cell.unit] * (1.0 - value if cell.error else value)


def _best_threshold(
    cell: Cell, arrays: Mapping[str, NDArray[Any]], problem: Problem
) -> float:
    """Return the accuracy of the scores of one run at their best threshold."""
    scores = arrays.get("score", np.empty(0))
    if cell.metric != "accuracy" or scores.ndim != 1 or not len(scores):
        return NAN
    positive = problem.y[arrays["test"]] == problem.classes[1]
    found = scores > best_threshold(scores, positive)
    return _in_unit(cell, float(np.mean(found == positive)))


def _rand_index(arrays: Mapping[str, NDArray[Any]], problem: Problem) -> float:
    """Return the adjusted Rand index of the signs of instance scores."""
    if "instances" not in arrays or problem.instance_labels is None:
        return NAN
    offsets = problem.X.offsets
    rows = [np.arange(offsets[i], offsets[i + 1]) for i in arrays["test"]]
    known = problem.instance_labels[np.concatenate(rows)]
    return float(adjusted_rand_score(known, arrays["instances"] > 0))


def _cpu(row: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> float:
    if "cpu_seconds" in arrays:
        return float(arrays["cpu_seconds"][0])
    return float(row["fit_time"] + row["tune_time"] + row["predict_time"])
