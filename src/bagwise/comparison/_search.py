"""Find the best candidate of a grid on inner folds, with few fits.

Three things make wide grids affordable: estimators that share work between candidates
(one kernel matrix for all penalties); otherwise a first round on a third of the
training bags, after which only the best candidates are fitted to all of them; and grids
that are extended only if the best value is at an end. An end does not count if it is a
natural limit: nothing is below zero for a share, or below one for a number of things.
Parameters that refine a solution are tuned after the others, for the best settings of
these; steps of a fit that do not depend on the candidate are kept between fits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags
from bagwise.base import bag_folds
from bagwise.base.folds import most_folds
from bagwise.comparison.description import build_value
from bagwise.kernels.instance import resolve_gamma
from bagwise.kernels.reuse import reusing

__all__ = [
    "Candidate",
    "Search",
    "beyond",
    "central",
    "ends_of",
    "expand",
    "resolved",
    "score_candidates",
    "shared_scores",
    "widen_note",
]

Grid = Mapping[str, Sequence[Any]]
# Smaller differences between means over folds are rounding errors.
_EQUAL = 1e-9
MAX_ROUNDS = 4
# Up to FEW candidates need no first round; after one, LEAST to MOST remain.
FEW, LEAST, MOST = 9, 6, 12
# Parameters that are tuned later are tried with this number of the best candidates.
LEADERS = 3
# The first round uses 1 / SHARE of the bags and keeps 1 / SHARE of the candidates.
SHARE = 3
# Minimum number of bags for a first round.
LEAST_BAGS = 30


def resolved(candidate: Candidate, X: Any, random_state: int) -> dict[str, Any]:
    """Return the parameters of a candidate: widths as numbers, estimators built."""
    return {
        name: build_value(_width(value, X), random_state)
        for name, value in candidate.values.items()
    }


def _width(value: Any, X: Any) -> Any:
    """Resolve values that depend on the (scaled) training bags.

    ``{"gamma": "scale", "times": 4}`` is a width, ``{"instances": 5000}`` the share of
    the instances that is this number, or all.
    """
    if isinstance(value, Mapping) and set(value) == {"instances"}:
        return min(1.0, value["instances"] / X.n_instances)
    if isinstance(value, Mapping) and set(value) == {"gamma", "times"}:
        return float(value["times"] * resolve_gamma(value["gamma"], X.data))
    return value


@dataclass
class Search:
    """Candidates scored on the same folds.

    Parameters
    ----------
    model : estimator
        What is tuned; unfitted.
    X, y : Bags, ndarray
        Training bags and targets.
    strata : ndarray
        What folds keep the shares of.
    splits : list of (train, test)
        Inner folds.
    scoring : str or callable
        As in scikit-learn.
    random_state : int
        Random seed of the selection of bags for the first round.
    weights : dict of ndarray
        Arguments of `fit` with an entry for each bag.
    later : sequence of str
        Parameters that are tuned after the others: these see their first value.
    """

    model: Any
    X: Any
    y: NDArray[Any]
    strata: NDArray[Any]
    splits: list[tuple[Any, Any]]
    scoring: Any
    random_state: int
    weights: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    later: Sequence[str] = ()

    def best(
        self, candidates: list[Candidate], *, extend: bool
    ) -> tuple[Candidate, float]:
        """Return the best candidate and its mean score.

        With `extend`, the grid is extended while the best value is at its end.
        """
        scores = self._shared(candidates)
        if scores is None:
            candidates, scores = self._in_stages(candidates)
        place = central(candidates, scores)
        best, score = candidates[place], float(scores[place])
        for _ in range(MAX_ROUNDS if extend else 0):
            ends = ends_of(best)
            if not ends:
                break
            further = [beyond(best, name, end) for name, end in ends.items()]
            try:
                values = self.scores(further)
            except ValueError:  # the next value is out of range
                break
            if not np.nanmax(values, initial=-np.inf) > score:
                # The end value is the best one: values beyond it were tried as well.
                joined = {n: one.grid[n] for n, one in zip(ends, further, strict=True)}
                best = replace(best, grid={**best.grid, **joined})
                break
            place = int(np.nanargmax(values))
            best, score = further[place], float(values[place])
        return best, score

    def _in_stages(
        self, candidates: list[Candidate]
    ) -> tuple[list[Candidate], NDArray[np.float64]]:
        """Return the candidates that were fitted to all bags, and their scores."""
        early = [one for one in candidates if self._is_early(one)]
        kept = self.screened(early)
        scores = self.scores(kept)
        if len(early) == len(candidates):
            return kept, scores
        few = _leaders(kept, scores, LEADERS)
        finer = [
            one
            for one in candidates
            if one not in kept and any(self._differ_later(one, best) for best in few)
        ]
        return [*kept, *finer], np.concatenate([scores, self.scores(finer)])

    def _is_early(self, one: Candidate) -> bool:
        """Return whether the parameters that are tuned later have their first value."""
        own = [name for name in self.later if name in one.values]
        return all(one.values[name] == one.grid[name][0] for name in own)

    def _differ_later(self, one: Candidate, other: Candidate) -> bool:
        """Return whether two candidates differ in what is tuned later alone."""
        names = [name for name in one.values if name not in self.later]
        return all(one.values[name] == other.values.get(name) for name in names)

    def scores(
        self, candidates: list[Candidate], splits: list[tuple[Any, Any]] | None = None
    ) -> NDArray[np.float64]:
        """Return the mean score of every candidate over folds, the inner ones."""
        return score_candidates(
            self.model,
            self._params(candidates),
            self.X,
            self.y,
            self.splits if splits is None else splits,
            self.scoring,
            self.weights,
        )

    def screened(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return the candidates that are fitted to all bags, in their order.

        Of many, the best third on a third of the training bags of every fold, twelve
        at most. All of them where they are few, or bags are.
        """
        if len(candidates) <= FEW:
            return candidates
        fewer = []
        for train, test in self.splits:
            inside, strata = self.X[train], self.strata[train]
            enough = len(train) >= SHARE * LEAST_BAGS
            if not enough or most_folds(inside, strata, SHARE) < SHARE:
                return candidates
            _, part = bag_folds(inside, strata, SHARE, self.random_state)[0]
            fewer.append((np.asarray(train)[np.sort(part)], test))
        try:
            scores = np.nan_to_num(self.scores(candidates, fewer), nan=-np.inf)
        except ValueError:  # a third of the bags may be too few
            return candidates
        n_kept = min(max(LEAST, math.ceil(len(candidates) / SHARE)), MOST)
        return _leaders(candidates, scores, n_kept)

    def _params(self, candidates: list[Candidate]) -> list[dict[str, Any]]:
        return [resolved(one, self.X, self.random_state) for one in candidates]

    def _shared(self, candidates: list[Candidate]) -> NDArray[np.float64] | None:
        if self.weights:
            return None
        return shared_scores(
            self.model,
            self._params(candidates),
            self.X,
            self.y,
            self.splits,
            self.scoring,
        )


