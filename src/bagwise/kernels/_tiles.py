r"""Sums of an instance kernel over pairs of bags, tile by tile.

Every additive bag kernel is :math:`U\,k(A, B)\,V^\top`, where :math:`k(A, B)` is the
matrix of an instance kernel and :math:`U`, :math:`V` hold the weights of the instances
in their bags. The instance matrix is never formed: square tiles small enough to stay in
the processor's cache are evaluated with BLAS and reduced at once, so that the memory
needed is one tile and the bag matrix. When both sides are the same bags, only the tiles
on and above the diagonal are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bagwise.bags import Bags

Array = npt.NDArray[Any]

# 512 x 512 doubles are 2 MiB: the tile is still in cache when it is exponentiated and
# reduced (measured on 6,598 x 166: 2048 takes twice as long, 256 is no faster).
TILE = 512

# Small bags are compared with themselves in groups: fewer calls, little waste.
_GROUP = 128


class Stack(NamedTuple):
    """Stacked rows, where their bags begin (bags may be empty), a weight per row."""

    data: Any
    offsets: Array
    weight: Array

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return int(self.offsets.shape[0]) - 1

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.offsets[-1])


# evaluate(A, B) gives the tile k(A, B); B is None when it is A itself.
Evaluate = Callable[[Any, Any], Array]


def stack_of(X: Bags, weight: Array | None = None) -> Stack:
    """Return the rows of `X`, weighted by one unless told otherwise."""
    if weight is None:
        weight = np.ones(X.n_instances)
    return Stack(X.data, X.offsets, weight)


def weighted_sums(
    rows: Stack, cols: Stack | None, evaluate: Evaluate, *, tile: int = TILE
) -> Array:
    """Sum weight x weight x kernel over all pairs of instances of two bags.

    Cost: one evaluation per pair of instances (half of that when `cols` is None),
    ``O(tile ** 2 + n_bags_rows * n_bags_cols)`` memory.
    """
    symmetric = cols is None
    other = rows if cols is None else cols
    out = np.zeros((rows.n_bags, other.n_bags))
    left = [_reducer(rows, part) for part in spans(rows.n_rows, tile)]
    right = (
        left if symmetric else [_reducer(other, p) for p in spans(other.n_rows, tile)]
    )
    for i, (part, bags, reduce) in enumerate(left):
        a = rows.data[part]
        for j in range(i if symmetric else 0, len(right)):
            other_part, other_bags, other_reduce = right[j]
            diagonal = symmetric and i == j
            block = evaluate(a, None if diagonal else other.data[other_part])
            sums = reduce_tile(block, reduce, other_reduce)
            out[bags, other_bags] += sums
            if symmetric and not diagonal:
                out[other_bags, bags] += sums.T
    if symmetric:
        # A bag cut by a tile border is summed in another order on the two sides.
        out = symmetrized(out)
    return out


def self_sums(stack: Stack, evaluate: Evaluate, *, tile: int = TILE) -> Array:
    """Sum weight x weight x kernel over all pairs of instances of the same bag.

    Cost: ``O(sum of max(bag size, 128) x bag size)`` evaluations.
    """
    out = np.empty(stack.n_bags)
    for bags in bag_groups(stack.offsets, min(tile, _GROUP)):
        part = slice(int(stack.offsets[bags.start]), int(stack.offsets[bags.stop]))
        offsets = stack.offsets[bags.start : bags.stop + 1] - part.start
        group = Stack(stack.data[part], offsets, stack.weight[part])
        out[bags] = np.diagonal(weighted_sums(group, None, evaluate, tile=tile))
    return out


def spans(n_rows: int, size: int) -> list[slice]:
    """Cut rows into slices of at most `size`."""
    return [slice(s, min(s + size, n_rows)) for s in range(0, n_rows, size)]


def bag_groups(offsets: Array, max_rows: int) -> Iterator[slice]:
    """Cut bags into runs of at most `max_rows` rows; a larger bag comes alone."""
    start, n_bags = 0, offsets.shape[0] - 1
    while start < n_bags:
        limit = offsets[start] + max_rows
        stop = int(np.searchsorted(offsets, limit, side="right")) - 1
        stop = min(max(stop, start + 1), n_bags)
        yield slice(start, stop)
        start = stop


def reduce_tile(block: Array, left: sp.csr_array, right: sp.csr_array) -> Array:
    """Return ``left @ block @ right.T`` for a dense block."""
    half = left @ np.ascontiguousarray(block)
    return np.asarray(right @ np.ascontiguousarray(half.T)).T


def scale_both(K: Array, left: Array, right: Array) -> Array:
    """Multiply rows by `left` and columns by `right`, in place.

    The two factors are multiplied first: a symmetric matrix stays so to the last bit.
    """
    for part in spans(K.shape[0], TILE):
        K[part] *= left[part, None] * right[None, :]
    return K


def symmetrized(K: Array) -> Array:
    """Remove the rounding by which a matrix differs from its transpose."""
    return np.asarray((K + K.T) / 2)


def _reducer(stack: Stack, part: slice) -> tuple[slice, slice, sp.csr_array]:
    """Give the bags that have rows in `part` and the matrix that sums these rows."""
    offsets = stack.offsets
    first = int(np.searchsorted(offsets, part.start, side="right")) - 1
    last = int(np.searchsorted(offsets, part.stop, side="left"))
    indptr = np.clip(offsets[first : last + 1], part.start, part.stop) - part.start
    n_rows = part.stop - part.start
    weights = np.asarray(stack.weight[part], dtype=np.float64)
    matrix = sp.csr_array(
        (weights, np.arange(n_rows), indptr), shape=(last - first, n_rows)
    )
    return part, slice(first, last), matrix
