"""Exact numbers of boxes by inclusion and exclusion on a tree of bounding boxes."""

import numpy as np

from bagwise._jit import njit
from bagwise.kernels.box.loops.points import log_size_between

NEGLIGIBLE = -46.0  # log of 1e-20: below the rounding of the sum


@njit(nogil=True)
def _grow(lo, hi, level, point):
    """Write the bounding box of box `level` and a point at `level + 1`."""
    for i in range(point.shape[0]):
        lo[level + 1, i] = min(lo[level, i], point[i])
        hi[level + 1, i] = max(hi[level, i], point[i])


@njit(nogil=True)
def _holds_any(lo, hi, points, count):
    for k in range(count):
        inside = True
        for i in range(lo.shape[0]):
            if points[k, i] < lo[i] or points[k, i] > hi[i]:
                inside = False
                break
        if inside:
            return True
    return False


@njit(nogil=True)
def _avoiding(lo, hi, others, count, top, log_scale, budget, cut):
    """N(A, R): boxes that contain box 0 of the stack and none of `others[:count]`.

    N(A, R) is 0 when a point of R lies in A, else |B(A)| minus the sum over i of
    N(bbox(A, r_i), {r_1 .. r_(i-1)}); unrolled, a signed sum over a tree. Returned in
    units of exp(log_scale), with the number of nodes seen (above `budget`: given up).
    """
    if _holds_any(lo[0], hi[0], others, count):
        return 0.0, 1
    scratch = np.empty(top.shape[0])
    total = np.exp(
        log_size_between(lo[0], lo[0], hi[0], hi[0], top, scratch) - log_scale
    )
    child = np.zeros(count + 1, np.int64)
    limit = np.zeros(count + 1, np.int64)
    limit[0] = count
    level = 0
    nodes = 1
    while level >= 0:
        k = child[level]
        if k == limit[level]:
            level -= 1
            continue
        child[level] += 1
        nodes += 1
        if nodes > budget:
            return total, nodes
        _grow(lo, hi, level, others[k])
        if _holds_any(lo[level + 1], hi[level + 1], others, k):
            continue
        low, high = lo[level + 1], hi[level + 1]
        size = log_size_between(low, low, high, high, top, scratch) - log_scale
        if size < cut:  # 0 <= N <= |B|: leaving it out is a certified error
            continue
        level += 1
        total += -np.exp(size) if level % 2 else np.exp(size)
        child[level] = 0
        limit[level] = k
    return total, nodes


@njit(nogil=True)
def tree_count(P, Q, same, top, log_max, budget, cut):
    """Logarithm of the number of boxes with a point of both sets, or NaN.

    Every such box has a first point p_i of P and a first point q_j of Q: the sum over
    (i, j) of N(bbox(p_i, q_j), earlier points) has positive terms only, each at most
    exp(log_max), so nothing cancels between pairs. Boxes below exp(log_max + cut) are
    not followed: each is an error of at most that. NaN: more than `budget` nodes.
    """
    d = top.shape[0]
    n_p = P.shape[0]
    n_q = 1 if same else Q.shape[0]
    others = np.empty((n_p + n_q, d), np.uint16)
    lo = np.empty((n_p + n_q + 1, d), np.uint16)
    hi = np.empty((n_p + n_q + 1, d), np.uint16)
    total = 0.0
    for p in range(n_p):
        if p > 0:
            for i in range(d):
                others[p - 1, i] = P[p - 1, i]
        for q in range(n_q):
            if q > 0:
                for i in range(d):
                    others[p + q - 1, i] = Q[q - 1, i]
            partner = P[p] if same else Q[q]
            for i in range(d):
                lo[0, i] = min(P[p, i], partner[i])
                hi[0, i] = max(P[p, i], partner[i])
            part, nodes = _avoiding(lo, hi, others, p + q, top, log_max, budget, cut)
            budget -= nodes
            if budget < 0:
                return np.nan
            total += part
    return np.log(total) + log_max


@njit(nogil=True)
def _gaps(mark):
    """Intervals without a marked value: the sum of g (g + 1) / 2 over gaps."""
    total = 0.0
    gap = 0.0
    for v in range(mark.shape[0]):
        if mark[v]:
            total += gap * (gap + 1.0) / 2.0
            gap = 0.0
        else:
            gap += 1.0
    return total + gap * (gap + 1.0) / 2.0


@njit(nogil=True)
def line_count(P, Q, top):
    """Logarithm of the number of intervals with a point of both sets (one dimension).

    |B(P and Q)| = |B(P)| + |B(Q)| - |B(P u Q)|, in whole numbers below 2**53.
    """
    n = np.int64(top[0]) + 1
    in_p = np.zeros(n, np.bool_)
    in_q = np.zeros(n, np.bool_)
    in_any = np.zeros(n, np.bool_)
    for k in range(P.shape[0]):
        in_p[P[k, 0]] = True
        in_any[P[k, 0]] = True
    for k in range(Q.shape[0]):
        in_q[Q[k, 0]] = True
        in_any[Q[k, 0]] = True
    every = n * (n + 1.0) / 2.0
    count = every - _gaps(in_p) - _gaps(in_q) + _gaps(in_any)
    return np.log(count)
