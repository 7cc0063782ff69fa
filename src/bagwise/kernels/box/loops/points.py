"""Points of a bounded grid: their order and hashes, exact counts, and screening.

A bag counts as the *set* of its grid points, in an order that depends on its content
alone, so that a pair of bags has one random stream. What is done once for each bag is
left to numpy, whose code is there already: a first call waits for the compiler.

A pair (p, q) covers |B(p and q)| boxes. In many dimensions these numbers differ by
hundreds of orders of magnitude, and only a few pairs carry the sum. All pairs are
compared in 16-bit logarithms first; those whose total is provably below `slack` times
the largest pair are left out, and only the others are counted in floats. Exact numbers
come from inclusion and exclusion on a tree of bounding boxes.
"""

import numpy as np

from bagwise._jit import njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)

LANES = 32  # points per vector of 16-bit numbers in the widest registers
GROUP = 4  # sides of a sampled box tested together
UNROLL = 4  # dimensions added in one pass over the points
_STRIP = 2048  # rows hashed at a time
SPAN = 32  # number of sides up to 2**30 (16-bit levels) whose product is a float


@njit(nogil=True, inline="always")
def mix64(z):
    """Scramble 64 bits (the output function of the splitmix64 generator)."""
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@njit(nogil=True, inline="always")
def next64(state):
    """Step splitmix64: the new state and 64 random bits."""
    state = state + _GOLDEN
    return state, mix64(state)


def _hash_rows(rows):
    """Hash every row by content."""
    hashes = np.full(len(rows), rows.shape[1], np.uint64)
    for begin in range(0, len(rows), _STRIP):  # as many as stay in the cache
        h = hashes[begin : begin + _STRIP]
        for column in rows[begin : begin + _STRIP].T.astype(np.uint64):
            h[:] = mix64.py_func(h ^ column) + _GOLDEN
    return mix64.py_func(hashes)


@njit(nogil=True, shapes={"hashes": "n", "offsets": "b+1 to n", "keys": "b"})
def _chain(hashes, offsets, keys):
    """Hash every set by the hashes of its rows, in their order."""
    for b in range(keys.shape[0]):
        key = np.uint64(0)
        for r in range(offsets[b], offsets[b + 1]):
            key = mix64(key ^ hashes[r]) + _GOLDEN
        keys[b] = key


def canonical_sets(rows, offsets):
    """Order the distinct rows of every bag by hash.

    Returns the chosen row numbers, the offsets of the sets and one hash per set. Equal
    rows have equal hashes, so duplicates stand side by side after the sort.
    """
    hashes = _hash_rows(rows)
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((hashes, bag))
    ordered = hashes[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]) | (bag[1:] != bag[:-1])
    again = np.flatnonzero(~new)  # equal hashes are no proof
    new[again] = (rows[order[again]] != rows[order[again - 1]]).any(axis=1)
    sets = np.zeros(len(offsets), np.int64)
    np.cumsum(np.bincount(bag[new], minlength=len(offsets) - 1), out=sets[1:])
    keys = np.empty(len(offsets) - 1, np.uint64)
    _chain(ordered[new], sets, keys)
    return order[new], sets, keys


def streams(seed, first, second):
    """Return seeds of the random streams of pairs of hashes."""
    # Arrays of one number, which overflow without a warning.
    return mix64.py_func(mix64.py_func(seed ^ first) + second)


def screening_blocks(rows, offsets, low, high, height):
    """Lay out the coarse logarithms of each bag as a block (height, padded size).

    `low[v]` and `high[i, v]` are rounded logarithms of ``v + 1`` and ``top_i - v + 1``.
    Padding is zero, which never is the largest sum.
    """
    sizes = np.diff(offsets)
    starts = np.zeros(len(offsets), np.int64)
    np.cumsum(-(-sizes // LANES) * LANES, out=starts[1:])
    blocks = np.zeros(height * starts[-1], np.uint16)
    d = rows.shape[1]
    coded = np.empty((2 * d, len(rows)), np.uint16)
    coded[0::2] = low[rows].T
    coded[1::2] = high[np.arange(d), rows].T
    for b, size in enumerate(sizes):
        width = starts[b + 1] - starts[b]
        block = blocks[height * starts[b] : height * starts[b + 1]]
        block = block.reshape(height, width)
        block[: 2 * d, :size] = coded[:, offsets[b] : offsets[b + 1]]
    return blocks, starts


def corner_codes(rows, top):
    """Code grid points as (v, top - v), each half padded with zeros for `log_boxes`.

    The smallest codes of some points are those of their bounding box A: a point lies in
    A iff none of its codes is smaller, and |B(A)| is the product of all codes plus one.
    """
    n, d = rows.shape
    half = -(-d // SPAN) * SPAN
    codes = np.zeros((n, 2 * half), np.uint16)
    codes[:, :d] = rows
    codes[:, half : half + d] = top - rows
    return codes


@njit(nogil=True, shapes={"codes": "2h", "sides": "h"})
def log_boxes(codes, sides):
    """Logarithm of |B(A)| from the codes of A, taken before it could overflow."""
    low, high = codes[: sides.shape[0]], codes[sides.shape[0] :]
    for i in range(sides.shape[0]):
        sides[i] = (low[i] + 1.0) * (high[i] + 1.0)
    total = 0.0
    for begin in range(0, sides.shape[0], SPAN):
        p0, p1, p2, p3 = 1.0, 1.0, 1.0, 1.0
        for i in range(begin, begin + SPAN, 4):
            p0 *= sides[i]
            p1 *= sides[i + 1]
            p2 *= sides[i + 2]
            p3 *= sides[i + 3]
        total += np.log((p0 * p1) * (p2 * p3))
    return total


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
    level = 0  # of the current box; its parent is one level above
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
            # 0 <= N <= |B|: the error of omitting a small one is certified
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
                if level >= cut:  # so far; a larger one may follow
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
