"""A 1-norm support vector machine: few columns out of very many."""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning

_MAX_STEPS = 100
_NEGLIGIBLE = 1e-10  # what a column adds to the matrix, against its diagonal

# Working sets of columns: entries of M from which on they pay, fewest columns at first
# and as a share of the rows, most rounds, and the slope beyond which a column without a
# weight stays.
_LARGE = 1_000_000
_FIRST_COLUMNS, _FIRST_SHARE = 200, 0.25
_MAX_ROUNDS = 60
_NEAR = 0.95

# Working sets are solved to this share of the gap of the whole problem: multipliers
# that are still inside choose better columns than those of a solution that lacks them.
_INNER = 0.3
# Once the gap is below the first, the last solution is near enough to start from, with
# products of the second as a share of the objective, and slopes so far from their
# bounds.
_RELATED = 0.75
_FIRST_GAP = 0.03
_WALL = 0.05


class _Solved(NamedTuple):
    """The end of a solver: weights, multipliers alpha, and the relative gap."""

    w: np.ndarray
    b: float
    objective: float
    alpha: np.ndarray
    gap: float
    n_iter: int
    selected: np.ndarray


def l1_squared_hinge(M, t, cost, *, tol=1e-6):
    r"""Solve min |w|_1 + sum_i cost_i max(0, 1 - t_i (w'm_i + b))^2.

    With :math:`w = p - q`, both non-negative, and :math:`a_i = t_i \alpha_i` the signed
    multipliers of the margins, whose slacks are :math:`z`, the conditions are

    .. math::
        1 - M'a = u \ge 0, \quad 1 + M'a = v \ge 0, \quad 1'a = 0, \quad
        t (M w + b) + \alpha / (2 c) - 1 = z \ge 0, \quad
        p u = q v = \alpha z = 0,

    and Mehrotra's predictor-corrector method follows the products to zero together.
    Large problems are solved on working sets of columns: one product prices all
    columns, the worst violators of :math:`|M'a| \le 1` join, until the duality gap of
    the whole problem is below `tol`.

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
    solve = by_columns if n * k > _LARGE and k >= n else interior_point
    solved = solve(M, t, cost, tol)
    if solved.gap > max(tol, 1e-5):
        warnings.warn(
            f"the 1-norm machine stopped with a relative gap of {solved.gap:.1e} "
            f"(tol={tol:g}). Scale the columns, or decrease C.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return solved.w, solved.b, solved.objective, solved.n_iter


def by_columns(M, t, cost, tol):
    """Solve on growing working sets of columns; n_iter counts all inner steps."""
    n, k = M.shape
    first = min(k, max(_FIRST_COLUMNS, int(_FIRST_SHARE * n)))
    working = np.unique(np.linspace(0, k - 1, first).astype(np.intp))
    inner, gap, n_iter = max(tol, _INNER), 1.0, 0
    w, part = np.zeros(k), None
    for _ in range(_MAX_ROUNDS):
        columns, known = np.asfortranarray(M[:, working]), None
        if part is not None and gap < _RELATED:
            known = part._replace(w=w[working])
        part = interior_point(columns, t, cost, inner, known)
        n_iter += part.n_iter
        if known is not None and part.gap > inner:  # led astray
            part = interior_point(columns, t, cost, inner)
            n_iter += part.n_iter
        slope = M.T @ (t * part.alpha)
        gap = _whole_gap(part, slope, t, cost)
        excess = np.abs(slope) - 1.0
        # Never none: the steepest column stays.
        near = excess[working] >= min(_NEAR - 1.0, excess[working].max())
        excess[working] = -1.0
        violated = np.flatnonzero(excess > 0.0)
        if gap <= tol or (inner <= 0.5 * tol and not len(violated)):
            break
        w[:] = 0.0
        w[working] = part.w
        most = max(100, int(part.selected.sum()))
        worst = violated[np.argsort(-excess[violated], kind="stable")[:most]]
        working = np.union1d(working[part.selected | near], worst)
        # No more digits than the columns that are still missing are worth.
        inner = min(inner if len(violated) else 0.1 * inner, _INNER * gap)
        inner = max(0.5 * tol, inner)
    w[:] = 0.0
    w[working] = part.w
    selected = np.zeros(k, dtype=bool)
    selected[working] = part.selected
    return _Solved(w, part.b, part.objective, part.alpha, gap, n_iter, selected)


def _whole_gap(part, slope, t, cost):
    """Relative duality gap of all columns, from the multipliers of some of them.

    Shrunk until no column violates its bound, the multipliers are feasible for the
    whole problem; what is left of their balance is taken off.
    """
    alpha = part.alpha
    shrink = min(1.0, 1.0 / max(np.abs(slope).max(), 1e-300))
    linear = alpha.sum() - abs(t @ alpha)
    dual = shrink * linear - shrink**2 * (alpha**2 @ (0.25 / cost))
    return max(0.0, part.objective - dual) / (1.0 + part.objective)


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
        if following is None:  # the digits are used up
            break
        point = following
    # Of a weight and its multiplier, the smaller one is zero in the limit; it is made
    # so unless that costs more than the gap (columns alike, digits used up).
    few = np.where(p > u, p, 0.0) - np.where(q > v, q, 0.0)
    selected = few != 0.0
    rounded, exact = _objective(few, b, M, t, cost), _objective(p - q, b, M, t, cost)
    gap = products / value
    if rounded <= exact + max(products, tol * value):
        return _Solved(few, float(b), rounded, alpha, gap, n_iter, selected)
    return _Solved(p - q, float(b), exact, alpha, gap, n_iter, selected)


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
    # Near the end all but a few columns count for nothing.
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
    scaled = part * (root / np.sqrt(E)[:, None])
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
