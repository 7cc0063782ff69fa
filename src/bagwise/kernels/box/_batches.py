"""Log counts for a list of bag pairs: bounds, exact tree or sampling for each.

The stages are compiled apart, so that a first call waits only for what it uses. A stage
takes as many pairs of bags as there is room for the pairs of points that matter.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.kernels.box.loops.points import GROUP, LANES, streams
from bagwise.kernels.box.loops.sampler import adjust_pairs, sample_pairs
from bagwise.kernels.box.loops.screen import (
    AUTO,
    EXACT,
    HOW_EXACT,
    HOW_SAMPLED,
    SELF_ADJUSTING,
    STORE,
    screen,
)
from bagwise.kernels.box.loops.tree import count_on_line, count_on_trees

Array = npt.NDArray[Any]

SMALL_POINTS = 6  # "auto" counts exactly up to this many points ..
SMALL_NODES = 200  # .. as long as the tree stays this small
SHORT_POINTS = 14  # .. and within epsilon up to this many points that matter
LARGE_NODES = 20_000_000  # "exact" gives up beyond
_ROOM = 1 << 16  # pairs of points that are kept between the stages
_SAME = np.uint64(0xD6E8FEB86659FD93)


def count_pairs(
    coded: Any,
    left: Array,
    right: Array,
    coarse: tuple[float, float],
    method: int,
    rule: int,
    target: tuple[float, float, float, float],
    max_samples: int,
    seed: np.uint64,
) -> tuple[Array, ...]:
    """Return log counts, how, draws, errors and capped of the pairs of bags.

    `coded` is a `CodedBags`; `coarse` (unit, error) of its logarithms; `target` is
    (epsilon, delta, slack, z). The stream of a pair is seeded by the content of its two
    bags in the order of their hashes, so that it depends neither on the order of the
    bags nor on what else is computed.
    """
    n = len(left)
    out = (
        np.zeros(n),
        np.full(n, HOW_EXACT, np.int8),
        np.zeros(n, np.int64),
        np.zeros(n),
        np.zeros(n, np.bool_),
    )
    logs, how, draws, errors, capped = out
    left, right, same, seeds = _ordered(coded, left, right, seed)
    if method in (AUTO, EXACT) and len(coded.top) == 1:
        count_on_line(coded.rows, coded.offsets, coded.top, left, right, logs)
        return out
    pairs = (left, right, same)
    epsilon, delta, slack, z = target
    work = _Scratch(coded, method)
    ends, places = np.zeros(n + 1, np.int64), np.zeros((n + 1, 2), np.int64)
    begin = 0
    while begin < n:
        ends[begin] = places[begin, 0] = 0
        stop, needed = screen(
            coded.rows,
            coded.offsets,
            coded.blocks,
            coded.starts,
            coded.top,
            *pairs,
            begin,
            coarse,
            (epsilon, slack),
            method,
            work.sums,
            work.factors,
            work.where,
            *work.sets,
            ends,
            places,
            logs,
            how,
            errors,
        )
        if stop == begin:
            work.enlarge(needed)
            continue
        todo = begin + np.flatnonzero(how[begin:stop] == HOW_SAMPLED)
        if method in (AUTO, EXACT) and len(todo):
            count_on_trees(
                coded.rows,
                coded.offsets,
                coded.top,
                *pairs,
                todo,
                work.sets[-1],
                places,
                slack,
                method,
                (LARGE_NODES, SMALL_POINTS, SMALL_NODES, SHORT_POINTS),
                *work.trees,
                logs,
                how,
                errors,
            )
            todo = todo[how[todo] == HOW_SAMPLED]
        # What was left out takes its part of epsilon.
        inner = (epsilon - slack, delta, z)
        known = (same, todo, *work.sets, ends, places, seeds)
        if method == SELF_ADJUSTING and len(todo):
            adjust_pairs(
                coded.rows,
                work.top,
                *known,
                inner,
                max_samples,
                work.sampler,
                logs,
                draws,
                capped,
            )
            errors[todo] = np.nan
        elif len(todo):
            sample_pairs(
                coded.rows,
                work.top,
                *known,
                method,
                rule,
                inner,
                max_samples,
                work.sampler,
                logs,
                draws,
                errors,
                capped,
            )
        begin = stop
    return out


def _ordered(
    coded: Any, left: Array, right: Array, seed: np.uint64
) -> tuple[Array, Array, Array, Array]:
    """Pairs in the order of their hashes, which are a bag with itself, and seeds."""
    swap = coded.keys[left] > coded.keys[right]
    left, right = np.where(swap, right, left), np.where(swap, left, right)
    same = left == right
    for k in np.flatnonzero((coded.keys[left] == coded.keys[right]) & ~same):
        same[k] = np.array_equal(_points(coded, left[k]), _points(coded, right[k]))
    second = np.where(same, _SAME, coded.keys[right])
    return left, right, same, streams(seed, coded.keys[left], second)


def _points(coded: Any, bag: int) -> Array:
    rows: Array = coded.rows[coded.offsets[bag] : coded.offsets[bag + 1]]
    return rows


class _Scratch:
    """Memory of the stages, as large as the largest bags need it."""

    def __init__(self, coded: Any, method: int) -> None:
        d, size = len(coded.top), int(coded.sizes.max())
        width = -(-size // LANES) * LANES
        self.sums = np.empty(max(width, min(STORE, size * width)), np.uint16)
        self.factors = np.empty(d)
        self.top = np.zeros(-(-d // GROUP) * GROUP, np.uint16)
        self.top[:d] = coded.top
        self.enlarge(_ROOM)
        both = 2 * size
        self.where = np.empty(both, np.int32)
        deep = both if method == EXACT else SHORT_POINTS + 2
        self.trees = (
            np.empty(both, np.int64),
            np.empty(both, np.int64),
            (
                np.empty((deep + 1, d), np.uint16),
                np.empty((deep + 1, d), np.uint16),
                np.empty(deep + 1, np.int64),
                np.empty(deep + 1, np.int64),
                np.empty(d),
            ),
        )
        self.drawn = (
            np.empty(both + LANES + 1, np.int32),
            np.empty(both + LANES, np.uint16),
            np.empty((2, GROUP), np.uint16),
        )

    def enlarge(self, room: int) -> None:
        """Make room for more pairs of points."""
        self.sets = (
            np.empty(room, np.int32),
            np.empty(room, np.int32),
            np.empty(room),
            np.empty(2 * room, np.int64),
        )
        self.cumulative = np.empty(room)

    @property
    def sampler(self) -> tuple[Array, ...]:
        """Running sums, the points of a box twice, and four sides of it."""
        return (self.cumulative, *self.drawn)
