"""Three ways to minimise the objective of MIDR, chosen by name."""

from typing import NamedTuple

import numpy as np
from scipy.integrate import RK23

from bagwise.decomposition.midr._objective import soft_threshold
from bagwise.decomposition.midr._stiefel import project_tangent, retract, rotate_plane
from bagwise.linear_model.loss import fit_linear

_ARMIJO = 1e-4
_MEMORY = 10
_PATIENCE = 5
_INNER_ITERATIONS = 20


class MIDRFit(NamedTuple):
    """Result of a solver; `stop` is "converged", "max_iter" or "stalled"."""

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


class _Progress:
    """Stops after five successive iterations that hardly lower the objective."""

    def __init__(self, value, tol, callback=None):
        self.path = [value]
        self.tol = tol
        self.callback = callback
        self.idle = 0

    def add(self, value):
        previous = self.path[-1]
        self.path.append(value)
        if self.callback is not None:
            self.callback(value)
        slow = previous - value <= self.tol * max(abs(previous), 1e-12)
        self.idle = self.idle + 1 if slow else 0
        return self.idle >= _PATIENCE


class _Packed:
    """The point (A, W, b) and its gradient as one vector, with views on the parts."""

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
        """Go from `x` along `step` and come back to the manifold."""
        out = x + step
        self.split(out)[0][...] = retract(self.split(x)[0], self.split(step)[0])
        return out

    def evaluate(self, x):
        """Return the value and the Riemannian gradient."""
        A, W, b = self.split(x)
        value, grad_A, grad_W, grad_b = self.objective(A, W, b)
        return value, self.join(project_tangent(A, grad_A), grad_W, grad_b)


def lbfgs(objective, A, W, b, *, max_iter=200, tol=1e-6, callback=None):
    """Minimise jointly in all variables by Riemannian L-BFGS.

    Pairs of steps and gradient changes are kept as vectors of the surrounding space;
    the direction made of them is projected on the tangent space.

    Parameters
    ----------
    objective : MIDRObjective
        What to minimise.
    A, W, b : ndarrays
        Start, with orthonormal columns in `A`.
    max_iter : int, default=200
        Largest number of iterations.
    tol : float, default=1e-6
        Stop when no entry of the gradient is larger, or when five successive
        iterations lower the objective by a smaller share.
    callback : callable, default=None
        Called with the objective after each iteration.

    Returns
    -------
    MIDRFit
    """
    packed = _Packed(objective, A, W, b)
    x = packed.join(A, W, b)
    value, gradient = packed.evaluate(x)
    progress = _Progress(value, tol, callback)
    pairs = _PairMemory(x.size)
    stop, n_iter, gain = "max_iter", 0, np.inf
    while n_iter < max_iter:
        if np.abs(gradient).max() <= tol:
            stop = "converged"
            break
        direction = packed.tangent(x, pairs.direction(gradient))
        slope = float(direction @ gradient)
        if slope >= -1e-12 * np.linalg.norm(direction) * np.linalg.norm(gradient):
            pairs.clear()  # not a descent direction: begin again
            direction, slope = -gradient, -float(gradient @ gradient)
        first = 1.0 if pairs.count else min(1.0, 1.0 / np.sqrt(-slope))
        found = _backtrack(packed, x, value, direction, slope, first)
        if found is None:
            if pairs.count == 0:
                # What the next step would gain may be below the rounding of the value.
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
        if progress.add(value):
            stop = "converged"
            break
    return MIDRFit(*(np.array(p) for p in packed.split(x)), progress.path, n_iter, stop)


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


