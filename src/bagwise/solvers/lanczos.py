r"""Lanczos recurrences for many symmetric operators in lock step.

Column j of the vectors belongs to operator j, and one call of `apply` serves all of
them, so that the products with a common kernel matrix become one matrix product.
From k steps started at :math:`z`, the solutions of :math:`(I - \gamma M) x = z` for
every :math:`\gamma` are :math:`\|z\| Q_k (I - \gamma T_k)^{-1} e_1`.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.exceptions import ConvergenceWarning

_DENSE_BELOW = 64
_EXHAUSTED = 1e-13


class LockStepLanczos:
    """Orthonormal bases and tridiagonal matrices, with full re-orthogonalization.

    The bases are stored as (operator, step, row), so that orthogonalizing a vector
    against its own basis is two matrix-vector products per operator.
    """

    def __init__(self, apply, start):
        self._apply = apply
        n, p = start.shape
        self.norm = np.linalg.norm(start, axis=0)
        self._basis = np.empty((p, 32, n))
        self._basis[:, 0] = (start / np.where(self.norm > 0, self.norm, 1.0)).T
        self.alpha = []  # diagonal of T: per step, one value for each operator
        self.beta = []  # off-diagonal of T
        self._scale = np.zeros(p)

    @property
    def n_steps(self):
        """Number of products done."""
        return len(self.alpha)

    def step(self):
        """Do one product and extend all bases by one vector."""
        k = self.n_steps + 1
        if k == self._basis.shape[1]:
            self._basis = np.concatenate(
                [self._basis, np.empty_like(self._basis)], axis=1
            )
        basis = self._basis[:, :k]
        w = np.ascontiguousarray(self._apply(basis[:, -1].T).T)[:, :, None]
        alpha = (basis[:, -1:] @ w)[:, 0, 0]
        # The recurrence removes large parts, one full pass the remaining rounding.
        w -= alpha[:, None, None] * basis[:, -1, :, None]
        if self.beta:
            w -= self.beta[-1][:, None, None] * basis[:, -2, :, None]
        w -= basis.transpose(0, 2, 1) @ (basis @ w)
        beta = np.linalg.norm(w[:, :, 0], axis=1)
        self._scale = np.maximum(self._scale, np.maximum(np.abs(alpha), beta))
        beta[beta <= _EXHAUSTED * self._scale] = 0.0  # invariant subspace: stop there
        self.alpha.append(alpha)
        self.beta.append(beta)
        inverse = np.divide(1.0, beta, out=np.zeros_like(beta), where=beta > 0)
        self._basis[:, k] = w[:, :, 0] * inverse[:, None]

    def ritz(self):
        """Return the largest Ritz value of each operator and its residual bound."""
        k = self.n_steps
        T = np.zeros((self.norm.shape[0], k, k))
        step = np.arange(k)
        T[:, step, step] = np.array(self.alpha).T
        if k > 1:
            off = np.array(self.beta[:-1]).T
            T[:, step[1:], step[:-1]] = T[:, step[:-1], step[1:]] = off
        values, vectors = np.linalg.eigh(T)
        return values[:, -1], self.beta[-1] * np.abs(vectors[:, -1, -1])

    def combine(self, coefficients):
        """Return basis times coefficients: (k, p, g) gives (g, n, p)."""
        basis = self._basis[:, : coefficients.shape[0]]
        out = coefficients.transpose(1, 2, 0) @ basis  # (p, g, n)
        return out.transpose(1, 2, 0)


def resolvent_path(apply, start, gammas, *, tol, max_iter):
    """Solve (I - gamma M) x = start for many gammas and operators from one run.

    Parameters
    ----------
    apply : callable
        Product with the symmetric operators, (n, p) to (n, p).
    start : ndarray of shape (n, p)
        Right-hand sides.
    gammas : ndarray of shape (p, g)
        Values below the reciprocal of the largest eigenvalue of each operator.
    tol : float
        Bound on the relative residual.
    max_iter : int
        Largest number of products.

    Returns
    -------
    solutions : ndarray of shape (g, n, p)
    n_iter : int
    """
    run = LockStepLanczos(apply, start)
    pivots, product = [], np.ones_like(gammas)
    residual = np.inf
    limit = min(max_iter, start.shape[0])
    while residual > tol and run.n_steps < limit:
        run.step()
        pivot = 1.0 - gammas * run.alpha[-1][:, None]
        if pivots:
            pivot -= (gammas * run.beta[-2][:, None]) ** 2 / pivots[-1]
        if np.any(pivot <= 0.0):
            raise ValueError("gamma >= gamma_max: the problem is not convex.")
        pivots.append(pivot)
        # product = (-1)^k times the last entry of (I - gamma T)^-1 e_1, built up
        # from the pivots; times gamma beta_k it is the norm of the residual.
        product = product * (gammas * run.beta[-1][:, None]) / pivot
        residual = product.max(initial=0.0)
    if residual > tol and limit < start.shape[0]:
        warnings.warn(
            f"Lanczos reached {limit} steps with relative residual {residual:.1e} > "
            f"tol={tol:.1e}. Increase max_iter or take a smaller variance_weight.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return run.norm * run.combine(_tridiagonal(run, gammas, pivots)), run.n_steps


def _tridiagonal(run, gammas, pivots):
    """First columns of the inverses of I - gamma T, shape (k, p, g)."""
    k = run.n_steps
    off = [gammas * run.beta[j][:, None] for j in range(k - 1)]
    out = np.empty((k, *gammas.shape))
    out[0] = 1.0
    for j in range(1, k):
        out[j] = off[j - 1] * out[j - 1] / pivots[j - 1]
    out[-1] /= pivots[-1]
    for j in range(k - 2, -1, -1):
        out[j] = (out[j] + off[j] * out[j + 1]) / pivots[j]
    return out


def largest_eigenvalues(apply, n, p, *, tol=1e-7, max_iter=300):
    """Largest eigenvalue of each of p operators, from one random start in lock step.

    The error of a Ritz value is of the order of its squared residual, which is kept
    below `tol` times the value.
    """
    start = np.random.default_rng(0).standard_normal((n, 1))
    run = LockStepLanczos(apply, apply(np.repeat(start, p, axis=1)))
    limit = min(n, max_iter)
    while True:
        run.step()
        if (run.n_steps < 10 or run.n_steps % 5) and run.n_steps < limit:
            continue
        value, residual = run.ritz()
        if run.n_steps >= limit or np.all(residual <= tol * np.abs(value)):
            return value


def largest_eigenvalue(apply, n):
    """Largest eigenvalue of one symmetric operator, by ARPACK from a random start."""
    if n <= _DENSE_BELOW:
        matrix = apply(np.eye(n))
        return float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1])
    operator = LinearOperator(
        (n, n), matvec=lambda u: apply(u.reshape(n, 1))[:, 0], dtype=np.float64
    )
    start = np.random.default_rng(0).standard_normal(n)
    start = operator.matvec(start)  # in the range, which saves one step
    if not np.any(start):
        return 0.0
    for n_vectors in (min(n, 30), min(n, 120)):
        try:
            value = eigsh(
                operator,
                k=1,
                which="LA",
                v0=start,
                tol=1e-10,
                ncv=n_vectors,
                return_eigenvectors=False,
            )
            return float(value[0])
        except ArpackNoConvergence:
            continue
    raise RuntimeError("ARPACK found no largest eigenvalue: gamma_max is not known.")
