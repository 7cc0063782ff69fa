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
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from bagwise.bags.segments import repeat, segment_sum
from bagwise.least_squares.safe.features import (
    IdentityFeatures,
    feature_chunks,
    features_from,
    project,
    with_ones,
)
from bagwise.least_squares.safe.problem import Fitted, spread_unit
from bagwise.least_squares.weights import instance_variance, row_namer
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
    target : ndarray of shape (n_columns, m + 1)
        Weighted sum of s times each of the columns that targets are mixed from.
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

    def with_columns(self, position, n_columns):
        """Move the target rows to the places `position` of a longer list."""
        target = np.zeros((n_columns, self.target.shape[1]))
        target[position] = self.target
        return replace(self, target=target)


def chunk_moments(features, offsets, weight, count, loss_weight, columns, variance):
    """Moments of some whole bags.

    Parameters
    ----------
    features : ndarray of shape (n_instances, m + 1)
        Features with a last column of ones. Overwritten when `variance` is an array.
    offsets, weight : ndarray
        Bags and aggregation weights.
    count, loss_weight : ndarray of shape (n_bags,)
        Multiplicity of each bag, and multiplicity times class weight.
    columns : ndarray of shape (n_bags, n_columns)
        What targets are mixed from.
    variance : ndarray of shape (n_instances,), float or None
        Weights v (multiplicity included), one number for all, or None to leave the
        instance moments out.
    """
    unit = np.all(weight == 1.0)
    sums = segment_sum(features if unit else weight[:, None] * features, offsets)
    target = (loss_weight[:, None] * columns).T @ sums
    size2 = float(count @ sums[:, -1] ** 2)
    if not np.all(loss_weight == 1.0):
        sums *= np.sqrt(loss_weight)[:, None]
    bag = sums.T @ sums
    rows = np.repeat(count, np.diff(offsets))
    first = rows @ features
    if np.ndim(variance) == 0 and variance is not None and np.all(count == 1.0):
        instance = features.T @ features
        trace = float(np.trace(instance) - instance[-1, -1])
        instance *= variance
    else:
        trace = float(rows @ np.einsum("ij,ij->i", features, features) - first[-1])
        instance = None
        if variance is not None:
            v = variance if np.ndim(variance) else variance * rows
            features *= np.sqrt(v)[:, None]
            instance = features.T @ features
    n_bags = float(count.sum())
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


class FeatureMap:
    """Explicit features with everything that their moments depend on.

    Parameters
    ----------
    settings : Settings
        Resolved ones.
    features : IdentityFeatures, LandmarkFeatures or FourierFeatures
        The features.
    total : ndarray of shape (m + 1,), default=None
        Sum of the features over all training instances. Degrees are products with it:
        the "ksc" core needs it before any moment.
    """

    def __init__(self, settings, features, total=None):
        self.settings = settings
        self.features = features
        self.total = total

    @classmethod
    def of(cls, settings, X, count):
        """Choose the features on bags, and sum them where the core needs it."""
        out = cls(settings, features_from(settings, X))
        if settings.core == "ksc":
            out.total = out.sum(X, count)
        return out

    def sum(self, X, count):
        """Weighted sum of the features over the instances of some bags."""
        rows = repeat(count, X.offsets).astype(np.float64)
        total = np.zeros(self.features.n_features_out + 1)
        for _, row, chunk in feature_chunks(self.features, X):
            phi = with_ones(self.features, chunk.data)
            total += rows[row : row + chunk.n_instances] @ phi
        return total

    def bag_sums(self, X, weight):
        """Bag features s, one row for each bag."""
        sums = np.empty((X.n_bags, self.features.n_features_out + 1))
        for bag, row, chunk in feature_chunks(self.features, X):
            phi = with_ones(self.features, chunk.data)
            phi *= weight[row : row + chunk.n_instances, None]
            sums[bag : bag + chunk.n_bags] = segment_sum(phi, chunk.offsets)
        return sums

    def variance(self, phi, rows, X):
        """Diagonal of V for instances with features `phi`, counted `rows` times."""
        degrees = None if self.total is None else phi[:, :-1] @ self.total[:-1]
        core = "kpca" if self.total is None else "ksc"
        return instance_variance(
            core, degrees, rows, row_namer(X), floor=self.degree_floor
        )

    @property
    def degree_floor(self):
        """Smallest degree possible; approximations fall below it."""
        # The degree of an instance under the RBF kernel is at least that of itself.
        exact = isinstance(self.features, IdentityFeatures)
        return 1.0 if self.settings.kernel == "rbf" and not exact else 0.0

    def moments(self, training, *, instance=True):
        """Moments of some bags; without those of instances where not `instance`."""
        X, count = training.X, training.count
        weight = self.settings.aggregation_weight(X.offsets)
        plain = bool(np.all(count == 1.0)) and self.total is None
        total = None
        for bag, row, chunk in feature_chunks(self.features, X):
            bags = slice(bag, bag + chunk.n_bags)
            inside = slice(row, row + chunk.n_instances)
            phi = with_ones(self.features, chunk.data)
            variance = None
            if instance:
                variance = (
                    1.0 if plain else self.variance(phi, training.rows[inside], chunk)
                )
            part = chunk_moments(
                phi,
                chunk.offsets,
                weight[inside],
                count[bags],
                training.loss_weight[bags],
                training.columns[bags],
                variance,
            )
            total = part if total is None else total + part
        return total

    def moments_if_possible(self, training):
        """Moments, without those of instances where V is not defined nor needed."""
        try:
            return self.moments(training)
        except ValueError:
            if self.settings.rule.needed:
                raise
            # Degrees that are not positive do not matter without variance weight.
            return self.moments(training, instance=False)


