"""All methods over all data sets of a store: mean ranks and tests.

Ranks are averaged over data sets and compared as Demsar [1]_ recommends: Friedman's
test [2]_ in the form of Iman and Davenport, then Nemenyi's critical difference. Holm's
procedure gives the comparisons with the best method.

References
----------
.. [1] Demsar, J., "Statistical comparisons of classifiers over multiple data sets",
   Journal of Machine Learning Research 7, 1-30, 2006.
.. [2] Friedman, M., "The use of ranks to avoid the assumption of normality implicit in
   the analysis of variance", JASA 32, 675-701, 1937.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.inference import holm
from bagwise.comparison.store import Store
from studies.schemes import describe_once, protocol_of

__all__ = ["Leaderboard", "critical_difference", "leaderboard", "mean_ranks"]

Array = NDArray[np.float64]
ALPHA = 0.05


@dataclass(frozen=True)
class Leaderboard:
    """Methods over data sets.

    Parameters
    ----------
    metric : str
        The metric that is compared.
    methods, datasets : tuple of str
        The complete block that is ranked; methods by their mean rank.
    values : ndarray of shape (n_datasets, n_methods)
        Mean over folds.
    ranks : ndarray of shape (n_methods,)
        Mean rank, 1 is best.
    times : ndarray of shape (n_datasets, n_methods)
        Seconds to fit, without tuning.
    critical_difference : float
        Smallest significant difference of mean ranks (Nemenyi, 5%).
    p_friedman : float
        p value of Friedman's test.
    p_holm : dict
        Adjusted p values of the comparison with the best method.
    protocols : dict
        How each data set was split.
    left_out : list of str
        Runs of the store that are not in the block, with the reason.
    """

    metric: str
    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    values: Array
    ranks: Array
    times: Array
    critical_difference: float
    p_friedman: float
    p_holm: dict[str, float]
    protocols: dict[str, str]
    left_out: list[str] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per method, the best first."""
        best = self.ranks[0] if len(self.ranks) else float("nan")
        return [
            {
                "method": name,
                "mean_rank": float(self.ranks[j]),
                "mean": float(self.values[:, j].mean()),
                "wins": int(_is_best(self.values, self.metric)[:, j].sum()),
                "fit_seconds": float(np.median(self.times[:, j])),
                "p_holm": self.p_holm.get(name, float("nan")),
                "with_best": bool(self.ranks[j] - best <= self.critical_difference),
            }
            for j, name in enumerate(self.methods)
        ]


def leaderboard(
    store: str | os.PathLike[str],
    *,
    metric: str = "accuracy",
    methods: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    min_methods: int = 2,
) -> Leaderboard:
    """Compare all methods over all data sets of a store.

    Parameters
    ----------
    store : path
        SQLite file of `compare` or `reproduce`.
    metric : str, default="accuracy"
        One of `METRICS`.
    methods, datasets : sequence of str, optional
        Only these.
    min_methods : int, default=2
        Data sets with fewer methods are left out.

    Returns
    -------
    Leaderboard
        The largest complete block the store has, ranked.

    Notes
    -----
    A test over data sets needs every method on every set. The largest complete block
    that a greedy search finds is ranked: from every set in turn, the set with most of
    the remaining methods is added, and methods without it are removed. A set that was
    split in several ways is used once. Of a method with several settings, the one with
    most folds is used, and only folds that all methods have finished. `left_out` lists
    the rest. Sets that are simulated again for each repeat count as one.
    """
    if metric not in METRICS:
        raise ValueError(f"unknown metric {metric!r}; known: {', '.join(METRICS)}")
    if not Path(store).is_file():
        raise FileNotFoundError(f"no such store: {store}")
    with Store(store) as db:
        rows = db.rows()
    table, seconds = _gather(rows, metric, methods, datasets, min_methods)
    block, names = _largest_block(table)
    if not block:
        raise ValueError(
            "the store has no two methods that finished the same folds of a data set"
        )
    sets = [base for base, _ in block]
    values = np.array([[table[column][m] for m in names] for column in block])
    times = np.array([[seconds[column][m] for m in names] for column in block])
    ranks = mean_ranks(values, higher=METRICS[metric].higher)
    order = np.argsort(ranks, kind="stable")
    names = [names[j] for j in order]
    return Leaderboard(
        metric,
        tuple(names),
        tuple(sets),
        values[:, order],
        ranks[order],
        times[:, order],
        critical_difference(len(names), len(sets)),
        friedman(values),
        against_best(names, ranks[order], len(sets)),
        dict(block),
        _left_out(table, block, names),
    )


def mean_ranks(values: Array, *, higher: bool = True) -> Array:
    """Return the mean rank of every column, ties sharing theirs.

    Examples
    --------
    >>> mean_ranks(np.array([[0.9, 0.8], [0.7, 0.7]]))
    array([1.25, 1.75])
    """
    signed = -values if higher else values
    return np.asarray(stats.rankdata(signed, axis=1).mean(axis=0))


def critical_difference(n_methods: int, n_datasets: int, alpha: float = ALPHA) -> float:
    r"""Return Nemenyi's critical difference of mean ranks.

    .. math:: q_\alpha \sqrt{\frac{k (k + 1)}{6 N}}

    where :math:`k` is `n_methods`, :math:`N` is `n_datasets` and :math:`q_\alpha` is
    the quantile of the studentized range for `alpha`, divided by :math:`\sqrt 2`
    ([1]_, Section 3.2.2, see the module).

    Examples
    --------
    >>> round(critical_difference(5, 30), 2)
    1.11
    """
    q = stats.studentized_range.ppf(1 - alpha, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_datasets)))


