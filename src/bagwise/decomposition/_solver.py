r"""The objective of MIDR and its minimization over matrices with orthonormal columns.

The Stiefel manifold :math:`\{A \in R^{D \times d} : A'A = I\}` has the metric of the
surrounding space. The minimizer is Riemannian L-BFGS: scipy's L-BFGS-B has no
constraint of this kind. Every function here costs :math:`O(D d^2)` or less beside the
loss.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf

#: Names of the sparsity penalties.
PENALTIES = ("huber", "smooth_l1")

_EPSILON = 1e-3
_ARMIJO = 1e-4
_MEMORY = 10
_PATIENCE = 5


def soft_threshold(A, tau):
    """Shrink every entry of `A` towards zero by `tau` (Eq. (12) with C1/C2 = tau)."""
    return np.sign(A) * np.maximum(np.abs(A) - tau, 0.0)


def huber_penalty(A, C1, tau):
    r"""Value and gradient of the penalty of Eq. (10), minimized over its second matrix.

    .. math::
        \min_H \tfrac{C_2}{2} \|A - H\|^2 + C_1 \|H\|_1 = \sum_{st} h(A_{st}), \qquad
        h(a) = \begin{cases} C_2 a^2 / 2 & |a| \le \tau \\
            C_1 (|a| - \tau / 2) & \text{otherwise} \end{cases}

    with :math:`\tau = C_1 / C_2`, attained at ``soft_threshold(A, tau)``.
    """
    clipped = np.clip(A, -tau, tau)
    # On both branches h(a) = C2 c (a - c / 2) for the clipped value c.
    value = (C1 / tau) * (np.vdot(clipped, A) - 0.5 * np.vdot(clipped, clipped))
    clipped *= C1 / tau
    return float(value), clipped


def smooth_l1_penalty(A, C1, tau):
    r"""Value and gradient of :math:`C_1 \sum \sqrt{A_{st}^2 + \epsilon^2}` (Eq. (5)).

    `tau` is not used; :math:`\epsilon = 10^{-3}`.
    """
    root = np.sqrt(A * A + _EPSILON**2)
    return float(C1 * root.sum()), C1 * A / root


_PENALTY_FUNCTIONS = {"huber": huber_penalty, "smooth_l1": smooth_l1_penalty}


class MIDRObjective:
    r"""Objective :math:`F(A, W, b)` with orthonormal columns in :math:`A`.

    .. math::
        F(A, W, b) = L(AW, b) + \frac{1}{2C} \|W\|^2 + \mathrm{pen}(A)

    where :math:`L` is a `BagLoss`. With :math:`G = \partial L / \partial U` at
    :math:`U = AW`,

    .. math::
        \partial_A F = G W' + \partial\,\mathrm{pen}, \qquad
        \partial_W F = A'G + W / C, \qquad \partial_b F = \partial_b L :

    the loss part of the first has rank one for one direction. The projected instances
    :math:`XA` are never formed.

    Parameters
    ----------
    loss : BagLoss
        The loss.
    C, C1, tau, penalty : as in `MIDR`
    """

    def __init__(self, loss, *, C, C1, tau, penalty="huber"):
        self.loss = loss
        self.ridge = 1.0 / C
        self.C1 = C1
        self.tau = tau
        self.penalty = _PENALTY_FUNCTIONS[penalty]

    def __call__(self, A, W, b):
        """Return the value and the gradients in `A`, `W` and `b`."""
        value, gradient, slope = self.loss(A @ W, b)
        value += 0.5 * self.ridge * float(np.vdot(W, W))
        grad_A = gradient @ W.T
        grad_W = A.T @ gradient + self.ridge * W
        if self.C1 > 0:
            extra, more = self.penalty(A, self.C1, self.tau)
            value += extra
            grad_A += more
        return value, grad_A, grad_W, slope


def project_tangent(A, Z):
    r"""Project `Z` orthogonally on the tangent space at `A`.

    .. math::
        \Pi_A(Z) = Z - A\, \mathrm{sym}(A'Z)
            = A \tfrac12 (A'Z - Z'A) + (I - AA') Z

    where :math:`\mathrm{sym}(M) = (M + M')/2` (Eq. (7)).
    """
    inner = A.T @ Z
    inner += inner.T.copy()
    inner *= 0.5
    return Z - A @ inner


def retract(A, step):
    r"""Return the orthonormal factor of ``A + step``, with a positive diagonal.

    For a tangent `step` the Gram matrix is :math:`I + step'step`, never
    ill-conditioned, so one Cholesky factorization gives the QR factor at a third of
    the cost of reflections. The Gram matrix is computed and not replaced by this
    formula: rounding errors of `A` are then corrected and do not accumulate.
    """
    B = A + step
    factor, info = dpotrf(B.T @ B, lower=0, clean=0)
    if info != 0:
        raise np.linalg.LinAlgError("the step is not finite")
    # B.T is in Fortran order: solve R' Q' = B' in place of Q R = B.
    return dtrsm(1.0, factor, B.T, lower=0, trans_a=1, overwrite_b=1).T


class MIDRFit(NamedTuple):
    """Result of the minimization; `stop` is "converged", "max_iter" or "stalled"."""

    A: np.ndarray
    W: np.ndarray
    b: np.ndarray
    path: list
    n_iter: int
    stop: str

    @property
    def objective(self):
        """Last value of the objective."""
        return self.path[-1]


class _Packed:
    """The point (A, W, b) and its gradient as one vector, with views of the parts."""

    def __init__(self, objective, A, W, b):
        self.objective = objective
        self.shapes = A.shape, W.shape
        self.cuts = A.size, A.size + W.size

    def join(self, A, W, b):
        return np.concatenate([A.ravel(), W.ravel(), b])

    def split(self, x):
        first, second = self.cuts
        return (
            x[:first].reshape(self.shapes[0]),
            x[first:second].reshape(self.shapes[1]),
            x[second:],
        )

    def tangent(self, x, vector):
        """Project a vector on the tangent space at `x`."""
        A = self.split(x)[0]
        out = vector.copy()
        part = self.split(out)[0]
        part[...] = project_tangent(A, self.split(vector)[0])
        return out

    def move(self, x, step):
        """Add `step` to `x` and return to the manifold."""
        out = x + step
        self.split(out)[0][...] = retract(self.split(x)[0], self.split(step)[0])
        return out

    def evaluate(self, x):
        """Return the value and the Riemannian gradient."""
        A, W, b = self.split(x)
        value, grad_A, grad_W, grad_b = self.objective(A, W, b)
        return value, self.join(project_tangent(A, grad_A), grad_W, grad_b)


def minimize_on_manifold(objective, A, W, b, *, max_iter=200, tol=1e-6):
    """Minimize jointly in all variables by Riemannian L-BFGS.

    Pairs of steps and gradient changes are kept as vectors of the surrounding space;
    the direction computed from them is projected on the tangent space.

    Parameters
    ----------
    objective : MIDRObjective
        What to minimize.
    A, W, b : ndarrays
        Start, with orthonormal columns in `A`.
    max_iter : int, default=200
        Largest number of iterations.
    tol : float, default=1e-6
        Stop when no entry of the gradient is larger, or when five successive
        iterations lower the objective by a smaller share.

    Returns
    -------
    MIDRFit
    """
    packed = _Packed(objective, A, W, b)
    x = packed.join(A, W, b)
    value, gradient = packed.evaluate(x)
    path, idle = [value], 0
    pairs = _PairMemory(x.size)
    stop, n_iter, gain = "max_iter", 0, np.inf
    while n_iter < max_iter:
        if np.abs(gradient).max() <= tol:
            stop = "converged"
            break
        direction = packed.tangent(x, pairs.direction(gradient))
        slope = float(direction @ gradient)
        if slope >= -1e-12 * np.linalg.norm(direction) * np.linalg.norm(gradient):
            pairs.clear()  # not a descent direction: restart without pairs
            direction, slope = -gradient, -float(gradient @ gradient)
        first = 1.0 if pairs.count else min(1.0, 1.0 / np.sqrt(-slope))
        found = _backtrack(packed, x, value, direction, slope, first)
        if found is None:
            if pairs.count == 0:
                # The gain of the next step may be below the rounding error.
                small = gain <= objective.loss.rounding * abs(value)
                stop = "converged" if small else "stalled"
                break
            gain = -0.5 * slope
            pairs.clear()
            continue
        step, new, value, new_gradient = found
        gain = np.inf
        change = new_gradient - packed.tangent(new, gradient)
        pairs.add(step * direction, change)
        x, gradient = new, new_gradient
        n_iter += 1
        slow = path[-1] - value <= tol * max(abs(path[-1]), 1e-12)
        idle = idle + 1 if slow else 0
        path.append(value)
        if idle == _PATIENCE:
            stop = "converged"
            break
    return MIDRFit(*(np.array(p) for p in packed.split(x)), path, n_iter, stop)


def _backtrack(packed, x, value, direction, slope, step):
    """Shorten `step` by quadratic interpolation until the decrease is sufficient."""
    for _ in range(40):
        new = packed.move(x, step * direction)
        new_value, gradient = packed.evaluate(new)
        if new_value <= value + _ARMIJO * step * slope:
            return step, new, new_value, gradient
        curvature = new_value - value - step * slope
        shorter = -0.5 * slope * step * step / curvature if curvature > 0 else 0.0
        step = min(max(shorter, 0.1 * step), 0.5 * step)
    return None


class _PairMemory:
    """The last steps and gradient changes of L-BFGS."""

    def __init__(self, size):
        self.S = np.empty((_MEMORY, size))
        self.Y = np.empty((_MEMORY, size))
        self.rho = np.empty(_MEMORY)
        self.clear()

    def clear(self):
        self.count = 0
        self.next = 0

    def add(self, step, change):
        curvature = float(step @ change)
        if curvature <= 1e-10 * float(step @ step):
            return
        self.S[self.next], self.Y[self.next] = step, change
        self.rho[self.next] = 1.0 / curvature
        self.scale = curvature / float(change @ change)
        self.next = (self.next + 1) % _MEMORY
        self.count = min(self.count + 1, _MEMORY)

    def direction(self, gradient):
        """Return minus the inverse Hessian estimate times `gradient` (two loops)."""
        out = -gradient
        if not self.count:
            return out
        newest_first = [(self.next - 1 - i) % _MEMORY for i in range(self.count)]
        weights = []
        for i in newest_first:
            weight = self.rho[i] * (self.S[i] @ out)
            out -= weight * self.Y[i]
            weights.append(weight)
        out *= self.scale
        for i, weight in zip(newest_first[::-1], weights[::-1], strict=True):
            out += (weight - self.rho[i] * (self.Y[i] @ out)) * self.S[i]
        return out