class FeatureSolver:
    """Least-squares problems over features that may be too many to keep.

    The same interface as `KernelSolver`; every problem passes over the bags again,
    which is what an alternation needs.
    """

    def __init__(self, feature_map, training):
        self.map = feature_map
        self.X = training.X
        self.offsets = training.X.offsets
        self.unit = feature_map.moments(training, instance=False).relative_scale()
        degrees = None
        if feature_map.total is not None:
            theta = np.append(feature_map.total[:-1], 0.0)[:, None]
            degrees = project(feature_map.features, self.X, theta)[:, 0]
        self.variance = instance_variance(
            feature_map.settings.core,
            degrees,
            training.rows,
            row_namer(self.X),
            floor=feature_map.degree_floor,
        )
        self._instance = None

    def _instance_moments(self):
        if self._instance is None:
            features, total = self.map.features, 0.0
            for _, row, chunk in feature_chunks(features, self.X):
                phi = with_ones(features, chunk.data)
                v = self.variance[row : row + chunk.n_instances]
                phi *= np.sqrt(v)[:, None]
                total = total + phi.T @ phi
            self._instance = total
        return self._instance

    def _system(self, sums, residual, instance):
        scaled = np.sqrt(residual)[:, None] * sums
        return MomentSystem(scaled.T @ scaled, instance, 1.0)

    def gamma_max(self, weight, residual):
        """Border of convexity for given aggregation and residual weights."""
        sums = self.map.bag_sums(self.X, weight)
        return self._system(sums, residual, self._instance_moments()).gamma_max()

    def solve(self, weight, residual, Y, rule):
        """Solve for all columns of `Y` with one factorisation."""
        sums = self.map.bag_sums(self.X, weight)
        instance = self._instance_moments() if rule.needed else None
        system = self._system(sums, residual, instance)
        gamma, bound = rule(system.gamma_max)
        theta = system.solve(sums.T @ (residual[:, None] * Y), gamma)
        scores = project(self.map.features, self.X, theta)
        w, b = theta[:-1], theta[-1]
        norm2 = np.einsum("ij,ij->j", w, w)
        return Fitted(scores, norm2, w, b, gamma, bound, 1)


class MomentBorder:
    """What the border of convexity needs when it is asked for after the fit."""

    def __init__(self, moments, rho):
        self.moments = moments
        self.rho = rho

    def gamma_max(self):
        """Compute the border from the moments."""
        if self.moments.instance is None:
            raise AttributeError(
                "gamma_max_ of core='ksc' needs the degrees of all instances: it is "
                "known after fit with positive degrees, not after partial_fit."
            )
        return MomentSystem(
            self.moments.bag, self.moments.instance, self.rho
        ).gamma_max()
