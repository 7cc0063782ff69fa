"""Hausdorff distances between bags, and from instances to bags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bagwise.bags import Bags
from bagwise.bags.segments import segment_max, segment_min, segment_sum
from bagwise.kernels._checks import check_gram_memory, check_option, check_pair
from bagwise.kernels._instance import squared_distances
from bagwise.kernels._loops import nearest_of_bags
from bagwise.kernels._tiles import TILE, spans

Array = npt.NDArray[Any]

HAUSDORFF_MODES = ("min", "max", "mean")

# Pairs recomputed without the matrix product, together.
_PAIR_BYTES = 2**24


def hausdorff(X: Any, Y: Any = None, mode: str = "min") -> npt.NDArray[np.float64]:
    r"""Hausdorff distances between bags.

    With :math:`d(a, B) = \min_{b \in B} |a - b|`, the distance of `A` and `B` is

    .. math::
        \min_{a \in A} d(a, B), \qquad
        \max\Bigl(\max_{a \in A} d(a, B), \max_{b \in B} d(b, A)\Bigr), \qquad
        \frac{\sum_{a \in A} d(a, B) + \sum_{b \in B} d(b, A)}{|A| + |B|}

    where `mode` is "min", "max" and "mean", in this order.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays or CSR matrices
        The bags of the rows and of the columns; `Y` is `X` by default.
    mode : {"min", "max", "mean"}, default="min"
        Which distance. "max" is the classical Hausdorff distance, a metric on sets;
        the other two break the triangle inequality.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The distances. A bag has distance zero to itself, exactly.

    Notes
    -----
    Differs from [1]_, which defines "min" and "max": "mean" is the average of
    [2]_, in which the larger bag weighs more.

    Cost: ``O(n_instances_X * n_instances_Y * n_features)`` as matrix products (half of
    it for "min" with `Y` None, twice for "max" and "mean" with `Y` given). Memory: the
    result, one tile of 512 x 512 and, for "max" and "mean", 512 x n_bags.

    References
    ----------
    .. [1] Wang, J. and Zucker, J.-D., "Solving the Multiple-Instance Problem: A Lazy
       Learning Approach", International Conference on Machine Learning, 2000.
    .. [2] Zhang, M.-L. and Zhou, Z.-H., "Multi-instance clustering with applications
       to multi-instance prediction", Applied Intelligence 31, 2009.
       :doi:`10.1007/s10489-007-0111-x`

    Examples
    --------
    >>> from bagwise.kernels import hausdorff
    >>> X = [[[0.0], [1.0]], [[3.0]]]
    >>> hausdorff(X, mode="max")
    array([[0., 3.],
           [3., 0.]])
    """
    check_option("mode", mode, HAUSDORFF_MODES)
    X, Y = check_pair(X, Y)
    check_gram_memory(X, Y, 1 if mode == "min" else 2)
    if mode == "min":
        return np.sqrt(_smallest(X, Y))
    reduce = segment_max if mode == "max" else segment_sum
    there = _directed(X, X if Y is None else Y, reduce)
    back = there.T if Y is None else _directed(Y, X, reduce).T
    if mode == "max":
        return np.maximum(there, back)
    sizes = X.sizes if Y is None else Y.sizes
    return np.asarray((there + back) / (X.sizes[:, None] + sizes[None, :]))


def nearest_in_bags(data: Any, Y: Bags) -> Iterator[tuple[slice, Array]]:
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
            # Far from the origin the products would lose the digits of the distances.
            self.centre = rows.mean(axis=0)
            self.centred = rows - self.centre
            self.norms = np.einsum("ij,ij->i", self.centred, self.centred)

    def lower(self, other: Any, offsets: Array, out: Array) -> None:
        """Lower `out` to the distance to the nearest row of each bag of `other`."""
        if self.sparse or sp.issparse(other):
            D = exact_squared_distances(other, self.rows)
            np.minimum(out, segment_min(D, offsets).T, out=out)
            return
        if other is self.rows:
            centred, norms = self.centred, self.norms
        else:
            centred = other - self.centre
            norms = np.einsum("ij,ij->i", centred, centred)
        products = self.centred @ centred.T
        scale = float(self.norms.max()) + float(norms.max())
        doubt = scale * float(np.sqrt(np.finfo(products.dtype).eps))
        nearest_of_bags(
            products, self.norms, norms, self.rows, other, offsets, doubt, out
        )


def exact_squared_distances(A: Any, B: Any) -> Array:
    """Squared distances whose small values are right as well.

    A matrix product leaves an error of about the machine precision times the squared
    norms: equal rows come out at 1e-14 instead of 0, and a nearest neighbour would be
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


def _smallest(X: Bags, Y: Bags | None) -> Array:
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


def _directed(X: Bags, Y: Bags, reduce: Any) -> Array:
    """Reduce d(a, B) over the instances a of each bag of `X`, for each B of `Y`."""
    out = np.zeros((X.n_bags, Y.n_bags))  # distances are not negative: 0 is neutral
    for part, squared in nearest_in_bags(X.data, Y):
        bags, offsets = _bags_in(X.offsets, part)
        inside = reduce(np.sqrt(squared), offsets)
        if reduce is segment_max:
            np.maximum(out[bags], inside, out=out[bags])
        else:
            out[bags] += inside
    return out


def _column_tiles(Y: Bags) -> Iterator[tuple[slice, Array, Any]]:
    for part in spans(Y.n_instances, TILE):
        bags, offsets = _bags_in(Y.offsets, part)
        yield bags, offsets, Y.data[part]


def _bags_in(offsets: Array, part: slice) -> tuple[slice, Array]:
    """Give the bags with rows in `part`, and where they begin inside it."""
    first = int(np.searchsorted(offsets, part.start, side="right")) - 1
    last = int(np.searchsorted(offsets, part.stop, side="left"))
    inside = np.clip(offsets[first : last + 1], part.start, part.stop) - part.start
    return slice(first, last), inside
