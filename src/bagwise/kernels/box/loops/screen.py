"""Which pairs of points matter for the number of boxes that hit two bags.

A pair (p, q) covers |B(p and q)| boxes. In many dimensions these numbers differ by
hundreds of orders of magnitude, and only a few pairs carry the sum. All pairs are
compared in 16-bit logarithms first; those whose total is provably below `slack` times
the largest pair are left out, and only the others are counted in floats.
"""

import numpy as np

from bagwise._jit import njit
from bagwise.kernels.box.loops.points import GROUP, LANES, coarse_row, log_common

_STORE = 1 << 23  # coarse sums kept between the two passes (16 MB), else recomputed


@njit(nogil=True)
def largest(values):
    """Return the largest value; a loop compiles faster than the method."""
    top = values[0]
    for k in range(values.shape[0]):
        top = max(top, values[k])
    return top


@njit(nogil=True)
def _largest(acc):
    top = np.uint16(0)
    for q in range(acc.shape[0]):
        top = max(top, acc[q])
    return top


@njit(nogil=True)
def _select(own, n_own, block, n_block, margin, flip):
    """Pairs whose coarse sum is within `margin` of the largest, in coarse units."""
    width = block.shape[1]
    stored = n_own * width <= _STORE
    sums = np.empty((n_own if stored else 1, width), np.uint16)
    top = np.uint16(0)
    for p in range(n_own):
        acc = sums[p if stored else 0]
        coarse_row(own, p, block, acc)
        top = max(top, _largest(acc))
    cut = np.float64(top) - margin
    count = 0
    for p in range(n_own):
        acc = sums[p if stored else 0]
        if not stored:
            coarse_row(own, p, block, acc)
        for q in range(n_block):
            count += acc[q] >= cut
    first = np.empty(count, np.int32)
    second = np.empty(count, np.int32)
    m = 0
    for p in range(n_own):
        acc = sums[p if stored else 0]
        if not stored:
            coarse_row(own, p, block, acc)
        for q in range(n_block):
            if acc[q] >= cut:
                first[m] = q if flip else p
                second[m] = p if flip else q
                m += 1
    if flip:  # the order of the pairs must not depend on which side was the longer
        return _by_first(first, second, n_block)
    return first, second


@njit(nogil=True)
def _by_first(first, second, n_values):
    """Order pairs by their first number, those with the same one as they come."""
    place = np.zeros(n_values + 1, np.int64)
    for k in range(first.shape[0]):
        place[first[k] + 1] += 1
    for v in range(n_values):
        place[v + 1] += place[v]
    a, b = np.empty_like(first), np.empty_like(second)
    for k in range(first.shape[0]):
        at = place[first[k]]
        place[first[k]] += 1
        a[at] = first[k]
        b[at] = second[k]
    return a, b


@njit(nogil=True)
def _keep(first, second, logs, n_pairs, slack):
    """Drop the pairs that together hold less than `slack` times the largest."""
    cut = largest(logs) - np.log(n_pairs / slack)
    m = 0
    for k in range(logs.shape[0]):
        if logs[k] >= cut:
            first[m] = first[k]
            second[m] = second[k]
            logs[m] = logs[k]
            m += 1
    return first[:m], second[:m], logs[:m]


@njit(nogil=True)
def pairs_that_matter(P, Q, block_p, block_q, top, error, unit, slack):
    """Pairs of points with their log counts; the rest is below `slack` of the largest.

    `error` bounds how far a coarse sum times `unit` lies below its true logarithm.
    """
    n_p, n_q = P.shape[0], Q.shape[0]
    n_pairs = n_p * n_q
    margin = (error + np.log(n_pairs / slack)) / unit
    if n_q >= n_p:
        first, second = _select(block_p, n_p, block_q, n_q, margin, False)
    else:
        first, second = _select(block_q, n_q, block_p, n_p, margin, True)
    logs = np.empty(first.shape[0])
    factors = np.empty(top.shape[0])
    for k in range(first.shape[0]):
        logs[k] = log_common(P[first[k]], Q[second[k]], top, factors)
    return _keep(first, second, logs, n_pairs, slack)


@njit(nogil=True)
def points_that_matter(P, top, slack):
    """Like `pairs_that_matter` for a bag with itself: the sets are those of points."""
    n_p = P.shape[0]
    first = np.arange(n_p).astype(np.int32)
    logs = np.empty(n_p)
    factors = np.empty(top.shape[0])
    for k in range(n_p):
        logs[k] = log_common(P[k], P[k], top, factors)
    return _keep(first, first.copy(), logs, n_p, slack)


@njit(nogil=True)
def gather_local(P, Q, first, second, same):
    """Coordinates (dimension, point) of the points in play, and pairs in their numbers.

    The points of the first bag come first; the numbers of points of the first bag and
    in all are returned as well. Both axes are padded with zeros for the sampler.
    """
    n_p, n_q = P.shape[0], Q.shape[0]
    where_p = np.full(n_p, -1, np.int32)
    where_q = np.full(n_q, -1, np.int32)
    for k in range(first.shape[0]):
        where_p[first[k]] = 0
        if not same:
            where_q[second[k]] = 0
    m = 0
    for p in range(n_p):
        if where_p[p] == 0:
            where_p[p] = m
            m += 1
    m_p = m
    for q in range(n_q):
        if where_q[q] == 0:
            where_q[q] = m
            m += 1
    d = P.shape[1]
    local = np.zeros((-(-d // GROUP) * GROUP, -(-m // LANES) * LANES), np.uint16)
    for p in range(n_p):
        if where_p[p] >= 0:
            for i in range(d):
                local[i, where_p[p]] = P[p, i]
    for q in range(n_q):
        if where_q[q] >= 0:
            for i in range(d):
                local[i, where_q[q]] = Q[q, i]
    a = np.empty(first.shape[0], np.int32)
    b = np.empty(first.shape[0], np.int32)
    for k in range(first.shape[0]):
        a[k] = where_p[first[k]]
        b[k] = a[k] if same else where_q[second[k]]
    return local, m_p, m, a, b
