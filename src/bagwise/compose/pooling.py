"""Summaries of bags: one vector per bag, of dense and of sparse instances."""

import numpy as np
import scipy.sparse as sp

from bagwise.bags.chunks import Chunks, larger_than_chunk
from bagwise.bags.segments import (
    bag_matrix,
    segment_max,
    segment_mean,
    segment_min,
    segment_moments,
)

POOLINGS = ("mean", "max", "min", "minmax", "midpoint", "mean+std", "statistics")


def mostly_zero(X):
    """Whether bags are stored as sparse and most entries are zero."""
    return X.is_sparse and X.data.nnz < 0.5 * X.n_instances * X.n_features


def pool(X, pooling="mean"):
    """Summarize every bag by one vector.

    Parameters
    ----------
    X : Bags
        The bags, dense or CSR.
    pooling : str or callable
        What is taken of each feature: "mean", "max", "min", "minmax", "midpoint",
        "mean+std" or "statistics". "minmax" and "mean+std" give two columns per
        feature, "midpoint" is (min + max) / 2, "statistics" is mean, standard
        deviation, minimum, maximum and the log of the bag's size. A callable gets the
        `Bags` and returns one row per bag.

    Returns
    -------
    array or CSR matrix of shape (n_bags, n_columns)
        CSR for sparse bags, except for what a callable returns.
    """
    if pooling == "bag_rows":
        if X.bag_rows is None:
            raise ValueError(
                "pooling='bag_rows' needs bags with one row each: Bags(..., bag_rows=)."
            )
        return np.asarray(X.bag_rows, dtype=np.float64)
    if callable(pooling):
        rows = pooling(X)
        if getattr(rows, "ndim", None) != 2 or rows.shape[0] != len(X):
            raise ValueError(
                "the pooling function must return one row for each of the "
                f"{len(X)} bags, got shape {getattr(rows, 'shape', None)}."
            )
        return rows
    if larger_than_chunk(X):
        return np.concatenate(Chunks(X).each(_pool_piece, pooling))
    reduce = _reduce_sparse if X.is_sparse else _reduce_dense
    if pooling == "statistics":
        size = np.log(X.sizes)[:, None]
        size = sp.csr_array(size) if X.is_sparse else size
        return _columns(pool(X, "mean+std"), reduce(X, "min"), reduce(X, "max"), size)
    if pooling == "minmax":
        return _columns(reduce(X, "min"), reduce(X, "max"))
    if pooling == "midpoint":
        return 0.5 * (reduce(X, "min") + reduce(X, "max"))
    if pooling == "mean+std":
        mean = reduce(X, "mean")
        if X.is_sparse:
            return _columns(mean, _sparse_spread(X, mean))
        centered = X.data - mean[X.bag_index]
        return _columns(mean, np.sqrt(segment_mean(centered**2, X.offsets)))
    return reduce(X, pooling)


def _pool_piece(piece, pooling):
    """Pool bags that are small enough, with sums in double precision."""
    X = piece.X
    if pooling in ("mean", "mean+std", "statistics"):
        mean, std = segment_moments(X.data, X.offsets, spread=pooling != "mean")
        if pooling == "mean":
            return mean
        if pooling == "mean+std":
            return _columns(mean, std)
        ends = [_reduce_dense(X, op).astype(np.float64) for op in ("min", "max")]
        return _columns(mean, std, *ends, np.log(X.sizes)[:, None])
    named = {"minmax": ("min", "max"), "midpoint": ("min", "max")}
    parts = [
        _reduce_dense(X, op).astype(np.float64) for op in named.get(pooling, (pooling,))
    ]
    return 0.5 * (parts[0] + parts[1]) if pooling == "midpoint" else _columns(*parts)


def _reduce_dense(X, op):
    reduce = {"mean": segment_mean, "max": segment_max, "min": segment_min}[op]
    return reduce(X.data, X.offsets)


def _reduce_sparse(X, op):
    if op == "mean":
        return sp.csr_array(bag_matrix(X.offsets, mean=True) @ X.data)
    rows = [
        getattr(X.data[a:b], op)(axis=0)
        for a, b in zip(X.offsets, X.offsets[1:], strict=False)
    ]
    return sp.vstack([sp.csr_array(r.reshape(1, -1)) for r in rows], format="csr")


def _sparse_spread(X, mean):
    """Return standard deviations of CSR bags, from differences to the means.

    Squares minus the square of the mean lose their digits where the mean is large.
    """
    count = bag_matrix(X.offsets)
    where = X.data.astype(np.float64)
    where.data = np.ones_like(where.data)
    seen = sp.csr_array(count @ where)  # stored entries of each bag and column
    if not seen.nnz:  # SciPy returns no arrays of values for no entries
        return seen
    seen.sort_indices()
    keys = np.repeat(np.arange(seen.shape[0]), np.diff(seen.indptr)) * seen.shape[1]
    keys = keys + seen.indices
    rows = np.repeat(X.bag_index, np.diff(X.data.indptr)) * seen.shape[1]
    place = np.searchsorted(keys, rows + X.data.indices)
    center = mean.tocsr()[
        np.repeat(np.arange(seen.shape[0]), np.diff(seen.indptr)), seen.indices
    ]
    center = np.asarray(center).ravel()
    apart = (X.data.data - center[place]) ** 2
    total = np.bincount(place, weights=apart, minlength=len(keys))
    sizes = np.repeat(X.sizes, np.diff(seen.indptr))
    total += (sizes - seen.data) * center**2  # implicit zeros
    spread = seen.copy()
    spread.data = np.sqrt(total / sizes)
    return spread


def _columns(*parts):
    if sp.issparse(parts[0]):
        return sp.hstack(parts, format="csr")
    return np.hstack(parts)
