"""Mehrotra's method for the 1-norm support vector machine of `l1`."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

_MAX_STEPS = 100
_NEGLIGIBLE = 1e-10  # what a column adds to the matrix, against its diagonal

# A start next to a known solution has products of the first, as a share of the
# objective, and slopes so far from their bounds.
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
