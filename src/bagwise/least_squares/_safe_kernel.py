r"""SAFE over instances: closed form, Lanczos path and the border of convexity.

Let :math:`Q = J'\Omega J + R^{-1}` and

.. math::
    K = \Omega - [\Omega J, 1]
        \begin{bmatrix} Q & n \\ n' & 0 \end{bmatrix}^{-1} [\Omega J, 1]'

be the covariance of the instance scores that is left when bag scores are observed
with noise. The scores at :math:`\gamma = 0` are :math:`e_0 = [\Omega J, 1] (a, b)`,
with (a, b) the solution of the bordered system with right-hand side (y, 0), and

.. math::
    e(\gamma) = (I - \gamma K V)^{-1} e_0, \qquad
    \gamma_{max} = 1 / \lambda_{max}(V^{1/2} K V^{1/2}).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from bagwise.bags.segments import bag_matrix, repeat, segment_sum
from bagwise.kernels.backends import KernelMatrix, active
from bagwise.least_squares.safe_problem import (
    BagDesign,
    LeastSquaresFit,
    instance_variance,
    rho_unit,
    row_namer,
    squared_size,
)
from bagwise.solvers.lanczos import largest_eigenvalue, resolvent_path


class KernelFit(NamedTuple):
    """Dual coefficients, intercept and training scores, one column per target."""

    dual_coef: np.ndarray
    intercept: np.ndarray
    scores: np.ndarray


class Bordered:
    """Factorization of ``[[Q, n], [n', 0]]`` with Q positive definite."""

    def __init__(self, Q, n):
        self._factor = active().cholesky(Q)
        rcond = self._factor.rcond
        if rcond < np.finfo(np.float64).eps:
            raise ValueError(
                "The bag kernel matrix J'KJ + I/rho is numerically singular (reciprocal"
                f" condition number {rcond:.1g}). Use a smaller rho, or a kernel that "
                "is positive definite on these bags."
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


class DenseOmega:
    """A kernel matrix that is kept, wherever it was computed."""

    def __init__(self, matrix):
        plain = isinstance(matrix, np.ndarray)
        self.matrix = KernelMatrix(matrix) if plain else matrix
        self.shape = matrix.shape

    def __matmul__(self, values):
        return self.matrix @ values

    def diagonal(self):
        """Return the diagonal."""
        return self.matrix.diagonal()

    def aggregated(self, design):
        """Return J'Omega J and the product with Omega J."""
        return self.matrix.bag_sums(design.weight, design.offsets)


class LinearOmega:
    """The linear kernel of wide, usually sparse data: X X' is never formed."""

    def __init__(self, data):
        self.data = data
        self.shape = (data.shape[0], data.shape[0])

    def __matmul__(self, values):
        return self.data @ (self.data.T @ values)

    def diagonal(self):
        """Return the squared norms of the rows."""
        if sp.issparse(self.data):
            return np.asarray(self.data.multiply(self.data).sum(axis=1)).ravel()
        return np.einsum("ij,ij->i", self.data, self.data)

    def aggregated(self, design):
        """Return J'Omega J and the product with Omega J, both through J'X."""
        J = bag_matrix(design.offsets)
        J.data = design.weight.copy()
        sums = J @ self.data
        gram = sums @ sums.T
        gram = gram.toarray() if sp.issparse(gram) else gram
        return gram, lambda c: self.data @ (sums.T @ c)


class KernelSystem:
    """The problem for one kernel and one `BagDesign`.

    Parameters
    ----------
    omega : DenseOmega or LinearOmega
        Positive semi-definite kernel of the instances.
    design : BagDesign
        Aggregation, residual weights and instance weights.
    """

    def __init__(self, omega, design):
        self.omega = omega
        self.design = design
        gram, self._omega_j = omega.aggregated(design)
        gram[np.diag_indices_from(gram)] += 1.0 / design.residual
        self.bordered = Bordered(gram, design.n)

    def posterior(self, values):
        """Product with K, by columns."""
        product = self.omega @ values
        a, b = self.bordered.solve(self.design.to_bags(product), values.sum(axis=0))
        return product - self._omega_j(a) - b

    def _weighted_posterior(self, values):
        root = self.design.root_variance[:, None]
        return root * self.posterior(root * values)

    def gamma_max(self):
        """Largest gamma for which the problem is convex (infinite if K is zero)."""
        value = largest_eigenvalue(self._weighted_posterior, self.omega.shape[0])
        bound = np.max(self.design.variance * self.omega.diagonal(), initial=0.0)
        noise = np.finfo(np.float64).eps * self.omega.shape[0] * bound
        return np.inf if value <= noise else 1.0 / value

    def closed_form(self, Y):
        """Solve at gamma = 0: a least-squares SVM with the set kernel."""
        a, b = self.bordered.solve(Y, np.zeros(Y.shape[1]))
        return KernelFit(self.design.to_instances(a), b, self._omega_j(a) + b)

    def path(self, Y, gammas, *, tol, max_iter):
        """Solve for several values of gamma, all below gamma_max, from one run.

        Returns a list with one `KernelFit` per gamma, and the number of products.
        """
        start = self.closed_form(Y)
        root = self.design.root_variance[:, None]
        shifts = np.tile(np.asarray(gammas, dtype=np.float64), (Y.shape[1], 1))
        z, n_iter = resolvent_path(
            self._weighted_posterior,
            root * start.scores,
            shifts,
            tol=tol,
            max_iter=max_iter,
        )
        pairs = zip(gammas, z, strict=True)
        return [self.recover(g * (root * zg), Y) for g, zg in pairs], n_iter

    def recover(self, pull, Y):
        """Dual solution from the unsupervised part `pull` = gamma V e of alpha.

        The sum of alpha is zero to rounding, whatever the accuracy of e.
        """
        product = self.omega @ pull
        a, b = self.bordered.solve(Y - self.design.to_bags(product), -pull.sum(axis=0))
        alpha = pull + self.design.to_instances(a)
        return KernelFit(alpha, b, product + self._omega_j(a) + b)

    def solve(self, Y, gamma, *, tol=1e-10, max_iter=500):
        """Solve at one gamma; returns a `KernelFit` and the number of products."""
        if gamma == 0.0:
            return self.closed_form(Y), 0
        solutions, n_iter = self.path(Y, [gamma], tol=tol, max_iter=max_iter)
        return solutions[0], n_iter


def kernel_of(settings, X):
    """Kernel of the instances: a matrix, or products with wide data."""
    data = X.data.astype(np.float64, copy=False)
    if settings.kernel == "linear":
        return LinearOmega(data)
    hint = "Set n_components (for instance 300) to use explicit features."
    return DenseOmega(active().kernel_matrix(data, settings.kernel_params, hint))


class KernelSolver:
    """Least-squares problems over one kernel of the training instances.

    Attributes
    ----------
    unit : float
        What a relative rho is divided by.
    variance : ndarray of shape (n_instances,)
        Diagonal of V.
    variance_known : bool
        False where V is not defined (degrees that are not positive) and not needed.
    """

    def __init__(self, settings, training):
        X, rows = training.X, training.rows
        self.settings = settings
        self.X = X
        self.offsets = X.offsets
        self.omega = kernel_of(settings, X)
        degrees = self.omega @ rows
        total = rows.sum()
        sizes = segment_sum(settings.aggregation_weight(X.offsets), X.offsets)
        self.unit = rho_unit(
            squared_size(sizes, training.weight),
            training.weight.sum(),
            float(rows @ self.omega.diagonal()) / total,
            float(rows @ degrees) / total**2,
        )
        positive = settings.core == "kpca" or bool(np.all(degrees > 0))
        self.variance_known = positive or settings.rule.needed
        self.variance = (
            instance_variance(settings.core, degrees, rows, row_namer(X))
            if self.variance_known
            else rows
        )

    def system(self, weight, residual):
        """Return the problem for given aggregation and residual weights."""
        design = BagDesign(self.offsets, weight, residual, self.variance)
        return KernelSystem(self.omega, design)

    def solve(self, weight, residual, Y, rule):
        """Solve for all columns of `Y` with one factorization."""
        system = self.system(weight, residual)
        gamma, bound = rule(system.gamma_max)
        (alpha, b, e), n_iter = system.solve(
            Y,
            gamma,
            tol=self.settings.tol,
            max_iter=self.settings.max_iter,
        )
        norm2 = np.einsum("ij,ij->j", alpha, e - b)
        return LeastSquaresFit(e, norm2, alpha, b, gamma, bound, max(n_iter, 1))

    def gamma_max(self, weight, residual):
        """Border of convexity for given aggregation and residual weights."""
        return self.system(weight, residual).gamma_max()

    @property
    def primal(self):
        """Whether the weights of the columns can stand for the training rows."""
        return isinstance(self.omega, LinearOmega)

    def primal_coef(self, dual_coef):
        """Weights of the columns, from dual coefficients (outputs by instances)."""
        return np.asarray(self.omega.data.T @ dual_coef.T).T


class KernelBorder:
    """What the border of convexity needs when it is asked for after the fit."""

    def __init__(self, settings, X, weight, residual):
        self.settings = settings
        self.X = X
        self.weight = weight
        self.residual = residual

    def gamma_max(self):
        """Compute the kernel once more, and the border from it."""
        offsets = self.X.offsets
        omega = kernel_of(self.settings, self.X)
        rows = repeat(self.weight, offsets).astype(np.float64)
        variance = instance_variance(
            self.settings.core, omega @ rows, rows, row_namer(self.X)
        )
        inside = self.settings.aggregation_weight(offsets)
        design = BagDesign(offsets, inside, self.residual, variance)
        return KernelSystem(omega, design).gamma_max()


def kernel_scores(X, X_fit, kernel_params, dual_coef, intercept):
    """Scores of instances from dual coefficients."""
    train = X_fit.astype(np.float64, copy=False)
    return (
        active().kernel_product(X.data, train, dual_coef.T, kernel_params) + intercept
    )
