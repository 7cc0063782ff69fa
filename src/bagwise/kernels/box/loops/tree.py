"""Exact numbers of boxes by inclusion and exclusion on a tree of bounding boxes."""

import numpy as np

from bagwise._jit import njit
from bagwise.kernels.box.loops.points import log_product
from bagwise.kernels.box.loops.screen import AUTO, HOW_BOUNDS, HOW_EXACT, HOW_FAILED

_NEGLIGIBLE = -46.0  # log of 1e-20: below the rounding of the sum


@njit(nogil=True, inline="always")
def _holds_any(lo, hi, level, rows, others, count):
    for k in range(count):
        inside = True
        for i in range(lo.shape[1]):
            v = rows[others[k], i]
            if v < lo[level, i] or v > hi[level, i]:
                inside = False
                break
        if inside:
            return True
    return False


@njit(nogil=True)
def _avoiding(rows, p, q, others, count, top, log_scale, budget, cut, stack, root):
    """N(A, R): boxes that hold points p and q, and none of the points `others[:count]`.

    N(A, R) is 0 when a point of R lies in A, else |B(A)| minus the sum over i of
    N(bbox(A, r_i), {r_1 .. r_(i-1)}); unrolled, a signed sum over a tree. Returned in
    units of exp(log_scale), with the number of nodes below the second level (above
    `budget`: given up). With `root` the nodes are those of the first two levels, and
    nothing is counted.
    """
    lo, hi, child, limit, factors = stack
    total = 0.0
    level = 0  # of the box that is tried; its parent is one above
    nodes = 0
    tried = count
    while True:
        for i in range(top.shape[0]):
            if level == 0:
                lo[0, i] = min(rows[p, i], rows[q, i])
                hi[0, i] = max(rows[p, i], rows[q, i])
            else:
                v = rows[others[tried], i]
                lo[level, i] = min(lo[level - 1, i], v)
                hi[level, i] = max(hi[level - 1, i], v)
        held = _holds_any(lo, hi, level, rows, others, tried)
        if root:
            return total, 1 if held else 1 + count
        if not held:
            for i in range(top.shape[0]):
                room = np.float64(top[i]) - np.float64(hi[level, i]) + 1.0
                factors[i] = (np.float64(lo[level, i]) + 1.0) * room
            size = log_product(factors) - log_scale
            # 0 <= N <= |B|: leaving a small one out is a certified error
            if level == 0 or size >= cut:
                total += -np.exp(size) if level % 2 else np.exp(size)
                child[level] = 0
                limit[level] = tried
                nodes += tried if level > 0 else 0  # all of them will be tried
                if nodes > budget:
                    return total, nodes
                level += 1
        while level > 0 and child[level - 1] == limit[level - 1]:
            level -= 1
        if level == 0:
            return total, nodes
        tried = child[level - 1]
        child[level - 1] += 1


@njit(nogil=True)
def _tree_count(rows, points, n_p, n_q, same, top, log_max, budget, cut, others, stack):
    """Logarithm of the number of boxes with a point of both sets, or NaN.

    Every such box has a first point p_i of P and a first point q_j of Q: the sum over
    (i, j) of N(bbox(p_i, q_j), earlier points) has positive terms only, each at most
    exp(log_max), so nothing cancels between pairs. Boxes below exp(log_max + cut) are
    not followed: each is an error of at most that. NaN: more than `budget` nodes.
    """
    total = 0.0
    for look in range(2):  # most trees that are too large are so on two levels
        for p in range(n_p):
            if p > 0:
                others[p - 1] = points[p - 1]
            for q in range(1 if same else n_q):
                if q > 0:
                    others[p + q - 1] = points[n_p + q - 1]
                part, nodes = _avoiding(
                    rows,
                    points[p],
                    points[p] if same else points[n_p + q],
                    others,
                    p + q,
                    top,
                    log_max,
                    budget,
                    cut,
                    stack,
                    look == 0,
                )
                budget -= nodes
                if budget < 0:
                    return np.nan
                total += part
    return np.log(total) + log_max


@njit(nogil=True)
def count_on_trees(
    rows,
    offsets,
    top,
    left,
    right,
    same,
    todo,
    points,
    places,
    slack,
    method,
    limits,
    every,
    others,
    stack,
    log_counts,
    how,
    errors,
):
    """Count the pairs `todo` of bags on a tree where it is small enough.

    `log_counts` comes with the logarithm of the largest set. `limits` are the nodes of
    an exact tree, then for AUTO the points of an exact tree, the nodes of a tree, and
    the points of one that is cut short. In many dimensions boxes around three points
    are rare, and few branches matter. At most `nodes` branches of at most slack / nodes
    are cut, which is `slack` in all; the points that were left out before are another
    `slack`.
    """
    large, small, nodes, most = limits
    budget = nodes if method == AUTO else large
    for t in range(todo.shape[0]):
        k = todo[t]
        log_max = log_counts[k]
        for short in range(2):
            if short:
                n_p = places[k, 1]
                n_q = places[k + 1, 0] - places[k, 0] - n_p
                if n_p + n_q > most:
                    break
                for r in range(n_p + n_q):
                    every[r] = points[places[k, 0] + r]
            else:
                at_p, at_q = offsets[left[k]], offsets[right[k]]
                n_p = offsets[left[k] + 1] - at_p
                n_q = 0 if same[k] else offsets[right[k] + 1] - at_q
                if method == AUTO and n_p + n_q > small:
                    continue
                for r in range(n_p + n_q):
                    every[r] = at_p + r if r < n_p else at_q + r - n_p
            cut = np.log(slack / nodes) if short else _NEGLIGIBLE
            log_count = _tree_count(
                rows, every, n_p, n_q, same[k], top, log_max, budget, cut, others, stack
            )
            if not np.isnan(log_count):
                log_counts[k] = log_count
                how[k] = HOW_BOUNDS if short else HOW_EXACT
                errors[k] = 2.0 * slack if short else 0.0
                break
            if method != AUTO:
                log_counts[k] = np.nan
                how[k] = HOW_FAILED
                break


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
def count_on_line(rows, offsets, top, left, right, log_counts):
    """Logarithms of the numbers of intervals with a point of both sets, one dimension.

    |B(P and Q)| = |B(P)| + |B(Q)| - |B(P u Q)|, in whole numbers below 2**53.
    """
    n = np.int64(top[0]) + 1
    every = n * (n + 1.0) / 2.0
    in_p = np.empty(n, np.bool_)
    in_q = np.empty(n, np.bool_)
    in_any = np.empty(n, np.bool_)
    for k in range(left.shape[0]):
        for v in range(n):
            in_p[v] = in_q[v] = in_any[v] = False
        for r in range(offsets[left[k]], offsets[left[k] + 1]):
            in_p[rows[r, 0]] = in_any[rows[r, 0]] = True
        for r in range(offsets[right[k]], offsets[right[k] + 1]):
            in_q[rows[r, 0]] = in_any[rows[r, 0]] = True
        count = every - _gaps(in_p) - _gaps(in_q) + _gaps(in_any)
        log_counts[k] = np.log(count)
