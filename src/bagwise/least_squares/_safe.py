"""SAFE: supervised aggregated feature learning."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, StrOptions, _fit_context
from bagwise.bags.segments import segment_max, segment_sum
from bagwise.base import BagClassifierMixin, BaseBagEstimator
from bagwise.least_squares._safe_grid import candidate_scores
from bagwise.least_squares._safe_kernel import kernel_scores
from bagwise.least_squares.safe_fit import fit_bags, solve_moments
from bagwise.least_squares.safe_moments import (
    FeatureMap,
    IdentityFeatures,
    features_from,
    linear_scores,
    project,
)
from bagwise.least_squares.safe_problem import (
    LabelTargets,
    Settings,
    Training,
    aggregation_weights,
    can_stream,
)

# Fitted attribute -> field of a solution; attributes without a value are removed.
_ATTRIBUTES = {
    "kernel_gamma_": "kernel_gamma",
    "core_": "core",
    "rho_": "rho",
    "variance_weight_abs_": "gamma",
    "n_iter_": "n_iter",
    "intercept_": "intercept",
    "coef_": "coef",
    "dual_coef_": "dual_coef",
    "features_": "features",
    "X_fit_": "X_fit",
    "moments_": "moments",
    "objective_": "objective",
    "objective_path_": "objective_path",
}
# Values of parameters that prediction needs.
_OF_PARAMETERS = ("kernel_params_", "aggregation_")


class BaseSAFE(BaseBagEstimator):
    """Least squares on sums over bags, fitted by `fit_bags` or from moments."""

    def _forget(self):
        """Remove what an earlier fit left behind."""
        for name in (*_ATTRIBUTES, *_OF_PARAMETERS, "_gamma_max", "_border"):
            if hasattr(self, name):
                delattr(self, name)

    def _take(self, solution):
        """Set the fitted attributes."""
        self._forget()
        for name, field in _ATTRIBUTES.items():
            value = getattr(solution, field)
            if value is not None:
                setattr(self, name, value)
        settings = Settings.of(self).with_kernel(self.kernel_gamma_)
        self.kernel_params_ = settings.kernel_params
        self.aggregation_ = self.aggregation
        self._gamma_max, self._border = solution.gamma_max, solution.border

    def _extend(self, training, targets, *, solve=True):
        """Add the moments of more bags and solve; features stay what they were."""
        settings = Settings.of(self)
        if settings.core == "ksc" and settings.rule.needed:
            raise ValueError(
                "core='ksc' with variance weight needs the degrees of all instances "
                "before the first bag. Use core='kpca', or bagwise.distributed.fit, "
                "which passes over the parts twice."
            )
        started = hasattr(self, "moments_")
        if started:
            settings = settings.with_kernel(self.kernel_gamma_, self.core_)
            features = self.features_
        else:
            settings = settings.resolved(training.X, training.weight)
            features = features_from(settings, training.X)
        moments = FeatureMap(settings, features).moments(
            training, instance=settings.core == "kpca"
        )
        if started:
            moments = self.moments_ + moments
        if solve:
            self._take(solve_moments(settings, features, moments, targets))
        else:
            self.kernel_gamma_, self.core_ = settings.gamma, settings.core
            self.features_, self.moments_ = features, moments

    @property
    def gamma_max_(self):
        """Border of convexity for the training bags."""
        check_is_fitted(self, "intercept_")
        if self._gamma_max is None:
            if self._border is None:
                raise AttributeError(
                    "gamma_max_ of core='ksc' is not defined: degrees of instances "
                    "are not positive. Use core='kpca'."
                )
            self._gamma_max = self._border.gamma_max()
        return self._gamma_max

    def _instance_matrix(self, X):
        """Scores of all instances, one column for each output."""
        if hasattr(self, "X_fit_"):
            expansion = self.dual_coef_, self.intercept_
            return kernel_scores(X, self.X_fit_, self.kernel_params_, *expansion)
        if isinstance(self.features_, IdentityFeatures):
            return linear_scores(X, self.coef_, self.intercept_)
        return project(self.features_, X, np.vstack([self.coef_.T, self.intercept_]))

    def _bag_matrix(self, e, offsets):
        """Scores of bags, from those of their instances."""
        if self.aggregation_ == "max":
            return segment_max(e, offsets)
        weight = aggregation_weights(self.aggregation_, offsets)
        return segment_sum(weight[:, None] * e, offsets)

    @staticmethod
    def _output(matrix):
        """Return one column as a vector."""
        return matrix[:, 0] if matrix.shape[1] == 1 else matrix


class SAFE(BagClassifierMixin, BaseSAFE):
    r"""Classify bags by sums of instance scores with large variance.

    Instance scores :math:`e_i = w'\phi(x_i) + b` minimize ([1]_, Eq. (1))

    .. math::
        \frac12 \|w\|^2 - \frac{\gamma}{2} \sum_i v_i e_i^2
        + \frac{\rho}{2} \sum_k \Big(\sum_{i \in k} a_i e_i - y_k\Big)^2

    where :math:`y_k` is -1 or +1 (one column per class when there are more than two),
    :math:`\rho` comes from `rho`, :math:`\gamma` from `variance_weight`, the weights
    :math:`a_i` from `aggregation` and :math:`v_i` from `core`: one, or the reciprocal
    of the instance's degree :math:`\sum_j k(x_i, x_j)`. A bag's decision value is
    :math:`\sum_{i \in k} a_i e_i`. The problem is convex exactly for
    :math:`\gamma < \gamma_{max}(\rho)`, the reciprocal of the largest eigenvalue of
    the scores' covariance that bag sums leave undetermined.

    Parameters
    ----------
    rho : float, default=30.0
        Weight of the bag residuals.
    variance_weight : float, default=0.0
        Share of :math:`\gamma_{max}` of the training bags that is given to the
        variance of instance scores, in [0, 1). Above 0.99 noise is amplified.
    variance_weight_abs : float, default=None
        The paper's :math:`\gamma` itself, instead of `variance_weight`. An error with
        the value of :math:`\gamma_{max}` is raised if the problem is not convex.
    rho_scale : {"relative", "absolute"}, default="relative"
        "relative" divides `rho` by the mean of :math:`(\sum_i a_i)^2` over bags (at
        most ten times its geometric mean, so that a few very large bags do not decide)
        and by the spread of the kernel (mean diagonal minus mean): good values do not
        depend on the kernel or on the sizes of bags. "absolute" uses `rho` unchanged.
    core : {"auto", "ksc", "kpca"}, default="auto"
        Kernel spectral clustering or kernel PCA weights :math:`v_i`. It has an effect
        only with a variance weight. "auto" is "ksc" for the exact RBF kernel, else
        "kpca".
    aggregation : {"sum", "mean", "sqrt", "max"}, default="sum"
        Bag score from instance scores: :math:`a_i` of one, :math:`1/N_k`,
        :math:`1/\sqrt{N_k}`, or the largest score of the bag (not convex: found by
        alternating between witnesses and least squares, the best is kept).
    loss : {"squared", "huber"}, default="squared"
        Loss of the bag residuals; "huber" by reweighted least squares.
    delta : float, default=1.0
        Residual at which the Huber loss becomes linear.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        Kernel of instances.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Width of the kernel; not the paper's :math:`\gamma`.
    degree, coef0 : float, default=3 and 1.0
        Parameters of the polynomial kernel.
    n_components : int, default=None
        Number of explicit features that replace the exact kernel.
    approximation : {"nystroem", "rff"}, default="nystroem"
        Landmarks sampled from the training instances, or random Fourier features.
    landmarks : array-like of shape (n_landmarks, n_features), default=None
        Landmarks to use instead of a random sample.
    class_weight : dict or "balanced", default=None
        Weights of the classes: the same as this `sample_weight` for all of their bags.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    max_iter : int, default=500
        Maximum number of Lanczos steps, or of systems for Huber and max.
    tol : float, default=1e-10
        Relative residual of Lanczos; relative decrease of the objective.
    random_state : int, RandomState or None, default=None
        Random seed of landmarks and Fourier features.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    intercept_ : ndarray of shape (n_outputs,)
        Intercepts; one output for two classes, else one per class.
    dual_coef_ : ndarray of shape (n_outputs, n_instances)
        Coefficients of training instances; exact kernels only.
    coef_ : ndarray of shape (n_outputs, n_components)
        Weights of explicit features or, for the linear kernel, of the columns.
    rho_ : float
        The :math:`\rho` of the equation.
    gamma_max_ : float
        Limit of convexity, by ARPACK. Computed on first access if the fit did not
        need it.
    variance_weight_abs_ : float
        The :math:`\gamma` of the equation.
    kernel_gamma_ : float
        Width of the kernel.
    core_ : str
        The core used.
    n_iter_ : int
        Lanczos steps, or systems solved in an alternation.
    objective_, objective_path_ : ndarray, list of list
        Best objective and its path per output; "huber" and "max" only.
    moments_ : Moments
        Additive moments, after a fit on explicit features.

    See Also
    --------
    SAFECV : Chooses `gamma`, `rho` and `variance_weight`.
    bagwise.distributed.fit : The same fit from partitions on a cluster.

    Notes
    -----
    Differs from [1]_: the printed dual system, Eq. (5), lacks an identity matrix and
    solves another problem; here the optimality conditions themselves are solved. The
    paper's condition for convexity cannot hold for a bag of two or more instances; the
    exact one is used, :math:`\gamma` is relative to it, and a saddle point is never
    returned. Weights of bags, several classes, mean and maximum aggregation, the Huber
    loss and explicit features are additions. With the Huber loss and variance weight
    the objective has no global minimum (the loss grows only linearly); the local
    minimum next to the least-squares solution is found. A bag of weight two is the same
    as a bag that is given twice, in both sums and in the unit of `rho`.

    Cost with n instances, K bags and m explicit features: the exact kernel takes
    n**2 memory and time (times Lanczos steps with variance weight) plus K**3; explicit
    features n m**2 time and m**2 memory; a wide linear kernel never forms more than
    K x K, plus products with the data.

    References
    ----------
    .. [1] Langone, R. and Suykens, J. A. K., "Supervised aggregated feature learning
       for multiple instance classification", Information Sciences, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.least_squares import SAFE
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(40) % 2
    >>> X = [rng.normal(2 * label, 0.5, (3, 2)) for label in y]
    >>> float(SAFE(variance_weight=0.5).fit(X, y).score(X, y))
    1.0
    """

    _parameter_constraints: dict = {
        "rho": [Interval(Real, 0, None, closed="neither")],
        "variance_weight": [Interval(Real, 0, 1, closed="left")],
        "variance_weight_abs": [Interval(Real, 0, None, closed="left"), None],
        "rho_scale": [StrOptions({"relative", "absolute"})],
        "core": [StrOptions({"auto", "ksc", "kpca"})],
        "aggregation": [StrOptions({"sum", "mean", "sqrt", "max"})],
        "loss": [StrOptions({"squared", "huber"})],
        "delta": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"rbf", "linear", "poly"})],
        "gamma": [
            StrOptions({"scale", "auto", "median"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "degree": [Interval(Real, 1, None, closed="left")],
        "coef0": [Interval(Real, 0, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "approximation": [StrOptions({"nystroem", "rff"})],
        "landmarks": ["array-like", "sparse matrix", None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        rho=30.0,
        *,
        variance_weight=0.0,
        variance_weight_abs=None,
        rho_scale="relative",
        core="auto",
        aggregation="sum",
        loss="squared",
        delta=1.0,
        kernel="rbf",
        gamma="scale",
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
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        explicit = self.n_components is not None or self.landmarks is not None
        tags.input_tags.chunked = explicit or self.kernel == "linear"
        # Relative rho compensates the growth of sums; random landmarks differ.
        tags.input_tags.duplicate_invariant = (
            True
            if self.aggregation in ("mean", "max")
            and self.rho_scale == "relative"
            and self.n_components is None
            else None
        )
        tags.input_tags.respects_standard_assumption = False
        tags.input_tags.asymmetric = self.aggregation == "max"
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit on bags.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : array-like of shape (n_bags,)
            One label per bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag, as if it were repeated; zero excludes it.

        Returns
        -------
        self
        """
        settings = Settings.of(self)
        X, codes, weight = self._training(X, y, sample_weight)
        self._forget()
        targets = self._targets(len(self.classes_))
        training = Training(X, targets.columns(codes), weight)
        self._take(fit_bags(settings, training, targets))
        return self

    def _targets(self, n_columns):
        return LabelTargets(n_columns)

    @available_if(can_stream)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Add bags to the training set.

        The result is that of `fit` on all bags so far, on the same features: those
        of `fit`, or of the first chunk (its kernel width, its landmarks), unless
        `gamma` and `landmarks` are given as numbers.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            More training bags.
        y : array-like of shape (n_bags,)
            Their labels. Labels not seen before become new classes.
        classes : array-like, default=None
            All labels that may occur, if known.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag, as if it were repeated.

        Returns
        -------
        self
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' is not known before all bags are seen; give "
                "partial_fit a dict of class weights."
            )
        started = hasattr(self, "moments_")
        X, y = self._check_bags(X, y, reset=not started)
        if not started:
            self._forget()
            if hasattr(self, "classes_"):
                del self.classes_
        codes = self._merge_classes(y, classes)
        targets = self._targets(len(self.classes_))
        weight = self._bag_weight(codes, sample_weight)
        training = Training(X, targets.columns(codes), weight)
        # No model can be fitted until there are two classes.
        self._extend(training, targets, solve=len(self.classes_) > 1)
        return self

    def _score_candidates(self, candidates, X, y, splits, scoring):
        return candidate_scores(self, candidates, X, y, splits, scoring)

    def _merge_classes(self, y, classes):
        """Extend `classes_` by new labels; moments seen so far follow."""
        check_classification_targets(y)
        new = np.unique(y) if classes is None else np.unique(classes)
        if classes is not None and not np.isin(y, new).all():
            strange = np.setdiff1d(y, new)[0]
            raise ValueError(f"y holds {strange}, which is not among classes={new}.")
        old = new  # in the order of their codes
        if hasattr(self, "classes_"):
            old = self._labels_of(np.arange(len(self.classes_)))
        self.classes_ = np.union1d(old, new)
        if len(self.classes_) > 1:
            self._choose_positive()
        if hasattr(self, "moments_") and len(self.classes_) > len(old):
            place = self._codes_of(old)
            self.moments_ = self.moments_.with_columns(place, len(self.classes_))
        return self._codes_of(y)

    def _check_solved(self):
        if hasattr(self, "moments_") and not hasattr(self, "intercept_"):
            raise ValueError(
                f"Only one class was seen so far: {self.classes_[0]}. Pass bags of "
                "another class, or classes=, to partial_fit."
            )
        check_is_fitted(self, "intercept_")

    def _decide(self, X):
        self._check_solved()
        return self._output(self._bag_matrix(self._instance_matrix(X), X.offsets))

    def _score_instances(self, X):
        self._check_solved()
        return self._output(self._instance_matrix(X))
