"""All methods over all data sets of a store: mean ranks and tests.

The largest complete block of a store is found and ranked, see
`bagwise.comparison.leaderboard`.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.leaderboard import (
    Leaderboard,
    against_best,
    critical_difference,
    friedman,
    mean_ranks,
)
from bagwise.comparison.store import Store
from studies.schemes import describe_once, protocol_of

__all__ = [
    "Leaderboard",
    "against_best",
    "critical_difference",
    "friedman",
    "leaderboard",
    "mean_ranks",
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
        base = re.sub(r":\d+$", "", str(row["dataset"]))  # without a seed
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
