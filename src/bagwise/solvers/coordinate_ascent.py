r"""Dual coordinate ascent for hinge rows and ball constraints, on dense coordinates.

Chosen for the steps of PC-SVM where the inner products of all rows are not kept: more
than ten times as many instances as coordinates, or instances of a bag that share a
slack. The other solvers of hinge rows have no balls.

One problem serves linear and reduced-basis support vector machines and their
relatives with norm-ball constraints. With rows :math:`A_l = y_l z_l`,

.. math::
    \min_{w, b} \; \tfrac12 \|w\|^2 + \frac{b^2}{2 B}
        + \sum_l C_l \max(0, m_l - A_l' w - y_l b)
    \quad \text{s.t.} \quad a_i \|w\|^2 - 2 g_i' w + q_i \le 0,

where :math:`B` is `bias_scale` (0: no bias), :math:`C_l` is `cap`, :math:`m_l` is
`margin` (rows of a `group` may share one slack) and :math:`(a_i, g_i, q_i)` are the
`balls`. Every Hessian is a multiple of the identity, so the dual keeps one vector
:math:`v` and one scalar :math:`\kappa`:

.. math::
    \max_{0 \le \beta \le C,\; \mu \ge 0} \; m'\beta + q'\mu
        - \frac{\|v\|^2}{4 \kappa} - \frac{B}{2} (y'\beta)^2, \qquad
    v = \sum_l \beta_l A_l + 2 \sum_i \mu_i g_i, \quad
    \kappa = \tfrac12 + a'\mu,

with :math:`w = v / (2 \kappa)` and :math:`b = B\, y'\beta`. Both coordinate steps have
a closed form and cost one inner product. Rows that share a slack share the bound of
their multipliers, :math:`\sum_{l \in g} \beta_l \le C_g`: a visit to such a group
moves one of them, or passes weight from one to another.
"""

from dataclasses import dataclass

import numpy as np

from bagwise._jit import njit
from bagwise.bags.segments import segment_max

RECHECK = 10  # passes between two full passes over all coordinates
MOVES = 3  # moves per visit to a group


@njit()
def shuffle(active, n_active, state):
    """Fisher-Yates with a private xorshift state (no global random state)."""
    for i in range(n_active - 1, 0, -1):
        state ^= (state << np.uint64(13)) & np.uint64(0xFFFFFFFFFFFFFFFF)
        state ^= state >> np.uint64(7)
        state ^= (state << np.uint64(17)) & np.uint64(0xFFFFFFFFFFFFFFFF)
        j = np.int64(state % np.uint64(i + 1))
        active[i], active[j] = active[j], active[i]
    return state


@njit()
def _clipped_step(beta, gradient, curvature, cap):
    """Newton step on one dual variable, clipped to [0, cap]."""
    if curvature <= 0.0:
        return cap if gradient > 0.0 else (0.0 if gradient < 0.0 else beta)
    return min(max(beta + gradient / curvature, 0.0), cap)


@njit()
def _projected(gradient, beta, cap):
    if beta <= 0.0:
        return max(gradient, 0.0)
    if beta >= cap:
        return min(gradient, 0.0)
    return gradient


@njit()
def _begin(Z, index, sign, beta, a, G, q, mu):
    """Norms of the rows, radii of the balls, and v, sum of signs and kappa so far."""
    n_rows, n_balls = len(index), len(a)
    norms, radius = np.empty(n_rows), np.empty(n_balls)
    v = np.zeros(Z.shape[1])
    total, kappa = 0.0, 0.5
    for row in range(n_rows):
        z = Z[index[row]]
        norms[row] = np.dot(z, z)
        if beta[row] != 0.0:
            v += (sign[row] * beta[row]) * z
            total += sign[row] * beta[row]
    for i in range(n_balls):
        # R_i**2, bounded below: it is zero if the center itself is the only point.
        squared = np.dot(G[i], G[i]) / a[i] ** 2 - q[i] / a[i]
        radius[i] = np.sqrt(max(squared, 1e-18))
        kappa += a[i] * mu[i]
        if mu[i] != 0.0:
            v += (2.0 * mu[i]) * G[i]
    return norms, radius, v, total, kappa


