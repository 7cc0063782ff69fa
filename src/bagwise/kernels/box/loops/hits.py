"""Which random boxes hit which bags, 64 instances at a time.

For every dimension and level one bit set says which instances are at least, and which
at most, at that level. An instance lies in a box iff its bit survives the AND of two
sets per dimension; a bag is hit iff one of its words is not zero.
"""

import numpy as np

from bagwise._jit import njit
from bagwise.kernels.box.loops.points import next64
from bagwise.kernels.box.loops.sampler import draw_corners, is_enough, pick

_ONE, _ZERO = np.uint64(1), np.uint64(0)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_M1 = np.uint64(0x5555555555555555)
_M2 = np.uint64(0x3333333333333333)
_M4 = np.uint64(0x0F0F0F0F0F0F0F0F)
_H01 = np.uint64(0x0101010101010101)
_S11, _S32 = np.uint64(11), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_TWO53 = 9007199254740992.0
_S1, _S2, _S4, _S56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


@njit(nogil=True, shapes={"offsets": "b+1"})
def word_offsets(offsets):
    """First word of every bag: bags begin on a word of their own."""
    words = np.zeros(offsets.shape[0], np.int64)
    for b in range(offsets.shape[0] - 1):
        words[b + 1] = words[b] + (offsets[b + 1] - offsets[b] + 63) // 64
    return words


@njit(nogil=True)
def _intersect(out, other):
    for k in range(out.shape[0]):
        out[k] &= other[k]


@njit(nogil=True)
def _unite(out, other):
    for k in range(out.shape[0]):
        out[k] |= other[k]


def pack_levels(rows, offsets, words, n_levels):
    """Bit sets `at_least[i, v]` and `at_most[i, v]` over the instances of all bags.

    Bits behind the last instance of a bag stay zero everywhere: they are in no box.
    """
    at_least = np.zeros((rows.shape[1], n_levels, words[-1]), np.uint64)
    at_most = np.zeros_like(at_least)
    _pack(rows, offsets, words, at_least, at_most)
    return at_least, at_most


@njit(
    nogil=True,
    shapes={
        "rows": "n d in v",
        "offsets": "b+1 to n",
        "words": "b+1 to w",
        "at_least": "d v w",
        "at_most": "d v w",
    },
)
def _pack(rows, offsets, words, at_least, at_most):
    d, n_levels = at_least.shape[0], at_least.shape[1]
    for b in range(offsets.shape[0] - 1):
        for k in range(offsets[b + 1] - offsets[b]):
            word = words[b] + k // 64
            bit = _ONE << np.uint64(k % 64)
            for i in range(d):
                v = rows[offsets[b] + k, i]
                at_least[i, v, word] |= bit
                at_most[i, v, word] |= bit
    for i in range(d):
        for v in range(1, n_levels):
            _unite(at_most[i, v], at_most[i, v - 1])
            u = n_levels - 1 - v
            _unite(at_least[i, u], at_least[i, u + 1])


@njit(nogil=True)
def _inside(at_least, at_most, lo, hi, top, out):
    """Bit set of the instances inside one box; whole sides change nothing.

    A side from level 0 to the top still has to clear the padding bits, which the
    first AND does.
    """
    out[:] = at_least[0, lo[0]]
    for i in range(lo.shape[0]):
        if lo[i] > 0 and i > 0:
            _intersect(out, at_least[i, lo[i]])
        if hi[i] < top[i]:
            _intersect(out, at_most[i, hi[i]])


@njit(nogil=True)
def _bit_count(words):
    """Number of set bits, by the usual sums of neighbouring fields."""
    total = 0
    for k in range(words.shape[0]):
        x = words[k]
        x = x - ((x >> _S1) & _M1)
        x = (x & _M2) + ((x >> _S2) & _M2)
        x = (x + (x >> _S4)) & _M4
        total += np.int64((x * _H01) >> _S56)
    return total


@njit(
    nogil=True,
    shapes={
        "at_least": "d v w",
        "at_most": "d v w",
        "words": "b+1 to w",
        "low": "t d in v",
        "high": "t d in v",
        "top": "d",
    },
)
def packed_hits(at_least, at_most, words, low, high, top):
    """Matrix (n_boxes, n_bags) of 0 and 1: which boxes hold a point of which bag."""
    n_boxes = low.shape[0]
    n_bags = words.shape[0] - 1
    hits = np.zeros((n_boxes, n_bags), np.uint8)
    inside = np.empty(words[-1], np.uint64)
    for t in range(n_boxes):
        _inside(at_least, at_most, low[t], high[t], top, inside)
        for b in range(n_bags):
            any_bit = _ZERO
            for w in range(words[b], words[b + 1]):
                any_bit |= inside[w]
            hits[t, b] = any_bit != _ZERO
    return hits


@njit(
    nogil=True,
    shapes={
        "at_least": "d v w",
        "at_most": "d v w",
        "low": "t d in v",
        "high": "t d in v",
        "top": "d",
    },
)
def packed_counts(at_least, at_most, low, high, top):
    """Number of packed instances inside each box."""
    counts = np.empty(low.shape[0], np.int64)
    inside = np.empty(at_least.shape[2], np.uint64)
    for t in range(low.shape[0]):
        _inside(at_least, at_most, low[t], high[t], top, inside)
        counts[t] = _bit_count(inside)
    return counts


