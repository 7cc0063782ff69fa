"""Negative log diverse density of a set of bags, and the base of its methods."""

import warnings
from numbers import Integral
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from bagwise._compat import Interval, StrOptions
from bagwise.bags.segments import segment_argmax, segment_min
from bagwise.base import WeightedBagClassifier
from bagwise.base.thresholds import best_threshold
from bagwise.density import _loops as compiled
from bagwise.kernels.instance import row_blocks, squared_distances
from bagwise.solvers.lbfgs import minimize


def density_objective(data, offsets, positive, weight, mode):
    """Return the objective of a labeled set of bags, for dense or sparse instances.

    Parameters
    ----------
    data : ndarray or CSR matrix of shape (n_instances, n_features)
        The instances.
    offsets, positive, weight
        Where bags begin, their labels and their weights.
    mode : {"noisy_or", "max"}
        How the instances of a bag are combined.
    """
    kind = _Sparse if sp.issparse(data) else _Dense
    return kind(data, offsets, positive, weight, mode)


class _Objective:
    """What both kinds share: bags, and the choice of an instance for each."""

    def __init__(self, data, offsets, positive, weight):
        self.data = data
        self.bags = (
            np.array(offsets, dtype=np.intp),
            np.array(positive, dtype=bool),
            np.array(weight, dtype=np.float64),
        )

    def select(self, theta):
        """Return the row of the nearest instance of each bag."""
        return segment_argmax(-self.distances(theta), self.bags[0])

    def only(self, chosen):
        """Return the objective of one instance for each bag."""
        ones = np.arange(len(chosen) + 1)
        return type(self)(self.data[chosen], ones, *self.bags[1:], "max")


class _Dense(_Objective):
    """Instances in memory twice, by rows and by columns; descents are compiled."""

    def __init__(self, data, offsets, positive, weight, mode):
        data = np.asarray(data, dtype=np.float64)
        super().__init__(data, offsets, positive, weight)
        n, n_features = self.data.shape
        rows = np.zeros((n + -n % 4, n_features))  # loops process four at a time
        rows[:n] = self.data
        self.both = rows, np.ascontiguousarray(self.data.T).view()
        for each in self.both:  # equal types: loops are compiled once
            each.flags.writeable = False
        self.problem = *self.both, self.bags, mode == "noisy_or"
        self.room = np.zeros((2, len(rows)))

    def distances(self, theta):
        """Scaled squared distances of all instances."""
        d = np.empty(len(self.data))
        compiled.distances(self.both[1], theta, d)
        return d

    def __call__(self, theta):
        """Value and gradient at theta = (h, s)."""
        gradient = np.empty(len(theta))
        value = compiled.evaluate(*self.problem, theta, gradient, self.room)
        return value, gradient

    def descend(self, descent, max_iter):
        """Go on with a descent by L-BFGS until `max_iter` iterations in all."""
        if not descent.converged and descent.n_iter < max_iter:
            descent.status = compiled.descend(
                *self.problem, descent.vectors, descent.numbers, self.room, max_iter
            )
        return descent


class _Sparse(_Objective):
    """Four products of a sparse matrix with a vector make an evaluation."""

    def __init__(self, data, offsets, positive, weight, mode):
        super().__init__(data, offsets, positive, weight)
        self.squares = data.multiply(data).tocsr()
        self.terms = compiled.noisy_or if mode == "noisy_or" else compiled.nearest

    def distances(self, theta):
        """Scaled squared distances of all instances."""
        point, scale = np.split(theta, 2)
        s2 = scale * scale
        d = self.squares @ s2
        d -= 2.0 * (self.data @ (s2 * point))
        d += s2 @ (point * point)
        return np.maximum(d, compiled.SMALLEST)

    def __call__(self, theta):
        """Value and gradient at theta = (h, s)."""
        point, scale = np.split(theta, 2)
        g = np.empty(self.data.shape[0])
        value = self.terms(self.distances(theta), *self.bags, g)
        total, first, second = g.sum(), self.data.T @ g, self.squares.T @ g
        on_point = 2.0 * scale**2 * (point * total - first)
        on_scale = 2.0 * scale * (second - 2.0 * point * first + point**2 * total)
        return value, np.concatenate([on_point, on_scale])

    def descend(self, descent, max_iter):
        """Go on with a descent by L-BFGS until `max_iter` iterations in all."""
        return minimize(self, descent, max_iter)


# Isotropic scales tried for every candidate, relative to the median distance.
_SCALES = 2.0 ** np.arange(-3, 4)

