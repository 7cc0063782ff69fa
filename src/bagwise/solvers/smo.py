r"""Sequential minimal optimization for hinge rows that share slacks.

Chosen where the rows are known by their kernel matrix: 23 to 80 times faster than the
interior point on exact coordinates (musk1, elephant; studies/results/solver-choice.md).
libsvm has neither slacks that rows share nor rows without a bias.

The rows of a group :math:`g` have one slack :math:`\xi_g \ge 0` between them:

.. math::
    \min_{f, b, \xi} \; \tfrac12 \|f\|^2 + \sum_g C_g \xi_g
    \quad \text{s.t.} \quad s_l f(r_l) + c_l b \ge m_l - \xi_{g(l)},

with :math:`c_l = s_l \in \{-1, 1\}`, or :math:`c_l = 0` for rows that the bias does not
enter. A group of one row is the usual hinge. The dual is

.. math::
    \max_{\beta \ge 0} \; m'\beta - \tfrac12 (s\beta)' K (s\beta)
    \quad \text{s.t.} \quad c'\beta = 0, \;\; \sum_{l \in g} \beta_l \le C_g.

Any feasible direction is a sum of (i) one variable with :math:`c_l = 0`, (ii) a
transfer inside one group and (iii) a pair that keeps :math:`c'\beta`, so a point that
none of these improves is optimal. Pairs are chosen with second-order information [1]_.

The rows are looked up in the kernel matrix of all points, which is never copied: an
`index` says which point is behind a row, and points that are not among those of the
matrix (means of bags, in the first step of many methods) come with two more blocks.
Few rows move, and they do so again and again: those are put together once and kept, as
far as there is room for them.

References
----------
.. [1] Fan, R.-E., Chen, P.-H., Lin, C.-J., "Working set selection using second order
   information for training support vector machines", Journal of Machine Learning
   Research, 2005.
"""

import numpy as np

from bagwise._jit import njit

