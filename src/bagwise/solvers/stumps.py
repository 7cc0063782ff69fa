"""Decision stumps with the smallest weighted error, on columns that are sorted once.

A stump says +1 above a threshold and -1 below it, or the other way round. With signed
weights w (the sign is the wanted answer, the size its importance) its gain is
``|sum w_i h_i|``, the total weight minus twice the weighted error. Below a threshold
lies the prefix sum ``left``, so the gain of a threshold is ``|total - 2 left|``: one
pass over a sorted column gives all of them.

In `order` a row number r is stored as ``~r`` (negative) where a larger value follows in
the column: only there can a threshold be.
"""

import numpy as np
import scipy.sparse as sp

from bagwise._jit import njit
from bagwise._sizes import check_memory

# Gains that differ by less, relative to the total weight, are ties. The first feature
# and the lowest threshold are chosen, independent of the order of the rows.
_ROUNDING = 1e-12
# Number of values that are sorted at a time.
_BLOCK_VALUES = 2**24
# A threshold must beat a constant prediction by this fraction of the weight. At the
# start of noisy-or, positive bags have almost no weight, and a threshold around them
# would increase the scores of a region for a millionth of the weight.
_CONSTANT = 1e-6


class Stump:
    """Answer `sign` above a threshold of one feature and `-sign` below it.

    Parameters
    ----------
    feature : int
        The column; -1 for a constant answer.
    threshold : float
        Values equal to it are below. Minus infinity for a constant answer.
    sign : float
        +1 or -1.
    """

    def __init__(self, feature, threshold, sign):
        self.feature = int(feature)
        self.threshold = float(threshold)
        self.sign = float(sign)

    def __repr__(self):
        if self.feature < 0:
            return f"Stump({self.sign:+.0f})"
        return (
            f"Stump({self.sign:+.0f} if x[{self.feature}] > {self.threshold:.6g} else "
            f"{-self.sign:+.0f})"
        )

    def predict(self, data):
        """Return +1 or -1 for each row."""
        if self.feature < 0:
            return np.full(data.shape[0], self.sign)
        if sp.issparse(data):
            return self.of_column(data[:, [self.feature]].toarray()[:, 0])
        return self.of_column(data[:, self.feature])

    def of_column(self, values):
        """Return +1 or -1 for each value of the stump's feature."""
        return np.where(values > self.threshold, self.sign, -self.sign)


