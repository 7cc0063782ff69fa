"""Reductions over the instances of each bag.

`values` has one entry or one row per instance and `offsets` the n_bags + 1 row numbers
at which bags begin, as in `Bags`. All functions reduce along the first axis. Bags are
never empty (`Bags` refuses empty bags). Therefore `numpy.ufunc.reduceat` is safe here:
on an empty segment it would silently return the value of the next one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise._later import sparse as sp
from bagwise.bags import _loops as compiled

Array = npt.NDArray[Any]
Offsets = npt.NDArray[np.int64]

_REDUCERS: dict[str, np.ufunc] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
}

# A compiled loop is 2 to 6 times faster on one long column (benchmarks/bench_bags.py),
# and ten times on long segments of many columns, where NumPy reduces column by column;
# for few rows, loading it costs more than it saves.
_COMPILED = {"sum": compiled.sum_1d, "max": compiled.max_1d, "min": compiled.min_1d}
_COMPILED_FROM = 10_000
_COMPILED_TYPES = (np.float64, np.float32)
_WIDE = {"sum": compiled.sum_2d, "max": compiled.max_2d, "min": compiled.min_2d}
_WIDE_FROM = 200_000  # array entries
_LONG = 8  # rows per segment
# From this many entries on, a sparse product sums faster than NumPy; other reductions
# are faster by layers if each layer has this many entries.
_PRODUCT_FROM = 20_000
_LAYER_FROM = 1_000


def _reduce(op: str, values: npt.ArrayLike, offsets: Offsets, axis: int = 0) -> Array:
    array = np.asarray(values)
    n_rows = array.shape[axis]
    if offsets[-1] != n_rows:
        raise ValueError(f"offsets end at {offsets[-1]}, there are {n_rows} rows")
    if offsets.shape[0] == n_rows + 1:  # bags of one instance: nothing to reduce
        return array.copy()
    if array.ndim == 1 and n_rows >= _COMPILED_FROM and array.dtype in _COMPILED_TYPES:
        return _COMPILED[op](array, offsets)
    if axis == 0 and _is_wide(array, offsets):
        start = array[offsets[:-1]]
        out = np.zeros_like(start) if op == "sum" else start.copy()
        _WIDE[op](array, offsets, out)
        return out
    if axis == 0 and array.ndim == 2 and array.size >= _PRODUCT_FROM:
        if op == "sum" and array.dtype == np.float64:
            return np.asarray(bag_matrix(offsets) @ array)
        if op != "sum" and array.size >= _LAYER_FROM * np.diff(offsets).max():
            return _reduce_layers(_REDUCERS[op], array, offsets)
    return _REDUCERS[op].reduceat(array, offsets[:-1], axis=axis)


def _reduce_layers(reducer: np.ufunc, array: Array, offsets: Offsets) -> Array:
    """Reduce the first rows of all bags with their second ones, and so on.

    With the largest bags first, those that have one more row stand at the beginning.
    """
    sizes = np.diff(offsets)
    order = np.argsort(-sizes, kind="stable")
    first = offsets[:-1][order]
    out = array[first]
    with_more = sizes.shape[0] - np.cumsum(np.bincount(sizes))
    for k in range(1, int(sizes.max())):
        part = out[: with_more[k]]
        reducer(part, array[first[: with_more[k]] + k], out=part)
    result = np.empty_like(out)
    result[order] = out
    return result


def _is_wide(array: Array, offsets: Offsets) -> bool:
    """Whether a compiled loop over rows is worth it."""
    return (
        array.ndim == 2
        and array.dtype in _COMPILED_TYPES
        and array.size >= _WIDE_FROM
        and array.shape[0] >= _LONG * (len(offsets) - 1)
        and array.flags.c_contiguous
    )


def segment_moments(
    values: Array, offsets: Offsets, *, spread: bool = True
) -> tuple[Array, Array]:
    """Mean and standard deviation of each bag, summed in double precision.

    For matrices in memory of either precision, without a copy in double precision.
    The deviations are zero unless `spread` asks for them.
    """
    array = np.ascontiguousarray(values)
    shape = (len(offsets) - 1, array.shape[1])
    count = _column(np.diff(offsets), 2)
    mean, square = np.zeros(shape), np.zeros(shape)
    compiled.sum_2d(array, offsets, mean)
    mean /= count
    if spread:
        compiled.square_2d(array, offsets, mean, square)
    return mean, np.sqrt(square / count)


def segment_sum(values: npt.ArrayLike, offsets: Offsets) -> Array:
    """Sum over the instances of each bag."""
    return _reduce("sum", values, offsets)


def segment_mean(values: npt.ArrayLike, offsets: Offsets) -> Array:
    """Mean over the instances of each bag."""
    total = _reduce("sum", values, offsets)
    return total / _column(np.diff(offsets), total.ndim)


def segment_max(values: npt.ArrayLike, offsets: Offsets) -> Array:
    """Largest value of each bag."""
    return _reduce("max", values, offsets)


def segment_min(values: npt.ArrayLike, offsets: Offsets) -> Array:
    """Smallest value of each bag."""
    return _reduce("min", values, offsets)


def segment_argmax(values: npt.ArrayLike, offsets: Offsets) -> Array:
    """Row of the first maximizer of each bag, counted from the top of the stack.

    For 2-D values the result has one row number per bag and column.
    """
    array = np.asarray(values)
    top = repeat(segment_max(array, offsets), offsets)
    rows = _column(np.arange(array.shape[0]), array.ndim)
    return segment_min(np.where(array == top, rows, array.shape[0]), offsets)


def segment_argmax_share(values: npt.ArrayLike, offsets: Offsets) -> Array:
    """Weight 1 / (number of maximizers) on every maximizer of its bag, 0 elsewhere.

    This is the subgradient of the maximum with equal weights of ties.
    """
    array = np.asarray(values)
    hit = (array == repeat(segment_max(array, offsets), offsets)).astype(np.float64)
    return hit / repeat(segment_sum(hit, offsets), offsets)


def segment_logsumexp(values: npt.ArrayLike, offsets: Offsets) -> Array:
    """Logarithm of the summed exponentials of each bag, without overflow."""
    array = np.asarray(values)
    top = segment_max(array, offsets)
    anchor = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):  # a bag of -inf gives -inf
        total = segment_sum(np.exp(array - repeat(anchor, offsets)), offsets)
        return anchor + np.log(total)


def segment_softmax(values: npt.ArrayLike, offsets: Offsets) -> Array:
    """Exponentials of each bag divided by their sum."""
    array = np.asarray(values)
    power = np.exp(array - repeat(segment_max(array, offsets), offsets))
    return power / repeat(segment_sum(power, offsets), offsets)


def repeat(per_bag: npt.ArrayLike, offsets: Offsets) -> Array:
    """Give every instance the value of its bag."""
    return np.repeat(np.asarray(per_bag), np.diff(offsets), axis=0)


def bag_matrix(offsets: Offsets, *, mean: bool = False) -> sp.csr_array:
    """Sparse (n_bags, n_instances) matrix that sums, or averages, instances."""
    n_rows = int(offsets[-1])
    sizes = np.diff(offsets)
    weight = np.repeat(1.0 / sizes if mean else np.ones(sizes.shape), sizes)
    # Products keep the index type, and some solvers do not accept 64-bit indices.
    index = np.int32 if n_rows < 2**31 else np.int64
    parts = (weight, np.arange(n_rows, dtype=index), offsets.astype(index))
    return sp.csr_array(parts, shape=(sizes.shape[0], n_rows))


def _column(per_row: Array, ndim: int) -> Array:
    return per_row if ndim == 1 else per_row[:, None]
