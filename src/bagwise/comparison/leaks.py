"""What predicts the label alone, and should perhaps not be there.

A column that holds the label makes every method look perfect. One statistic per bag of
one column is reported when it separates the classes of enough bags without a single
error, and no other column comes near. A statistic with as few values as there are
classes, such as the maximum of a column of instance labels, may have a few errors, and
other columns may be as good. Any other column that is merely very good (an AUROC of
0.999) is not reported: real data have such columns.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import rankdata

from bagwise._sizes import memory_budget
from bagwise.bags import Bags
from bagwise.bags.segments import (
    bag_matrix,
    segment_max,
    segment_mean,
    segment_min,
)
from bagwise.comparison.problem import Problem
from bagwise.compose import EncodeColumns, SampleInstances
from bagwise.exceptions import DataWarning

__all__ = ["Finding", "Findings", "find_leaks"]

Array = NDArray[Any]
STATISTICS = ("mean", "max", "min", "standard deviation", "gaps")
# Tolerance for rounding errors of ranks; without a wrong pair, a statistic is perfect.
_PERFECT = 1.0 - 1e-9
# Minimum number of bags in the smaller class for which perfect separation is not
# attributed to the small sample: by a statistic with many values, by a column with one
# value in every bag, and by a statistic with as few values as there are classes.
_MANY, _CONSTANT, _FEW_VALUED = 40, 10, 8
# AUROC from which a statistic with so few values is suspicious.
_NEARLY = 0.98
# If other columns exceed this AUROC, a perfect one is not suspicious.
_NEXT = 0.98
# Probability, over all columns and statistics, that an irrelevant one is perfect.
_LEVEL = 1e-3
# Limits for large data: bags, instances, entries at a time, pairs of classes.
_BAGS, _ROWS, _ENTRIES, _PAIRS = 2_000, 100_000, 2**22, 45
# Number of sparse columns that are computed exactly: candidates for the best ones.
_SPARSE = 200
_LISTED = 8


@dataclass(frozen=True)
class Finding:
    """How well one column, or one fact about the bags, predicts the label alone.

    Parameters
    ----------
    name : str
        The column, or "the bag size" and so on.
    score : float
        The AUROC, for the better direction; for values (1 + |rank correlation|) / 2.
    statistic : str
        The statistic per bag that has it; empty for facts about the bags.
    """

    name: str
    score: float
    statistic: str = ""

    def __str__(self) -> str:
        """Name the column and its AUROC."""
        by = f" by its {self.statistic} per bag" if self.statistic else ""
        return f"{self.name!r} ({self.score:.3f}{by})"


@dataclass(frozen=True)
class Findings:
    """What `find_leaks` has found.

    Parameters
    ----------
    measure : str
        What the scores are.
    leaks : list of Finding
        Columns, or the bag size, that alone predict the label without an error.
    best : Finding or None
        The best of the other columns.
    constant : list of Finding
        Columns with one value in every bag.
    facts : list of Finding
        Size, order, ids and files of the bags, which no method gets as a column.
    copies : list of tuple
        Ids of bags with the same rows, in pairs: the first such bag and a copy.
    opposed : int
        Number of copies with another label than the first.
    known : tuple of str
        Columns that are constant by intention, of which there is no warning.
    """

    measure: str
    leaks: list[Finding] = field(default_factory=list)
    best: Finding | None = None
    constant: list[Finding] = field(default_factory=list)
    facts: list[Finding] = field(default_factory=list)
    copies: list[tuple[Any, Any]] = field(default_factory=list)
    opposed: int = 0
    known: tuple[str, ...] = ()

    def warn(self) -> None:
        """Warn of what should perhaps be left out, before any work."""
        columns = [found.name for found in self.leaks if found.statistic]
        if self.leaks:
            best = "" if self.best is None else f"; the next best column: {self.best}"
            text = f"each of these predicts the label alone ({self.measure}):"
            text += f" {_listed(self.leaks)}{best}. It may contain the label, or be"
            text += " derived from it"
            remedy = "Exclude it with {0} unless it is known before the label."
            _warn(text, remedy if columns else "", columns)
        told = {*columns, *self.known}
        others = [found for found in self.constant if found.name not in told]
        if others:
            text = "columns with the same value in all instances of every bag (with"
            text += f" their {self.measure}): {_listed(others)}. They describe the bag,"
            text += " and often contain the label"
            remedy = "Exclude with {0} those that are not known before the label."
            _warn(text, remedy, [found.name for found in others])
        if self.opposed:
            _warn(self._copies(), "", [])

    def describe(self) -> dict[str, str]:
        """Return what was found, as lines of a report."""
        found = {}
        if self.leaks:
            found["possible leaks"] = f"{self.measure} alone: {_listed(self.leaks)}"
        if self.best is not None:
            found["best single column"] = f"{self.measure} {self.best}"
        if self.constant:
            found["constant within bags"] = f"{self.measure}: {_listed(self.constant)}"
        if self.facts:
            facts = _listed(self.facts)
            found["not columns"] = f"{self.measure}: {facts}; no method is given these"
        if self.copies:
            found["copies of bags"] = self._copies()
        return found

    def _copies(self) -> str:
        pairs = [f"{one} = {two}" for one, two in self.copies[:3]]
        more = ", ..." if len(self.copies) > 3 else ""
        number = len(self.copies)
        text = f"{number} bag{'s have' if number > 1 else ' has'} the same rows as"
        text += f" another one ({', '.join(pairs)}{more})"
        if self.opposed:
            text += f", {self.opposed} of them with another label"
        return text


def _warn(problem: str, remedy: str, columns: list[str]) -> None:
    settings = [("drop", columns)] if columns else []
    warning = DataWarning(problem, remedy, *settings, columns=columns)
    warnings.warn(warning, stacklevel=4)


def _listed(found: list[Finding]) -> str:
    shown = ", ".join(str(one) for one in found[:_LISTED])
    more = len(found) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def find_leaks(problem: Problem) -> Findings:
    """Search for columns, and facts about the bags, that predict the label alone.

    Every column is reduced to its mean, maximum, minimum and standard deviation per
    bag. Of large data an even sample of the bags, and of the rows of each, is used.

    Parameters
    ----------
    problem : Problem
        The data.

    Returns
    -------
    Findings
        Suspicious columns with their AUROC, columns that are constant within bags, and
        copies of bags.
    """
    X, sizes, target = _sample(problem)
    columns, scores, constant, suspicious, certain = _columns(X, target)
    if X.codings:  # (encoded columns are constant if the column of codes is)
        encoder = EncodeColumns().fit(X)
        same = dict(zip(map(columns.name, range(X.n_features)), constant, strict=True))
        encoded = encoder.transform(X)
        columns, scores, _, suspicious, certain = _columns(encoded, target)
        columns.names = encoder.sources_
        constant = np.array([same[name] for name in encoder.sources_])
    best = scores.argmax(axis=1)
    top = scores[np.arange(len(best)), best]
    order = np.argsort(-top, kind="stable")
    others = [j for j in order if not suspicious[j]]

    def finding(j: Any) -> Finding:
        return Finding(columns.name(j), float(top[j]), STATISTICS[best[j]])

    near = top[others[0]] if others else 0.5
    alone = near < _NEXT and suspicious.sum() <= max(3, X.n_features // 10)
    leaks = [finding(j) for j in order if suspicious[j] and (alone or certain[j])]
    facts = [Finding("bag size", float(target.score(sizes[:, None])[0]))]
    if target.too_good(facts[0].score, 1, constant=True):
        leaks.append(facts[0])
    facts += _facts(problem)
    copies, opposed = _copies(problem)
    return Findings(
        target.measure,
        _once(leaks),
        finding(others[0]) if others else None,
        _once([finding(j) for j in order if constant[j]]),
        facts,
        copies,
        opposed,
        problem.X.bag_features,
    )


def _once(found: list[Finding]) -> list[Finding]:
    """Keep the best finding of each column; one may be encoded as several."""
    best: dict[str, Finding] = {}
    for one in found:
        best.setdefault(one.name, one)
    return list(best.values())


# -------------------------------------------------------------------------- scores


@dataclass(frozen=True)
class _Target:
    """The label, ready to be compared with one number per bag.

    Parameters
    ----------
    pairs : list of (mask of bags, mask of the positive ones among them)
        One entry per pair of classes.
    counts : ndarray
        Number of bags of each class.
    values : ndarray or None
        Values to be ranked, in place of classes.
    """

    pairs: list[tuple[Array, Array]]
    counts: Array
    values: Array | None = None

    @classmethod
    def of(cls, problem: Problem, bags: Array) -> _Target:
        """Return the target of some bags of a problem."""
        y = problem.targets[bags]
        if problem.task in ("regression", "survival"):
            values = y if y.dtype.names is None else y["time"]
            return cls([], np.array([len(y)]), values)
        every = np.ones(len(y), dtype=bool)
        if y.ndim == 2:
            positive = y.sum(axis=0)
            counts = np.stack([positive, len(y) - positive], axis=1)
            rarest = counts[counts.min(axis=1).argmin()]
            return cls([(every, column == 1) for column in y.T], rarest)
        classes, counts = np.unique(y, return_counts=True)
        pairs = list(combinations(classes, 2))[:_PAIRS]
        return cls([((y == a) | (y == b), y == b) for a, b in pairs], counts)

    @property
    def measure(self) -> str:
        """What `score` returns."""
        return "AUROC" if self.values is None else "rank correlation, from 0.5 to 1"

    def score(self, Z: Array) -> Array:
        """Return the AUROC of each column of `Z`: the mean over pairs of classes."""
        if self.values is not None:
            rank = rankdata(Z, axis=0)
            rank -= rank.mean(axis=0)
            own = rankdata(self.values)
            own -= own.mean()
            scale = np.sqrt((rank**2).sum(axis=0) * (own**2).sum())
            with np.errstate(invalid="ignore", divide="ignore"):
                rho = np.where(scale > 0, np.abs(own @ rank) / scale, 0.0)
            return (1.0 + rho) / 2.0
        areas = [_area(Z[of], positive[of]) for of, positive in self.pairs]
        return np.mean(areas, axis=0) if areas else np.full(Z.shape[1], 0.5)

    def few_valued(self, values: Array) -> bool:
        """Whether one number per bag has as few values as there are classes."""
        return self.values is None and len(np.unique(values)) <= len(self.counts)

    def too_good(
        self, score: float, n_tests: int, *, few: bool = False, constant: bool = False
    ) -> bool:
        """Whether one number per bag predicts the label better than data do."""
        if score < (_NEARLY if few else _PERFECT):
            return False
        enough = _FEW_VALUED if few else _CONSTANT if constant else _MANY
        if self.values is not None:
            return len(self.values) >= enough
        smallest = self.counts.min()
        n, k = int(self.counts.sum()), int(smallest)
        chance = math.log(2) - gammaln(n + 1) + gammaln(k + 1) + gammaln(n - k + 1)
        rare = float(chance) + math.log(max(1, n_tests)) < math.log(_LEVEL)
        return bool(rare and smallest >= enough)


def _area(Z: Array, positive: Array) -> Array:
    """Return the AUROC of each column, for the better of its two directions."""
    n_pos = int(positive.sum())
    n_neg = len(positive) - n_pos
    if not n_pos or not n_neg:
        return np.full(Z.shape[1], 0.5)
    rank = rankdata(Z, axis=0)
    area = (rank[positive].sum(axis=0) - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)
    return np.maximum(area, 1.0 - area)


# ------------------------------------------------------------------------- columns


@dataclass
class _Columns:
    """Names and places of the columns that were looked at."""

    names: Array | None
    places: Array

    def name(self, j: int) -> str:
        """Return the name of a column."""
        place = int(self.places[j])
        return f"column {place}" if self.names is None else str(self.names[place])


def _sample(problem: Problem) -> tuple[Bags, Array, _Target]:
    """Return an even sample of large data, the sizes of the bags, and their target."""
    X = problem.X
    share = min(1.0, _BAGS / X.n_bags, _ROWS / X.n_instances)
    n_kept = max(min(X.n_bags, 2 * _MANY), int(share * X.n_bags))
    strata = problem.strata
    if n_kept == X.n_bags or strata.ndim > 1:
        order = np.arange(X.n_bags)
    else:  # (keeps the share of rare classes)
        order = np.argsort(strata, kind="stable")
    bags = np.sort(order[np.linspace(0, X.n_bags - 1, n_kept).astype(int)])
    X = X if n_kept == X.n_bags else X[bags]
    sizes, target = X.sizes, _Target.of(problem, bags)
    n_rows = min(_ROWS, memory_budget() / (32 * X.n_features))
    if X.on_disk and X.n_instances > n_rows:
        sample = SampleInstances(max(2, int(n_rows / n_kept)), random_state=0)
        X = sample.fit(X).transform(X)
    return X.in_memory(), sizes, target


def _columns(X: Bags, target: _Target) -> tuple[_Columns, Array, Array, Array, Array]:
    """Return columns, a score per statistic, and which columns are what.

    Constant within bags; suspicious; and suspicious by few values, whatever else there
    is.
    """
    places = np.arange(X.n_features)
    if X.is_sparse:
        places = _best_of_sparse(X, target)
    scores = np.full((len(places), len(STATISTICS)), 0.5)
    constant, suspicious, certain = np.zeros((3, len(places)), dtype=bool)
    several = 2 * np.sum(X.sizes > 1) >= X.n_bags
    data = X.data[:, places].tocsc() if X.is_sparse else X.data
    for block in _blocks(len(places), X.n_instances):
        rows = data[:, block]
        rows = rows.toarray() if X.is_sparse else rows
        rows = np.asarray(rows, dtype=np.float64)
        tables = _statistics(rows, X.offsets)
        high, low = tables[1:3]
        same = (high == low).all(axis=0) & (np.ptp(high, axis=0) > 0)
        constant[block] = same & several
        for k, Z in enumerate(tables):
            scores[block, k] = target.score(Z)
            for i in np.flatnonzero(scores[block, k] >= _NEARLY):
                j, few = block.start + i, target.few_valued(Z[:, i])
                found = target.too_good(
                    scores[j, k], scores.size, few=few, constant=bool(same[i])
                )
                suspicious[j] |= found
                certain[j] |= found and few
    return _Columns(X.feature_names, places), scores, constant, suspicious, certain


def _blocks(n_columns: int, n_rows: int) -> Iterator[slice]:
    step = max(1, _ENTRIES // n_rows)
    for start in range(0, n_columns, step):
        yield slice(start, min(n_columns, start + step))


def _statistics(rows: Array, offsets: Array) -> list[Array]:
    """Return mean, maximum, minimum and standard deviation of every column per bag.

    Where values are missing, they count as the smallest one, and whether a bag has such
    gaps follows.
    """
    gaps = np.isnan(rows)
    if gaps.any():
        lowest = np.nanmin(np.where(gaps.all(axis=0), 0.0, rows), axis=0)
        rows = np.where(gaps, lowest - 1.0, rows)
    center = rows.mean(axis=0)
    means = segment_mean(rows, offsets)
    high, low = segment_max(rows, offsets), segment_min(rows, offsets)
    square = segment_mean((rows - center) ** 2, offsets)
    spread = np.sqrt(np.maximum(0.0, square - (means - center) ** 2))
    same = high == low  # (their means and spreads have rounding errors)
    found = [np.where(same, high, means), high, low, np.where(same, 0.0, spread)]
    return [*found, segment_max(gaps * 1.0, offsets)] if gaps.any() else found


def _best_of_sparse(X: Bags, target: _Target) -> Array:
    """Return the columns that can have the largest scores, by where they are zero."""
    if target.values is not None or X.n_features <= _SPARSE:
        count = np.diff(X.data.tocsc().indptr)
        return np.sort(np.argsort(-count, kind="stable")[:_SPARSE])
    present = (bag_matrix(X.offsets) @ (X.data != 0)).tocsc()
    present.data[:] = 1.0
    bound = np.zeros(X.n_features)
    for of, positive in target.pairs:
        sides = []
        for side in (of & positive, of & ~positive):
            found = present.T @ side.astype(np.float64)
            sides.append(np.asarray(found).ravel() / max(1, side.sum()))
        one, two = sides
        # Pairs of bags without an entry are ties; all others may be correctly ordered.
        bound += 1.0 - (1.0 - one) * (1.0 - two) / 2.0
    return np.sort(np.argsort(-bound, kind="stable")[:_SPARSE])


# ----------------------------------------------------------------- facts and copies


def _facts(problem: Problem) -> list[Finding]:
    """Score the order, the ids and the files of the bags."""
    X = problem.X
    target = _Target.of(problem, np.arange(X.n_bags))
    known: dict[str, Any] = {"order of the bags": np.arange(X.n_bags)}
    ids = [str(name) for name in X.ids]
    if ids != [str(i) for i in range(X.n_bags)]:
        known["bag id, sorted"] = np.unique(ids, return_inverse=True)[1]
        numbers = [re.search(r"\d+", name) for name in ids]
        if all(numbers):
            known["number in the bag id"] = [float(n[0][:15]) for n in numbers if n]
    times = _modification_times(problem, ids)
    if times is not None:
        known["modification time of the file"] = times
    return [
        Finding(name, float(target.score(np.asarray(values, dtype=float)[:, None])[0]))
        for name, values in known.items()
    ]


def _modification_times(problem: Problem, ids: list[str]) -> list[float] | None:
    """Return when the file of each bag was changed, if each bag has a file."""
    if problem.path is None or not Path(problem.path).is_dir():
        return None
    times = {
        file.name.split(".")[0]: file.stat().st_mtime
        for file in Path(problem.path).iterdir()
        if file.is_file()
    }
    found = [times.get(name.split(".")[0]) for name in ids]
    return None if None in found else [float(t) for t in found if t is not None]


def _copies(problem: Problem) -> tuple[list[tuple[Any, Any]], int]:
    """Return bags with the rows of an earlier one, in pairs, and how many disagree."""
    if problem.copies is None:
        return [], 0
    copies = np.flatnonzero(problem.copies != np.arange(len(problem.y)))
    firsts, ids, y = problem.copies[copies], problem.X.ids, problem.y
    opposed = sum(
        bool(np.any(y[i] != y[j])) for i, j in zip(firsts, copies, strict=True)
    )
    return list(zip(ids[firsts], ids[copies], strict=True)), opposed
