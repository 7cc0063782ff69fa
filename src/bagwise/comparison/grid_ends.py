"""Grids of candidates: their order, and whether a choice stands at an end.

A best value at the end of its grid says that the grid ends too early. The end does not
count where it is a natural limit: nothing lies below zero of a share, or below one of a
number of things.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Candidate", "beyond", "central", "ends_of", "expand", "widen_note"]

Grid = Mapping[str, Sequence[Any]]
# Means over folds that differ by less differ by rounding.
_EQUAL = 1e-9


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
    nothing: the first of equals would stand at an end that says nothing about the grid.

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
    """Return how far a candidate stands from the ends: at few first, then in steps."""
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


def widen_note(ends: Sequence[Mapping[str, str]]) -> list[str]:
    """Say how often values stood at an end, over the folds of one method.

    Examples
    --------
    >>> widen_note([{"C": "upper"}, {"C": "upper"}, {}])
    ['C at the upper end of its grid in 2 of 3 folds: widen it']
    """
    counts: dict[tuple[str, str], int] = {}
    for one in ends:
        for pair in one.items():
            counts[pair] = counts.get(pair, 0) + 1
    return [
        f"{name} at the {end} end of its grid in {n} of {len(ends)} folds: widen it"
        for (name, end), n in sorted(counts.items(), key=lambda item: -item[1])
    ]


def _size(value: Any) -> float | None:
    """Return what orders a value: itself, or the factor of a width."""
    if isinstance(value, Mapping) and set(value) == {"gamma", "times"}:
        return float(value["times"])
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None


def _is_limit(value: Any, sizes: Sequence[float], *, upper: bool) -> bool:
    """Tell whether nothing lies beyond: zero, one thing, or the whole of a share."""
    size = _size(value)
    if upper:
        return size == 1.0 and isinstance(value, float) and min(sizes) > 0.5
    return size == 0.0 or (size == 1.0 and isinstance(value, int))
