"""One interface to the exact kernel and to explicit features, for one fit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bagwise.bags.segments import repeat, segment_sum
from bagwise.least_squares.safe._design import BagDesign
from bagwise.least_squares.safe._features import feature_chunks, project, with_ones
from bagwise.least_squares.safe._kernel_system import KernelSystem
from bagwise.least_squares.safe._moments import MomentSystem


class Fitted(NamedTuple):
    """One solved problem."""

    scores: np.ndarray  # (n_instances, n_targets), of the training instances
    norm2: np.ndarray  # squared norm of w, one per target
    coef: np.ndarray  # dual coefficients, or weights of the features
    intercept: np.ndarray
    gamma: float
    gamma_max: float | None  # None where gamma = 0 made it unnecessary
    n_iter: int


class GammaRule:
    """Turns `variance_weight` into the gamma of the paper, never past convexity.

    Parameters
    ----------
    relative : float
        Share of gamma_max, in [0, 1).
    absolute : float or None
        The value itself; refused where the problem would not be convex.
    cap : float
        Never exceed this value (what an earlier step of an alternation used).
    """

    def __init__(self, relative, absolute=None, cap=np.inf):
        self.relative = relative
        self.absolute = absolute
        self.cap = cap

    def capped(self, cap):
        """Return the same rule with an upper bound."""
        return GammaRule(self.relative, self.absolute, cap)

    def __call__(self, gamma_max):
        """Return gamma, and gamma_max if it had to be computed."""
        if self.absolute is None and self.relative == 0.0:
            return 0.0, None
        bound = gamma_max()
        if self.absolute is None:
            gamma = self.relative * bound if np.isfinite(bound) else 0.0
            return min(gamma, self.cap), bound
        if self.absolute >= bound:
            raise ValueError(
                f"variance_weight_abs={self.absolute:.6g} is not convex: on these bags "
                f"and with this rho it must stay below gamma_max = {bound:.6g}. Beyond "
                "it the solution is a saddle point, not a minimum."
            )
        return self.absolute, bound


class KernelBackend:
    """Problems over one kernel of the instances."""

    def __init__(self, omega, offsets, variance, *, solver, tol, max_iter):
        self.omega = omega
        self.offsets = offsets
        self.variance = variance
        self.options = {"solver": solver, "tol": tol, "max_iter": max_iter}

    def system(self, weight, residual):
        """Return the solver for given aggregation and residual weights."""
        design = BagDesign(self.offsets, weight, residual, self.variance)
        return KernelSystem(self.omega, design)

    def solve(self, weight, residual, Y, rule):
        """Solve for all columns of `Y` with one factorisation."""
        system = self.system(weight, residual)
        gamma, bound = rule(system.gamma_max)
        (alpha, b, e), n_iter = system.solve(Y, gamma, **self.options)
        norm2 = np.einsum("ij,ij->j", alpha, e - b)
        return Fitted(e, norm2, alpha, b, gamma, bound, max(n_iter, 1))


class FeatureBackend:
    """Problems over explicit features that may be too many to keep."""

    def __init__(self, features, X: Any, variance):
        self.features = features
        self.X = X
        self.offsets = X.offsets
        self.variance = variance
        self._instance = None

    def _instance_moments(self):
        if self._instance is None:
            total = 0.0
            for _, row, chunk in feature_chunks(self.features, self.X):
                phi = with_ones(self.features, chunk.data)
                v = self.variance[row : row + chunk.n_instances]
                phi *= np.sqrt(v)[:, None]
                total = total + phi.T @ phi
            self._instance = total
        return self._instance

    def _bag_features(self, weight):
        sums = np.empty((self.X.n_bags, self.features.n_features_out + 1))
        for bag, row, chunk in feature_chunks(self.features, self.X):
            phi = with_ones(self.features, chunk.data)
            phi *= weight[row : row + chunk.n_instances, None]
            sums[bag : bag + chunk.n_bags] = segment_sum(phi, chunk.offsets)
        return sums

    def gamma_max(self, weight, residual):
        """Border of convexity for given aggregation and residual weights."""
        scaled = np.sqrt(residual)[:, None] * self._bag_features(weight)
        return MomentSystem(
            scaled.T @ scaled, self._instance_moments(), 1.0
        ).gamma_max()

    def solve(self, weight, residual, Y, rule):
        """Solve for all columns of `Y` with one factorisation."""
        sums = self._bag_features(weight)
        scaled = np.sqrt(residual)[:, None] * sums
        needed = rule.relative > 0.0 or rule.absolute is not None
        instance = self._instance_moments() if needed else None
        system = MomentSystem(scaled.T @ scaled, instance, 1.0)
        gamma, bound = rule(system.gamma_max)
        theta = system.solve(sums.T @ (residual[:, None] * Y), gamma)
        scores = project(self.features, self.X, theta)
        w, b = theta[:-1], theta[-1]
        norm2 = np.einsum("ij,ij->j", w, w)
        return Fitted(scores, norm2, w, b, gamma, bound, 1)


def spread_weight(per_bag, offsets):
    """Multiplicity of each instance from that of its bag."""
    return repeat(per_bag, offsets).astype(np.float64)
