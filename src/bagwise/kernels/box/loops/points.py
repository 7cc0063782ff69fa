"""Points of a bounded grid, coded so that a pair of bags has one random stream.

A bag counts as the *set* of its grid points. The loops here put each set in an order
that depends on its content alone, hash it, and lay it out for the screening of pairs.
"""

import numpy as np

from bagwise._jit import njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)

LANES = 32  # points per vector of 16-bit numbers in the widest registers
GROUP = 4  # sides of a box drawn and tested together
UNROLL = 8  # dimensions added in one pass over the points
_SPAN = 32  # factors of at most 2**30 (16-bit levels) whose product is still a float


@njit(nogil=True)
def mix64(z):
    """Scramble 64 bits (the output function of the splitmix64 generator)."""
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@njit(nogil=True)
def next64(state):
    """Step splitmix64: the new state and 64 random bits."""
    state = state + _GOLDEN
    return state, mix64(state)


@njit(nogil=True)
def hash_rows(rows):
    """Hash every row by content."""
    n, d = rows.shape
    out = np.empty(n, np.uint64)
    for r in range(n):
        h = np.uint64(d)
        for i in range(d):
            h = mix64(h ^ np.uint64(rows[r, i])) + _GOLDEN
        out[r] = mix64(h)
    return out


def canonical_sets(rows, offsets):
    """Order the distinct rows of every bag by hash.

    Returns the chosen row numbers, the offsets of the sets and one hash per set. Equal
    rows have equal hashes, so duplicates stand side by side after the sort.
    """
    hashes = hash_rows(rows)
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((hashes, bag))  # not compiled: a sort takes the compiler seconds
    return _distinct(rows, offsets, hashes, order)


@njit(nogil=True)
def _distinct(rows, offsets, hashes, order):
    n_bags = offsets.shape[0] - 1
    chosen = np.empty(rows.shape[0], np.int64)
    sets = np.zeros(n_bags + 1, np.int64)
    keys = np.empty(n_bags, np.uint64)
    m = 0
    for b in range(n_bags):
        first = m
        key = np.uint64(0)
        for k in range(offsets[b], offsets[b + 1]):
            r = order[k]
            new = m == first
            if not new:
                last = chosen[m - 1]
                for i in range(rows.shape[1]):
                    if rows[r, i] != rows[last, i]:
                        new = True
                        break
            if new:
                chosen[m] = r
                m += 1
                key = mix64(key ^ hashes[r]) + _GOLDEN
        sets[b + 1] = m
        keys[b] = key
    return chosen[:m], sets, keys


@njit(nogil=True)
def screening_blocks(rows, offsets, low, high, height):
    """Lay out the coarse logarithms of each bag as a block (height, padded size).

    `low[i, v]` and `high[i, v]` are rounded logarithms of ``v + 1`` and
    ``top_i - v + 1``. Padding is zero, which never is the largest sum.
    """
    n_bags = offsets.shape[0] - 1
    d = rows.shape[1]
    starts = np.zeros(n_bags + 1, np.int64)
    for b in range(n_bags):
        size = offsets[b + 1] - offsets[b]
        starts[b + 1] = starts[b] + (size + LANES - 1) // LANES * LANES
    blocks = np.zeros(height * starts[-1], np.uint16)
    for b in range(n_bags):
        width = starts[b + 1] - starts[b]
        block = blocks[height * starts[b] : height * starts[b + 1]]
        block = block.reshape(height, width)
        for k in range(offsets[b + 1] - offsets[b]):
            r = offsets[b] + k
            for i in range(d):
                v = rows[r, i]
                block[2 * i, k] = low[i, v]
                block[2 * i + 1, k] = high[i, v]
    return blocks, starts


@njit(nogil=True)
def log_common(a, b, top, factors):
    """Logarithm of the number of boxes that hold both points.

    The count is the product over dimensions of ``(min + 1) * (top - max + 1)``; the
    product is taken in floats and its logarithm only before it could overflow.
    `factors` is scratch space: filling it first lets the compiler use vectors.
    """
    return log_size_between(a, b, a, b, top, factors)


@njit(nogil=True)
def log_size_between(a, b, c, e, top, factors):
    """Logarithm of the number of boxes that hold [min(a, b), max(c, e)]."""
    d = top.shape[0]
    for i in range(d):
        lo = np.float64(min(a[i], b[i]))
        hi = np.float64(max(c[i], e[i]))
        factors[i] = (lo + 1.0) * (np.float64(top[i]) - hi + 1.0)
    total = 0.0
    for begin in range(0, d, _SPAN):
        end = min(begin + _SPAN, d)
        p0, p1, p2, p3 = 1.0, 1.0, 1.0, 1.0
        i = begin
        while i + 3 < end:
            p0 *= factors[i]
            p1 *= factors[i + 1]
            p2 *= factors[i + 2]
            p3 *= factors[i + 3]
            i += 4
        while i < end:
            p0 *= factors[i]
            i += 1
        total += np.log((p0 * p1) * (p2 * p3))
    return total


@njit(nogil=True)
def _add_rows(acc, block, k, own, p):
    r0, r1, r2, r3 = block[k], block[k + 1], block[k + 2], block[k + 3]
    r4, r5, r6, r7 = block[k + 4], block[k + 5], block[k + 6], block[k + 7]
    a0, a1, a2, a3 = own[k, p], own[k + 1, p], own[k + 2, p], own[k + 3, p]
    a4, a5, a6, a7 = own[k + 4, p], own[k + 5, p], own[k + 6, p], own[k + 7, p]
    for q in range(acc.shape[0]):
        acc[q] += np.uint16(
            min(r0[q], a0)
            + min(r1[q], a1)
            + min(r2[q], a2)
            + min(r3[q], a3)
            + min(r4[q], a4)
            + min(r5[q], a5)
            + min(r6[q], a6)
            + min(r7[q], a7)
        )


@njit(nogil=True)
def coarse_row(own, p, block, acc):
    """Coarse log counts of point `p` against every point of a block."""
    for q in range(acc.shape[0]):
        acc[q] = 0
    for k in range(0, block.shape[0], UNROLL):
        _add_rows(acc, block, k, own, p)
