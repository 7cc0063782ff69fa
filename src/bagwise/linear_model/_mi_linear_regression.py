"""Linear regression of bags: instance values, pooled."""

import warnings
from numbers import Integral, Real

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.utils import check_random_state

from bagwise._compat import Interval, StrOptions
from bagwise.bags.chunks import Chunks, Moments, larger_than_chunk
from bagwise.bags.segments import (
    bag_matrix,
    repeat,
    segment_argmax,
    segment_max,
    segment_mean,
    segment_min,
    segment_sum,
)
from bagwise.base import BaseBagRegressor

POOLINGS = ("mean", "max", "min", "softmax", "prime")
# Maximum number of halvings of a step before the descent ends.
_HALVINGS = 30


class MILinearRegression(BaseBagRegressor):
    r"""Linear regression on instances, pooled into bags.

    .. math::
        \min_{w, b}\; \frac{1}{\sum_i \omega_i} \sum_i \omega_i
            \bigl(\mathrm{pool}_j (w'x_{ij} + b) - y_i\bigr)^2
            + \frac{1}{2C} \|w\|^2

    where :math:`C` is `C`, :math:`\omega_i` the weight of bag :math:`i` and the pooling
    is `pooling`:

    - ``"mean"``: ridge regression on the means of bags, convex;
    - ``"max"``, ``"min"``: the largest or smallest value of an instance;
    - ``"softmax"``: :math:`\sum_j s_j e^{\alpha s_j / \sigma} / \sum_j e^{\alpha s_j /
      \sigma}` of the values :math:`s_j`, with :math:`\sigma` the standard deviation of
      y and :math:`\alpha` `alpha`;
    - ``"prime"``: the instance of every bag that fits best ([1]_).

    Parameters
    ----------
    pooling : {"mean", "max", "min", "softmax", "prime"}, default="mean"
        How values of instances are combined into the value of a bag.
    C : float, default=1.0
        Inverse strength of the penalty. The loss is a *mean* over bags, so that `C`
        does not depend on the number of bags.
    alpha : float, default=3.0
        Sharpness of the softmax.
    fit_intercept : bool, default=True
        Whether to fit :math:`b`. It is not penalized.
    n_init : int, default=4
        Number of starts if the problem is not convex: the means of bags, then
        random instances; the start with the lowest objective is kept.
    max_iter : int, default=200
        Maximum number of steps from each start.
    tol : float, default=1e-7
        A start has converged when a step lowers the objective by less, relatively.
    random_state : int, RandomState instance or None, default=None
        Random seed of the starts.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The direction :math:`w`.
    intercept_ : float
        The intercept :math:`b`.
    objective_ : float
        Smallest value of the objective.
    objective_path_ : ndarray
        Objective after each step of the kept start; it never increases.
    n_iter_ : int
        Steps of that start.

    See Also
    --------
    bagwise.linear_model.MILogisticRegression : The same for two classes.

    Notes
    -----
    A step linearizes the pooled values (at the maximum: takes the instance that is
    largest now), solves the ridge problem that is left, and moves towards its solution
    as far as the objective decreases. "prime" trains on the instance that fits best,
    which is not known at prediction: the *median* of the instance values is predicted.
    `instance_scores` are the values :math:`w'x + b`; `key_instances` the one that
    decides: the largest, or for "min" the smallest.

    Shifting y shifts predictions, scaling y scales them: errors and penalty are both
    squares.

    Differs from [1]_: a ridge penalty and several starts. A step costs one product with
    the instances and one ridge problem over bags. Sparse instances stay sparse.

    References
    ----------
    .. [1] Ray, S. and Page, D., "Multiple instance regression", ICML, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.linear_model import MILinearRegression
    >>> X = [[[0.0], [1.0]], [[2.0], [0.5]], [[3.0]], [[1.0], [0.0]]]
    >>> model = MILinearRegression("max", C=1e4, random_state=0)
    >>> model.fit(X, [2.0, 4.0, 6.0, 2.0]).coef_.round(2)
    array([2.])
    """

    _parameter_constraints: dict = {
        "pooling": [StrOptions(set(POOLINGS))],
        "C": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        pooling="mean",
        C=1.0,
        *,
        alpha=3.0,
        fit_intercept=True,
        n_init=4,
        max_iter=200,
        tol=1e-7,
        random_state=None,
    ):
        self.pooling = pooling
        self.C = C
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "absolute"
        tags.input_tags.sparse = True
        tags.input_tags.duplicate_invariant = True
        tags.input_tags.chunked = True
        return tags

    def _fit_bags(self, X, y, weight):
        if larger_than_chunk(X):
            self._fit_sums(Chunks(X, y, weight))
        else:
            self._minimise(PooledRegression(X, y, weight, self))

    def _fit_sums(self, pieces):
        """Fit from sums over pieces of the bags."""
        self._minimise(SummedRegression(pieces, self))

    def _minimise(self, problem):
        rng = check_random_state(self.random_state)
        convex = self.pooling == "mean"
        best = None
        for number in range(1 if convex else self.n_init):
            found = self._descend(problem, problem.start(number, rng))
            if best is None or found[2][-1] < best[2][-1]:
                best = found
        w, b, path, stopped = best
        if not stopped:
            warnings.warn(
                f"MILinearRegression stopped at max_iter={self.max_iter} steps, while "
                f"the objective still fell by more than tol={self.tol}. Scale the "
                "features, or increase max_iter or tol.",
                ConvergenceWarning,
                stacklevel=5,
            )
        self.coef_, self.intercept_ = w, float(b)
        self.objective_path_ = np.array(path)
        self.objective_ = float(path[-1])
        self.n_iter_ = max(1, len(path) - 1)
        self.pooling_, self.alpha_ = self.pooling, self.alpha / problem.spread

    def _descend(self, problem, point):
        """Return direction, constant, path of objectives and whether it converged."""
        value = problem.objective(*point)
        path = [value]
        for _ in range(self.max_iter):
            target = problem.step(*point)
            share = 1.0
            for _ in range(_HALVINGS):
                trial = [
                    old + share * (new - old)
                    for old, new in zip(point, target, strict=True)
                ]
                found = problem.objective(*trial)
                if found < value:
                    break
                share *= 0.5
            else:
                return *point, path, True  # no step reduces the objective
            gain = value - found
            point, value = trial, found
            path.append(value)
            if gain <= self.tol * abs(value):
                return *point, path, True
        return *point, path, False

    def _score_instances(self, X):
        if larger_than_chunk(X):
            return np.concatenate(Chunks(X).each(_score_piece, self))
        return np.asarray(X.data @ self.coef_, dtype=np.float64) + self.intercept_

    def _predict_bags(self, X):
        scores = self._score_instances(X)
        if self.pooling_ == "prime":
            return np.array(
                [
                    np.median(scores[a:b])
                    for a, b in zip(X.offsets[:-1], X.offsets[1:], strict=True)
                ]
            )
        return pool_values(scores, X.offsets, self.pooling_, self.alpha_)

    def key_instances(self, X):
        """Return the instance that decides, for each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,)
            Position inside its bag of the instance with the largest value (the smallest
            for the pooling "min").
        """
        scores = self.instance_scores(X)
        sign = -1.0 if self.pooling_ == "min" else 1.0
        return (
            segment_argmax(sign * scores.values, scores.offsets) - scores.offsets[:-1]
        )