@njit()
def _ball_pass(a, G, radius, mu, v, kappa):
    """Maximize the dual along every mu_i, in closed form: kappa, largest violation."""
    largest = 0.0
    for i in range(len(a)):
        shift = 2.0 * kappa / a[i]
        length = 0.0
        gap = 0.0
        for k in range(len(v)):
            length += (v[k] - shift * G[i, k]) ** 2
            gap += (v[k] / (2.0 * kappa) - G[i, k] / a[i]) ** 2
        violation = np.sqrt(gap) / radius[i] - 1.0
        if violation > 0.0 or mu[i] > 0.0:
            largest = max(largest, abs(violation))
        target = np.sqrt(length) / (2.0 * radius[i])
        new_mu = max(0.0, mu[i] + (target - kappa) / a[i])
        step = new_mu - mu[i]
        if step != 0.0:
            mu[i] = new_mu
            kappa += a[i] * step
            for k in range(len(v)):
                v[k] += 2.0 * step * G[i, k]
    return kappa, largest


@njit(
    shapes={
        "Z": "n r",
        "index": "m in n",
        "sign": "m",
        "margin": "m",
        "cap": "m",
        "order": "m in m",
        "beta": "m",
        "a": "s",
        "G": "s r",
        "q": "s",
        "mu": "s",
    }
)
def ascend_dense(
    Z, index, sign, margin, cap, order, beta, a, G, q, mu, bias, tol, max_passes, seed
):
    """Ascend on rows with a slack each, and on balls: v, kappa, passes, violation."""
    rank, n_rows = Z.shape[1], len(index)
    norms, radius, v, total, kappa = _begin(Z, index, sign, beta, a, G, q, mu)
    active = order.copy()
    n_active = n_rows
    state = np.uint64(seed + 88172645463325252)
    slope = 0.0  # largest projected gradient of the last full pass
    worst = np.inf
    full = True
    n_pass = 0
    while n_pass < max_passes:
        n_pass += 1
        full = full or n_pass % RECHECK == 0
        if full:
            active[:] = order
            n_active = n_rows
        state = shuffle(active, n_active, state)
        largest = 0.0
        kept = 0
        for position in range(n_active):
            row = active[position]
            z = Z[index[row]]
            old = beta[row]
            gradient = margin[row] - sign[row] * (
                np.dot(z, v) / (2.0 * kappa) + bias * total
            )
            projected = abs(_projected(gradient, old, cap[row]))
            largest = max(largest, projected)
            if projected > 0.0:
                curvature = norms[row] / (2.0 * kappa) + bias
                new = _clipped_step(old, gradient, curvature, cap[row])
                if new != old:
                    step = sign[row] * (new - old)
                    beta[row] = new
                    total += step
                    for k in range(rank):
                        v[k] += step * z[k]
            # A coordinate at a bound leaves the active list until the next full pass if
            # its gradient points outwards by more than `slope`.
            if projected > 0.0 or abs(gradient) <= slope:
                active[kept], active[position] = row, active[kept]
                kept += 1
        n_active = kept
        kappa, violation = _ball_pass(a, G, radius, mu, v, kappa)
        largest = max(largest, violation)
        if full:
            worst = largest
            slope = largest
            if largest < tol:
                break
        # The active coordinates have converged: check all coordinates again.
        full = largest < tol or n_active == 0
    return v, kappa, n_pass, worst