def friedman(values: Array) -> float:
    """Return the p value of Friedman's test, corrected by Iman and Davenport.

    NaN for fewer than two data sets. There is no correction for ties, which is
    conservative.
    """
    n, k = values.shape
    if n < 2 or k < 2:
        return float("nan")
    ranks = mean_ranks(values)
    chi2 = 12.0 * n / (k * (k + 1)) * (np.sum(ranks**2) - k * (k + 1) ** 2 / 4.0)
    rest = n * (k - 1) - chi2
    if rest <= 1e-12:  # every set gives the same order
        return 0.0
    return float(stats.f.sf((n - 1) * chi2 / rest, k - 1, (k - 1) * (n - 1)))


def against_best(names: Sequence[str], ranks: Array, n: int) -> dict[str, float]:
    """Return Holm-adjusted p values of z tests of mean ranks against the first."""
    k = len(names)
    z = (ranks[1:] - ranks[0]) / np.sqrt(k * (k + 1) / (6.0 * n))
    p_values = 2.0 * stats.norm.sf(np.abs(z))
    return holm(dict(zip(names[1:], map(float, p_values), strict=True)))


def _is_best(values: Array, metric: str) -> NDArray[np.bool_]:
    top = values.max(1) if METRICS[metric].higher else values.min(1)
    return np.asarray(values == top[:, None])


Column = tuple[str, str]  # a data set and how it was split
Table = dict[Column, dict[str, float]]
Folds = dict[tuple[str, int, int, int], Mapping[str, Any]]


def _variant(row: Mapping[str, Any]) -> str:
    """Return the settings of a run, to separate several of one method."""
    settings = ("estimator", "grid", "scale", "tuning")
    return json.dumps([row["description"][name] for name in settings], sort_keys=True)


def _one_variant(found: Mapping[tuple[str, str], Folds]) -> dict[str, Folds]:
    """Keep the setting of each method with most folds, of equals the latest."""

    def priority(folds: Folds) -> tuple[int, float]:
        return len(folds), max(row["finished"] for row in folds.values())

    chosen: dict[str, Folds] = {}
    for (method, _), folds in found.items():
        if method not in chosen or priority(folds) > priority(chosen[method]):
            chosen[method] = folds
    return chosen


def _gather(
    rows: Sequence[Mapping[str, Any]],
    metric: str,
    methods: Sequence[str] | None,
    datasets: Sequence[str] | None,
    min_methods: int,
) -> tuple[Table, Table]:
    """Return mean and time of every method on every split set, on common folds."""
    raw: dict[tuple[str, str], dict[tuple[str, str], Folds]]
    raw = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        base = str(row["dataset"]).partition(":")[0]
        if row["status"] != "ok" or row[metric] is None:
            continue
        if datasets is not None and base not in datasets:
            continue
        if methods is not None and row["method"] not in methods:
            continue
        fold = (row["data_hash"], row["random_state"], row["repeat"], row["fold"])
        split = describe_once(protocol_of(row["description"]["protocol"]))
        raw[base, split][row["method"], _variant(row)][fold] = row
    groups = {key: _one_variant(found) for key, found in raw.items()}
    table: Table = {}
    seconds: Table = {}
    for column, found in sorted(groups.items()):
        if len(found) < max(2, min_methods):
            continue
        common = _common_folds(found)
        table[column], seconds[column] = {}, {}
        for method, folds in found.items():
            if common and set(common) <= set(folds):
                mean = float(np.mean([folds[f][metric] for f in common]))
                fits = [folds[f]["fit_time"] for f in common]
                table[column][method] = mean
                seconds[column][method] = float(np.mean(fits))
    return table, seconds


def _common_folds(found: Mapping[str, Folds]) -> list[Any]:
    """Return the folds that all methods with one whole repeat have finished.

    The repeat is the one that most methods have finished. A method that has only begun
    takes no folds from the others: it is the one that is left out.
    """
    repeats: dict[tuple[int, int], set[Any]] = defaultdict(set)
    for folds in found.values():
        for fold in folds:
            repeats[fold[1], fold[2]].add(fold)
    whole = [
        [set(folds) for folds in found.values() if needed <= set(folds)]
        for _, needed in sorted(repeats.items())
    ]
    return sorted(set.intersection(*max(whole, key=len)))


def _largest_block(table: Table) -> tuple[list[Column], list[str]]:
    """Return split sets, each set once, and at least two methods that all have."""
    best: tuple[int, list[Column], set[str]] = (0, [], set())
    for seed in table:
        block, names = [seed], set(table[seed])
        while len(names) > 1:
            if len(block) * len(names) > best[0]:
                best = len(block) * len(names), list(block), set(names)
            used = {base for base, _ in block}
            others = [column for column in table if column[0] not in used]
            if not others:
                break
            block.append(max(others, key=lambda c: len(names & set(table[c]))))
            names &= set(table[block[-1]])
    return sorted(best[1]), sorted(best[2])


def _left_out(table: Table, block: list[Column], names: list[str]) -> list[str]:
    """List the methods, then the data sets, that are not in the block."""
    methods = {method for found in table.values() for method in found}
    lines = []
    for method in sorted(methods - set(names)):
        missing = sum(method not in table[column] for column in block)
        lines.append(f"{method}: not on {missing} of {len(block)} data sets")
    inside = {base for base, _ in block}
    for base in sorted({base for base, _ in table} - inside):
        splits = [set(table[column]) for column in table if column[0] == base]
        missing = min(len(set(names) - found) for found in splits)
        lines.append(f"{base}: without {missing} of {len(names)} methods")
    return lines
