"""SAFE for real-valued labels of bags."""

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import _fit_context
from bagwise.bags.segments import repeat, segment_argmax
from bagwise.base import BaseBagRegressor
from bagwise.base.estimator import check_bag_weight
from bagwise.least_squares._safe import SAFE, BaseSAFE
from bagwise.least_squares.safe_fit import fit_bags
from bagwise.least_squares.safe_problem import (
    Settings,
    Training,
    ValueTargets,
    can_stream,
)


class SAFERegressor(BaseSAFE, BaseBagRegressor):
    r"""Predict a value of bags by sums of instance scores with large variance.

    The least squares of :class:`SAFE` with real :math:`y_k`: instance scores
    :math:`e_i = w'\phi(x_i) + b` minimize ([1]_, Eq. (1))

    .. math::
        \frac12 \|w\|^2 - \frac{\gamma}{2} \sum_i v_i (e_i - \bar y)^2
        + \frac{\rho}{2} \sum_k \Big(\sum_{i \in k} a_i e_i - y_k\Big)^2

    where :math:`\rho` comes from `rho`, :math:`\gamma` from `variance_weight`, the
    weights :math:`a_i` from `aggregation`, :math:`v_i` from `core`, and
    :math:`\bar y` is the mean of y (zero for the aggregations "sum" and "sqrt"). The
    prediction for a bag is :math:`\sum_{i \in k} a_i e_i`. The problem is convex
    exactly for :math:`\gamma < \gamma_{max}(\rho)`, as in :class:`SAFE`; the limit does
    not depend on y.

    Parameters
    ----------
    rho : float, default=30.0
        Weight of the bag residuals.
    variance_weight : float, default=0.0
        Share of :math:`\gamma_{max}` of the training bags that is given to the
        variance of instance scores, in [0, 1).
    variance_weight_abs : float, default=None
        The :math:`\gamma` itself, instead of `variance_weight`. An error with the
        value of :math:`\gamma_{max}` is raised if the problem is not convex.
    aggregation : {"sum", "mean", "sqrt", "max"}, default="mean"
        Bag value from instance scores: the mean (scores of instances are then in units
        of y), the sum (for totals that grow with the bag), a value in between, or the
        largest (not convex; found by alternation).
    loss : {"squared", "huber"}, default="squared"
        Loss of the bag residuals; "huber" by reweighted least squares.
    delta : float, default=1.0
        Residual, in units of y, at which the Huber loss becomes linear.
    rho_scale, core, kernel, gamma, degree, coef0, n_components
        As in :class:`SAFE`.
    approximation, landmarks, max_iter, tol, random_state
        As in :class:`SAFE`.

    Attributes
    ----------
    intercept_ : ndarray of shape (n_outputs,)
        Intercepts.
    dual_coef_ : ndarray of shape (n_outputs, n_instances)
        Coefficients of training instances; exact kernels only.
    coef_ : ndarray of shape (n_outputs, n_components)
        Weights of explicit features or, for the linear kernel, of the columns.
    rho_, gamma_max_, variance_weight_abs_, kernel_gamma_, core_
        As in :class:`SAFE`.
    n_iter_, objective_, objective_path_, moments_
        As in :class:`SAFE`.

    See Also
    --------
    SAFE : The classifier.
    bagwise.distributed.fit : The same fit from partitions on a cluster.

    Notes
    -----
    Adding a constant to y adds it to every prediction with the aggregations "mean" and
    "max"; with "sum" and "sqrt" the intercept counts the instances of a bag and cannot
    follow. Multiplying y multiplies the predictions, except under the Huber loss, whose
    `delta` has units. Several outputs share one factorization.

    Differs from [1]_, which is about classes: real targets, and the variance of
    instance scores is about the mean of y, without which a shift of y would change the
    fit. The cost is that of :class:`SAFE`.

    References
    ----------
    .. [1] Langone, R. and Suykens, J. A. K., "Supervised aggregated feature learning
       for multiple instance classification", Information Sciences, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.least_squares import SAFERegressor
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(4, 2)) for _ in range(40)]
    >>> y = [bag[:, 0].mean() for bag in X]
    >>> SAFERegressor(kernel="linear", rho=1e6).fit(X, y).coef_.round(3) + 0.0
    array([[1., 0.]])
    """

    _parameter_constraints: dict = {
        key: rule
        for key, rule in SAFE._parameter_constraints.items()
        if key not in ("class_weight", "pos_label")
    }

    def __init__(
        self,
        rho=30.0,
        *,
        variance_weight=0.0,
        variance_weight_abs=None,
        rho_scale="relative",
        core="auto",
        aggregation="mean",
        loss="squared",
        delta=1.0,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        n_components=None,
        approximation="nystroem",
        landmarks=None,
        max_iter=500,
        tol=1e-10,
        random_state=None,
    ):
        self.rho = rho
        self.variance_weight = variance_weight
        self.variance_weight_abs = variance_weight_abs
        self.rho_scale = rho_scale
        self.core = core
        self.aggregation = aggregation
        self.loss = loss
        self.delta = delta
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.approximation = approximation
        self.landmarks = landmarks
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        explicit = self.n_components is not None or self.landmarks is not None
        tags.input_tags.chunked = explicit or self.kernel == "linear"
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        # Random landmarks differ when instances are repeated.
        steady = self.aggregation in ("mean", "max") and self.rho_scale == "relative"
        tags.input_tags.duplicate_invariant = (
            True if steady and self.n_components is None else None
        )
        return tags

    def _fit_bags(self, X, y, weight):
        settings = Settings.of(self)
        self._forget()
        self._one_output = y.ndim == 1
        training = Training(X, ValueTargets.columns(y), weight)
        targets = self._targets(training.columns.shape[1])
        self._take(fit_bags(settings, training, targets))

    def _targets(self, n_columns):
        # The last column contains ones, with which the mean is removed.
        return ValueTargets(n_columns - 1, self.aggregation in ("mean", "max"))

    @available_if(can_stream)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, sample_weight=None):
        """Add bags to the training set.

        The result is that of `fit` on all bags so far, on the same features: those
        of `fit`, or of the first chunk (its kernel width, its landmarks), unless
        `gamma` and `landmarks` are given as numbers.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            More training bags.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs)
            Their values.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag, as if it were repeated.

        Returns
        -------
        self
        """
        started = hasattr(self, "moments_")
        X, y = self._check_bags(X, y, reset=not started)
        weight = check_bag_weight(sample_weight, len(y), X)
        training = Training(X, ValueTargets.columns(y), weight)
        targets = self._targets(training.columns.shape[1])
        if started and targets.n_outputs != len(self.intercept_):
            raise ValueError(
                f"y has {targets.n_outputs} column(s), earlier bags had "
                f"{len(self.intercept_)}."
            )
        if not started:
            self._forget()
            self._one_output = y.ndim == 1
        self._extend(training, targets)
        return self

    def _predict_bags(self, X):
        check_is_fitted(self, "intercept_")
        return self._shaped(self._bag_matrix(self._instance_matrix(X), X.offsets))

    def _score_instances(self, X):
        check_is_fitted(self, "intercept_")
        return self._shaped(self._instance_matrix(X))

    def _shaped(self, matrix):
        return matrix[:, 0] if self._one_output else matrix

    def key_instances(self, X):
        """Return the instance that decides, for each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_outputs)
            Position inside its bag of the instance with the largest share of the
            prediction: the highest score, or the lowest where a sum or a mean of
            scores is negative.
        """
        scores = self.instance_scores(X)
        values, offsets = scores.values, scores.offsets
        if self.aggregation_ != "max":
            sign = np.where(self.predict(X) < 0, -1.0, 1.0)
            values = values * repeat(sign, offsets)
        first = offsets[:-1]
        rows = segment_argmax(values, offsets)
        return rows - (first if rows.ndim == 1 else first[:, None])