@njit()
def _visit_group(
    first, last, Z, index, sign, margin, limit, norms, beta, v, kappa, bias, total
):
    """Improve the rows of one group: violation before, how far it rests, and total."""
    violation, rest = 0.0, 0.0
    moves = 1 if last - first == 1 else MOVES
    for move in range(moves):
        up, down = -1, -1
        best, lowest, mass = -np.inf, np.inf, 0.0
        for row in range(first, last):
            score = np.dot(Z[index[row]], v) / (2.0 * kappa) + bias * total
            slope = margin[row] - sign[row] * score
            mass += beta[row]
            if slope > best:
                best, up = slope, row
            if beta[row] > 0.0 and slope < lowest:
                lowest, down = slope, row
        room = limit - mass
        if room <= 1e-14 * limit:
            room = 0.0
        rise = best if room > 0.0 else 0.0
        fall = -lowest if down >= 0 else 0.0
        transfer = 0.0
        if room == 0.0 and down >= 0 and up != down:
            transfer = best - lowest
        largest = max(rise, fall, transfer)
        if move == 0:
            violation = max(largest, 0.0)
            rest = lowest if down >= 0 and room == 0.0 else -best
        if largest <= 1e-15:
            break
        if transfer >= largest:
            z, other = Z[index[up]], Z[index[down]]
            curvature = norms[up] + norms[down]
            curvature -= 2.0 * sign[up] * sign[down] * np.dot(z, other)
            curvature /= 2.0 * kappa
            curvature += bias * (sign[up] - sign[down]) ** 2
            step = min(transfer / max(curvature, 1e-12), beta[down])
            beta[up] += step
            beta[down] = 0.0 if step >= beta[down] else beta[down] - step
            for k in range(len(v)):
                v[k] += step * (sign[up] * z[k] - sign[down] * other[k])
            total += (sign[up] - sign[down]) * step
            continue
        row, slope = (up, best) if rise >= fall else (down, lowest)
        curvature = max(norms[row] / (2.0 * kappa) + bias, 1e-12)
        step = slope / curvature
        step = min(step, room) if rise >= fall else max(step, -beta[row])
        beta[row] = max(beta[row] + step, 0.0)
        z = Z[index[row]]
        for k in range(len(v)):
            v[k] += sign[row] * step * z[k]
        total += sign[row] * step
    return violation, rest, total


@njit(
    shapes={
        "Z": "n r",
        "index": "m in n",
        "sign": "m",
        "margin": "m",
        "cap": "g",
        "order": "g in g",
        "beta": "m",
        "a": "s",
        "G": "s r",
        "q": "s",
        "mu": "s",
        "start": "g+1 to m",
    }
)
def ascend_groups(
    Z,
    index,
    sign,
    margin,
    cap,
    order,
    beta,
    a,
    G,
    q,
    mu,
    start,
    bias,
    tol,
    max_passes,
    seed,
):
    """Ascend on rows that share slacks, and on balls: as `ascend_dense`."""
    n_groups = len(cap)
    norms, radius, v, total, kappa = _begin(Z, index, sign, beta, a, G, q, mu)
    active = order.copy()
    n_active = n_groups
    state = np.uint64(seed + 88172645463325252)
    slope, worst, full, n_pass = 0.0, np.inf, True, 0
    while n_pass < max_passes:
        n_pass += 1
        full = full or n_pass % RECHECK == 0
        if full:
            active[:] = order
            n_active = n_groups
        state = shuffle(active, n_active, state)
        largest, kept = 0.0, 0
        for position in range(n_active):
            g = active[position]
            violation, rest, total = _visit_group(
                start[g],
                start[g + 1],
                Z,
                index,
                sign,
                margin,
                cap[g],
                norms,
                beta,
                v,
                kappa,
                bias,
                total,
            )
            largest = max(largest, violation)
            if violation > 0.0 or rest <= slope:
                active[kept], active[position] = g, active[kept]
                kept += 1
        n_active = kept
        kappa, violation = _ball_pass(a, G, radius, mu, v, kappa)
        largest = max(largest, violation)
        if full:
            worst, slope = largest, largest
            if largest < tol:
                break
        full = largest < tol or n_active == 0
    return v, kappa, n_pass, worst


@dataclass
class DualSolution:
    """What `dual_coordinate` found.

    Attributes
    ----------
    w : ndarray of shape (rank,)
        Primal weights.
    b : float
        Bias, 0 without `bias_scale`.
    beta : ndarray of shape (n_rows,)
        Dual variables of the rows.
    mu : ndarray of shape (n_balls,)
        Multipliers of the balls.
    n_passes : int
        Passes over the active coordinates.
    violation : float
        Largest projected gradient or relative ball violation of the last full pass.
    converged : bool
        Whether `violation` is below the tolerance.
    primal, dual : float
        Objective values; they bracket the optimum when `w` is feasible.
    """

    w: np.ndarray
    b: float
    beta: np.ndarray
    mu: np.ndarray
    n_passes: int
    violation: float
    converged: bool
    primal: float
    dual: float


