r"""Sequential minimal optimisation for hinge rows that share slacks.

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

References
----------
.. [1] Fan, R.-E., Chen, P.-H., Lin, C.-J., "Working set selection using second order
   information for training support vector machines", Journal of Machine Learning
   Research, 2005.
"""

import numpy as np

from bagwise._jit import njit

_TINY = 1e-12  # curvature of two rows that coincide
_NO_SIGN = np.int64(2**63 - 1)  # all bits of an integer but its sign
_NONE = np.int64(-(2**63) + 1)


@njit()
def _entry(K, cross, corner, one, two):
    """Kernel of two points; those beyond the matrix are in the other two blocks."""
    n = len(K)
    if one < n:
        return K[one, two] if two < n else cross[two - n, one]
    return cross[one - n, two] if two < n else corner[one - n, two - n]


@njit()
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


@njit()
def combine_rows(K, coef):
    """Return ``coef @ K`` from the rows that count alone."""
    out = np.zeros(K.shape[1])
    for i in range(len(coef)):
        if coef[i] != 0.0:
            weight, row = coef[i], K[i]
            for j in range(len(out)):
                out[j] += weight * row[j]
    return out


@njit()
def _within_groups(gradient, beta, total, cap, start, diagonal, index, blocks):
    """Best transfer inside a full group: (violation, gain, up, down)."""
    worst, best_gain, best_up, best_down = 0.0, 0.0, -1, -1
    for g in range(len(cap)):
        first, last = start[g], start[g + 1]
        if last - first < 2 or total[g] < cap[g]:
            continue  # with room left, single moves and cross pairs do the work
        up, down = first, -1
        for row in range(first, last):
            if gradient[row] > gradient[up]:
                up = row
            if beta[row] > 0.0 and (down < 0 or gradient[row] < gradient[down]):
                down = row
        if down < 0 or up == down:
            continue
        violation = gradient[up] - gradient[down]
        if violation <= 0.0:
            continue
        inner = _entry(blocks[0], blocks[1], blocks[2], index[up], index[down])
        curvature = max(diagonal[up] + diagonal[down] - 2.0 * inner, _TINY)
        step = min(violation / curvature, beta[down])
        gain = step * violation - 0.5 * step * step * curvature
        worst = max(worst, violation)
        if gain > best_gain:
            best_gain, best_up, best_down = gain, up, down
    return worst, best_gain, best_up, best_down


@njit()
def _largest(values):
    """Largest of numbers that are not negative, and where it comes first.

    The order of such numbers is that of their bits as integers, whose maximum is taken
    many at a time.
    """
    bits = values.view(np.int64)
    most = np.int64(0)
    for row in range(len(bits)):
        most = bits[row] if bits[row] > most else most
    if most == 0:
        return 0.0, -1
    row = 0
    while bits[row] != most:
        row += 1
    return values[row], row


@njit()
def _single(gradient, beta, room, curvature, free, gains):
    """Best move of one row without bias: (gain, row, step)."""
    for row in range(len(beta)):
        slope, up, down = gradient[row], room[row], beta[row]
        limit = up if slope > 0.0 else down
        slope = abs(slope) * free[row]
        step = min(slope / curvature[row], limit)
        gains[row] = step * slope - 0.5 * step * step * curvature[row]
    gain, row = _largest(gains)
    step = 0.0
    if row >= 0:
        slope = gradient[row]
        limit = room[row] if slope > 0.0 else beta[row]
        step = min(abs(slope) / curvature[row], limit)
        step = step if slope > 0.0 else -step
    return gain, row, step


@njit()
def _worst_single(gradient, beta, room, c):
    """Largest violation of a row without bias."""
    worst = 0.0
    for row in range(len(beta)):
        limit = room[row] if gradient[row] > 0.0 else beta[row]
        if c[row] == 0.0 and limit > 0.0:
            worst = max(worst, abs(gradient[row]))
    return worst


@njit()
def _mark(g, start, beta, total, cap, c, upward, downward, left):
    """Which rows of a group can move up or down along c; neither without a bias.

    `left` takes what is left of the bound of the group.
    """
    room = total[g] < cap[g]
    for row in range(start[g], start[g + 1]):
        left[row] = cap[g] - total[g]
        held = beta[row] > 0.0
        upward[row] = room if c[row] > 0.0 else (held and c[row] < 0.0)
        downward[row] = held if c[row] > 0.0 else (room and c[row] < 0.0)


