"""Reductions over segments of a 1-D array; no segment is empty."""

import numpy as np

from bagwise._jit import njit


@njit(shapes={"values": "n", "offsets": "b+1 to n"})
def sum_1d(values, offsets):
    """Sum of each segment."""
    out = np.empty(offsets.shape[0] - 1, values.dtype)
    for i in range(out.shape[0]):
        total = values[offsets[i]]
        for j in range(offsets[i] + 1, offsets[i + 1]):
            total += values[j]
        out[i] = total
    return out


@njit(shapes={"values": "n", "offsets": "b+1 to n"})
def max_1d(values, offsets):
    """Largest value of each segment; NaN where there is one, as numpy has it."""
    out = np.empty(offsets.shape[0] - 1, values.dtype)
    for i in range(out.shape[0]):
        best = values[offsets[i]]
        for j in range(offsets[i] + 1, offsets[i + 1]):
            if values[j] > best or values[j] != values[j]:
                best = values[j]
        out[i] = best
    return out


@njit(shapes={"values": "n", "offsets": "b+1 to n"})
def min_1d(values, offsets):
    """Smallest value of each segment; NaN where there is one, as numpy has it."""
    out = np.empty(offsets.shape[0] - 1, values.dtype)
    for i in range(out.shape[0]):
        best = values[offsets[i]]
        for j in range(offsets[i] + 1, offsets[i + 1]):
            if values[j] < best or values[j] != values[j]:
                best = values[j]
        out[i] = best
    return out


@njit()
def _shift(halves, as_bits):
    """Turn bits of float16 into those of float32, but for the smallest numbers."""
    for i in range(halves.size):
        bits = np.uint32(halves[i])
        size = bits & np.uint32(0x7FFF)
        more = np.uint32(0x38000000) if size >= np.uint32(0x7C00) else np.uint32(0)
        moved = (size << np.uint32(13)) + np.uint32(0x38000000) + more
        as_bits[i] = moved | ((bits & np.uint32(0x8000)) << np.uint32(16))


@njit()
def _set_small(halves, as_floats):
    """Set what is zero or below the smallest normal number of float16."""
    for i in range(halves.size):
        if (halves[i] & 0x7C00) == 0:
            size = np.float32(halves[i] & 0x3FF) * np.float32(2.0**-24)
            as_floats[i] = -size if halves[i] & 0x8000 else size


@njit(shapes={"halves": "n", "as_bits": "n", "as_floats": "n"})
def widen_halves(halves, as_bits, as_floats):
    """Turn bits of float16 into float32, exactly; the last two are the same memory.

    Two sweeps over each block, which the compiler turns into instructions for many
    numbers at once (one sweep, or indices that begin elsewhere, it does not).
    """
    block = 4096
    for start in range(0, halves.size, block):
        part = slice(start, min(start + block, halves.size))
        _shift(halves[part], as_bits[part])
        _set_small(halves[part], as_floats[part])


@njit()
def _add_row(total, row):
    for k in range(total.size):
        total[k] += row[k]


@njit()
def _add_square(total, row, center):
    for k in range(total.size):
        total[k] += (row[k] - center[k]) ** 2


@njit()
def _raise_to(best, row):
    for k in range(best.size):
        if row[k] > best[k] or row[k] != row[k]:
            best[k] = row[k]


@njit()
def _lower_to(best, row):
    for k in range(best.size):
        if row[k] < best[k] or row[k] != row[k]:
            best[k] = row[k]


@njit(shapes={"values": "n d", "offsets": "b+1 to n", "out": "b d"})
def sum_2d(values, offsets, out):
    """Add the rows of each segment to a row of `out`, in its precision."""
    for i in range(out.shape[0]):
        for j in range(offsets[i], offsets[i + 1]):
            _add_row(out[i], values[j])


@njit(shapes={"values": "n d", "offsets": "b+1 to n", "center": "b d", "out": "b d"})
def square_2d(values, offsets, center, out):
    """Add the squared distances of each segment's rows to its center, by column."""
    for i in range(out.shape[0]):
        for j in range(offsets[i], offsets[i + 1]):
            _add_square(out[i], values[j], center[i])


@njit(shapes={"values": "n d", "offsets": "b+1 to n", "out": "b d"})
def max_2d(values, offsets, out):
    """Raise the rows of `out` to the largest of each segment, or to NaN."""
    for i in range(out.shape[0]):
        for j in range(offsets[i], offsets[i + 1]):
            _raise_to(out[i], values[j])


@njit(shapes={"values": "n d", "offsets": "b+1 to n", "out": "b d"})
def min_2d(values, offsets, out):
    """Lower the rows of `out` to the smallest of each segment, or to NaN."""
    for i in range(out.shape[0]):
        for j in range(offsets[i], offsets[i + 1]):
            _lower_to(out[i], values[j])