DENSITY_CONSTRAINTS: dict = {
    "starts": [StrOptions({"screened", "all"})],
    "n_starts": [Interval(Integral, 1, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "threshold": [StrOptions({"zero", "train", "cv"})],
    "class_weight": [dict, StrOptions({"balanced"}), None],
}


# With more instances in positive bags than the first number, only the second number of
# candidates is screened: all pairwise distances would take minutes.
_MANY, _SCREENED = 20_000, 5_000


def screened_starts(X, positive, weight, n_starts):
    """Choose promising starts (h, s) among the instances of positive bags.

    One matrix of distances gives the max-density of every positive instance at every
    isotropic scale c at once, since distances are linear in c^2. The best ones, each at
    its best scale, are the starts; copies of a point count once. Of very many instances
    an even share is looked at, unless every one is to be a start.

    Returns
    -------
    list of ndarray of shape (2 * n_features,)
        The starts, the most promising first.
    """
    rows = np.flatnonzero(positive[X.bag_index])
    if len(rows) > _MANY and n_starts < len(rows):
        most = max(_SCREENED, n_starts)
        rows = rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]
    nearest = np.empty((len(rows), len(X)))
    for part in row_blocks(len(rows), 24.0 * X.n_instances):
        D = squared_distances(X.data[rows[part]], X.data)
        nearest[part] = segment_min(D.T, X.offsets).T
    middle = float(np.median(nearest)) or float(nearest.mean()) or 1.0
    values = np.empty((len(_SCALES), len(rows)))
    for k, c2 in enumerate(_SCALES / middle):
        d = np.maximum(c2 * nearest, compiled.SMALLEST)
        values[k] = d[:, positive] @ weight[positive]
        values[k] -= np.log(-np.expm1(-d[:, ~positive])) @ weight[~positive]
    best = values.argmin(axis=0)
    # Ties (copies of a point, rounding) are broken by the distances, not the order.
    order = np.lexsort((rows, values.min(axis=0)))
    starts = {}
    for i in order:
        point = X.data[rows[i]]
        point = point.toarray().ravel() if X.is_sparse else np.asarray(point)
        c = np.sqrt(_SCALES[best[i]] / middle)
        start = np.concatenate([point, np.full(X.n_features, c)]).astype(float)
        starts.setdefault(point.tobytes(), start)
        if len(starts) == n_starts:
            break
    return list(starts.values())


class _Frame(NamedTuple):
    """Where points are measured from, and the features that they are searched in."""

    origin: np.ndarray
    varies: np.ndarray | slice


class DensityClassifier(WeightedBagClassifier):
    """Base of the methods that look for a concept point."""

    # As in the papers; better here than a sigmoid, as scores have a long lower tail.
    _find_threshold = staticmethod(best_threshold)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.respects_standard_assumption = True
        tags.input_tags.asymmetric = True
        return tags

    def _make_starts(self, X, positive, weight):
        n_starts = self.n_starts if self.starts == "screened" else X.n_instances
        return screened_starts(X, positive, weight, n_starts)

    def _store(self, frame, start, theta, value, path, n_iter, converged):
        point, scale = np.split(theta, 2)
        # Constant features keep the scale of the start.
        self.concept_ = frame.origin
        self.concept_[frame.varies] += point
        self.scale_ = np.full(len(frame.origin), start[-1] ** 2)
        self.scale_[frame.varies] = scale**2  # the sign of s is arbitrary
        self.objective_ = float(value)
        self.objective_path_ = np.asarray(path)
        self.n_iter_ = n_iter
        if not converged:
            warnings.warn(
                f"{type(self).__name__} stopped at max_iter={self.max_iter} before the "
                "density stopped increasing. Increase max_iter, or scale the features.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _framed(self, X):
        """Subtract the mean of dense data, and leave out features that do not vary.

        Distances keep their digits. A feature that is the same for all instances counts
        neither in distances from one of them nor in gradients.
        """
        if X.is_sparse:
            return X, _Frame(np.zeros(X.n_features), slice(None))
        origin = X.data.mean(axis=0, dtype=np.float64)
        varies = (X.data != X.data[0]).any(axis=0)
        if not varies.any():
            varies[:] = True
        origin[~varies] = X.data[0, ~varies]
        return X.with_data(X.data[:, varies] - origin[varies]), _Frame(origin, varies)

    def _score_instances(self, X):
        # log p + log 2: the natural threshold is probability one half.
        h, s2 = self.concept_, self.scale_
        if X.is_sparse:
            square = X.data.multiply(X.data) @ s2
            d = square - 2.0 * (X.data @ (s2 * h)) + s2 @ (h * h)
        else:
            d = (X.data - h) ** 2 @ s2
        return np.log(2.0) - np.maximum(d, 0.0)
