"""Support vector classification on a power of box counts."""

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from bagwise._compat import HasMethods, Interval, StrOptions
from bagwise.bags import Bags
from bagwise.base import MulticlassBagClassifier, bag_folds
from bagwise.base.folds import most_folds
from bagwise.kernels import box_kernel
from bagwise.kernels.box.features import make_grid
from bagwise.kernels.box.grid import STRATEGIES
from bagwise.kernels.box.kernel import METHODS, log_self_counts
from bagwise.kernels.box.sampling import STOP_RULES
from bagwise.kernels.reuse import reused
from bagwise.svm._pairwise import class_scores, pair_cuts, solve_pairs


class BoxKernelSVC(MulticlassBagClassifier):
    r"""Support vector classifier on the empirical map of the box-counting kernel.

    With :math:`k(P, Q)` the number of boxes that hold a point of both bags
    (`bagwise.kernels.box_kernel`) and training bags :math:`R_1, \dots, R_n`, a bag is
    mapped to ([1]_, Sections 5.3 and 6.4)

    .. math::
        F(P) = \Big( \Big( \frac{k(P, R_j)}{\sqrt{k(P, P)\, k(R_j, R_j)}} \Big)^\rho
        \Big)_{j = 1..n}, \qquad K(P, Q) = \frac{F(P) \cdot F(Q)}{m}

    and an SVM is trained on :math:`K`, where :math:`\rho` is `rho`
    and :math:`m` the mean of :math:`F(R_j) \cdot F(R_j)`. Without `normalize` the
    denominator of the counts is the largest training count.

    Parameters
    ----------
    C : float, default=10.0
        Weight of the loss. With the mean diagonal at 1, C=1 is what SVM-light takes.
    rho : float or "auto", default="auto"
        Power of the counts. "auto" is 1/50, the choice of [1]_ for counts that differ
        by 50 orders of magnitude; where the median of minus the logarithm of the
        normalized off-diagonal counts is below 50 (data of low contrast), 1 over it.
    normalize : bool, default=True
        Cosine normalization of the counts.
    grid : {"width", "integer", "rank", "quantile"}, BoxGrid or None, default=None
        The grid, fitted on the training bags. None: ``BoxGrid()``.
    epsilon, delta : float in (0, 1), default=0.1, 0.01
        Precision of each count. With a small `rho` a relative error epsilon of the
        count is one of rho * epsilon in the map: 0.5 is often enough.
    method, stop, max_samples : default="auto", "clt", 1_000_000
        How boxes are counted; see `bagwise.kernels.box_kernel`.
    max_instances : int or None, default=20_000
        More training instances are refused before any work, since counting boxes for
        all pairs of bags then takes hours; None for no limit.
    fit_intercept : bool, default=True
        Whether to fit an intercept; see `BagSVC`.
    threshold : {"cv", "train", "zero"}, default="cv"
        Decision threshold of each pair of classes, by its intercept: where a sigmoid
        fitted to out-of-fold scores ("cv"; boxes are not counted again) or to training
        scores ("train") equals one half, or the intercept of the SVM ("zero"), which
        predicts a rare class too rarely. Without an intercept it is always zero.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    tol : float, default=1e-4
        Tolerance of the solver, libsvm.
    random_state : int, RandomState instance or None, default=None
        Seed of the random boxes.
    n_jobs : int, default=None
        Processes that share the pairs of bags.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    grid_ : BoxGrid
        The fitted grid.
    bags_fit_ : Bags
        The training bags, which the map needs.
    normalize_ : bool
        Whether counts are normalized.
    count_params_ : dict
        How boxes are counted, as keywords of `bagwise.kernels.box_kernel`.
    log_self_ : ndarray of shape (n_bags,)
        Log counts of the training bags with themselves.
    rho_ : float
        The power.
    coef_ : ndarray of shape (n_bags, n_pairs)
        Weights of the coordinates of the map: one column for two classes, else one
        for each pair of classes.
    intercept_ : ndarray of shape (n_pairs,)
        The intercepts.
    report_ : BoxKernelReport
        How the training counts were obtained.
    n_iter_ : int
        Steps of the solver.

    See Also
    --------
    transductive_box_svc : The map over training and test bags.
    bagwise.svm.BagSVC : With ``kernel="box"``, on the counts themselves: for other
        solvers or searches on one kernel matrix. This class is the usual choice.

    Notes
    -----
    Differs from [1]_: counts are cosine-normalized by default, which was better on
    Musk; the power adapts to data of low contrast; libsvm replaces SVM-light; the
    decision threshold is chosen by `threshold`. The method of [1]_ is
    ``normalize=False, rho=0.02, threshold="zero"``.
    The matrix is positive semi-definite, regardless of errors of the counts. More than
    two classes are trained in pairs. A bag of weight two is not the same as a bag that
    is given twice, which is two coordinates of the empirical map. Cost:
    ``n_bags ** 2 / 2`` box counts to fit, ``n_bags`` for each bag to predict.

    References
    ----------
    .. [1] Tao, Q., Scott, S., Vinodchandran, N. V. and Osugi, T. T., "SVM-based
       generalized multiple-instance learning via approximate box counting", ICML
       2004. :doi:`10.1145/1015330.1015405`

    Examples
    --------
    >>> from bagwise.datasets import make_generalized_bags
    >>> from bagwise.svm import BoxKernelSVC
    >>> X, y = make_generalized_bags(60, random_state=0)
    >>> BoxKernelSVC(random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "rho": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "normalize": ["boolean"],
        "grid": [StrOptions(set(STRATEGIES)), HasMethods(["fit", "transform"]), None],
        "epsilon": [Interval(Real, 0, 1, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "method": [StrOptions(set(METHODS))],
        "stop": [StrOptions(set(STOP_RULES))],
        "max_samples": [Interval(Integral, 1, None, closed="left")],
        "max_instances": [Interval(Integral, 1, None, closed="left"), None],
        "fit_intercept": ["boolean"],
        "threshold": [StrOptions({"cv", "train", "zero"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        C=10.0,
        *,
        rho="auto",
        normalize=True,
        grid=None,
        epsilon=0.1,
        delta=0.01,
        method="auto",
        stop="clt",
        max_samples=1_000_000,
        max_instances=20_000,
        fit_intercept=True,
        threshold="cv",
        class_weight=None,
        pos_label=None,
        tol=1e-4,
        random_state=None,
        n_jobs=None,
    ):
        self.C = C
        self.rho = rho
        self.normalize = normalize
        self.grid = grid
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.stop = stop
        self.max_samples = max_samples
        self.max_instances = max_instances
        self.fit_intercept = fit_intercept
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "no"
        # Bags are sets of grid points, but quantiles depend on repeated values.
        strategy = getattr(self.grid, "strategy", self.grid)
        if strategy is None or strategy in ("width", "integer", "rank"):
            tags.input_tags.duplicate_invariant = True
        tags.input_tags.respects_standard_assumption = False
        if self.threshold == "cv":
            tags.input_tags.order_invariant = False  # folds depend on positions
        return tags

    def _fit_codes(self, X, codes, weight):
        logs = self._count(X)
        self._prepare(X, logs)
        self._solve(self._map(logs, self.log_self_, self.log_self_), X, codes, weight)

    def _training(self, X, y, sample_weight=None):
        """Check the input; the grid is made of bags that count."""
        X, codes, weight = super()._training(X, y, sample_weight)
        if self.max_instances is not None and X.n_instances > self.max_instances:
            raise ValueError(
                f"boxes would be counted for {len(X) * (len(X) + 1) // 2:,} pairs of "
                f"bags with {X.n_instances:,} instances, which takes hours "
                f"(max_instances={self.max_instances:,}). Take random boxes as features"
                ", make_pipeline(RandomBoxFeatures(1000), LinearSVC()), or fit on fewer"
                " bags; max_instances=None removes this limit."
            )
        self.grid_ = make_grid(self.grid, X)
        self.normalize_ = self.normalize
        self.count_params_ = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "method": self.method,
            "stop": self.stop,
            "max_samples": self.max_samples,
            "random_state": int(
                check_random_state(self.random_state).randint(2**31 - 1)
            ),
        }
        return X, codes, weight

    def _settings(self):
        return {"grid": self.grid_, "n_jobs": self.n_jobs, **self.count_params_}

    def _count(self, X):
        options = {**self._settings(), "return_report": True}
        logs, self.report_ = reused(box_kernel, X, **options)
        return logs

    def _prepare(self, X, logs):
        """Remember the reference bags and choose the power."""
        self.bags_fit_ = X
        self.log_self_ = np.diag(logs).copy()
        if self.rho != "auto":
            self.rho_ = float(self.rho)
            return
        half = self.log_self_ / 2.0
        contrast = half[:, None] + half[None, :] - logs
        typical = np.median(contrast[~np.eye(len(logs), dtype=bool)])
        self.rho_ = float(max(0.02, 1.0 / typical)) if typical > 0.0 else 1.0

    def _map(self, logs, row_self, col_self):
        """Return the empirical map of log counts, in the range of floats throughout."""
        if self.normalize_:
            logs = logs - row_self[:, None] / 2.0 - col_self[None, :] / 2.0
        else:
            logs = logs - self.log_self_.max()
        return np.exp(self.rho_ * logs)

    def _solve(self, F, X, codes, weight):
        scale = np.einsum("ij,ij->", F, F) / len(F)  # mean of the diagonal of F F'
        K = F @ F.T / scale
        settings = {"fit_intercept": self.fit_intercept, "tol": self.tol}
        alpha, self.intercept_, self.n_iter_ = solve_pairs(
            K, codes, self.C, weight, **settings
        )
        self.coef_ = F.T @ alpha / scale
        if not self.fit_intercept or self.threshold == "zero":
            return
        scores = K @ alpha + self.intercept_
        n_splits = most_folds(X, codes)
        if self.threshold == "cv" and n_splits > 1:
            for train, test in bag_folds(X, codes, n_splits):
                part = np.ascontiguousarray(K[np.ix_(train, train)])
                alpha, intercept, _ = solve_pairs(
                    part, codes[train], self.C, weight[train], **settings
                )
                scores[test] = K[np.ix_(test, train)] @ alpha + intercept
        self.intercept_ = self.intercept_ - pair_cuts(scores, codes, weight)

    def _decide(self, X):
        logs = reused(box_kernel, X, self.bags_fit_, **self._settings())
        own = reused(log_self_counts, X, **self._settings())
        return self._join(self._map(logs, own, self.log_self_))

    def _join(self, F):
        scores = F @ self.coef_ + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else class_scores(scores)


class TransductiveResult(NamedTuple):
    """Answer of `transductive_box_svc` for the test bags."""

    classes: np.ndarray
    decision_function: np.ndarray
    predictions: np.ndarray


def transductive_box_svc(X, y, X_test, *, sample_weight=None, **params):
    """Classify known test bags with the empirical map over training and test bags.

    The coordinates of the map are the similarities to all bags, and need no labels
    ([1]_, Section 5.3: *transduction*). The test bags must be known when the model is
    trained, therefore this is a function and not an estimator.

    Parameters
    ----------
    X : Bags or sequence of 2-D arrays
        The training bags.
    y : array-like of shape (n_bags,)
        One label per training bag.
    X_test : Bags or sequence of 2-D arrays
        The bags to classify.
    sample_weight : array-like of shape (n_bags,), default=None
        Weight of each training bag in the loss.
    **params
        Parameters of `BoxKernelSVC`.

    Returns
    -------
    TransductiveResult
        With the fields `classes`, `decision_function` and `predictions`.

    See Also
    --------
    BoxKernelSVC : The inductive classifier.

    Notes
    -----
    Differs from [1]_: as `BoxKernelSVC` does. The grid is fitted on the training bags.
    Cost: ``(n_bags + n_test) ** 2 / 2`` box counts.

    References
    ----------
    .. [1] Tao, Q., Scott, S., Vinodchandran, N. V. and Osugi, T. T., "SVM-based
       generalized multiple-instance learning via approximate box counting", ICML
       2004. :doi:`10.1145/1015330.1015405`

    Examples
    --------
    >>> from bagwise.datasets import make_generalized_bags
    >>> from bagwise.svm import transductive_box_svc
    >>> X, y = make_generalized_bags(60, random_state=0)
    >>> result = transductive_box_svc(X[:40], y[:40], X[40:], random_state=0)
    >>> result.predictions.shape
    (20,)
    """
    model = BoxKernelSVC(**params)
    model._validate_params()
    X, codes, weight = model._training(X, y, sample_weight)
    X_test = model._check_bags(X_test, reset=False)
    every = Bags.concatenate(
        [Bags(X.data, X.offsets), Bags(X_test.data, X_test.offsets)]
    )
    logs = model._count(every)
    model._prepare(every, logs)
    F = model._map(logs, model.log_self_, model.log_self_)
    n = len(codes)
    model._solve(F[:n], X, codes, weight)
    scores = model._outside(model._join(F[n:]))
    position = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return TransductiveResult(model.classes_, scores, model.classes_[position])