def coordinate_ascent(
    Z,
    index,
    sign,
    *,
    cap,
    margin=1.0,
    bias_scale=0.0,
    group=None,
    balls=None,
    beta=None,
    mu=None,
    tol=1e-3,
    max_passes=3000,
    seed=0,
):
    r"""Solve the hinge problem of this module by dual coordinate ascent.

    Parameters
    ----------
    Z : ndarray of shape (n, rank)
        Coordinates of the points.
    index : ndarray of int, shape (n_rows,) or None
        Row of `Z` behind each hinge row; None takes all rows in order.
    sign : ndarray of shape (n_rows,)
        :math:`y_l`, -1 or +1.
    cap, margin : float or ndarray of shape (n_rows,)
        :math:`C_l` and :math:`m_l`; with `group`, a cap for each group.
    bias_scale : float, default=0.0
        :math:`B`: the bias is penalized by ``b**2 / (2 * bias_scale)``.
    group : ndarray of int, shape (n_rows,), optional
        Non-decreasing group numbers 0, 1, ...; the rows of a group share one slack.
    balls : tuple (a, G, q), optional
        ``a > 0`` of shape (n_balls,), `G` of shape (n_balls, rank), `q` of shape
        (n_balls,). The balls must have a common point.
    beta, mu : ndarray, optional
        Warm start, clipped into the feasible box. Not written to.
    tol : float, default=1e-3
        Stop when a pass over *all* coordinates has no larger projected gradient and
        no larger relative ball violation.
    max_passes : int, default=3000
        Maximum number of passes.
    seed : int, default=0
        Order of the coordinates.

    Returns
    -------
    DualSolution
    """
    sign = np.array(sign, dtype=np.float64)
    n_rows = sign.shape[0]
    index = np.arange(n_rows) if index is None else np.array(index, dtype=np.int64)
    # Contiguous copies, so that one compiled version serves all callers.
    n_groups = n_rows if group is None else int(group[-1]) + 1
    cap = np.array(np.broadcast_to(cap, (n_groups,)), dtype=np.float64)
    margin = np.array(np.broadcast_to(margin, (n_rows,)), dtype=np.float64)
    rank = Z.shape[1]
    a, G, q = _check_balls(balls, rank)
    if beta is None:
        beta = np.zeros(n_rows)
    elif group is None:
        beta = np.clip(beta, 0.0, cap)
    else:
        beta = np.maximum(beta, 0.0)
        mass = np.bincount(group, beta, n_groups)
        beta *= np.minimum(1.0, cap / np.maximum(mass, 1e-300))[group]
    mu = np.zeros(len(a)) if mu is None else np.maximum(mu, 0.0)
    order = np.random.default_rng(seed).permutation(n_groups)
    options = (float(bias_scale), float(tol), int(max_passes), int(seed))
    Z = np.ascontiguousarray(Z, dtype=np.float64)
    problem = (Z, index, sign, margin, cap, order, beta, a, G, q, mu)
    if group is None:
        v, kappa, passes, violation = ascend_dense(*problem, *options)
    else:
        start = np.searchsorted(group, np.arange(n_groups + 1))
        v, kappa, passes, violation = ascend_groups(*problem, start, *options)
    w = v / (2.0 * kappa)
    total = sign @ beta
    b = bias_scale * total
    slack = np.maximum(0.0, margin - sign * ((Z @ w)[index] + b))
    if group is not None:
        slack = segment_max(slack, np.searchsorted(group, np.arange(n_groups + 1)))
    primal = 0.5 * w @ w + 0.5 * b * total + cap @ slack
    dual = margin @ beta + q @ mu - kappa * (w @ w) - 0.5 * b * total
    return DualSolution(
        w, b, beta, mu, passes, violation, violation < tol, primal, dual
    )


def _check_balls(balls, rank):
    if balls is None:
        return np.zeros(0), np.zeros((0, rank)), np.zeros(0)
    a, G, q = (np.ascontiguousarray(part, dtype=np.float64) for part in balls)
    if G.shape != (len(a), rank) or q.shape != a.shape:
        raise ValueError(
            f"Balls need a (m,), G (m, {rank}) and q (m,); got {a.shape}, {G.shape} "
            f"and {q.shape}."
        )
    if np.any(a <= 0):
        raise ValueError("A ball constraint with a <= 0 is never active: remove it.")
    return a, G, q
