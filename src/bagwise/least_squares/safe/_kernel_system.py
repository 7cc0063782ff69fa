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

import numpy as np
import scipy.sparse as sp

from bagwise.bags.segments import bag_matrix
from bagwise.least_squares._system import Bordered, DualSolution, solve_ldl
from bagwise.solvers.lanczos import largest_eigenvalue, resolvent_path


class DenseOmega:
    """A kernel matrix in memory."""

    def __init__(self, matrix):
        self.matrix = matrix
        self.shape = matrix.shape

    def __matmul__(self, values):
        return self.matrix @ values

    def diagonal(self):
        """Return the diagonal."""
        return np.diag(self.matrix)

    def aggregated(self, design):
        """Return J'Omega J and the product with Omega J."""
        if np.count_nonzero(design.weight) == design.residual.shape[0]:
            rows = np.flatnonzero(design.weight)  # one instance for each bag
            block = self.matrix[:, rows] * design.weight[rows]
        else:
            block = design.to_bags(self.matrix).T  # Omega is symmetric
        return design.to_bags(block), lambda c: block @ c


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
        """Solve at gamma = 0: a least-squares machine with the set kernel."""
        a, b = self.bordered.solve(Y, np.zeros(Y.shape[1]))
        return DualSolution(self.design.to_instances(a), b, self._omega_j(a) + b)

    def path(self, Y, gammas, *, tol, max_iter):
        """Solve for several values of gamma, all below gamma_max, from one run.

        Returns a list with one `DualSolution` per gamma, and the number of products.
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
        return DualSolution(alpha, b, product + self._omega_j(a) + b)

    def solve(self, Y, gamma, *, solver="auto", tol=1e-10, max_iter=500):
        """Solve at one gamma; returns a `DualSolution` and the number of products."""
        if gamma == 0.0:
            return self.closed_form(Y), 0
        if solver == "ldl":
            matrix = (
                self.omega.matrix
                if isinstance(self.omega, DenseOmega)
                else self.omega @ np.eye(self.omega.shape[0])
            )
            return DualSolution(*solve_ldl(matrix, self.design, gamma, Y)[:3]), 0
        solutions, n_iter = self.path(Y, [gamma], tol=tol, max_iter=max_iter)
        return solutions[0], n_iter

    def leave_one_out(self, Y, gamma=0.0):
        """Score of each bag by the machine fitted without it, at the same gamma.

        At gamma = 0, with B the bordered matrix, it is ``y_k - a_k / (B^-1)_kk``.
        Otherwise the bag's own supervised and unsupervised terms are taken out of
        the Hessian H: with ``h`` the bag's block of the scores' covariance
        ``phi H^-1 phi'``, its scores become ``(I - h G_k)^-1 (e_k - rho y_k h a_k)``.
        Neither needs a second fit; the weights V are kept.
        """
        design = self.design
        if gamma == 0.0:
            a, _ = self.bordered.solve(Y, np.zeros(Y.shape[1]))
            n_bags = design.residual.shape[0]
            inverse, _ = self.bordered.solve(np.eye(n_bags), np.zeros(n_bags))
            return Y - a / np.diag(inverse)[:, None]
        n = self.omega.shape[0]
        K = self.posterior(np.eye(n))
        covariance = np.linalg.solve(np.eye(n) - gamma * K * design.variance, K)
        scores = covariance @ design.to_instances(design.residual[:, None] * Y)
        out = np.empty_like(Y)
        for k in range(out.shape[0]):
            bag = slice(design.offsets[k], design.offsets[k + 1])
            a, rho = design.weight[bag], design.residual[k]
            h = covariance[bag, bag]
            G = rho * np.outer(a, a) - gamma * np.diag(design.variance[bag])
            left = scores[bag] - rho * np.outer(h @ a, Y[k])
            out[k] = a @ np.linalg.solve(np.eye(len(a)) - h @ G, left)
        return out
