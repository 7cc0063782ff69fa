"""Which pairs of points can matter for the number of boxes that hit two bags.

A pair (p, q) covers |B(p and q)| boxes. In many dimensions these numbers differ by
hundreds of orders of magnitude, and only a few pairs carry the sum. All pairs are
compared in 16-bit logarithms first; those whose total is provably below `slack` times
the largest pair are left out, and only the others are counted in floats.
"""

import numpy as np

from bagwise._jit import njit
from bagwise.kernels.box.loops.points import UNROLL, log_boxes

AUTO, EXACT, COVERAGE, INDICATOR, SELF_ADJUSTING = 0, 1, 2, 3, 4
HOW_EXACT, HOW_BOUNDS, HOW_SAMPLED, HOW_BOXES, HOW_FAILED = 0, 1, 2, 3, 4


@njit(
    nogil=True,
    shapes={
        "blocks": "*",
        "starts": "b+1",
        "sizes": "b",
        "rows": "k in b",
        "columns": "k in b",
        "margins": "k",
        "sums": "*",
        "sets": "3 *",
        "ends": "k+1",
    },
)
def screen(blocks, starts, sizes, rows, columns, margins, sums, sets, ends):
    """Pairs of points that may matter for pairs of bags.

    A pair of points is one if its coarse logarithm is at most ``margins[k]`` below the
    largest of pair k of bags. The numbers of the points in bags ``rows[k]`` and
    ``columns[k]``, and that logarithm, are put into the rows of `sets`, up to
    ``ends[k + 1]`` behind pair k of bags. Returns the pair of bags where the room was
    spent, and the room that it needs.
    """
    height = blocks.shape[0] // starts[-1]
    room = sets.shape[1]
    used = 0
    for k in range(margins.shape[0]):
        i, j = rows[k], columns[k]
        step, width = starts[i + 1] - starts[i], starts[j + 1] - starts[j]
        acc = sums[:width]
        cut = 0
        count = used
        for p in range(sizes[i]):
            own, block = height * starts[i] + p, height * starts[j]
            for q in range(width):
                acc[q] = 0
            for _ in range(0, height, UNROLL):
                a0, a1 = blocks[own], blocks[own + step]
                a2, a3 = blocks[own + 2 * step], blocks[own + 3 * step]
                r0 = blocks[block : block + width]
                r1 = blocks[block + width : block + 2 * width]
                r2 = blocks[block + 2 * width : block + 3 * width]
                r3 = blocks[block + 3 * width : block + 4 * width]
                for q in range(width):
                    acc[q] += np.uint16(
                        min(r0[q], a0)
                        + min(r1[q], a1)
                        + min(r2[q], a2)
                        + min(r3[q], a3)
                    )
                own += UNROLL * step
                block += UNROLL * width
            for q in range(sizes[j]):
                level = np.int64(acc[q])
                if level >= cut:  # so far: the largest may be still to come
                    if level - margins[k] > cut:
                        cut = level - margins[k]
                    if count < room:
                        sets[0, count], sets[1, count], sets[2, count] = p, q, level
                    count += 1
        if count > room:
            return k, count - used
        for m in range(used, count):
            if sets[2, m] >= cut:
                sets[0, used], sets[1, used] = sets[0, m], sets[1, m]
                used += 1
        ends[k + 1] = used
    return margins.shape[0], 0


@njit(
    nogil=True,
    shapes={
        "codes": "n 2h",
        "p": "k in n",
        "q": "k in n",
        "box": "2h",
        "sides": "h",
        "logs": "k",
    },
)
def log_sizes(codes, p, q, box, sides, logs):
    """Logarithms of |B(p and q)| for pairs of points."""
    for m in range(logs.shape[0]):
        of_p, of_q = codes[p[m]], codes[q[m]]
        for i in range(box.shape[0]):
            box[i] = min(of_p[i], of_q[i])
        logs[m] = log_boxes(box, sides)
