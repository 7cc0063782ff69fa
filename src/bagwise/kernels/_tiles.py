r"""Sums of an instance kernel, and nearest instances, over pairs of bags in tiles.

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
from sklearn.utils.extmath import row_norms

from bagwise.bags import Bags
from bagwise.bags.segments import segment_min
from bagwise.kernels._loops import nearest_of_bags, nearest_to_points
from bagwise.kernels.instance import row_products, squared_distances
from bagwise.solvers.pace import paced

Array = npt.NDArray[Any]

# 512 x 512 doubles are 2 MiB: the tile is still in cache when it is exponentiated and
# reduced (measured on 6,598 x 166: 2048 takes twice as long, 256 is no faster).
TILE = 512

# Small bags are compared with themselves in groups: fewer calls, little extra work.
_GROUP = 128


class StackedRows(NamedTuple):
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


def stack_of(X: Bags, weight: Array | None = None) -> StackedRows:
    """Return the rows of `X`, weighted by one by default."""
    if weight is None:
        weight = np.ones(X.n_instances)
    return StackedRows(X.data, X.offsets, weight)


def weighted_sums(
    rows: StackedRows, cols: StackedRows | None, evaluate: Evaluate, *, tile: int = TILE
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
    steps = paced(range(len(left)), "the kernel matrix", "blocks of rows")
    for i, (part, bags, reduce) in zip(steps, left, strict=True):
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
        # The two sums of a bag split by a tile border have different rounding errors.
        out = symmetrized(out)
    return out


def self_sums(stack: StackedRows, evaluate: Evaluate, *, tile: int = TILE) -> Array:
    """Sum weight x weight x kernel over all pairs of instances of the same bag.

    Cost: ``O(sum of max(bag size, 128) x bag size)`` evaluations.
    """
    out = np.empty(stack.n_bags)
    for bags in bag_groups(stack.offsets, min(tile, _GROUP)):
        part = slice(int(stack.offsets[bags.start]), int(stack.offsets[bags.stop]))
        offsets = stack.offsets[bags.start : bags.stop + 1] - part.start
        group = StackedRows(stack.data[part], offsets, stack.weight[part])
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


def _reducer(stack: StackedRows, part: slice) -> tuple[slice, slice, sp.csr_array]:
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


# Bytes of pairs that are recomputed together without the matrix product.
_PAIR_BYTES = 2**24


def nearest_blocks(data: Any, Y: Bags) -> Iterator[tuple[slice, Array]]:
    """Give squared distances of instances to the nearest instance of each bag.

    Blocks of at most 512 rows of `data` at a time: the slice of the rows, and an array
    of shape (rows, n_bags_Y).
    """
    for part in spans(data.shape[0], TILE):
        rows = _Tile(data[part])
        out = np.full((rows.n_rows, Y.n_bags), np.inf)
        for bags, offsets, other in _column_tiles(Y):
            rows.lower(other, offsets, out[:, bags])
        yield part, out


class _Tile:
    """A tile of rows, ready to be compared with other tiles."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.n_rows = int(rows.shape[0])
        self.sparse = bool(sp.issparse(rows))
        if not self.sparse:
            # Far from the origin, distances from products would be inaccurate.
            self.center = rows.mean(axis=0)
            self.centered = rows - self.center
            self.norms = np.einsum("ij,ij->i", self.centered, self.centered)

    def lower(self, other: Any, offsets: Array, out: Array) -> None:
        """Lower `out` to the distance to the nearest row of each bag of `other`."""
        if self.sparse or sp.issparse(other):
            D = exact_squared_distances(other, self.rows)
            np.minimum(out, segment_min(D, offsets).T, out=out)
            return
        if other is self.rows:
            centered, norms = self.centered, self.norms
        else:
            centered = other - self.center
            norms = np.einsum("ij,ij->i", centered, centered)
        products = self.centered @ centered.T
        scale = float(self.norms.max()) + float(norms.max())
        doubt = scale * float(np.sqrt(np.finfo(products.dtype).eps))
        nearest_of_bags(
            products, self.norms, norms, self.rows, other, offsets, doubt, out
        )


