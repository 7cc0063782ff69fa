"""What `MILinearRegression` minimises, on bags in memory and as sums over pieces."""

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from bagwise.bags.segments import (
    bag_matrix,
    repeat,
    segment_argmax,
    segment_max,
    segment_mean,
    segment_min,
    segment_sum,
)
from bagwise.solvers.moments import Moments


def pool_values(scores, offsets, pooling, alpha):
    """Pool the values of instances into bags."""
    if pooling == "mean":
        return segment_mean(scores, offsets)
    if pooling == "max":
        return segment_max(scores, offsets)
    if pooling == "min":
        return segment_min(scores, offsets)
    return segment_sum(_shares(scores, offsets, alpha) * scores, offsets)


def _shares(scores, offsets, alpha):
    top = repeat(segment_max(scores, offsets), offsets)
    weight = np.exp(alpha * (scores - top))
    return weight / repeat(segment_sum(weight, offsets), offsets)


class Problem:
    """The objective on bags in memory, its linearisation and its starts.

    Parameters
    ----------
    X, y, weight : Bags, ndarray, ndarray
        Bags, values and positive weights.
    settings : MILinearRegression
        Its parameters.
    spread : float, default=None
        Standard deviation of y; that of these bags by default.
    """

    def __init__(self, X, y, weight, settings, spread=None):
        self.X, self.y, self.weight = X, y, weight
        self.pooling, self.C = settings.pooling, settings.C
        self.fit_intercept = settings.fit_intercept
        self.share = weight / weight.sum()
        centre = self.share @ y
        if spread is None:
            spread = float(np.sqrt(self.share @ (y - centre) ** 2)) or 1.0
        self.spread = spread
        self.alpha = settings.alpha / self.spread
        self.mean_rows = bag_matrix(X.offsets, mean=True)

    def scores(self, w, b):
        return np.asarray(self.X.data @ w, dtype=np.float64) + b

    def residuals(self, w, b):
        """Return pooled value minus y, and the values of the instances."""
        scores = self.scores(w, b)
        offsets = self.X.offsets
        if self.pooling == "prime":
            return scores[self._closest(scores)] - self.y, scores
        return pool_values(scores, offsets, self.pooling, self.alpha) - self.y, scores

    def _closest(self, scores):
        miss = np.abs(scores - repeat(self.y, self.X.offsets))
        return segment_argmax(-miss, self.X.offsets)

    def objective(self, w, b):
        error, _ = self.residuals(w, b)
        return float(self.share @ error**2 + 0.5 * (w @ w) / self.C)

    def step(self, w, b):
        """Solve the ridge problem of the pooled values, linearised at ``(w, b)``."""
        return self.ridge(*self.linearised(w, b))

    def linearised(self, w, b):
        """Return a row and a target for each bag: the pooled value near ``(w, b)``."""
        scores = self.scores(w, b)
        rows, offsets = self.X.data, self.X.offsets
        if self.pooling == "mean":
            return self.mean_rows @ rows, self.y
        if self.pooling == "softmax":
            share = _shares(scores, offsets, self.alpha)
            pooled = segment_sum(share * scores, offsets)
            # The derivative of the pooled value in a score; over a bag they sum to 1,
            # so that the constant enters as it is.
            slope = share * (1.0 + self.alpha * (scores - repeat(pooled, offsets)))
            Z = _bag_sums(slope, offsets) @ rows
            linear = np.asarray(Z @ w).ravel() + b
            return Z, self.y - pooled + linear
        if self.pooling == "prime":
            chosen = self._closest(scores)
        else:
            chosen = segment_argmax(
                scores if self.pooling == "max" else -scores, offsets
            )
        return rows[chosen], self.y

    def ridge(self, Z, target):
        """Minimise the mean squared error and the penalty over given rows."""
        alpha = 0.5 * self.weight.sum() / self.C
        if not sp.issparse(Z):
            return dense_ridge(Z, target, self.weight, alpha, self.fit_intercept)
        model = Ridge(
            alpha, fit_intercept=self.fit_intercept, solver="sparse_cg", tol=1e-10
        ).fit(Z, target, sample_weight=self.weight)
        return [np.asarray(model.coef_, dtype=np.float64), float(model.intercept_)]

    def start(self, number, rng):
        """Return direction and constant of start `number`."""
        if number == 0:
            return self.ridge(self.mean_rows @ self.X.data, self.y)
        return self.ridge(self.drawn(rng.random(len(self.y))), self.y)

    def drawn(self, places):
        """Return one instance of each bag, at places between 0 and 1."""
        rows = self.X.offsets[:-1] + (places * self.X.sizes).astype(int)
        return self.X.data[rows]


