"""Kernel of the points behind the rows of sequential minimal optimisation.

Points are numbered through those of the matrix `K` and on through further ones, which
have two blocks: `cross`, their kernel with the points of `K`, and `corner`.
"""

import numpy as np

from bagwise._jit import njit


@njit(error_model="numpy")
def entry(K, cross, corner, one, two):
    """Kernel of two points; those beyond the matrix are in the other two blocks."""
    n = len(K)
    if one < n:
        return K[one, two] if two < n else cross[two - n, one]
    return cross[one - n, two] if two < n else corner[one - n, two - n]


@njit(error_model="numpy")
def _fill(K, cross, corner, index, one, out):
    """Kernel of one point with those behind all rows."""
    n = len(K)
    if len(cross) == 0:
        near = K[one]
        for row in range(len(index)):
            out[row] = near[index[row]]
    elif one < n:
        near = K[one]
        for row in range(len(index)):
            j = index[row]
            out[row] = near[j] if j < n else cross[j - n, one]
    else:
        near, far = cross[one - n], corner[one - n]
        for row in range(len(index)):
            j = index[row]
            out[row] = near[j] if j < n else far[j - n]


@njit(error_model="numpy")
def put(K, cross, corner, index, kept, place, row):
    """Put the kernel of a row with all rows together in `kept`, and say where.

    `place` will know, which has -1 for nowhere, and at its end how many were put
    together. Where there is no room, the last two of `kept` serve in turn.
    """
    at = place[-1]
    place[-1] += 1
    if at < len(kept) - 2:
        place[row] = at
    else:
        at = len(kept) - 1 - at % 2
    _fill(K, cross, corner, index, index[row], kept[at])
    return at


def diagonal_of(K, corner, index):
    """Kernel of the point behind each row with itself."""
    out, near = np.empty(len(index)), index < len(K)
    out[near] = K[index[near], index[near]]
    far = index[~near] - len(K)
    out[~near] = corner[far, far]
    return out