@njit()
def _update(gradient, s, own, other, move_i, move_j):
    """Take a step over to the gradient."""
    for row in range(len(gradient)):
        gradient[row] -= s[row] * (move_i * own[row] + move_j * other[row])


@njit()
def _extremes(gradient, c, upward, downward, values):
    """Best row to move up, and the bounds that it and the others set for the bias."""
    for row in range(len(gradient)):
        values[row] = gradient[row] * c[row]
    bits = values.view(np.int64)
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
        i, wanted = 0, high ^ ((high >> 63) & _NO_SIGN)
        while bits[i] != wanted or not upward[i]:
            i += 1
        top = values[i]
    if least < -_NONE:
        j, wanted = 0, least ^ ((least >> 63) & _NO_SIGN)
        while bits[j] != wanted:
            j += 1
        low = values[j]
    return i, top, low


@njit()
def _second_of_pair(gradient, c, diagonal, own, downward, i, top, scores):
    """Row that gains most with `i`, to second order; `own` is the kernel of `i`."""
    for row in range(len(gradient)):
        difference, held = top - c[row] * gradient[row], downward[row]
        curvature = max(diagonal[i] + diagonal[row] - 2.0 * own[row], _TINY)
        score = difference * difference / curvature
        scores[row] = score if (difference > 0.0) & held else 0.0
    return _largest(scores)[1]


@njit()
def _pair_step(gradient, beta, total, cap, group, c, diagonal, inner, i, j):
    """Step length of the pair (c_i beta_i up, c_j beta_j down), and its gain."""
    slope = c[i] * gradient[i] - c[j] * gradient[j]
    curvature = max(diagonal[i] + diagonal[j] - 2.0 * inner, _TINY)
    step = slope / curvature
    same = group[i] == group[j]
    if c[i] < 0.0:
        step = min(step, beta[i])
    elif not same:
        step = min(step, cap[group[i]] - total[group[i]])
    if c[j] > 0.0:
        step = min(step, beta[j])
    elif not same:
        step = min(step, cap[group[j]] - total[group[j]])
    return step, step * slope - 0.5 * step * step * curvature


@njit()
def _move(row, change, beta, total, cap, group):
    """Change one dual variable and its group's total, landing on bounds exactly.

    What rounding leaves of a variable that goes to zero is small against what it was;
    against the bound, which may be out of reach, nothing can be said.
    """
    g = group[row]
    value = beta[row] + change
    if value <= 1e-14 * beta[row]:
        change, value = -beta[row], 0.0
    before = total[g]
    beta[row] = value
    total[g] = before + change
    if total[g] >= cap[g] * (1.0 - 1e-14):
        total[g] = cap[g]
    elif total[g] <= 1e-14 * before:
        total[g] = 0.0


@njit()
def _bias(gradient, beta, total, cap, group, c, top, low):
    """Average over the free rows; without one, the middle of the feasible interval."""
    count, total_value = 0, 0.0
    for row in range(len(beta)):
        g = group[row]
        if c[row] != 0.0 and beta[row] > 0.0 and total[g] < cap[g]:
            count += 1
            total_value += c[row] * gradient[row]
    if count:
        return total_value / count
    if np.isfinite(top) and np.isfinite(low):
        return 0.5 * (top + low)
    if np.isfinite(top):
        return top
    return low if np.isfinite(low) else 0.0