def alternating(objective, A, W, b, *, max_iter=200, tol=1e-6, callback=None):
    """Minimise by Algorithm 1: logistic model, projection and sparse copy in turn.

    The published step leaves the manifold, its columns can only grow; here every step
    is brought back by `retract`, or, where there is no penalty and one direction, made
    on the manifold by `rotate_plane`. Parameters as in `lbfgs`.
    """
    if objective.penalty_name != "huber":
        raise ValueError(
            'solver="alternating" minimises Eq. (10), whose penalty is "huber"; got '
            f'penalty="{objective.penalty_name}".'
        )
    loss = objective.loss
    gamma = 1.0
    progress = _Progress(objective.value(A, W, b), tol, callback)
    stop, n_iter = "max_iter", 0
    while n_iter < max_iter:
        projected = np.asarray(loss.data @ A.astype(loss.data.dtype, copy=False))
        if loss.mean is not None:
            projected = projected - loss.mean @ A
        inner = fit_linear(
            loss.on(projected),
            W,
            b,
            ridge=objective.ridge,
            max_iter=_INNER_ITERATIONS,
            tol=0.1 * tol,
        )
        W, b = inner.coef, inner.intercept
        A, gamma = _algorithm1_step(objective, A, W, b, 2.0 * gamma)
        n_iter += 1
        if progress.add(objective.value(A, W, b)):
            stop = "converged"
            break
    return MIDRFit(A, W, b, progress.path, n_iter, stop)


def _algorithm1_step(objective, A, W, b, gamma):
    """One step in `A` for a fixed sparse copy H, and the step length found."""
    loss, coupling = objective.loss, objective.coupling
    H = soft_threshold(A, objective.tau)  # Eq. (12)
    value, outer, _ = loss(A @ W, b)
    value += 0.5 * coupling * float(np.vdot(A - H, A - H))
    exact = objective.C1 == 0 and W.shape[1] == 1
    gradient = outer @ W.T + coupling * (A - H)
    if exact:
        rate = float(np.vdot(gradient, gradient - A @ (gradient.T @ A)))
    else:
        gradient = project_tangent(A, gradient)  # Eq. (8)
        rate = float(np.vdot(gradient, gradient))
    for _ in range(60):
        if exact:
            new = rotate_plane(A, A @ W[:, 0], outer[:, 0], gamma)
        else:
            new = retract(A, -gamma * gradient)  # Eq. (11), brought back
        new_value = loss.value(new @ W, b)
        new_value += 0.5 * coupling * float(np.vdot(new - H, new - H))
        if new_value <= value - _ARMIJO * gamma * rate:
            return new, gamma
        gamma *= 0.5
    return A, gamma


def flow(objective, A, W, b, *, max_iter=200, tol=1e-6, callback=None):
    r"""Follow the gradient flow of Eq. (9) by an explicit Runge-Kutta method.

    With :math:`E = A'A - I` and :math:`S = \mathrm{sym}(A' \partial_A F)` the published
    flow has :math:`\dot E = ES + SE`: zero on the manifold, but any rounding error
    grows like :math:`e^{2\lambda_{\max}(S) t}`. The term :math:`-\kappa A E` with
    :math:`\kappa = 1 + 2\|S\|` vanishes on the manifold and makes it attractive.
    Parameters as in `lbfgs`; `max_iter` counts Runge-Kutta steps.
    """
    packed = _Packed(objective, A, W, b)

    def velocity(t, x):
        A, W, b = packed.split(x)
        _, grad_A, grad_W, grad_b = objective(A, W, b)
        return -packed.join(stabilised_gradient(A, grad_A), grad_W, grad_b)

    start = packed.join(A, W, b)
    progress = _Progress(objective.value(A, W, b), tol * tol, callback)
    ode = RK23(velocity, 0.0, start, np.inf, rtol=1e-4, atol=1e-7)
    stop, n_iter = "max_iter", 0
    while n_iter < max_iter:
        if np.abs(ode.f).max() <= tol:
            stop = "converged"
            break
        if ode.step() is not None or ode.status == "failed":
            stop = "stalled"
            break
        n_iter += 1
        if progress.add(objective.value(*packed.split(ode.y))):
            stop = "converged"
            break
    A, W, b = packed.split(ode.y)
    A = retract(A, np.zeros_like(A))
    progress.path[-1] = objective.value(A, W, b)
    return MIDRFit(A, np.array(W), np.array(b), progress.path, n_iter, stop)


def stabilised_gradient(A, grad_A):
    """Tangent gradient plus a term that pulls `A` back to the manifold."""
    inner = A.T @ grad_A
    inner = 0.5 * (inner + inner.T)
    kappa = 1.0 + 2.0 * np.linalg.norm(inner)
    drift = A.T @ A - np.eye(A.shape[1])
    return grad_A - A @ inner + kappa * (A @ drift)


#: Solvers by name.
MIDR_SOLVERS = {"lbfgs": lbfgs, "alternating": alternating, "flow": flow}
