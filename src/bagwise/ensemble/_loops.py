"""Search for the best decision stump on columns that were sorted once.

A stump says +1 above a cut and -1 below it, or the other way round. With signed
weights w (the sign is the wanted answer, the size its importance) its gain is
``|sum w_i h_i|``, the total weight minus twice the weighted error. Below a cut lies the
prefix sum ``left``, so the gain of a cut is ``|total - 2 left|``: one pass over a
sorted column gives all of them.

In `order` a row number r is stored as ``~r`` (negative) where a larger value follows in
the column: only there can one cut.
"""

from bagwise._jit import njit


@njit()
def total_weight(weight):
    total = 0.0
    for i in range(weight.shape[0]):
        total += weight[i]
    return total


@njit()
def best_dense_cut(order, weight, over_constant, least_gain):
    """Return (feature, position, signed gain); feature -1: no cut beats a constant.

    `order` is (n_features, n_rows). The first cut must be better than a constant answer
    by `over_constant`, a later one by `least_gain`, so that rounding does not decide
    between cuts that are equally good.
    """
    total = total_weight(weight)
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


@njit()
def best_sparse_cut(order, starts, zeros_at, weight, over_constant, least_gain):
    """As `best_dense_cut`, on columns that list what is not zero.

    Column f has the entries ``starts[f]:starts[f + 1]``; its zeros stand just before
    entry ``zeros_at[f]`` (-1: it has none). The position is that of the entry below the
    cut, or ``~k`` when the zeros lie between the entry k above the cut and the rest.
    """
    total = total_weight(weight)
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