def exact_squared_distances(A: Any, B: Any) -> Array:
    """Squared distances whose small values are right as well.

    A matrix product leaves an error of about the machine precision times the squared
    norms: equal rows come out at 1e-14 instead of 0, and a nearest neighbor would be
    chosen by rounding. Pairs that close are computed again from their differences.
    """
    D = np.asarray(squared_distances(A, B))
    doubt = np.sqrt(np.finfo(D.dtype).eps) * D.max(initial=0.0)
    close = np.flatnonzero(D.ravel() < doubt)
    i, j = np.divmod(close, D.shape[1])
    step = max(1, _PAIR_BYTES // (8 * A.shape[1]))
    for s in range(0, i.size, step):
        a, b = i[s : s + step], j[s : s + step]
        if sp.issparse(A) or sp.issparse(B):
            gap = sp.csr_array(A)[a] - sp.csr_array(B)[b]
            D[a, b] = np.asarray(gap.multiply(gap).sum(axis=1)).ravel()
        else:
            gap = A[a] - B[b]
            D[a, b] = np.einsum("ij,ij->i", gap, gap)
    return D


def exact_pair_minimum(A: Array, B: Array) -> float:
    """Smallest squared distance between the rows of two bags, from differences."""
    best = np.inf
    step = max(1, _PAIR_BYTES // (8 * max(1, B.size)))
    for part in spans(A.shape[0], step):
        gap = A[part, None, :].astype(np.float64) - B[None, :, :]
        best = min(best, float(np.einsum("ijk,ijk->ij", gap, gap).min()))
    return best


def smallest_squared(X: Bags, Y: Bags | None) -> Array:
    """Smallest squared distance between the instances of two bags."""
    symmetric = Y is None
    other = X if Y is None else Y
    out = np.full((X.n_bags, other.n_bags), np.inf)
    left = list(_column_tiles(X))
    right = left if symmetric else list(_column_tiles(other))
    for i, (bags, offsets, data) in enumerate(left):
        rows = _Tile(data)
        for other_bags, other_offsets, cols in right[i if symmetric else 0 :]:
            near = np.full((rows.n_rows, other_offsets.shape[0] - 1), np.inf)
            rows.lower(cols, other_offsets, near)
            small = segment_min(near, offsets)
            out[bags, other_bags] = np.minimum(out[bags, other_bags], small)
            if symmetric:
                out[other_bags, bags] = np.minimum(out[other_bags, bags], small.T)
    return np.minimum(out, out.T) if symmetric else out


def _column_tiles(Y: Bags) -> Iterator[tuple[slice, Array, Any]]:
    for part in spans(Y.n_instances, TILE):
        bags, offsets = bags_in(Y.offsets, part)
        yield bags, offsets, Y.data[part]


def bags_in(offsets: Array, part: slice) -> tuple[slice, Array]:
    """Give the bags with rows in `part`, and where they begin inside it."""
    first = int(np.searchsorted(offsets, part.start, side="right")) - 1
    last = int(np.searchsorted(offsets, part.stop, side="left"))
    inside = np.clip(offsets[first : last + 1], part.start, part.stop) - part.start
    return slice(first, last), inside


def points_to_bags(X: Bags, points: Any) -> Array:
    """Squared distance of each bag to each point: the nearest instance counts."""
    A, B = X.data, points
    if not X.is_sparse and not sp.issparse(B):
        # As in `squared_distances`: inaccurate far from the origin.
        center = A.mean(axis=0, dtype=np.float64)
        A, B = A - center, B - center
    norms, others = row_norms(A, squared=True), row_norms(B, squared=True)
    out = np.empty((len(X), B.shape[0]))
    # Tiles of whole bags: the products are still in cache when they are reduced.
    for bags in bag_groups(X.offsets, TILE):
        part = slice(int(X.offsets[bags.start]), int(X.offsets[bags.stop]))
        offsets = X.offsets[bags.start : bags.stop + 1] - part.start
        rows = A[part]
        for points_part in spans(B.shape[0], TILE):
            products = row_products(rows, B[points_part])
            near = np.empty((len(offsets) - 1, products.shape[1]))
            nearest_to_points(products, norms[part], offsets, near)
            near += others[points_part]
            np.maximum(near, 0.0, out=out[bags, points_part])
    return out
