"""Linear regression of bags: instance values, pooled."""

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise._compat import Interval, StrOptions
from bagwise.bags.chunks import Chunks, larger_than_a_piece
from bagwise.bags.segments import segment_argmax
from bagwise.base import BaseBagRegressor
from bagwise.linear_model._regression_problem import (
    Problem,
    SummedProblem,
    pool_values,
)

POOLINGS = ("mean", "max", "min", "softmax", "prime")
# A step is halved at most so often before the descent ends.
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
        How values of instances make the value of a bag.
    C : float, default=1.0
        Inverse strength of the penalty. The loss is a *mean* over bags: the same `C`
        means the same compromise whatever the number of bags.
    alpha : float, default=3.0
        Sharpness of the softmax.
    fit_intercept : bool, default=True
        Whether to fit :math:`b`. It is not penalised.
    n_init : int, default=4
        Number of starts, where the problem is not convex: the means of bags, then
        random instances; the lowest objective wins.
    max_iter : int, default=200
        Most steps from each start.
    tol : float, default=1e-7
        A start has converged when a step lowers the objective by less, relatively.
    random_state : int, RandomState instance or None, default=None
        Draws the random starts.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The direction :math:`w`.
    intercept_ : float
        The constant :math:`b`.
    objective_ : float
        Smallest value of the objective.
    objective_path_ : ndarray
        Objective after each step of the start that won; it never rises.
    n_iter_ : int
        Steps of that start.

    See Also
    --------
    bagwise.linear_model.MILogisticRegression : The same for two classes.

    Notes
    -----
    A step linearises the pooled values (at the maximum: takes the instance that is
    largest now), solves the ridge problem that is left, and goes as far towards its
    solution as the objective falls. "prime" trains on the instance that fits best,
    which at prediction is not known: the *median* of the instance values is predicted.
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
        tags.input_tags.units = "absolute"
        tags.input_tags.sparse = True
        tags.input_tags.duplicate_invariant = True
        tags.input_tags.in_pieces = True
        return tags

    def _fit_bags(self, X, y, weight):
        if larger_than_a_piece(X):
            self._fit_sums(Chunks(X, y, weight))
        else:
            self._minimise(Problem(X, y, weight, self))

    def _fit_sums(self, pieces):
        """Fit from sums over pieces of the bags."""
        self._minimise(SummedProblem(pieces, self))

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
        self._scale = problem.spread

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
                return *point, path, True  # no step lowers it
            gain = value - found
            point, value = trial, found
            path.append(value)
            if gain <= self.tol * abs(value):
                return *point, path, True
        return *point, path, False

    def _score_instances(self, X):
        if larger_than_a_piece(X):
            return np.concatenate(Chunks(X).each(_score_piece, self))
        return np.asarray(X.data @ self.coef_, dtype=np.float64) + self.intercept_

    def _predict_bags(self, X):
        scores = self._score_instances(X)
        if self.pooling == "prime":
            return np.array(
                [
                    np.median(scores[a:b])
                    for a, b in zip(X.offsets[:-1], X.offsets[1:], strict=True)
                ]
            )
        return pool_values(scores, X.offsets, self.pooling, self.alpha / self._scale)

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
        sign = -1.0 if self.pooling == "min" else 1.0
        return (
            segment_argmax(sign * scores.values, scores.offsets) - scores.offsets[:-1]
        )


def _score_piece(piece, model):
    return model._score_instances(piece.X)
