"""SAFE with built-in model selection that shares all work between folds."""

from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.model_selection import ParameterGrid, check_cv

from bagwise._compat import Interval, StrOptions, _fit_context
from bagwise.bags.segments import repeat
from bagwise.base import BagClassifierMixin, BaseBagEstimator, bag_folds
from bagwise.base.estimator import check_bag_weight
from bagwise.base.folds import kept_together, most_folds
from bagwise.least_squares._safe import SAFE
from bagwise.least_squares._safe_grid import grid_scores, make_folds, score_fold
from bagwise.least_squares.safe_problem import (
    LabelTargets,
    Settings,
    Training,
    mean_squared_distance,
)

# Squared widths of the default grid, in units of the mean squared distance.
_WIDTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
_SHARED = (
    *("rho_scale", "core", "aggregation", "kernel", "degree", "coef0"),
    *("n_components", "approximation", "landmarks", "class_weight"),
    *("max_iter", "tol", "random_state", "pos_label"),
)


class SAFECV(BagClassifierMixin, BaseBagEstimator):
    r"""SAFE with cross-validated kernel width, rho and variance weight.

    The result is that of :class:`~sklearn.model_selection.GridSearchCV` over
    :class:`SAFE` with the same grid and folds:

    .. math::
        \max_{g \in G,\; \rho \in R,\; c \in C} \;
        \frac1F \sum_{f=1}^F \mathrm{score}_f(g, \rho, c)

    where G is `gammas`, R is `rhos` and C is `variance_weights`. The work is shared:
    one kernel matrix per width for all folds, whose Lanczos vectors are columns of one
    matrix product; moments of training sets by subtraction for explicit features;
    leave-one-bag-out in closed form without variance weight.

    Parameters
    ----------
    gammas : sequence of float or str, default=None
        Kernel widths, as `gamma` of :class:`SAFE`. By default 1 / (c m) with m the
        mean squared distance of instances and c = 0.1, 0.3, 1, 3, 10 and 100.
    rhos : sequence of float, default=(0.3, 3.0, 30.0, 300.0)
        Values of `rho`.
    variance_weights : sequence of float, default=(0.0, 0.5, 0.9)
        Values of `variance_weight`.
    cv : int, splitter or iterable, default=None
        Folds, as in scikit-learn; by default five stratified ones, or as many as the
        smallest class has bags. Folds are formed by position: with another order of
        the bags, or with copies of a bag in place of its weight, other parameters may
        be chosen.
    scoring : str or callable, default=None
        Score of a fold; accuracy by default. Bags have their weight in it
        (`sample_weight` times `class_weight`).
    rho_scale, core, kernel, degree, coef0, n_components, approximation
        As in :class:`SAFE`.
    landmarks, class_weight, max_iter, tol, random_state
        As in :class:`SAFE`.
    aggregation : {"sum", "mean", "sqrt"}, default="sum"
        As in :class:`SAFE`.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.

    Attributes
    ----------
    best_estimator_ : SAFE
        Fitted on all bags with the best parameters.
    best_params_ : dict
        The best `gamma`, `rho` and `variance_weight`.
    best_score_ : float
        Its mean score over folds.
    best_index_ : int
        Its index in `cv_results_`; the first one if several are equal.
    cv_results_ : dict
        "params", "mean_test_score", "std_test_score", "split0_test_score", ..., in
        the order of :class:`~sklearn.model_selection.ParameterGrid`.
    classes_ : ndarray of shape (n_classes,)
        Labels.

    Notes
    -----
    Differs from [1]_: the paper searches inside a condition of convexity that cannot
    hold; here the variance weight is relative to the exact limit of every training
    fold. Sampled Nystroem landmarks are shared by all folds (a grid search samples them
    in each fold); with `landmarks`, Fourier features, the exact or the linear kernel
    the result is that of a grid search.

    Cost for n instances: one n**2 kernel per width, and with variance weight one
    product with it per Lanczos step, for all folds and rhos together.

    References
    ----------
    .. [1] Langone, R. and Suykens, J. A. K., "Supervised aggregated feature learning
       for multiple instance classification", Information Sciences, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.least_squares import SAFECV
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(40) % 2
    >>> X = [rng.normal(2 * label, 0.5, (3, 2)) for label in y]
    >>> float(SAFECV(rhos=[3.0, 30.0]).fit(X, y).best_score_)
    1.0
    """

    _parameter_constraints: dict = {
        "gammas": ["array-like", None],
        "rhos": ["array-like"],
        "variance_weights": ["array-like"],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        **{key: SAFE._parameter_constraints[key] for key in _SHARED[:-1]},
        "aggregation": [StrOptions({"sum", "mean", "sqrt"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        gammas=None,
        *,
        rhos=(0.3, 3.0, 30.0, 300.0),
        variance_weights=(0.0, 0.5, 0.9),
        cv=None,
        scoring=None,
        rho_scale="relative",
        core="auto",
        aggregation="sum",
        kernel="rbf",
        degree=3,
        coef0=1.0,
        n_components=None,
        approximation="nystroem",
        landmarks=None,
        class_weight=None,
        pos_label=None,
        max_iter=500,
        tol=1e-10,
        random_state=None,
    ):
        self.gammas = gammas
        self.rhos = rhos
        self.variance_weights = variance_weights
        self.cv = cv
        self.scoring = scoring
        self.rho_scale = rho_scale
        self.core = core
        self.aggregation = aggregation
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.approximation = approximation
        self.landmarks = landmarks
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.respects_standard_assumption = False
        tags.input_tags.order_invariant = False  # folds are formed by position
        return tags

    def _safe(self, **params):
        shared = {key: getattr(self, key) for key in _SHARED}
        return SAFE(**shared, **params)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Choose the parameters and fit with them on all bags.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : array-like of shape (n_bags,)
            One label per bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag, in training and in the scores of folds.

        Returns
        -------
        self
        """
        X, y = self._check_bags(X, y, reset=True)
        codes, settings = self._encode_labels(y), Settings.of(self)
        count = check_bag_weight(sample_weight, len(codes), X)
        used = self._used(codes, count)
        # Bags with zero weight are ignored; a splitter object splits all bags, as in
        # scikit-learn's searches.
        own_folds = self.cv is None or isinstance(self.cv, Integral)
        if own_folds and len(used) < len(codes):
            X, y, codes, count = X[used], y[used], codes[used], count[used]
        weight = self._bag_weight(codes, count)
        # The grid is fitted and scored with `classes_[1]` as the positive class.
        _, position = np.unique(y, return_inverse=True)
        columns = LabelTargets(len(self.classes_)).columns(position)
        values = self._grid(X, weight)
        folds = make_folds(
            position, count, self.classes_, self.class_weight, self._splits(X, y)
        )
        weighted = sample_weight is not None or self.class_weight is not None
        scores = grid_scores(
            settings,
            Training(X, columns, weight),
            folds,
            values,
            partial(
                score_fold,
                self.scoring,
                self.classes_,
                X,
                y,
                weight if weighted else None,
            ),
            fixed=self.class_weight != "balanced",
        )
        self._choose(*values, scores)
        self.best_estimator_ = self._safe(**self.best_params_)
        self.best_estimator_.fit(X, y, sample_weight=count)
        self.n_iter_ = self.best_estimator_.n_iter_
        return self

    def _grid(self, X, weight):
        """Return the checked values of the three parameters."""
        gammas = self.gammas
        if self.kernel == "linear":
            gammas = ["scale"]  # not used
        elif gammas is None:
            unit = mean_squared_distance(X.data, repeat(weight, X.offsets))
            gammas = [1.0 / (c * unit) for c in _WIDTHS]
        values = {
            "gammas": list(gammas),
            "rhos": list(self.rhos),
            "variance_weights": list(self.variance_weights),
        }
        for (name, items), key in zip(
            values.items(), ("gamma", "rho", "variance_weight"), strict=True
        ):
            if not items:
                raise ValueError(f"{name} is empty: give at least one value.")
            for value in items:
                self._safe(**{key: value})._validate_params()
        return values.values()

    def _splits(self, X, y):
        """Return the folds: groups, and copies of a bag, stay together."""
        cv = self.cv
        if cv is None:  # five, or as many as the smallest class allows
            cv = max(2, most_folds(X, y, 5))
        if isinstance(cv, Integral) and kept_together(X) is not None:
            return bag_folds(X, y, cv)
        return check_cv(cv, y, classifier=True).split(X, y, X.groups)

    def _choose(self, gammas, rhos, shares, scores):
        """Set the results in the order of a parameter grid over sorted names."""
        grid = {"gamma": gammas, "rho": rhos, "variance_weight": shares}
        flat = scores.reshape(-1, scores.shape[-1])
        params = list(ParameterGrid(grid))
        if self.kernel == "linear":
            params = [{k: v for k, v in p.items() if k != "gamma"} for p in params]
        self.cv_results_ = {
            "params": params,
            "mean_test_score": flat.mean(axis=1),
            "std_test_score": flat.std(axis=1),
            **{f"split{j}_test_score": flat[:, j] for j in range(flat.shape[1])},
        }
        self.best_index_ = int(np.argmax(self.cv_results_["mean_test_score"]))
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.best_params_ = params[self.best_index_]

    def _decide(self, X):
        return self.best_estimator_._decide(X)

    def _score_instances(self, X):
        return self.best_estimator_._score_instances(X)