@njit()
def _iterate(
    blocks, index, plain, s, c, margin, group, start, cap, beta, tol, max_iter
):
    K, cross, corner = blocks
    n_rows = len(s)
    diagonal, gradient = np.empty(n_rows), margin.copy()
    first, second, zero = np.empty(n_rows), np.empty(n_rows), np.zeros(n_rows)
    upward = np.zeros(n_rows, dtype=np.bool_)
    downward = np.zeros(n_rows, dtype=np.bool_)
    total = np.zeros(len(cap))
    room, scratch = np.empty(n_rows), np.empty(n_rows)
    curvature, free = np.empty(n_rows), np.empty(n_rows)
    shared, unbiased, biased = False, False, False
    for row in range(n_rows):
        diagonal[row] = _entry(K, cross, corner, index[row], index[row])
        # As it is, however small: counts of boxes span seventy orders of magnitude.
        curvature[row] = diagonal[row] if diagonal[row] > 0.0 else _TINY
        free[row] = 1.0 if c[row] == 0.0 else 0.0
        total[group[row]] += beta[row]
        unbiased = unbiased or c[row] == 0.0
        biased = biased or c[row] != 0.0
        if beta[row] != 0.0:
            _fill(K, cross, corner, index, index[row], first)
            for k in range(n_rows):
                gradient[k] -= s[k] * s[row] * beta[row] * first[k]
    for g in range(len(cap)):
        shared = shared or start[g + 1] - start[g] > 1
        if total[g] >= cap[g] * (1.0 - 1e-14):
            total[g] = cap[g]
        _mark(g, start, beta, total, cap, c, upward, downward, room)
    i, top, low = -1, -np.inf, np.inf
    if biased:
        i, top, low = _extremes(gradient, c, upward, downward, scratch)
    own = other = zero
    n_iter = 0
    while True:
        violation = max(top - low, 0.0) if i >= 0 else 0.0
        j, gain, change_i, change_j = -1, 0.0, 0.0, 0.0
        filled = -1
        if i >= 0 and low < top:
            own, filled = first, i
            if plain:
                own = K[i]
            else:
                _fill(K, cross, corner, index, index[i], first)
            j = _second_of_pair(gradient, c, diagonal, own, downward, i, top, scratch)
        if j >= 0:
            step, gain = _pair_step(
                gradient, beta, total, cap, group, c, diagonal, own[j], i, j
            )
            change_i, change_j = c[i] * step, -c[j] * step
        if shared:
            worst, other_gain, up, down = _within_groups(
                gradient, beta, total, cap, start, diagonal, index, blocks
            )
            violation = max(violation, worst)
            if other_gain > gain:
                gain, i, j = other_gain, up, down
                inner = _entry(K, cross, corner, index[i], index[j])
                bend = max(diagonal[i] + diagonal[j] - 2.0 * inner, _TINY)
                change_i = min((gradient[i] - gradient[j]) / bend, beta[j])
                change_j = -change_i
        if unbiased:
            other_gain, row, change = _single(
                gradient, beta, room, curvature, free, scratch
            )
            # The largest violation is needed only where this one does not settle it.
            slope = abs(gradient[row]) if row >= 0 else 0.0
            if slope < tol or n_iter >= max_iter:
                slope = _worst_single(gradient, beta, room, c)
            violation = max(violation, slope)
            if other_gain > gain:
                gain, i, j, change_i, change_j = other_gain, row, -1, change, 0.0
        if violation < tol or n_iter >= max_iter or gain <= 0.0:
            break
        n_iter += 1
        if i != filled:
            own = first
            _fill(K, cross, corner, index, index[i], first)
        move_i, move_j = s[i] * change_i, 0.0
        other = zero
        if j >= 0:
            # The decrease first: a full group has no room before it.
            move_j = s[j] * change_j
            if change_j < 0.0:
                _move(j, change_j, beta, total, cap, group)
                _move(i, change_i, beta, total, cap, group)
            else:
                _move(i, change_i, beta, total, cap, group)
                _move(j, change_j, beta, total, cap, group)
            _mark(group[j], start, beta, total, cap, c, upward, downward, room)
            if plain:
                other = K[j]
            else:
                other = second
                _fill(K, cross, corner, index, index[j], second)
        else:
            _move(i, change_i, beta, total, cap, group)
        _mark(group[i], start, beta, total, cap, c, upward, downward, room)
        _update(gradient, s, own, other, move_i, move_j)
        i = -1
        if biased:
            i, top, low = _extremes(gradient, c, upward, downward, scratch)
    b = _bias(gradient, beta, total, cap, group, c, top, low)
    return b, n_iter, violation


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
    # Fresh contiguous arrays: one compiled version serves all callers.
    cap = np.array(np.broadcast_to(cap, (n_groups,)), dtype=np.float64)
    margin = np.array(np.broadcast_to(margin, (n_rows,)), dtype=np.float64)
    c = sign if bias is None else np.array(bias, dtype=np.float64)
    beta = np.zeros(n_rows) if beta is None else np.array(beta, dtype=np.float64)
    plain = index is None or (
        len(index) == len(K) and np.array_equal(index, np.arange(n_rows))
    )
    index = np.arange(n_rows) if plain else np.array(index, dtype=np.int64)
    cross, corner = (np.zeros((0, len(K))), np.zeros((0, 0))) if more is None else more
    blocks = tuple(np.ascontiguousarray(block) for block in (K, cross, corner))
    max_iter = max(10_000_000, 100 * n_rows)
    b, n_iter, violation = _iterate(
        blocks, index, plain, sign, c, margin, group, start, cap, beta, tol, max_iter
    )
    return beta, b, n_iter, violation
