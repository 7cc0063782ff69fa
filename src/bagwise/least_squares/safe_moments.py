r"""SAFE over explicit features: additive moments and their factorizations.

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
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from sklearn.utils import check_array, check_random_state

from bagwise._sizes import check_memory
from bagwise.bags.segments import repeat, segment_sum
from bagwise.kernels.basis import fit_basis
from bagwise.least_squares.safe_problem import (
    LeastSquaresFit,
    instance_variance,
    rho_unit,
    row_namer,
    squared_size,
)
from bagwise.solvers.lanczos import largest_eigenvalue

# Rows of features worked on at a time: large enough for full speed of the matrix
# products, small enough to stay near the caches.
_CHUNK_BYTES = 2**24


class IdentityFeatures:
    """The linear kernel: the features are the columns themselves."""

    def __init__(self, n_features):
        self.n_features_out = n_features

    def fill(self, data, out):
        """Write the features of `data` into `out`."""
        out[:] = data.toarray() if sp.issparse(data) else data


class LandmarkFeatures:
    """Nystroem features k(x, landmarks) T, whitened by eigenvectors.

    Directions with an eigenvalue below 1e-10 of the largest are dropped.
    """

    def __init__(self, landmarks, kernel_params):
        basis = fit_basis(landmarks, method="eigh", **kernel_params)
        self.basis = basis.without_rows()
        # The sign of eigenvectors is arbitrary; fix it, so that coefficients do not
        # depend on the last bit of the kernel width.
        T = self.basis.projection
        top = np.abs(T).argmax(axis=0)
        self.basis.projection = T * np.sign(T[top, np.arange(T.shape[1])])
        self.n_features_out = self.basis.rank

    def fill(self, data, out):
        """Write the features of `data` into `out`."""
        out[:] = self.basis.transform(data)


class FourierFeatures:
    """Random Fourier features sqrt(2/m) cos(x'W + c) of the RBF kernel."""

    def __init__(self, n_features, n_components, gamma, random_state):
        rng = check_random_state(random_state)
        self.n_features_out = n_components
        self.frequencies = np.sqrt(2.0 * gamma) * rng.standard_normal(
            (n_features, n_components)
        )
        self.phases = rng.uniform(0.0, 2.0 * np.pi, n_components)

    def fill(self, data, out):
        """Write the features of `data` into `out`."""
        out[:] = data @ self.frequencies
        out += self.phases
        np.cos(out, out=out)
        out *= np.sqrt(2.0 / self.n_features_out)


def draw_landmarks(n_instances, n_components, random_state):
    """Row numbers of the landmarks, sorted; all rows when there are too few."""
    rng = check_random_state(random_state)
    return np.sort(rng.permutation(n_instances)[:n_components])


def choose_features(settings, n_features, draw):
    """Return the explicit features that resolved settings ask for.

    Parameters
    ----------
    settings : Settings
        With a known width.
    n_features : int
        Number of columns of the instances.
    draw : callable
        Called without arguments, gives the rows that `draw_landmarks` chose; only
        when landmarks have to be drawn.
    """
    if settings.landmarks is not None:
        marks = check_array(settings.landmarks, accept_sparse="csr", dtype=np.float64)
        if marks.shape[1] != n_features:
            raise ValueError(
                f"landmarks have {marks.shape[1]} columns, the instances have "
                f"{n_features}."
            )
        features = LandmarkFeatures(marks, settings.kernel_params)
    elif settings.n_components is None:
        features = IdentityFeatures(n_features)
    elif settings.approximation == "rff":
        features = FourierFeatures(
            n_features, settings.n_components, settings.gamma, settings.random_state
        )
    else:
        marks = draw().astype(np.float64, copy=False)
        features = LandmarkFeatures(marks, settings.kernel_params)
    p = features.n_features_out + 1
    check_memory(
        24.0 * p * p,
        f"The moments of {p - 1} features",
        "Set n_components to use fewer features.",
    )
    return features


def features_from(settings, X):
    """Explicit features whose landmarks, if any, are drawn from the bags `X`."""
    n, m = X.n_instances, settings.n_components
    return choose_features(
        settings,
        X.n_features,
        lambda: X.take_rows(draw_landmarks(n, m, settings.random_state)),
    )


def with_ones(features, data):
    """Features of `data` with a last column of ones, for the intercept."""
    data = data.astype(np.float64, copy=False)
    out = np.empty((data.shape[0], features.n_features_out + 1))
    features.fill(data, out[:, :-1])
    out[:, -1] = 1.0
    return out


def feature_chunks(features, X):
    """Yield pieces of the bags of bounded size, as (first bag, first row, bags)."""
    rows = max(256, _CHUNK_BYTES // (8 * (features.n_features_out + 1)))
    bag = row = 0
    for chunk in X.iter_chunks(rows):
        yield bag, row, chunk
        bag += chunk.n_bags
        row += chunk.n_instances


def project(features, X, theta):
    """Instance scores: features times `theta` (last row: intercepts), by chunks."""
    scores = np.empty((X.n_instances, theta.shape[1]))
    for _, row, chunk in feature_chunks(features, X):
        scores[row : row + chunk.n_instances] = with_ones(features, chunk.data) @ theta
    return scores


def linear_scores(X, coef, intercept):
    """Instance scores of the linear kernel; dense data are converted by chunks."""
    if X.is_sparse:
        return np.asarray(X.data @ coef.T) + intercept
    return project(IdentityFeatures(X.n_features), X, np.vstack([coef.T, intercept]))


@dataclass(frozen=True)
class BagMoments:
    """Sums over bags; all fields are additive.

    Attributes
    ----------
    bag : ndarray of shape (m + 1, m + 1)
        Weighted sum of s s'.
    instance : ndarray of shape (m + 1, m + 1) or None
        Sum of v phi phi'; None where it was not asked for.
    target : ndarray of shape (n_columns, m + 1)
        Weighted sum of s times each of the columns that targets are mixed from.
    first : ndarray of shape (m + 1,)
        Weighted sum of phi over instances; the last entry counts them.
    trace : float
        Weighted sum of squared norms of phi, without the intercept.
    sizes : ndarray of shape (2,)
        From `squared_size`.
    n_bags : float
        Sum of the bag weights.
    """

    bag: np.ndarray
    instance: np.ndarray | None
    target: np.ndarray
    first: np.ndarray
    trace: float
    sizes: np.ndarray
    n_bags: float

    def _combine(self, other, operation):
        values = {}
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            missing = mine is None or theirs is None
            values[field.name] = None if missing else operation(mine, theirs)
        return BagMoments(**values)

    def __add__(self, other):
        return self._combine(other, np.add)

    def __sub__(self, other):
        return self._combine(other, np.subtract)

    def relative_scale(self):
        """Return the unit of rho: mean squared bag weight times feature spread."""
        count = self.first[-1]
        mean = self.first[:-1] / count
        diagonal = self.trace / count
        return rho_unit(self.sizes, self.n_bags, diagonal, mean @ mean)

    def with_columns(self, position, n_columns):
        """Move the target rows to the places `position` of a longer list."""
        target = np.zeros((n_columns, self.target.shape[1]))
        target[position] = self.target
        return replace(self, target=target)


def chunk_moments(features, offsets, weight, count, columns, variance):
    """Moments of some whole bags.

    Parameters
    ----------
    features : ndarray of shape (n_instances, m + 1)
        Features with a last column of ones. Overwritten when `variance` is an array.
    offsets, weight : ndarray
        Bags and aggregation weights.
    count : ndarray of shape (n_bags,)
        Weight of each bag.
    columns : ndarray of shape (n_bags, n_columns)
        What targets are mixed from.
    variance : ndarray of shape (n_instances,), float or None
        Weights v (multiplicity included), one number for all, or None to leave the
        instance moments out.
    """
    unit = np.all(weight == 1.0)
    sums = segment_sum(features if unit else weight[:, None] * features, offsets)
    target = (count[:, None] * columns).T @ sums
    sizes = squared_size(sums[:, -1], count)
    if not np.all(count == 1.0):
        sums *= np.sqrt(count)[:, None]
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
    return BagMoments(bag, instance, target, first, trace, sizes, n_bags)


class MomentSystem:
    """The problem for one rho: ``A = E0 + rho S`` is factorized once.

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
        """Reciprocal of the largest generalized eigenvalue of (C, A)."""
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
        X, count = training.X, training.weight
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
        """Solve for all columns of `Y` with one factorization."""
        sums = self.map.bag_sums(self.X, weight)
        instance = self._instance_moments() if rule.needed else None
        system = self._system(sums, residual, instance)
        gamma, bound = rule(system.gamma_max)
        theta = system.solve(sums.T @ (residual[:, None] * Y), gamma)
        scores = project(self.map.features, self.X, theta)
        w, b = theta[:-1], theta[-1]
        norm2 = np.einsum("ij,ij->j", w, w)
        return LeastSquaresFit(scores, norm2, w, b, gamma, bound, 1)


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
