"""A 1-norm support vector machine: few columns out of very many.

Five times faster than liblinear on the columns of MILES (musk1, elephant), whose
intercept is penalized, too.
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning

_MAX_STEPS = 100
_NEGLIGIBLE = 1e-10  # contribution of a column to the matrix, relative to its diagonal

# A start from a known solution has complementarity products of the first value,
# relative to the objective, and slopes at the second distance from their bounds.
_FIRST_GAP = 0.03
_WALL = 0.05


class Solved(NamedTuple):
    """The end of a solver: weights, multipliers alpha, and the relative gap."""

    w: np.ndarray
    b: float
    objective: float
    alpha: np.ndarray
    gap: float
    n_iter: int
    selected: np.ndarray


def interior_point(M, t, cost, tol, known=None):
    """Solve by Mehrotra's predictor-corrector method.

    `known` is the solution of a related problem with the same rows, if there is one.
    """
    squared = np.einsum("ij,ij->j", M, M)
    if known is None:
        point = _start(M, t, cost)
    else:
        point = _start_near(M, t, cost, known)
    n_iter = 0
    while n_iter < _MAX_STEPS:
        n_iter += 1
        p, q, u, v, alpha, z, b = point
        w = p - q
        g = M.T @ (t * alpha)
        residual = (
            1.0 - g - u,
            1.0 + g - v,
            t * (M @ w + b) + alpha / (2.0 * cost) - 1.0 - z,
            t @ alpha,
        )
        products = p @ u + q @ v + alpha @ z
        value = 1.0 + w @ np.sign(w) + alpha**2 @ (0.25 / cost)
        off = max(np.abs(r).max() for r in residual[:3])
        if max(products / value, off, abs(residual[3]) / value) <= tol:
            break
        following = _step(M, squared, t, cost, point, residual, products)
        if following is None:  # no further accuracy is possible
            break
        point = following
    # Of a weight and its multiplier, the smaller one is zero in the limit. It is set to
    # zero unless that costs more than the gap (similar columns, rounding).
    few = np.where(p > u, p, 0.0) - np.where(q > v, q, 0.0)
    selected = few != 0.0
    rounded, exact = _objective(few, b, M, t, cost), _objective(p - q, b, M, t, cost)
    gap = products / value
    if rounded <= exact + max(products, tol * value):
        return Solved(few, float(b), rounded, alpha, gap, n_iter, selected)
    return Solved(p - q, float(b), exact, alpha, gap, n_iter, selected)


def _objective(w, b, M, t, cost):
    loss = np.maximum(1.0 - t * (M @ w + b), 0.0)
    return float(np.abs(w).sum() + cost @ loss**2)


def _start(M, t, cost):
    """Interior start: balanced multipliers, small enough to be feasible."""
    alpha = np.where(t > 0, 1.0 / (t > 0).sum(), 1.0 / (t < 0).sum())
    g = M.T @ (t * alpha)
    alpha *= min(cost.mean(), 0.5 / max(np.abs(g).max(), 1e-12))
    g = M.T @ (t * alpha)
    p, q = np.full((2, M.shape[1]), 1.0 / np.sqrt(M.shape[1]))
    return p, q, 1.0 - g, 1.0 + g, alpha, np.ones(len(t)), 0.0


def _start_near(M, t, cost, known):
    """Interior start next to a solution: its zeros are moved away from the walls."""
    w, alpha, b = known.w, known.alpha, known.b
    target = _FIRST_GAP * known.objective / (2 * len(w) + len(t))
    alpha = np.maximum(alpha, 1e-3 * alpha.mean())
    g = M.T @ (t * alpha)
    u, v = np.maximum(1.0 - g, _WALL), np.maximum(1.0 + g, _WALL)
    p, q = np.maximum(w, 0.0) + target / u, np.maximum(-w, 0.0) + target / v
    z = t * (M @ (p - q) + b) + alpha / (2.0 * cost) - 1.0
    return p, q, u, v, alpha, np.maximum(z, target / alpha), b


def _step(M, squared, t, cost, point, residual, products):
    """One predictor-corrector step; None when it cannot move."""
    p, q, u, v, alpha, z, b = point
    r_p, r_q, r_row, r_b = residual
    D = p / u + q / v
    E = 0.5 / cost + z / alpha
    try:
        solve = _normal_solver(M, squared, D, E)
    except np.linalg.LinAlgError:
        return None
    ones, ones_g = solve(np.ones(len(t)), np.zeros(len(p)))

    def direction(rho_p, rho_q, rho_z):
        h = (rho_p - p * r_p) / u - (rho_q - q * r_q) / v
        a, g = solve(t * (rho_z / alpha - r_row), h)
        db = (a.sum() + r_b) / ones.sum()
        dalpha, dg = t * (a - db * ones), g - db * ones_g
        du, dv = r_p - dg, r_q + dg
        dp, dq = (rho_p - p * du) / u, (rho_q - q * dv) / v
        return dp, dq, du, dv, dalpha, (rho_z - z * dalpha) / alpha, db

    ahead = direction(-p * u, -q * v, -alpha * z)
    step = _longest(point, ahead)
    after = [x + step * dx for x, dx in zip(point[:6], ahead[:6], strict=True)]
    left = after[0] @ after[2] + after[1] @ after[3] + after[4] @ after[5]
    target = (left / products) ** 3 * products / (2 * len(p) + len(t))
    dp, dq, du, dv, dalpha, dz, _ = ahead
    moves = direction(
        target - p * u - dp * du,
        target - q * v - dq * dv,
        target - alpha * z - dalpha * dz,
    )
    step = 0.995 * _longest(point, moves)
    if not step > 1e-8:
        return None
    return tuple(x + min(1.0, step) * dx for x, dx in zip(point, moves, strict=True))


def _normal_solver(M, squared, D, E):
    """Return a function of (r, h) that solves M x + E a = r, x = h + D M'a.

    It gives a and M'a. The side with fewer unknowns is eliminated last, and where that
    is x, M'a follows from x: D is huge where a column has a weight, and would blow up
    the rounding errors of a.
    """
    # Near the end all but a few columns have no effect.
    kept = np.flatnonzero(D * squared > _NEGLIGIBLE * E.min())
    part, root = (M if len(kept) == len(D) else M[:, kept]), np.sqrt(D[kept])
    n_rows = len(E)
    if len(kept) >= n_rows:
        part = part * root
        K = part @ part.T
        K.flat[:: n_rows + 1] += E
        factor = cho_factor(K, overwrite_a=True, check_finite=False)

        def solve_rows(r, h):
            a = cho_solve(factor, r - M @ h, check_finite=False)
            return a, M.T @ a

        return solve_rows
    all_kept = len(kept) == len(D)
    scaled = part * (1.0 / np.sqrt(E))[:, None]
    scaled *= root
    K = scaled.T @ scaled
    K.flat[:: len(kept) + 1] += 1.0
    factor = cho_factor(K, overwrite_a=True, check_finite=False)

    def solve_columns(r, h):
        if not all_kept:
            rest = h.copy()
            rest[kept] = 0.0
            r = r - M @ rest
        right = h[kept] / root + scaled.T @ (r / np.sqrt(E))
        x = root * cho_solve(factor, right, check_finite=False)
        a = (r - part @ x) / E
        g = np.empty(len(D)) if all_kept else M.T @ a
        g[kept] = (x - h[kept]) / root**2
        return a, g

    return solve_columns


def _longest(point, moves):
    """Longest step, at most 1 / 0.995, that keeps the six vectors positive."""
    steepest = max((-dx / x).max() for x, dx in zip(point[:6], moves[:6], strict=True))
    return min(1.0 / 0.995, 1.0 / steepest) if steepest > 0.0 else 1.0 / 0.995


# Working sets: minimum number of entries of M, number of columns at first, number of
# columns that may join in any case, and maximum number of rounds.
_LARGE = 1_000_000
_FIRST_COLUMNS, _FEWEST = 100, 100
_MAX_ROUNDS = 100
# Columns with zero weight are kept if their slope is larger than this.
_NEAR = 0.95

# The first costs give the steepest column the first slope at w = 0. Costs grow by the
# factor once the relative gap is below the third value.
_FIRST_SLOPE, _FACTOR, _RUNG = 10.0, 3.0, 0.3

# Working sets are solved to this fraction of the gap of the whole problem: multipliers
# of interior points choose better columns than those of an exact solution.
_INNER = 0.3
# Below this gap, the last solution is near enough to start from it.
_RELATED = 0.75


def l1_squared_hinge(M, t, cost, *, tol=1e-6):
    r"""Solve min |w|_1 + sum_i cost_i max(0, 1 - t_i (w'm_i + b))^2.

    With :math:`w = p - q`, both non-negative, and :math:`a_i = t_i \alpha_i` the signed
    multipliers of the margins, whose slacks are :math:`z`, the conditions are

    .. math::
        1 - M'a = u \ge 0, \quad 1 + M'a = v \ge 0, \quad 1'a = 0, \quad
        t (M w + b) + \alpha / (2 c) - 1 = z \ge 0, \quad
        p u = q v = \alpha z = 0,

    and Mehrotra's predictor-corrector method follows the products to zero together.
    Large problems are solved on working sets of columns and rows, see `by_parts`.

    Parameters
    ----------
    M : ndarray of shape (n_rows, n_columns)
        The rows m_i.
    t, cost : ndarray of shape (n_rows,)
        Signs, and weights c of the loss; rows without a weight do not count.
    tol : float, default=1e-6
        As in `L1SVC`.

    Returns
    -------
    w, b, objective, n_iter
    """
    counted = cost > 0.0
    if not counted.all():
        M, t, cost = M[counted], t[counted], cost[counted]
    n, k = M.shape
    solve = by_parts if n * k > _LARGE and k >= n else interior_point
    solved = solve(M, t, cost, tol)
    if solved.gap > max(tol, 1e-5):
        warnings.warn(
            f"the 1-norm SVM stopped with a relative gap of {solved.gap:.1e} "
            f"(tol={tol:g}). Scale the columns, or decrease C.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return solved.w, solved.b, solved.objective, solved.n_iter


def by_parts(M, t, cost, tol):
    r"""Solve on working sets of columns and rows; n_iter counts all inner steps.

    A column without a weight and a row without a multiplier (its margin is beyond 1) do
    not change the solution of the rest. Leaving columns out restricts the problem,
    leaving rows out restricts its dual, and both values hold for the whole: one product
    M w gives the losses of all rows, one product M'a the slopes of all columns. Rows
    and columns that violate their conditions join until the duality gap of the whole
    problem is below `tol`.

    Costs grow on the way. Where they are small few columns have a weight, and where
    they are large few rows have a loss, so that neither set is large while the other
    is; each solution says where the next one is.
    """
    n, k = M.shape
    w, alpha = np.zeros(k), 2.0 * cost * (1.0 - t * (cost @ t) / cost.sum())
    slope = M.T @ (t * alpha)  # if all weights are zero, b is the mean of t
    share = _FIRST_SLOPE / max(np.abs(slope).max(), 1e-300)
    share = share if _FACTOR * share < 1.0 else 1.0
    columns = np.sort(_largest(np.abs(slope), _FIRST_COLUMNS))
    rows = np.arange(n)
    inner, gap, least, n_iter, part = max(tol, _INNER), 1.0, np.inf, 0, None
    for count in range(_MAX_ROUNDS):
        c, block = share * cost, M.T[columns].T
        known = None
        if part is not None and gap < _RELATED:
            known = part._replace(w=w[columns], alpha=alpha[rows])
        problem = np.asfortranarray(block[rows]), t[rows], c[rows], inner
        part = interior_point(*problem, known)
        n_iter += part.n_iter
        if known is not None and part.gap > inner:  # the start was bad
            part = interior_point(*problem)
            n_iter += part.n_iter
        w[:], alpha[:] = 0.0, 0.0
        w[columns], alpha[rows] = part.w, part.alpha
        margin, slope = t * (block @ part.w + part.b), M.T @ (t * alpha)
        objective, gap = _whole_gap(w, alpha, margin, slope, t, c)
        excess = np.abs(slope) - 1.0
        # Never empty: the steepest column stays, and the lowest row of each sign.
        near = excess[columns] >= min(_NEAR - 1.0, excess[columns].max())
        lowest = [margin[side].min(initial=np.inf) for side in (t > 0, t < 0)]
        close = margin <= np.maximum(1.0 + np.sqrt(gap), np.where(t > 0, *lowest))
        if gap >= least:  # a dropped row or column is missing
            near[:], close[rows] = True, True
        least = min(least, gap)
        excess[columns] = -1.0
        violated = np.flatnonzero(excess > 0.0)
        lacking = len(violated) or (np.delete(margin, rows) < 1.0).any()
        done = gap <= tol or (inner <= 0.5 * tol and not lacking)
        if (share == 1.0 and done) or count + 1 == _MAX_ROUNDS:
            break
        most = max(_FEWEST, int(part.selected.sum()))
        worst = violated[_largest(excess[violated], most)]
        columns = np.union1d(columns[part.selected | near], worst)
        rows = np.flatnonzero(close)
        late = 2 * count >= _MAX_ROUNDS
        if share < 1.0 and (gap <= _RUNG or late):
            share = 1.0 if late else min(1.0, _FACTOR * share)
            inner, least = _INNER, np.inf
            continue
        # The accuracy need not exceed what the missing columns allow.
        inner = min(inner if lacking else 0.1 * inner, _INNER * gap)
        inner = max(0.5 * tol, inner)
    selected = np.zeros(k, dtype=bool)
    selected[columns] = part.selected
    return Solved(w, part.b, objective, alpha, gap, n_iter, selected)


def _largest(values, most):
    """Return where large values are: the largest ones, and a few of all others.

    The steepest columns are neighbors of one another and say the same; ranks that go
    as squares reach the other places as well.
    """
    order = np.argsort(-values, kind="stable")
    if len(order) <= most:
        return order
    rank = np.linspace(0.0, 1.0, most) ** 2 * (len(order) - 1)
    return order[np.maximum(rank.astype(np.intp), np.arange(most))]


def _whole_gap(w, alpha, margin, slope, t, cost):
    """Objective and relative duality gap of the whole, from the solution of a part.

    Shrunk until no column violates its bound, the multipliers are feasible for the
    whole problem; what is left of their balance is taken off.
    """
    objective = float(np.abs(w).sum() + cost @ np.maximum(1.0 - margin, 0.0) ** 2)
    shrink = min(1.0, 1.0 / max(np.abs(slope).max(), 1e-300))
    linear = alpha.sum() - abs(t @ alpha)
    dual = shrink * linear - shrink**2 * (alpha**2 @ (0.25 / cost))
    return objective, max(0.0, objective - dual) / (1.0 + objective)