def _leaders(
    candidates: list[Candidate], scores: NDArray[np.float64], n: int
) -> list[Candidate]:
    """Return the n best candidates, in their order; of equals, those far from ends."""
    scores = np.nan_to_num(scores, nan=-np.inf)
    rest, kept = list(range(len(candidates))), []
    for _ in range(min(n, len(candidates))):
        place = central([candidates[k] for k in rest], scores[rest])
        kept.append(rest.pop(place))
    return [candidates[k] for k in sorted(kept)]


def shared_scores(
    model: Any,
    candidates: list[dict[str, Any]],
    X: Any,
    y: NDArray[Any],
    splits: list[tuple[Any, Any]],
    scoring: Any,
) -> NDArray[np.float64] | None:
    """Return the scores of an estimator that shares work between candidates, or None.

    Such an estimator has a method ``_score_candidates`` with these arguments, which
    may return None as well. The steps of a pipeline before the last one are fitted once
    for each fold and for all candidates that differ in the last one only.
    """
    if isinstance(model, Pipeline):
        return _shared_after_steps(model, candidates, X, y, splits, scoring)
    if not hasattr(model, "_score_candidates"):
        return None
    found = model._score_candidates(candidates, X, y, splits, scoring)
    return None if found is None else np.asarray(found, dtype=np.float64)