def _score_piece(piece, model):
    return model._score_instances(piece.X)


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


class PooledRegression:
    """The objective on bags in memory, its linearization and its starts.

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
        center = self.share @ y
        if spread is None:
            spread = float(np.sqrt(self.share @ (y - center) ** 2)) or 1.0
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
        """Solve the ridge problem of the pooled values, linearized at ``(w, b)``."""
        return self.ridge(*self.linearized(w, b))

    def linearized(self, w, b):
        """Return a row and a target for each bag: the pooled value near ``(w, b)``."""
        scores = self.scores(w, b)
        rows, offsets = self.X.data, self.X.offsets
        if self.pooling == "mean":
            return self.mean_rows @ rows, self.y
        if self.pooling == "softmax":
            share = _shares(scores, offsets, self.alpha)
            pooled = segment_sum(share * scores, offsets)
            # Derivative of the pooled value with respect to a score. Over a bag the
            # derivatives sum to 1, so the intercept enters unchanged.
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
        """Minimize the mean squared error and the penalty over given rows."""
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
        # With almost no penalty and duplicate columns, some singular values are zero up
        # to rounding. The solution divides by them, so they are excluded.
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


class SummedRegression:
    """What `PooledRegression` is, for bags that are never in one place.

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
        """Solve the ridge problem of the pooled values, linearized at ``(w, b)``."""
        return self._ridge(
            self.pieces.sum(_linearized, w, b, self.settings, self.spread)
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
    return PooledRegression(piece.X, piece.y, piece.weight, settings, spread)


def _squared_error(piece, w, b, settings, spread):
    error, _ = _problem(piece, settings, spread).residuals(w, b)
    return float(piece.weight @ error**2)


def _linearized(piece, w, b, settings, spread):
    Z, target = _problem(piece, settings, spread).linearized(w, b)
    return _moments(Z, target, piece.weight)


def _means(piece, settings):
    means = _problem(piece, settings).mean_rows @ piece.X.data
    return _moments(means, piece.y, piece.weight)


def _drawn(piece, places, settings):
    return _moments(_problem(piece, settings).drawn(places), piece.y, piece.weight)
