r"""SAFE over explicit features: additive moments and their factorisations.

With :math:`\tilde\phi = (\phi, 1)` and the bag features
:math:`s_k = \sum_{i \in k} a_i \tilde\phi_i` the Hessian of the problem is

.. math::
    H = E_0 + \rho \sum_k w_k s_k s_k' - \gamma \sum_i v_i \tilde\phi_i \tilde\phi_i',

where :math:`E_0` is the identity without the entry of the intercept. All sums are
over bags, so that chunks, workers and cross-validation folds only add and subtract
(m + 1) x (m + 1) matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh, solve_triangular

from bagwise.bags.segments import segment_sum
from bagwise.solvers.lanczos import largest_eigenvalue


@dataclass(frozen=True)
class Moments:
    """Sums over bags; all fields are additive.

    Attributes
    ----------
    bag : ndarray of shape (m + 1, m + 1)
        Weighted sum of s s' (class weights included).
    instance : ndarray of shape (m + 1, m + 1) or None
        Sum of v phi phi'; None where it was not asked for.
    target : ndarray of shape (n_classes, m + 1)
        Weighted sum of s over the bags of each class.
    first : ndarray of shape (m + 1,)
        Weighted sum of phi over instances; the last entry counts them.
    trace : float
        Weighted sum of squared norms of phi, without the intercept.
    size2 : float
        Weighted sum of n_k squared.
    n_bags : float
        Sum of the bag weights.
    """

    bag: np.ndarray
    instance: np.ndarray | None
    target: np.ndarray
    first: np.ndarray
    trace: float
    size2: float
    n_bags: float

    def _combine(self, other, operation):
        values = {}
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            missing = mine is None or theirs is None
            values[field.name] = None if missing else operation(mine, theirs)
        return Moments(**values)

    def __add__(self, other):
        return self._combine(other, np.add)

    def __sub__(self, other):
        return self._combine(other, np.subtract)

    def relative_scale(self):
        """Return the unit of rho: mean squared bag weight times feature spread."""
        count = self.first[-1]
        mean = self.first[:-1] / count
        diagonal = self.trace / count
        return spread_unit(self.size2 / self.n_bags, diagonal, mean @ mean)

    def signed_targets(self):
        """Right-hand sides of one-vs-rest targets -1 / +1, one column per class."""
        return (2.0 * self.target - self.target.sum(axis=0)).T

    def with_classes(self, position, n_classes):
        """Move the target rows to the places `position` of a longer list."""
        target = np.zeros((n_classes, self.target.shape[1]))
        target[position] = self.target
        return replace(self, target=target)


def spread_unit(size2, diagonal, mean):
    """Mean of n_k^2 times (mean of Omega_ii - mean of Omega_ij), guarded at zero.

    The constant part of a kernel goes into the intercept, hence the difference.
    """
    spread = diagonal - mean
    if spread <= 1e-12 * abs(diagonal):
        spread = diagonal  # all instances alike: nothing to be learned, but no error
    unit = size2 * spread
    return unit if unit > 0 else 1.0


def chunk_moments(
    features, offsets, weight, bag_weight, loss_weight, codes, n_classes, variance
):
    """Moments of some whole bags.

    Parameters
    ----------
    features : ndarray of shape (n_instances, m + 1)
        Features with a last column of ones. Overwritten when `variance` is an array.
    offsets, weight : ndarray
        Bags and aggregation weights.
    bag_weight, loss_weight : ndarray of shape (n_bags,)
        Multiplicity of each bag, and multiplicity times class weight.
    codes : ndarray of shape (n_bags,)
        Class numbers.
    n_classes : int
        Number of classes.
    variance : ndarray of shape (n_instances,), float or None
        Weights v (multiplicity included), one number for all, or None to leave the
        instance moments out.
    """
    unit = np.all(weight == 1.0)
    sums = segment_sum(features if unit else weight[:, None] * features, offsets)
    target = np.zeros((n_classes, features.shape[1]))
    for c in np.unique(codes):
        mine = codes == c
        target[c] = loss_weight[mine] @ sums[mine]
    size2 = float(bag_weight @ sums[:, -1] ** 2)
    n_bags = float(bag_weight.sum())
    if not np.all(loss_weight == 1.0):
        sums *= np.sqrt(loss_weight)[:, None]
    bag = sums.T @ sums
    count = np.repeat(bag_weight, np.diff(offsets))
    first = count @ features
    if variance is None:
        instance = None
        trace = float(count @ np.einsum("ij,ij->i", features, features) - first[-1])
    elif np.ndim(variance) == 0 and np.all(bag_weight == 1.0):
        instance = features.T @ features
        trace = float(np.trace(instance) - instance[-1, -1])
        instance *= variance
    else:
        trace = float(count @ np.einsum("ij,ij->i", features, features) - first[-1])
        features *= (
            np.sqrt(variance)[:, None]
            if np.ndim(variance)
            else np.sqrt(variance * count)[:, None]
        )
        instance = features.T @ features
    return Moments(bag, instance, target, first, trace, size2, n_bags)


class MomentSystem:
    """The problem for one rho: ``A = E0 + rho S`` is factorised once.

    Parameters
    ----------
    bag : ndarray of shape (p, p)
        Weighted sum of s s'; `rho` multiplies it.
    instance : ndarray of shape (p, p) or None
        Sum of v phi phi'.
    rho : float
        Residual weight.
    """

    def __init__(self, bag, instance, rho):
        self.rho = rho
        self.instance = instance
        self.A = rho * bag
        diagonal = np.arange(bag.shape[0] - 1)
        self.A[diagonal, diagonal] += 1.0
        self._factor = cho_factor(self.A, lower=True)

    def _whitened(self, values):
        low = self._factor[0]
        right = solve_triangular(low, values, lower=True, trans="T")
        return solve_triangular(low, self.instance @ right, lower=True)

    def gamma_max(self):
        """Reciprocal of the largest generalised eigenvalue of (C, A)."""
        value = largest_eigenvalue(self._whitened, self.A.shape[0])
        return np.inf if value <= 0 else 1.0 / value

    def solve(self, right, gamma):
        """Solve ``(A - gamma C) theta = rho right`` by Cholesky."""
        if gamma == 0.0:
            return cho_solve(self._factor, self.rho * right)
        try:
            factor = cho_factor(self.A - gamma * self.instance, lower=True)
        except LinAlgError:
            raise ValueError("gamma >= gamma_max: the problem is not convex.") from None
        return cho_solve(factor, self.rho * right)

    def path(self, right, gammas):
        """Solve for many gammas from one generalised eigenproblem.

        With ``U' A U = I`` and ``U' C U = diag(l)``, the solution is
        ``U diag(1 / (1 - gamma l)) U' rho right``.
        """
        values, U = eigh(self.instance, self.A)
        projected = U.T @ (self.rho * right)
        return [U @ (projected / (1.0 - gamma * values)[:, None]) for gamma in gammas]