def _shared_after_steps(
    model: Pipeline,
    candidates: list[dict[str, Any]],
    X: Any,
    y: NDArray[Any],
    splits: list[tuple[Any, Any]],
    scoring: Any,
) -> NDArray[np.float64] | None:
    """Fit the first steps once for all candidates that differ in the last one."""
    name, last = model.steps[-1]
    own = [
        {key.removeprefix(f"{name}__"): v for key, v in c.items() if _is_of(key, name)}
        for c in candidates
    ]
    groups: list[tuple[dict[str, Any], list[int]]] = []
    for place, one in enumerate(candidates):
        first = {key: v for key, v in one.items() if not _is_of(key, name)}
        for known, places in groups:
            if known == first:
                places.append(place)
                break
        else:
            groups.append((first, [place]))
    if len(groups) == len(candidates):
        return None
    total, failure = np.zeros(len(candidates)), None
    for params, places in groups:
        some = [own[place] for place in places]
        for train, test in splits:
            try:
                steps = clone(model[:-1]).set_params(**params)
                first = steps.fit_transform(X[train], y[train])
                both = _joined([first, steps.transform(X[test])])
                n, targets = len(train), np.concatenate([y[train], y[test]])
                inside = [(np.arange(n), np.arange(n, n + len(test)))]
                total[places] += score_candidates(
                    last, some, both, targets, inside, scoring
                )
            except ValueError as error:
                total[places], failure = np.nan, error
    if np.isnan(total).all() and failure is not None:
        raise failure
    return total / len(splits)


def _is_of(key: str, step: str) -> bool:
    return key.startswith(f"{step}__")


def _joined(parts: list[Any]) -> Any:
    """Return transformed training and test bags, or vectors, in one."""
    if isinstance(parts[0], Bags):
        return Bags.concatenate(parts)
    return (
        sparse.vstack(parts, "csr") if sparse.issparse(parts[0]) else np.vstack(parts)
    )


def score_candidates(
    model: Any,
    candidates: list[dict[str, Any]],
    X: Any,
    y: NDArray[Any],
    splits: list[tuple[Any, Any]],
    scoring: Any,
    weights: Mapping[str, NDArray[np.float64]] | None = None,
) -> NDArray[np.float64]:
    """Return the mean score of every candidate over the folds, NaN where it failed.

    Where nothing is shared, every candidate is fitted on every fold.

    Parameters
    ----------
    model : estimator
        What is tuned; unfitted.
    candidates : list of dict
        Parameters to try.
    X, y : Bags, ndarray
        Bags and labels.
    splits : list of (train, test)
        Folds.
    scoring : str or callable
        As in scikit-learn.
    weights : dict of ndarray, optional
        Arguments of `fit` with an entry for each bag; nothing is shared then.
    """
    if not weights:
        shared = shared_scores(model, candidates, X, y, splits, scoring)
        if shared is not None:
            return shared
    # One width at a time, so that results of the last fits are reused.
    order = sorted(range(len(candidates)), key=lambda k: _widths_of(candidates[k]))
    grid = [{name: [v] for name, v in candidates[k].items()} for k in order]
    search = GridSearchCV(model, grid, scoring=scoring, cv=splits, refit=False)
    try:
        with reusing():
            search.fit(X, y, **(weights or {}))
    except ValueError as error:
        text = str(error).strip()
        if "fits failed" not in text:
            raise
        last = text.splitlines()[-1]
        raise ValueError(f"every candidate of the grid failed, with {last}") from error
    scores = np.empty(len(order))
    scores[order] = search.cv_results_["mean_test_score"]
    return scores


def _widths_of(candidate: Mapping[str, Any]) -> str:
    return str([value for name, value in candidate.items() if name.endswith("gamma")])


@dataclass(frozen=True)
class Candidate:
    """One setting of a grid: the values as written, before widths are resolved."""

    values: dict[str, Any]
    grid: dict[str, list[Any]]


def expand(grid: Any) -> list[Candidate]:
    """Return all settings of a grid or of a list of grids, in scikit-learn's order."""
    grids = [grid] if isinstance(grid, Mapping) else list(grid or [{}])
    found = []
    for each in grids:
        names = sorted(each)
        whole = {name: list(each[name]) for name in names}
        for values in itertools.product(*(whole[name] for name in names)):
            found.append(Candidate(dict(zip(names, values, strict=True)), whole))
    return found