class SortedColumns:
    """Columns of a matrix in ascending order, ready for stump after stump.

    Sorting costs O(n d log n) once; a search then costs one pass over the entries,
    O(n d), or O(number of entries) for CSR.

    Parameters
    ----------
    data : ndarray or CSR matrix of shape (n_rows, n_features)
        The rows.
    """

    def __init__(self, data):
        self.is_sparse = sp.issparse(data)
        if self.is_sparse:
            self._sort_sparse(data)
        else:
            self._sort_dense(data)

    def _sort_dense(self, data):
        n, d = data.shape
        what = f"the sorted columns of {n} x {d} values"
        check_memory(4.0 * n * d, what, "Use a tree as `estimator`, or fewer features.")
        self._data = data
        self._order = np.empty((d, n), dtype=np.int32)
        step = max(1, _BLOCK_VALUES // n)
        for part in (slice(k, k + step) for k in range(0, d, step)):
            columns = np.ascontiguousarray(data[:, part].T)
            order = np.argsort(columns, axis=1, kind="stable")
            ranked = np.take_along_axis(columns, order, axis=1)
            rises = ranked[:, 1:] > ranked[:, :-1]
            np.invert(order[:, :-1], out=order[:, :-1], where=rises)
            self._order[part] = order

    def _sort_sparse(self, data):
        columns = sp.csc_matrix(data, copy=True)
        columns.eliminate_zeros()
        n, d = data.shape
        counts = np.diff(columns.indptr)
        column = np.repeat(np.arange(d), counts)
        order = np.lexsort((columns.indices, columns.data, column))
        values, rows = columns.data[order], columns.indices[order].astype(np.int32)
        starts = columns.indptr.astype(np.int64)
        below = np.bincount(column[values < 0], minlength=d)
        zeros_at = np.where(counts < n, starts[:-1] + below, -1)
        same_column = np.append(column[1:] == column[:-1], False)
        larger_follows = same_column & np.append(values[1:] > values[:-1], False)
        # Zeros at the end of their column follow its last entry.
        tail = (zeros_at == starts[1:]) & (counts > 0)
        larger_follows[starts[1:][tail] - 1] = True
        self._order = np.where(larger_follows, ~rows, rows)
        self._starts, self._zeros_at, self._values = starts, zeros_at, values

    def best_stump(self, weight):
        """Return the stump with the largest ``sum_i weight_i h_i``.

        Parameters
        ----------
        weight : ndarray of shape (n_rows,)
            The sign is the wanted answer, the absolute value its importance.

        Returns
        -------
        Stump
            A constant one where no threshold is better by a millionth of the sum
            of the absolute weights.
        """
        size = float(np.abs(weight).sum())
        if self.is_sparse:
            search, args = best_sparse_threshold, (self._starts, self._zeros_at)
        else:
            search, args = best_dense_threshold, ()
        least = _CONSTANT * size, _ROUNDING * size
        feature, k, gain = search(self._order, *args, weight, *least)
        if feature < 0:
            return Stump(-1, -np.inf, -1.0 if gain < 0 else 1.0)
        low, high = self._neighbors(feature, k)
        middle = 0.5 * low + 0.5 * high
        # For adjacent floats, the lower one itself is the threshold.
        threshold = middle if low <= middle < high else low
        return Stump(feature, threshold, 1.0 if gain > 0 else -1.0)

    def _neighbors(self, feature, k):
        """Return the values below and above a threshold."""
        if not self.is_sparse:
            rows = self._order[feature, k : k + 2]
            rows = np.where(rows < 0, ~rows, rows)
            low, high = self._data[rows, feature]
            return float(low), float(high)
        if k < 0:
            return 0.0, float(self._values[~k])
        if k + 1 == self._zeros_at[feature]:
            return float(self._values[k]), 0.0
        return float(self._values[k]), float(self._values[k + 1])


@njit()
def _total(weight):
    total = 0.0
    for i in range(weight.shape[0]):
        total += weight[i]
    return total


@njit(shapes={"order": "d n", "weight": "n"})
def best_dense_threshold(order, weight, over_constant, least_gain):
    """Return (feature, position, signed gain); feature -1: a constant is best.

    `order` is (n_features, n_rows). The first threshold must be better than a constant
    by `over_constant`, a later one by `least_gain`, so that rounding does not decide
    between thresholds that are equally good.
    """
    total = _total(weight)
    gain, best = total, abs(total) + over_constant
    feature, position = -1, -1
    for f in range(order.shape[0]):
        left = 0.0
        for k in range(order.shape[1]):
            r = order[f, k]
            if r >= 0:
                left += weight[r]
                continue
            left += weight[~r]
            value = total - 2.0 * left
            if abs(value) > best:
                gain, best = value, abs(value) + least_gain
                feature, position = f, k
    return feature, position, gain


@njit(shapes={"order": "e", "starts": "d+1 to e", "zeros_at": "d", "weight": "n"})
def best_sparse_threshold(order, starts, zeros_at, weight, over_constant, least_gain):
    """As `best_dense_threshold`, on columns that list what is not zero.

    Column f has the entries ``starts[f]:starts[f + 1]``; its zeros come just before
    entry ``zeros_at[f]`` (-1: it has none). The position is that of the entry below the
    threshold, or ``~k`` when the zeros lie between the entry k above it and the rest.
    """
    total = _total(weight)
    gain, best = total, abs(total) + over_constant
    feature, position = -1, -1
    for f in range(starts.shape[0] - 1):
        first, last = starts[f], starts[f + 1]
        zeros = zeros_at[f]
        rest = total
        if zeros >= 0:
            for k in range(first, last):
                r = order[k]
                rest -= weight[r if r >= 0 else ~r]
        left = 0.0
        for k in range(first, last):
            if k == zeros:
                left += rest
                value = total - 2.0 * left
                if abs(value) > best:
                    gain, best = value, abs(value) + least_gain
                    feature, position = f, ~k
            r = order[k]
            if r >= 0:
                left += weight[r]
                continue
            left += weight[~r]
            value = total - 2.0 * left
            if abs(value) > best:
                gain, best = value, abs(value) + least_gain
                feature, position = f, k
    return feature, position, gain
