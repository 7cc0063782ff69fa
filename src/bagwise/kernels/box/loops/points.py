"""Points of a bounded grid, coded so that a pair of bags has one random stream.

A bag counts as the *set* of its grid points. The functions here put each set in an
order that depends on its content alone, hash it, and lay it out for the screening of
pairs. What is done once for each bag is left to numpy, whose code is there already: a
first call waits for the compiler.
"""

import numpy as np

from bagwise._jit import njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)

LANES = 32  # points per vector of 16-bit numbers in the widest registers
GROUP = 4  # sides of a box drawn and tested together
UNROLL = 4  # dimensions added in one pass over the points
_STRIP = 2048  # rows hashed at a time
SPAN = 32  # sides of at most 2**30 (16-bit levels) whose product is still a float


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
    again = np.flatnonzero(~new)  # the hash alone is no proof
    new[again] = (rows[order[again]] != rows[order[again - 1]]).any(axis=1)
    sets = np.zeros(len(offsets), np.int64)
    np.cumsum(np.bincount(bag[new], minlength=len(offsets) - 1), out=sets[1:])
    keys = np.empty(len(offsets) - 1, np.uint64)
    _chain(ordered[new], sets, keys)
    return order[new], sets, keys


def streams(seed, first, second):
    """Return seeds of the random streams of pairs of hashes."""
    # Arrays of one number at least: these wrap around without a word.
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