def ends_of(candidate: Candidate) -> dict[str, str]:
    """Return "lower" or "upper" for every parameter at an end of its grid.

    Examples
    --------
    >>> ends_of(expand({"C": [1.0, 10.0], "rho": [0.0, 0.3]})[0])
    {'C': 'lower'}
    """
    found = {}
    for name, value in candidate.values.items():
        axis = [_size(v) for v in candidate.grid[name]]
        if len(axis) < 2 or any(size is None for size in axis):
            continue
        sizes = [size for size in axis if size is not None]
        own = _size(value)
        if own == max(sizes) and not _is_limit(value, sizes, upper=True):
            found[name] = "upper"
        elif own == min(sizes) and not _is_limit(value, sizes, upper=False):
            found[name] = "lower"
    return found


def central(candidates: Sequence[Candidate], scores: NDArray[np.float64]) -> int:
    """Return the place of the best candidate; of equals, the one far from the ends.

    Few bags give few different scores, and beyond some value a parameter often changes
    nothing: the first of equals would be at an end for no reason.

    Parameters
    ----------
    candidates : sequence of Candidate
        Settings.
    scores : ndarray of shape (n_candidates,)
        The larger the better; NaN where a candidate failed.

    Examples
    --------
    >>> central(expand({"C": [1.0, 10.0, 100.0]}), np.array([0.9, 0.9, 0.9]))
    1
    """
    best = scores[np.nanargmax(scores)]
    equal = [int(k) for k in np.flatnonzero(scores >= best - _EQUAL)]
    return max(equal, key=lambda k: (_room(candidates[k]), -k))


def _room(candidate: Candidate) -> tuple[int, int, int]:
    """Return how far a candidate is from the ends: their number, then the steps."""
    steps = []
    for name, value in candidate.values.items():
        axis = [_size(v) for v in candidate.grid[name]]
        sizes = sorted({size for size in axis if size is not None})
        if None not in axis and len(sizes) > 1:
            place = sizes.index(float(_size(value) or 0.0))
            steps.append(min(place, len(sizes) - 1 - place))
    return -len(ends_of(candidate)), min(steps, default=0), sum(steps)


def beyond(candidate: Candidate, name: str, end: str) -> Candidate:
    """Return the candidate with one value moved a step past the end of its grid.

    The step is that of the grid's last two values, as a factor where all are positive.
    """
    axis = sorted(candidate.grid[name], key=lambda value: float(_size(value) or 0.0))
    last, before = (axis[-1], axis[-2]) if end == "upper" else (axis[0], axis[1])
    one, two = float(_size(last) or 0.0), float(_size(before) or 0.0)
    smallest = min(float(_size(value) or 0.0) for value in axis)
    size = one * one / two if smallest > 0 else one + (one - two)
    value: Any = size
    if isinstance(last, Mapping):
        value = {**last, "times": size}
    elif isinstance(last, int):
        step = max(1, round(abs(size - one)))
        value = last + step if end == "upper" else max(1, last - step)
    grid = {**candidate.grid, name: [*candidate.grid[name], value]}
    return Candidate({**candidate.values, name: value}, grid)


def widen_note(ends: Sequence[Mapping[str, str]], share: float = 0.0) -> list[str]:
    """Describe how often values were at an end, over the folds of one method.

    Ends that were chosen in less than this share of the folds are left out.

    Examples
    --------
    >>> widen_note([{"C": "upper"}, {"C": "upper"}, {}])
    ['C at the upper end of its grid in 2 of 3 folds: grid="auto" extends it']
    """
    counts: dict[tuple[str, str], int] = {}
    for one in ends:
        for pair in one.items():
            counts[pair] = counts.get(pair, 0) + 1
    return [
        f"{name} at the {end} end of its grid in {n} of {len(ends)} folds:"
        ' grid="auto" extends it'
        for (name, end), n in sorted(counts.items(), key=lambda item: -item[1])
        if n >= share * len(ends)
    ]


def _size(value: Any) -> float | None:
    """Return what orders a value: itself, or the factor of a width."""
    if isinstance(value, Mapping) and set(value) == {"gamma", "times"}:
        return float(value["times"])
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None


def _is_limit(value: Any, sizes: Sequence[float], *, upper: bool) -> bool:
    """Return whether a value is a natural limit: 0, one thing, or a share of 1."""
    size = _size(value)
    if upper:
        return size == 1.0 and isinstance(value, float) and min(sizes) > 0.5
    return size == 0.0 or (size == 1.0 and isinstance(value, int))