@njit(
    nogil=True,
    shapes={"rows": "n d", "offsets": "b+1 to n", "low": "t d", "high": "t d"},
)
def plain_hits(rows, offsets, low, high):
    """`packed_hits` one instance after the other, for grids of very many levels."""
    n_bags = offsets.shape[0] - 1
    hits = np.zeros((low.shape[0], n_bags), np.uint8)
    for t in range(low.shape[0]):
        for b in range(n_bags):
            for r in range(offsets[b], offsets[b + 1]):
                inside = True
                for i in range(rows.shape[1]):
                    if rows[r, i] < low[t, i] or rows[r, i] > high[t, i]:
                        inside = False
                        break
                if inside:
                    hits[t, b] = 1
                    break
    return hits


@njit(nogil=True, shapes={"rows": "n d", "low": "t d", "high": "t d"})
def plain_counts(rows, low, high):
    """`packed_counts` one instance after the other."""
    counts = np.zeros(low.shape[0], np.int64)
    for t in range(low.shape[0]):
        for r in range(rows.shape[0]):
            inside = True
            for i in range(rows.shape[1]):
                if rows[r, i] < low[t, i] or rows[r, i] > high[t, i]:
                    inside = False
                    break
            counts[t] += inside
    return counts


@njit(nogil=True)
def _any_interval(bits, top):
    """Uniform interval of the levels 0 to top: two distinct ones of top + 2 ends."""
    a = np.int64(((bits >> _S32) * (np.uint64(top) + np.uint64(2))) >> _S32)
    b = np.int64(((bits & _LOW) * (np.uint64(top) + np.uint64(1))) >> _S32)
    b += b >= a
    return np.uint16(min(a, b)), np.uint16(max(a, b) - 1)


@njit(nogil=True, shapes={"points": "n d", "cumulative": "n", "top": "d"})
def draw_boxes(points, cumulative, top, share, n_boxes, state):
    """Boxes around points drawn with given weights; corners uniform for the point.

    A `share` of the boxes is uniform on all boxes of the grid instead.
    """
    d = points.shape[1]
    low = np.empty((n_boxes, d), np.uint16)
    high = np.empty((n_boxes, d), np.uint16)
    for t in range(n_boxes):
        state, bits = next64(state)
        anywhere = np.float64(bits >> _S11) < share * _TWO53
        state, bits = next64(state)
        p = pick(bits, cumulative, cumulative.shape[0])
        for i in range(d):
            state, bits = next64(state)
            if anywhere:
                low[t, i], high[t, i] = _any_interval(bits, top[i])
            else:
                v = points[p, i]
                low[t, i], high[t, i] = draw_corners(bits, v, v, top[i])
    return low, high, state


@njit(
    nogil=True,
    shapes={
        "left": "t a",
        "right": "t b",
        "values": "t",
        "totals": "a b",
        "squares": "a b",
    },
)
def add_common_boxes(left, right, values, totals, squares):
    """Add the values of the boxes that hit both bags, box after box.

    The inner loop runs over the bags on the right, so that every pair sums in the
    order of the boxes: the result does not depend on which bags come together.
    """
    n_right = right.shape[1]
    hit = np.empty(n_right)
    for t in range(values.shape[0]):
        value = values[t]
        for j in range(n_right):
            hit[j] = right[t, j]
        for i in range(left.shape[1]):
            if left[t, i]:
                row, row2 = totals[i], squares[i]
                for j in range(n_right):
                    row[j] += value * hit[j]
                    row2[j] += value * value * hit[j]


@njit(
    nogil=True, shapes={"hits": "t a", "values": "t", "totals": "a 1", "squares": "a 1"}
)
def add_own_boxes(hits, values, totals, squares):
    """The diagonal of `add_common_boxes`, in the one column of the totals."""
    for t in range(values.shape[0]):
        value = values[t]
        for i in range(hits.shape[1]):
            hit = np.float64(hits[t, i])
            totals[i, 0] += value * hit
            squares[i, 0] += value * value * hit


@njit(
    nogil=True,
    shapes={
        "totals": "a b",
        "squares": "a b",
        "means": "a b",
        "errors": "a b",
        "draws": "a b",
    },
)
def settle(totals, squares, n, check, rule, target, means, errors, draws):
    """Freeze the pairs that satisfy the stopping rule; how many are still open."""
    epsilon, delta, z = target
    still_open = 0
    for i in range(totals.shape[0]):
        for j in range(totals.shape[1]):
            if draws[i, j] > 0:
                continue
            total = totals[i, j]
            if total > 0.0 and is_enough(
                total, squares[i, j], n, check, rule, epsilon, delta, z
            ):
                mean = total / n
                means[i, j] = mean
                variance = max(squares[i, j] / n - mean * mean, 0.0)
                errors[i, j] = np.sqrt(variance / n) / mean
                draws[i, j] = n
            else:
                still_open += 1
    return still_open
