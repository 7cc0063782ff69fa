"""Exact numbers of boxes by inclusion and exclusion on a tree of bounding boxes."""

import numpy as np

from bagwise._jit import njit
from bagwise.kernels.box.loops.points import log_boxes

NEGLIGIBLE = -46.0  # log of 1e-20: below the rounding of the sum


@njit(nogil=True)
def _avoiding(codes, a, b, others, count, scale, budget, cut, look, boxes, path, sides):
    """N(A, R): boxes that hold points a and b, and none of the points `others[:count]`.

    N(A, R) is 0 when a point of R lies in A, else |B(A)| minus the sum over i of
    N(bbox(A, r_i), {r_1 .. r_(i-1)}); unrolled, a signed sum over a tree. Returned in
    units of exp(scale), with the number of nodes below the second level (above
    `budget`: given up). With `look` the nodes are those of the first two levels, and
    nothing is counted.
    """
    total = 0.0
    level = 0  # of the box that is tried; its parent is one above
    nodes = 0
    tried = count
    while True:
        box = boxes[level]
        u = boxes[level - 1] if level > 0 else codes[a]
        v = codes[others[tried] if level > 0 else b]
        for i in range(box.shape[0]):
            box[i] = min(u[i], v[i])
        held = False
        for k in range(tried):
            held = True
            for i in range(box.shape[0]):
                if codes[others[k], i] < box[i]:
                    held = False
                    break
            if held:
                break
        if look:
            return total, 1 if held else 1 + count
        if not held:
            size = log_boxes(box, sides) - scale
            # 0 <= N <= |B|: leaving a small one out is a certified error
            if level == 0 or size >= cut:
                total += -np.exp(size) if level % 2 else np.exp(size)
                path[level, 0], path[level, 1] = 0, tried
                nodes += tried if level > 0 else 0  # all of them will be tried
                if nodes > budget:
                    return total, nodes
                level += 1
        while level > 0 and path[level - 1, 0] == path[level - 1, 1]:
            level -= 1
        if level == 0:
            return total, nodes
        tried = path[level - 1, 0]
        path[level - 1, 0] += 1


@njit(
    nogil=True,
    shapes={
        "codes": "n 2h",
        "points": "p in n",
        "starts": "k+1 to p",
        "n_first": "k",
        "logs": "k",
        "others": "*",
        "boxes": "* 2h",
        "path": "* 2",
        "sides": "h",
    },
)
def count_on_trees(
    codes, points, starts, n_first, logs, budget, cut, others, boxes, path, sides
):
    """Logarithms of the numbers of boxes with a point of both sets.

    The points of pair k are ``points[starts[k] : starts[k + 1]]``, those of P before
    those of Q, of which there are none where Q is P. `logs` comes with the logarithm of
    the largest B(p and q).

    Every such box has a first point p_i of P and a first point q_j of Q: the sum over
    (i, j) of N(bbox(p_i, q_j), earlier points) has positive terms only, each at most
    the largest set, so nothing cancels between pairs. Boxes smaller by exp(cut) are
    not followed: each is an error of at most that. NaN: more than `budget` nodes.
    """
    for k in range(logs.shape[0]):
        at_p, at_q, end = starts[k], starts[k] + n_first[k], starts[k + 1]
        total = 0.0
        left = budget
        for look in range(2):  # most trees that are too large are so on two levels
            for p in range(at_p, at_q):
                if p > at_p:
                    others[p - at_p - 1] = points[p - 1]
                for q in range(at_q, end if end > at_q else at_q + 1):
                    if q > at_q:
                        others[p - at_p + q - at_q - 1] = points[q - 1]
                    if left >= 0:
                        part, nodes = _avoiding(
                            codes,
                            points[p],
                            points[q if end > at_q else p],
                            others,
                            p - at_p + q - at_q,
                            logs[k],
                            left,
                            cut,
                            look == 0,
                            boxes,
                            path,
                            sides,
                        )
                        total += part
                        left -= nodes
        logs[k] = logs[k] + np.log(total) if left >= 0 else np.nan


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


@njit(
    nogil=True,
    shapes={
        "rows": "n 1 in v",
        "offsets": "b+1 to n",
        "marks": "3 v",
        "left": "k in b",
        "right": "k in b",
        "log_counts": "k",
    },
)
def count_on_line(rows, offsets, marks, left, right, log_counts):
    """Logarithms of the numbers of intervals with a point of both sets, one dimension.

    |B(P and Q)| = |B(P)| + |B(Q)| - |B(P u Q)|, in whole numbers below 2**53. `marks`
    is memory for three marks of each level.
    """
    in_p, in_q, in_any = marks[0], marks[1], marks[2]
    n = in_p.shape[0]
    every = n * (n + 1.0) / 2.0
    for k in range(left.shape[0]):
        for v in range(n):
            in_p[v] = in_q[v] = in_any[v] = False
        for r in range(offsets[left[k]], offsets[left[k] + 1]):
            in_p[rows[r, 0]] = in_any[rows[r, 0]] = True
        for r in range(offsets[right[k]], offsets[right[k] + 1]):
            in_q[rows[r, 0]] = in_any[rows[r, 0]] = True
        count = every - _gaps(in_p) - _gaps(in_q) + _gaps(in_any)
        log_counts[k] = np.log(count)
