"""Which row, or which pair of rows, sequential minimal optimisation moves next.

Numbers that are not negative have the order of their bits as integers, whose maximum a
compiler takes many at a time: the loops write what a move is worth, and the largest is
looked for in a view of the same memory as integers.
"""

import numpy as np

from bagwise._jit import njit

TINY = 1e-12  # curvature of two rows that coincide
_NO_SIGN = np.int64(2**63 - 1)  # all bits of an integer but its sign
_AT_ONCE = 16  # rows looked through at a time
_NONE = np.int64(-(2**63) + 1)


@njit(error_model="numpy", shapes={"bits": "m"})
def _first(bits, wanted, start):
    """First row from `start` on with these bits, which is known to exist.

    Whether one of `_AT_ONCE` rows has them is seen without a branch for each.
    """
    row = start
    while row + _AT_ONCE <= len(bits):
        found = False
        for k in range(_AT_ONCE):
            found |= bits[row + k] == wanted
        if found:
            break
        row += _AT_ONCE
    while bits[row] != wanted:
        row += 1
    return row


@njit(error_model="numpy", shapes={"bits": "m"})
def _largest(bits):
    """Where the largest of numbers that are not negative comes first; -1 if all are 0.

    The order of such numbers is that of their `bits` as integers, whose maximum is
    taken many at a time.
    """
    most = np.int64(0)
    for row in range(len(bits)):
        most = bits[row] if bits[row] > most else most
    row = _first(bits, most, 0) if most > 0 else -1
    return row


@njit(
    error_model="numpy",
    shapes={
        "gradient": "m",
        "beta": "m",
        "room": "m",
        "curvature": "m",
        "free": "m",
        "gains": "m",
        "bits": "m",
    },
)
def best_single(gradient, beta, room, curvature, free, gains, bits):
    """Best move of one row without bias: (gain, row, step)."""
    for row in range(len(beta)):
        slope, up, down = gradient[row], room[row], beta[row]
        limit = up if slope > 0.0 else down
        slope = abs(slope) * free[row]
        step = min(slope / curvature[row], limit)
        gains[row] = step * slope - 0.5 * step * step * curvature[row]
    row = _largest(bits)
    gain, step = 0.0, 0.0
    if row >= 0:
        gain, slope = gains[row], gradient[row]
        limit = room[row] if slope > 0.0 else beta[row]
        step = min(abs(slope) / curvature[row], limit)
        step = step if slope > 0.0 else -step
    return gain, row, step


@njit(error_model="numpy", shapes={"gradient": "m", "beta": "m", "room": "m", "c": "m"})
def worst_single(gradient, beta, room, c):
    """Largest violation of a row without bias."""
    worst = 0.0
    for row in range(len(beta)):
        limit = room[row] if gradient[row] > 0.0 else beta[row]
        if c[row] == 0.0 and limit > 0.0:
            worst = max(worst, abs(gradient[row]))
    return worst


@njit(
    error_model="numpy",
    shapes={
        "gradient": "m",
        "c": "m",
        "upward": "m",
        "downward": "m",
        "values": "m",
        "bits": "m",
    },
)
def extremes(gradient, c, upward, downward, values, bits):
    """Best row to move up, and the bounds that it and the others set for the bias."""
    for row in range(len(gradient)):
        values[row] = gradient[row] * c[row]
    high, least = _NONE, -_NONE
    for row in range(len(bits)):
        # As integers, in the order of the numbers, also of negative ones.
        key = bits[row] ^ ((bits[row] >> 63) & _NO_SIGN)
        up, down = upward[row], downward[row]
        above, below = (key if up else _NONE), (key if down else -_NONE)
        high = above if above > high else high
        least = below if below < least else least
    top, low, i = -np.inf, np.inf, -1
    if high > _NONE:
        wanted = high ^ ((high >> 63) & _NO_SIGN)
        i = _first(bits, wanted, 0)
        while not upward[i]:
            i = _first(bits, wanted, i + 1)
        top = values[i]
    if least < -_NONE:
        bits[0] = least ^ ((least >> 63) & _NO_SIGN)  # only its value is needed
        low = values[0]
    return i, top, low


@njit(
    error_model="numpy",
    shapes={"gradient": "m", "beta": "m", "crowded": "g+1", "start": "g+1 to m"},
)
def worst_within(gradient, beta, crowded, start):
    """Pair of rows inside a full group that violates most: (violation, up, down).

    With room left in a group, single moves and cross pairs do the work.
    """
    worst, best_up, best_down = 0.0, -1, -1
    for k in range(crowded[-1]):
        up, down, high, low = -1, -1, -np.inf, np.inf
        for row in range(start[crowded[k]], start[crowded[k] + 1]):
            slope = gradient[row]
            if slope > high:
                up, high = row, slope
            if slope < low and beta[row] > 0.0:
                down, low = row, slope
        if high - low > worst:
            worst, best_up, best_down = high - low, up, down
    return worst, best_up, best_down


@njit(
    error_model="numpy",
    shapes={
        "gradient": "m",
        "c": "m",
        "diagonal": "m",
        "rows": "* m",
        "downward": "m",
        "scores": "m",
        "bits": "m",
    },
)
def second_of_pair(gradient, c, diagonal, rows, own, downward, i, top, scores, bits):
    """Row that gains most with `i`, to second order; its kernel is ``rows[own]``."""
    for row in range(len(gradient)):
        difference, held = top - c[row] * gradient[row], downward[row]
        curvature = max(diagonal[i] + diagonal[row] - 2.0 * rows[own, row], TINY)
        score = difference * difference / curvature
        scores[row] = score if (difference > 0.0) & held else 0.0
    return _largest(bits)
