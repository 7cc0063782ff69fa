r"""Direct solvers of the optimality system, and the bordered systems of bags.

With :math:`G = J R J' - \gamma V` (R the residual weights) stationarity of the
problem reads :math:`\alpha = J R y - G e`, :math:`1'\alpha = 0` and
:math:`e = \Omega \alpha + b 1`. Eliminating e gives a bordered system. Note the
identity matrix in it: the system printed as Eq. (5) of the paper lacks it, and what
that one computes no longer contains the norm of w.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from bagwise.bags.segments import repeat, segment_sum
from bagwise.kernels.backends import active


class DualSolution(NamedTuple):
    """Dual coefficients, intercept and training scores, one column per target."""

    dual_coef: np.ndarray
    intercept: np.ndarray
    scores: np.ndarray


class LDLSolution(NamedTuple):
    """Solution by the symmetric factorisation and whether it is a minimum."""

    dual_coef: np.ndarray
    intercept: np.ndarray
    scores: np.ndarray
    convex: bool


def solve_ldl(omega, design, gamma, Y):
    """Solve the symmetric form by LDL', and read convexity off the inertia.

    For gamma > 0 the matrix G is a diagonal plus one rank per bag, so that its
    inverse is known. The number of negative eigenvalues of the bordered matrix is
    that of G plus one exactly when the problem is convex. Costs n**3 / 3; `omega` is
    left alone.
    """
    if gamma == 0.0:
        raise ValueError("The symmetric form needs gamma > 0; use the closed form.")
    offsets, v, r = design.offsets, design.variance, design.residual
    n_instances = omega.shape[0]
    u = design.weight / v
    S = segment_sum(design.weight * u, offsets)
    gap = r * S - gamma
    if np.any(np.abs(gap) <= 1e-12 * gamma):
        raise ValueError("gamma equals rho * S_k for a bag: G is singular.")
    matrix = np.zeros((n_instances + 1, n_instances + 1), order="F")
    matrix[:-1, :-1] = omega
    rows = np.arange(n_instances)
    matrix[rows, rows] -= 1.0 / (gamma * v)
    for k, c in enumerate(r / (gamma * gap)):
        bag = slice(offsets[k], offsets[k + 1])
        matrix[bag, bag] += c * np.outer(u[bag], u[bag])
    matrix[-1, :-1] = matrix[:-1, -1] = 1.0
    right = np.zeros((n_instances + 1, Y.shape[1]), order="F")
    right[:-1] = u[:, None] * repeat((r / gap)[:, None] * Y, offsets)
    factor, pivots, info = lapack.dsytrf(matrix, lower=1, overwrite_a=1)
    if info > 0:
        raise np.linalg.LinAlgError("the optimality system is singular")
    negative_g = n_instances - np.count_nonzero(gap > 0)
    convex = bool(_count_negative(factor, pivots) == negative_g + 1)
    solution, _ = lapack.dsytrs(factor, pivots, right, lower=1)
    alpha, intercept = solution[:-1], solution[-1]
    return LDLSolution(alpha, intercept, omega @ alpha + intercept, convex)


def _count_negative(factor, pivots):
    """Negative eigenvalues of D: negative 1x1 pivots, and one for each 2x2 pivot."""
    single = pivots > 0
    pairs = np.count_nonzero(~single) // 2
    return np.count_nonzero(np.diag(factor)[single] < 0.0) + pairs


class Bordered:
    """Factorisation of ``[[Q, n], [n', 0]]`` with Q positive definite."""

    def __init__(self, Q, n):
        self._factor = active().cholesky(Q)
        rcond = self._factor.rcond
        if rcond < np.finfo(np.float64).eps:
            raise ValueError(
                "The bag kernel matrix J'KJ + I/rho is numerically singular "
                f"(reciprocal condition number {rcond:.1g}). Take a smaller rho, or a "
                "kernel that is positive definite on these bags."
            )
        self.n = n
        self._direction = self._factor.solve(n)
        self._curvature = n @ self._direction

    def solve(self, top, bottom):
        """Solve for (a, b) with right-hand side (top, bottom), by columns."""
        a = self._factor.solve(top)
        b = (self.n @ a - bottom) / self._curvature
        return a - np.multiply.outer(self._direction, b), b

    def inverse(self):
        """Return P, q and s: (a, b) = (P t + q u / s, (q't - u) / s) for (t, u)."""
        eye = np.eye(self.n.shape[0])
        P = self._factor.solve(eye) - np.outer(
            self._direction, self._direction / self._curvature
        )
        return P, self._direction, self._curvature
