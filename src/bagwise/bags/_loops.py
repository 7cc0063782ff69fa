"""Reductions over segments of a 1-D array; no segment is empty."""

import numpy as np

from bagwise._jit import njit


@njit()
def sum_1d(values, offsets):
    """Sum of each segment."""
    out = np.empty(offsets.shape[0] - 1, values.dtype)
    for i in range(out.shape[0]):
        total = values[offsets[i]]
        for j in range(offsets[i] + 1, offsets[i + 1]):
            total += values[j]
        out[i] = total
    return out


@njit()
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


@njit()
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
