"""Box counts for all pairs of bags: coding, division of work, collection."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed, effective_n_jobs

from bagwise.bags import Bags
from bagwise.kernels.box._batches import count_pairs
from bagwise.kernels.box.grid import BoxGrid
from bagwise.kernels.box.loops.points import (
    AUTO,
    COVERAGE,
    EXACT,
    INDICATOR,
    SELF_ADJUSTING,
    UNROLL,
    canonical_sets,
    screening_blocks,
)
from bagwise.kernels.box.loops.sampling import BERNSTEIN, CLT

Array = npt.NDArray[Any]

PAIR_METHODS = {
    "auto": AUTO,
    "exact": EXACT,
    "coverage": COVERAGE,
    "indicator": INDICATOR,
    "self_adjusting": SELF_ADJUSTING,
}
STOP_RULES = {"clt": CLT, "bernstein": BERNSTEIN}

SLACK = 0.01  # share of epsilon for omitted pairs of points


class CodedBags(NamedTuple):
    """Bags as sets of grid points, ready for the compiled loops."""

    rows: Array  # (n_points, n_active) levels, distinct within a bag
    offsets: Array  # first point of each bag
    keys: Array  # content hash of each bag
    blocks: Array  # coarse logarithms, one block per bag
    starts: Array  # first padded point of each block
    height: int  # rows of a block
    top: Array  # highest level of each dimension

    @property
    def sizes(self) -> Array:
        """Number of distinct points of each bag."""
        return np.diff(self.offsets)


class PairCounts(NamedTuple):
    """Results for a list of bag pairs."""

    log_counts: Array
    how: Array
    draws: Array
    errors: Array
    capped: Array


def _frozen(array: Array) -> Array:
    """Read-only, as workers get memory maps: one compilation serves both."""
    array = np.ascontiguousarray(np.asarray(array))
    array.setflags(write=False)
    return array


def code_sets(grid: BoxGrid, X: Bags) -> tuple[Array, Array, Array]:
    """Distinct grid points of each bag (active dimensions only), offsets and hashes."""
    rows = np.ascontiguousarray(grid.levels(X)[:, grid.order_])
    chosen, offsets, keys = canonical_sets(rows, X.offsets)
    return rows[chosen], offsets, keys


def coarse_scale(top: Array) -> tuple[float, float]:
    """Unit of the 16-bit logarithms, and how far their sums can lie below the truth.

    The logarithms of one point sum to at most that of the center of the grid.
    """
    s = top.astype(np.float64)
    unit = 2.0 * np.log((s + 2.0) / 2.0).sum() / 65_535.0
    return unit, 2.0 * len(top) * unit


def code_bags(grid: BoxGrid, X: Bags) -> CodedBags:
    """Code the bags `X` on a fitted grid."""
    rows, offsets, keys = code_sets(grid, X)
    top = grid.max_level_[grid.order_].astype(np.uint16)
    unit, _ = coarse_scale(top)
    d = len(top)
    height = -(-2 * d // UNROLL) * UNROLL
    levels = np.arange(int(top.max()) + 1.0)
    logs = np.log(levels + 1.0)
    low = np.floor(logs / unit)
    room = np.maximum(top[:, None].astype(np.float64) - levels, 0.0)
    high = np.floor(np.log(room + 1.0) / unit)
    blocks, starts = screening_blocks(
        rows, offsets, low.astype(np.uint16), high.astype(np.uint16), height
    )
    return _all_frozen(CodedBags(rows, offsets, keys, blocks, starts, height, top))


def _all_frozen(coded: CodedBags) -> CodedBags:
    return CodedBags(
        _frozen(coded.rows),
        _frozen(coded.offsets),
        _frozen(coded.keys),
        _frozen(coded.blocks),
        _frozen(coded.starts),
        coded.height,
        _frozen(coded.top),
    )


def _count_chunk(
    coded: CodedBags, left: Array, right: Array, settings: tuple[Any, ...]
) -> tuple[Array, ...]:
    """Count the boxes of some pairs (runs in a worker)."""
    method, rule, target, max_samples, seed = settings
    coarse = coarse_scale(coded.top)
    return count_pairs(
        _all_frozen(coded),
        left,
        right,
        coarse,
        method,
        rule,
        target,
        max_samples,
        seed,
    )


def count_all(
    coded: CodedBags,
    left: Array,
    right: Array,
    *,
    method: str,
    stop: str,
    target: tuple[float, float, float],
    max_samples: int,
    seed: np.uint64,
    n_jobs: int | None,
) -> PairCounts:
    """Count the boxes of the pairs (left[k], right[k]), in parallel.

    The pairs are distributed in order of decreasing cost, so that chunks take about
    equal time; the result does not depend on the chunks.
    """
    epsilon, delta, z = target
    settings = (
        PAIR_METHODS[method],
        STOP_RULES[stop],
        (float(epsilon), float(delta), SLACK * epsilon, float(z)),
        int(max_samples),
        np.uint64(seed),
    )
    if len(left) == 0:
        kinds = (np.float64, np.int8, np.int64, np.float64, np.bool_)
        return PairCounts(*(np.empty(0, dtype=kind) for kind in kinds))
    n_chunks = 1
    workers = effective_n_jobs(n_jobs)
    if workers > 1:
        n_chunks = max(1, min(4 * workers, len(left)))
    cost = coded.sizes[left] * coded.sizes[right]
    order = np.argsort(-cost, kind="stable")
    chunks = [order[k::n_chunks] for k in range(n_chunks)]
    results = Parallel(n_jobs=n_jobs if n_chunks > 1 else 1)(
        delayed(_count_chunk)(coded, left[c], right[c], settings) for c in chunks
    )
    out = [np.empty(len(left), dtype=part.dtype) for part in results[0]]
    for chunk, parts in zip(chunks, results, strict=True):
        for target_array, part in zip(out, parts, strict=True):
            target_array[chunk] = part
    return PairCounts(*out)