TINY = 1e-12  # curvature of two equal rows
_NO_SIGN = np.int64(2**63 - 1)  # all bits of an integer but its sign
_AT_ONCE = 16  # rows examined at once
_NONE = np.int64(-(2**63) + 1)
_START = np.int64(0)  # a plain 0 would be compiled once more


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
    taken many at a time: four times faster than comparing 476 numbers, twelve times
    with 6,598 (``studies/results/solver-choice.md``).
    """
    most = np.int64(0)
    for row in range(len(bits)):
        most = bits[row] if bits[row] > most else most
    row = _first(bits, most, _START) if most > 0 else -1
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
        # Integers in the order of the floats, including negative ones.
        key = bits[row] ^ ((bits[row] >> 63) & _NO_SIGN)
        up, down = upward[row], downward[row]
        above, below = (key if up else _NONE), (key if down else -_NONE)
        high = above if above > high else high
        least = below if below < least else least
    top, low, i = -np.inf, np.inf, -1
    if high > _NONE:
        wanted = high ^ ((high >> 63) & _NO_SIGN)
        i = _first(bits, wanted, _START)
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


_BLOCK = 256  # rows of a matrix copied at a time
_KEPT_BYTES = 64 * 2**20  # maximum size of the cached rows


def combine_rows(K, coef):
    """Return ``coef @ K`` from the rows that count alone, a few of them at a time."""
    held = np.flatnonzero(coef)
    out = np.zeros(K.shape[1])
    for k in range(0, len(held), _BLOCK):
        rows = held[k : k + _BLOCK]
        out += coef[rows] @ K[rows]
    return out


@njit(error_model="numpy", shapes={"crowded": "*"})
def _enlist(g, full, crowded):
    """Keep the list of the full groups of several rows; its end says how many."""
    n, at = crowded[-1], 0
    while at < n and crowded[at] != g:
        at += 1
    if full and at == n:
        crowded[n] = g
        crowded[-1] = n + 1
    elif not full and at < n:
        crowded[at] = crowded[n - 1]
        crowded[-1] = n - 1


@njit(error_model="numpy")
def _update(gradient, s, rows, one, two, move_i, move_j):
    """Take a step over to the gradient; the kernels of the two stand in `rows`."""
    for row in range(len(gradient)):
        gradient[row] -= s[row] * (move_i * rows[one, row] + move_j * rows[two, row])


@njit(error_model="numpy")
def _move(row, change, beta, total, cap, group, start, c, upward, downward, room):
    """Change one dual variable and its group's total, landing on bounds exactly.

    What rounding leaves of a variable that goes to zero is small against what it was;
    against the bound, which may be out of reach, nothing can be said. Then say what is
    left of the bound of the group, and which of its rows can move up or down along c;
    neither without a bias.
    """
    g = group[row]
    value = beta[row] + change
    if value <= 1e-14 * beta[row]:
        change, value = -beta[row], 0.0
    before, bound = total[g], cap[g]
    after = before + change
    if after >= bound * (1.0 - 1e-14):
        after = bound
    elif after <= 1e-14 * before:
        after = 0.0
    beta[row], total[g] = value, after
    left = after < bound
    for k in range(start[g], start[g + 1]):
        room[k] = bound - after
        held, plus, minus = beta[k] > 0.0, c[k] > 0.0, c[k] < 0.0
        upward[k] = (plus & left) | (minus & held)
        downward[k] = (plus & held) | (minus & left)


def _bias(gradient, beta, total, cap, group, c, top, low):
    """Average over the free rows; without one, the middle of the feasible interval."""
    free = (c != 0.0) & (beta > 0.0) & (total < cap)[group]
    if free.any():
        return float((c[free] * gradient[free]).mean())
    if np.isfinite(top) and np.isfinite(low):
        return 0.5 * (top + low)
    if np.isfinite(top):
        return top
    return low if np.isfinite(low) else 0.0


@njit(
    error_model="numpy",
    shapes={
        "K": "n n",
        "cross": "f n",
        "corner": "f f",
        "index": "m in n+f",
        "kept": "* m",
        "place": "*",
        "s": "m",
        "c": "m",
        "group": "m in g",
        "start": "g+1 to m",
        "cap": "g",
        "beta": "m",
        "total": "g",
        "gradient": "m",
        "diagonal": "m",
        "upward": "m",
        "downward": "m",
        "room": "m",
        "scratch": "m",
        "bits": "m",
        "single": ("m", "m"),
        "crowded": "g+1",
    },
)
def _iterate(
    K,
    cross,
    corner,
    index,
    kept,
    place,
    s,
    c,
    group,
    start,
    cap,
    beta,
    total,
    gradient,
    diagonal,
    upward,
    downward,
    room,
    scratch,
    bits,
    single,
    crowded,
    biased,
    tol,
    max_iter,
):
    """Move until nothing gains: steps, violation, and the bounds of the bias."""
    # Rows are passed as indices: counting the references to a view of a row costs as
    # much as a pass over it.
    plain = len(kept) == 0
    rows = K if plain else kept
    for row in range(len(s)):
        if beta[row] != 0.0:
            own = row if plain else place[row]
            if own < 0:
                own = put(K, cross, corner, index, kept, place, row)
            _update(gradient, s, rows, own, own, s[row] * beta[row], 0.0)
    n_iter = 0
    while True:
        i, top, low = -1, -np.inf, np.inf
        if biased:
            i, top, low = extremes(gradient, c, upward, downward, scratch, bits)
        violation = max(top - low, 0.0) if i >= 0 else 0.0
        j, gain, change_i, change_j = -1, 0.0, 0.0, 0.0
        if i >= 0 and low < top:
            own = i if plain else place[i]
            if own < 0:
                own = put(K, cross, corner, index, kept, place, i)
            j = second_of_pair(
                gradient, c, diagonal, rows, own, downward, i, top, scratch, bits
            )
            inner = rows[own, j]
        if j >= 0:
            # Increase c_i beta_i and decrease c_j beta_j, as far as the bounds allow.
            slope = c[i] * gradient[i] - c[j] * gradient[j]
            bend = max(diagonal[i] + diagonal[j] - 2.0 * inner, TINY)
            step, same = slope / bend, group[i] == group[j]
            if c[i] < 0.0 or not same:
                step = min(step, beta[i] if c[i] < 0.0 else room[i])
            if c[j] > 0.0 or not same:
                step = min(step, beta[j] if c[j] > 0.0 else room[j])
            gain = step * slope - 0.5 * step * step * bend
            change_i, change_j = c[i] * step, -c[j] * step
        if crowded[-1] > 0:
            worst, up, down = worst_within(gradient, beta, crowded, start)
            if worst > 0.0:
                violation = max(violation, worst)
                own = down if plain else place[down]
                if own >= 0:
                    inner = rows[own, up]
                else:
                    inner = entry(K, cross, corner, index[up], index[down])
                bend = max(diagonal[up] + diagonal[down] - 2.0 * inner, TINY)
                step = min(worst / bend, beta[down])
                other_gain = step * worst - 0.5 * step * step * bend
                if other_gain > gain:
                    gain, i, j, change_i, change_j = other_gain, up, down, step, -step
        if single is not None:
            curvature, free = single
            other_gain, row, change = best_single(
                gradient, beta, room, curvature, free, scratch, bits
            )
            # The largest violation is computed only if this one is not sufficient.
            slope = abs(gradient[row]) if row >= 0 else 0.0
            if slope < tol or n_iter >= max_iter:
                slope = worst_single(gradient, beta, room, c)
            violation = max(violation, slope)
            if other_gain > gain:
                gain, i, j, change_i, change_j = other_gain, row, -1, change, 0.0
        if violation < tol or n_iter >= max_iter or gain <= 0.0:
            break
        n_iter += 1
        for turn in range(2):
            # Decrease first: otherwise a full group has no room.
            second_row = (turn == 0) == (change_j < 0.0)
            row = j if second_row else i
            if row < 0:
                continue
            change = change_j if second_row else change_i
            _move(
                row, change, beta, total, cap, group, start, c, upward, downward, room
            )
            g = group[row]
            if start[g + 1] - start[g] > 1:
                _enlist(g, total[g] >= cap[g], crowded)
        row = i if j < 0 else j  # without a second row, its change is 0
        own, other = (i, row) if plain else (place[i], place[row])
        if own < 0:
            own = put(K, cross, corner, index, kept, place, i)
        if other < 0:
            other = put(K, cross, corner, index, kept, place, row)
        _update(gradient, s, rows, own, other, s[i] * change_i, s[row] * change_j)
    return n_iter, violation, top, low


def smo(
    K,
    sign,
    *,
    cap,
    margin=1.0,
    index=None,
    more=None,
    group=None,
    bias=None,
    beta=None,
    tol=1e-3,
):
    r"""Solve the grouped hinge problem of this module on a Gram matrix.

    Parameters
    ----------
    K : ndarray of shape (n_points, n_points)
        Kernel matrix of the points behind the (unsigned) rows :math:`r_l`.
    sign : ndarray of shape (n_rows,)
        :math:`s_l`.
    cap : float or ndarray of shape (n_groups,)
        :math:`C_g`.
    margin : float or ndarray of shape (n_rows,)
        :math:`m_l`.
    index : ndarray of int, shape (n_rows,), optional
        Point behind each row; None takes the points in order.
    more : tuple of ndarray, optional
        Further points, numbered from n_points on: their kernel with the points of `K`,
        one row each, and between themselves.
    group : ndarray of int, shape (n_rows,), optional
        Non-decreasing group numbers 0, 1, ...; None gives each row its own slack.
    bias : ndarray of shape (n_rows,), optional
        :math:`c_l`: `sign`, or 0 for all rows of a group; None means `sign`.
    beta : ndarray of shape (n_rows,), optional
        Feasible warm start.
    tol : float, default=1e-3
        Largest violation of the optimality conditions.

    Returns
    -------
    beta : ndarray of shape (n_rows,)
    b : float
        Exact from the free support vectors.
    n_iter : int
    violation : float
    """
    sign = np.array(sign, dtype=np.float64)
    n_rows = len(sign)
    group = np.arange(n_rows) if group is None else np.array(group, dtype=np.int64)
    n_groups = int(group[-1]) + 1 if n_rows else 0
    start = np.searchsorted(group, np.arange(n_groups + 1))
    # Contiguous copies, so that one compiled version serves all callers.
    cap = np.full(n_groups, cap, dtype=np.float64)
    gradient = np.full(n_rows, margin, dtype=np.float64)
    c = sign if bias is None else np.array(bias, dtype=np.float64)
    beta = np.zeros(n_rows) if beta is None else np.array(beta, dtype=np.float64)
    plain = index is None or (
        len(index) == len(K) and np.array_equal(index, np.arange(n_rows))
    )
    index = np.arange(n_rows) if plain else np.array(index, dtype=np.int64)
    cross, corner = (np.zeros((0, len(K))), np.zeros((0, 0))) if more is None else more
    K, cross, corner = (np.ascontiguousarray(part) for part in (K, cross, corner))
    # These arrays are made outside of compiled code, which shortens compilation.
    total = np.bincount(group, beta, n_groups)
    full = total >= cap * (1.0 - 1e-14)
    total[full] = cap[full]
    diagonal = diagonal_of(K, corner, index)
    held, room = beta > 0.0, ~full[group]
    upward = np.where(c > 0.0, room, held & (c < 0.0))
    downward = np.where(c > 0.0, held, room & (c < 0.0))
    several = full & (np.diff(start) > 1)
    crowded = np.zeros(n_groups + 1, dtype=np.int64)
    crowded[-1] = several.sum()
    crowded[: crowded[-1]] = np.flatnonzero(several)
    scratch = np.empty(n_rows)
    n_kept = 0
    if not plain:
        n_kept = 2 + min(n_rows, _KEPT_BYTES // (8 * max(1, n_rows)))
    kept, place = np.empty((n_kept, n_rows)), np.full(0 if plain else n_rows + 1, -1)
    place[-1:] = 0
    single, unbiased = None, c == 0.0  # without such rows their code is not compiled
    if unbiased.any():
        # The diagonal is used however small: box counts span 70 orders of magnitude.
        single = np.where(diagonal > 0.0, diagonal, TINY), unbiased.astype(np.float64)
    n_iter, violation, top, low = _iterate(
        K,
        cross,
        corner,
        index,
        kept,
        place,
        sign,
        c,
        group,
        start,
        cap,
        beta,
        total,
        gradient,
        diagonal,
        upward,
        downward,
        (cap - total)[group],
        scratch,
        scratch.view(np.int64),
        single,
        crowded,
        not unbiased.all(),
        tol,
        max(10_000_000, 100 * n_rows),
    )
    b = _bias(gradient, beta, total, cap, group, c, top, low)
    return beta, b, n_iter, violation