def dense_ridge(Z, target, weight, alpha, fit_intercept):
    """Return coefficients and constant of ridge regression with weights.

    scikit-learn's would check its input again in every step, which costs more than the
    step itself where bags are few.
    """
    mean, level = np.zeros(Z.shape[1]), 0.0
    if fit_intercept:
        share = weight / weight.sum()
        mean, level = share @ Z, float(share @ target)
    root = np.sqrt(weight)
    A, t = root[:, None] * (Z - mean), root * (target - level)
    n, d = A.shape
    normal = A.T @ A if d <= n else A @ A.T
    normal.flat[:: len(normal) + 1] += alpha
    try:
        factor = scipy.linalg.cho_factor(normal)
        pivots = np.abs(np.diag(factor[0]))
        sound = pivots.min() ** 2 > 1e-12 * pivots.max() ** 2
    except scipy.linalg.LinAlgError:
        sound = False
    if sound:
        back = scipy.linalg.cho_solve(factor, A.T @ t if d <= n else t)
        coef = back if d <= n else A.T @ back
    else:
        # Next to no penalty, and columns that repeat: what rounding leaves of singular
        # values that are zero would be divided by itself.
        U, s, Vt = scipy.linalg.svd(A, full_matrices=False)
        kept = s > max(n, d) * np.finfo(np.float64).eps * s.max(initial=0.0)
        U, s, Vt = U[:, kept], s[kept], Vt[kept]
        coef = Vt.T @ (s / (s**2 + alpha) * (U.T @ t))
    return [coef, level - float(mean @ coef)]


def _bag_sums(weight, offsets):
    """Matrix of shape (n_bags, n_instances) whose rows hold weights of instances."""
    n = len(weight)
    return sp.csr_array((weight, np.arange(n), offsets), shape=(len(offsets) - 1, n))


def _moments(Z, target, weight):
    """Moments of some rows, with the target as the last column."""
    Z = Z.toarray() if sp.issparse(Z) else Z
    return Moments.of(np.column_stack([Z, target]), weight)


class SummedProblem:
    """What `Problem` is, for bags that are never in one place.

    Parameters
    ----------
    pieces : Chunks or Partitions
        Anything with ``sum(function, *shared, per_bag=None)`` over pieces that have `X`
        (Bags), `y` (one value for each bag) and `weight`.
    settings : MILinearRegression
        Its parameters.
    """

    def __init__(self, pieces, settings):
        self.pieces = pieces
        self.settings = settings
        self.n_bags, found = pieces.sum(_targets)
        self.total = found.weight
        self.spread = float(np.sqrt(found.scatter[0, 0] / found.weight)) or 1.0

    def objective(self, w, b):
        """Return the mean squared error and the penalty."""
        error = self.pieces.sum(_squared_error, w, b, self.settings, self.spread)
        return error / self.total + 0.5 * float(w @ w) / self.settings.C

    def step(self, w, b):
        """Solve the ridge problem of the pooled values, linearised at ``(w, b)``."""
        return self._ridge(
            self.pieces.sum(_linearised, w, b, self.settings, self.spread)
        )

    def start(self, number, rng):
        """Return direction and constant of start `number`."""
        if number == 0:
            return self._ridge(self.pieces.sum(_means, self.settings))
        places = rng.random(self.n_bags)
        return self._ridge(self.pieces.sum(_drawn, self.settings, per_bag=places))

    def _ridge(self, found):
        d = len(found.mean) - 1
        scatter, mean = found.scatter, found.mean
        if not self.settings.fit_intercept:
            scatter = scatter + found.weight * np.outer(mean, mean)
        A = scatter[:d, :d].copy()
        A[np.diag_indices(d)] += 0.5 * self.total / self.settings.C
        w = scipy.linalg.solve(A, scatter[:d, d], assume_a="pos")
        b = float(mean[d] - mean[:d] @ w) if self.settings.fit_intercept else 0.0
        return [w, b]


def _targets(piece):
    none = np.empty((len(piece.y), 0))
    return len(piece.y), _moments(none, piece.y, piece.weight)


def _problem(piece, settings, spread=1.0):
    return Problem(piece.X, piece.y, piece.weight, settings, spread)


def _squared_error(piece, w, b, settings, spread):
    error, _ = _problem(piece, settings, spread).residuals(w, b)
    return float(piece.weight @ error**2)


def _linearised(piece, w, b, settings, spread):
    Z, target = _problem(piece, settings, spread).linearised(w, b)
    return _moments(Z, target, piece.weight)


def _means(piece, settings):
    means = _problem(piece, settings).mean_rows @ piece.X.data
    return _moments(means, piece.y, piece.weight)


def _drawn(piece, places, settings):
    return _moments(_problem(piece, settings).drawn(places), piece.y, piece.weight)
