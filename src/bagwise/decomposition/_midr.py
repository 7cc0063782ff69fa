"""Multi-instance dimensionality reduction."""

from numbers import Integral, Real

import numpy as np
from scipy.special import expit
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, RealNotInt, StrOptions, _fit_context
from bagwise.bags import as_bags
from bagwise.base import BagTransformerMixin, MulticlassBagClassifier, ProbabilityMixin
from bagwise.base.thresholds import sigmoid_threshold
from bagwise.decomposition._solver import (
    PENALTIES,
    MIDRObjective,
    minimize_on_manifold,
    soft_threshold,
)
from bagwise.decomposition._start import (
    InstanceCovariance,
    canonical_form,
    resolve_n_components,
    starts,
)
from bagwise.linear_model.loss import (
    LOSSES,
    BagLoss,
    column_means,
    linear_scores,
    precise,
)
from bagwise.linear_model.milr import (
    LINEAR_POOLINGS,
    SYMMETRIC_POOLINGS,
    warn_unless_converged,
)
from bagwise.linear_model.pooling import bag_logit, pool, sharpness

_LOW_DIMENSION = 10


class MIDR(
    ClassNamePrefixFeaturesOutMixin,
    BagTransformerMixin,
    ProbabilityMixin,
    MulticlassBagClassifier,
):
    r"""Project instances so that bags are easy to separate.

    Learns a projection :math:`A` with orthonormal columns together with a logistic
    model of the projected instances ([1]_, Eq. (10) after minimizing over :math:`H`):

    .. math::
        \min_{A'A = I,\, W,\, b}\ \frac{1}{\sum_i \omega_i} \sum_i \omega_i \sum_k
            \ell(P_{ik}, y_{ik}) + \frac{1}{2C} \|W\|^2 + C_1 \sum_{st} \rho(A_{st}),

        P_{ik} = \mathrm{pool}_{j,h}\ \sigma\bigl(w_{kh}'A'(x_{ij} - \bar x)
            + b_{kh}\bigr)

    where :math:`A` has `n_components` columns, :math:`C` is `C`, :math:`C_1` is `C1`,
    :math:`\rho` is the Huber function that turns from quadratic to linear at `tau` (the
    paper's :math:`C_1 / C_2`), the pooling is `pooling` with sharpness `alpha`, and
    :math:`\ell` is `loss`. The index :math:`k` runs over the classes (a single output
    for two classes) and :math:`h` over `n_hypotheses` directions: a bag belongs to a
    class if *any* pair of an instance and a direction has a high score.

    Parameters
    ----------
    n_components : float or int, default=0.3
        Number of columns, or their share of the number of features. A share gives at
        least one column, and at least ``n_classes - 1`` where there are so many
        features.
    C1 : float, default=0.001
        Strength of the sparsity penalty, relative to the *mean* loss of a bag. The
        paper sums the loss; its parameter is `C1` times the number of bags.
    tau : float, default=0.1
        Entries of the projection smaller than this are zero in `sparse_components_`.
        The paper's pairs with :math:`C_1 \ge C_2` (`tau` of one or more) have no
        effect: entries never exceed one, and the penalty is then constant.
    C : float, default=10.0
        Inverse strength of the ridge on the logistic model, as in
        :class:`~bagwise.linear_model.MILogisticRegression`.
    alpha, pooling, loss : as in :class:`~bagwise.linear_model.MILogisticRegression`
        How scores of instances are combined into the probability of a bag, and its
        loss.
    n_hypotheses : int, default=1
        Directions that share one output.
    penalty : {"huber", "smooth_l1"}, default="huber"
        The penalty above, or :math:`C_1 \sum \sqrt{A_{st}^2 + 10^{-6}}` (Eq. (5)).
    init : {"milr", "pca", "random"}, default="milr"
        Start from the logistic model on all features, completed by principal
        directions of the rest or, with ``C1 > 0``, by the features that explain most of
        the rest (the penalty turns columns towards single features); from principal
        directions; or at random.
    n_init : int or "auto", default="auto"
        Number of starts; those after the first are random, the lowest objective is
        kept.
        ``"auto"``: 5 with at most 10 features and ``C1 > 0``, else 1. The logistic
        model of each start has its own restarts.
    threshold : {"train", "zero"}, default="train"
        Decision threshold of the log-odds with two classes: where a sigmoid fitted to
        training scores equals one half, or a probability of 1/2, which all bags or no
        bags may exceed, because the ridge shrinks the scores. The projection does not
        depend on it.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with `sample_weight`.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    max_iter : int, default=1000
        Largest number of iterations from each start.
    tol : float, default=1e-6
        Stop when no entry of the gradient is larger, or when five successive
        iterations lower the objective by a smaller share.
    random_state : int, RandomState instance or None, default=None
        Random seed of the starts.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, used by `transform`. Their largest entries are positive.
        With ``C1=0`` the first rows span the directions of the scores (for two
        classes, row 0 is that direction) and the rest are principal directions of
        what remains; otherwise rows are in the order of their use by the scores.
    sparse_components_ : ndarray of shape (n_components, n_features)
        The rows above with every entry shrunk by `tau` (Eq. (12)): sparse, but not
        orthonormal.
    direction_ : ndarray of shape (n_features,) or (n_directions, n_features)
        Direction of the scores in the original space; with more than two classes or
        several hypotheses one row for each, classes in order, hypotheses within.
    coef_ : ndarray of shape (n_components,) or (n_directions, n_components)
        The same directions in the projected space.
    intercept_ : float or ndarray of shape (n_directions,)
        Intercepts of the scores on projected (centered) instances.
    mean_ : ndarray of shape (n_features,)
        Mean of the training instances.
    alpha_ : float
        The sharpness of the pooling.
    threshold_ : float
        The threshold that is subtracted from the log-odds of bags and instances; zero
        with more than two classes.
    classes_ : ndarray of shape (n_classes,)
        Labels of bags.
    objective_ : float
        Smallest value of the objective.
    objective_path_ : ndarray
        Objective at the start and after each iteration, for the kept start.
    n_iter_ : int
        Iterations from that start.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    bagwise.linear_model.MILogisticRegression : The same model without projection.

    Notes
    -----
    The loss depends on :math:`U = AW` only, and :math:`\|U\| = \|W\|`. Without the
    penalty (``C1=0``) the problem is therefore ridge logistic regression on bags in
    the original space, whatever `n_components`, as long as that is no smaller than the
    number of directions. With the penalty, several classes or several hypotheses it is
    a different problem.

    Differs from [1]_: Riemannian L-BFGS in all variables at once instead of Algorithm 1
    or the gradient flow, whose published steps leave the manifold; a ridge on
    :math:`W`, without which separable bags have no solution; the matrix :math:`H` is
    eliminated; mean loss; several classes and hypotheses. Scale the features before
    (the paper does not say how it did).

    An iteration costs two products with the instance matrix and
    ``O(n_features * n_components**2)``; the start one covariance matrix, or with
    sparse instances (which are never made dense) a truncated singular value
    decomposition.

    References
    ----------
    .. [1] Sun, Y.-Y., Ng, M. K. and Zhou, Z.-H., "Multi-instance dimensionality
       reduction", AAAI, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.decomposition import MIDR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 5, 4))
    >>> X[20:, 0, 2] += 5  # one instance of each positive bag stands out
    >>> midr = MIDR(n_components=1, random_state=0).fit(X, np.arange(40) >= 20)
    >>> int(np.abs(midr.components_[0]).argmax()), midr.transform(X).n_features
    (2, 1)
    """

    _parameter_constraints: dict = {
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="right"),
        ],
        "C1": [Interval(Real, 0, None, closed="left")],
        "tau": [Interval(Real, 0, 1, closed="neither")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "pooling": [StrOptions(set(LINEAR_POOLINGS))],
        "loss": [StrOptions(set(LOSSES))],
        "n_hypotheses": [Interval(Integral, 1, None, closed="left")],
        "penalty": [StrOptions(set(PENALTIES))],
        "init": [StrOptions({"milr", "pca", "random"})],
        "n_init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "threshold": [StrOptions({"train", "zero"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components=0.3,
        *,
        C1=0.001,
        tau=0.1,
        C=10.0,
        alpha="auto",
        pooling="softmax",
        loss="squared",
        n_hypotheses=1,
        penalty="huber",
        init="milr",
        n_init="auto",
        threshold="train",
        class_weight=None,
        pos_label=None,
        max_iter=1000,
        tol=1e-6,
        random_state=None,
    ):
        self.n_components = n_components
        self.C1 = C1
        self.tau = tau
        self.C = C
        self.alpha = alpha
        self.pooling = pooling
        self.loss = loss
        self.n_hypotheses = n_hypotheses
        self.penalty = penalty
        self.init = init
        self.n_init = n_init
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "absolute"
        tags.input_tags.sparse = True
        tags.input_tags.asymmetric = self.pooling not in SYMMETRIC_POOLINGS
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Learn the projection.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : array-like of shape (n_bags,)
            One label per bag; required.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag in the loss, the mean and the covariance.

        Returns
        -------
        self
        """
        if y is None:
            X = self._check_bags(X, reset=True)  # raises: labels are required
        self._refuse_contradictions()
        X, codes, weight = self._training(X, y, sample_weight)
        n_components = resolve_n_components(
            self.n_components, X.n_features, len(self.classes_)
        )
        target = (codes[:, None] == np.arange(len(self.classes_))).astype(np.float64)
        if len(self.classes_) == 2:
            target = target[:, 1:]
        self.mean_ = column_means(X, weight)
        X = precise(X, self.mean_)
        pooled = float(weight @ X.sizes / weight.sum()) * self.n_hypotheses
        self.alpha_ = sharpness(self.alpha, pooled)
        self.pooling_, self.n_hypotheses_ = self.pooling, self.n_hypotheses
        loss = BagLoss(
            X.data,
            X.offsets,
            target,
            weight,
            pooling=self.pooling,
            alpha=self.alpha_,
            loss=self.loss,
            n_hypotheses=self.n_hypotheses,
            mean=self.mean_,
        )
        objective = MIDRObjective(
            loss, C=self.C, C1=self.C1, tau=self.tau, penalty=self.penalty
        )
        covariance = InstanceCovariance(X.data, X.offsets, self.mean_, weight)
        best = self._minimise(objective, covariance, n_components)
        warn_unless_converged(best, self)
        self._keep(best, covariance)
        self.threshold_ = 0.0
        if len(self.classes_) == 2 and self.threshold == "train":
            self.threshold_ = sigmoid_threshold(self._decide(X), codes == 1, weight)
        return self

    def _refuse_contradictions(self):
        if self.n_hypotheses > 1 and self.pooling == "gmean":
            raise ValueError(
                'n_hypotheses > 1 has no meaning with pooling="gmean": the mean of '
                "several linear scores is one linear score. Use another pooling."
            )

    def _minimise(self, objective, covariance, n_components):
        rng = check_random_state(self.random_state)
        n_init = self.n_init
        if n_init == "auto":
            n_init = 5 if self.n_features_in_ <= _LOW_DIMENSION and self.C1 > 0 else 1
        best = None
        for start in starts(
            objective,
            covariance,
            n_components,
            init=self.init,
            n_init=n_init,
            tol=self.tol,
            rng=rng,
        ):
            fit = minimize_on_manifold(
                objective, *start, max_iter=self.max_iter, tol=self.tol
            )
            if best is None or fit.objective < best.objective:
                best = fit
        return best

    def _keep(self, fit, covariance):
        A, W = canonical_form(fit.A, fit.W, covariance, penalized=self.C1 > 0)
        self.components_ = A.T.copy()
        self.sparse_components_ = soft_threshold(self.components_, self.tau)
        single = W.shape[1] == 1
        self.coef_ = W[:, 0] if single else W.T.copy()
        self.direction_ = self.coef_ @ self.components_
        self.intercept_ = float(fit.b[0]) if single else fit.b
        self.objective_ = fit.objective
        self.objective_path_ = np.array(fit.path)
        self.n_iter_ = fit.n_iter

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    def transform(self, X):
        """Project the instances.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Bags
            The same bags with `n_components` features.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        A = self.components_.T.astype(X.dtype, copy=False)
        Z = X.data @ A - (self.components_ @ self.mean_).astype(X.dtype, copy=False)
        return X.with_data(Z, feature_names=self.get_feature_names_out())

    def inverse_transform(self, Z):
        """Map projected instances back to the original space.

        Parameters
        ----------
        Z : Bags or sequence of 2-D arrays
            Bags with `n_components` features.

        Returns
        -------
        Bags
            Points of the plane through `mean_` spanned by `components_`; for
            ``Z = transform(X)``, the orthogonal projection of `X` on it.
        """
        check_is_fitted(self)
        Z = as_bags(Z)
        if Z.n_features != self._n_features_out:
            raise ValueError(
                f"Z has {Z.n_features} features, but there are "
                f"{self._n_features_out} components."
            )
        data = Z.data @ self.components_.astype(Z.dtype, copy=False)
        data = data + self.mean_.astype(Z.dtype, copy=False)
        return Z.with_data(data, feature_names=getattr(self, "feature_names_in_", None))

    def _scores(self, X):
        U = np.atleast_2d(self.direction_).T
        return linear_scores(X.data, U, np.atleast_1d(self.intercept_), self.mean_)

    def _pooled(self, X):
        z = self._scores(X)
        n_outputs = z.shape[1] // self.n_hypotheses_
        return pool(z, X.offsets, self.pooling_, self.alpha_, n_outputs=n_outputs)

    def _decide(self, X):
        """Return the logit of each bag's pooled probability, less the threshold."""
        logit = bag_logit(self._pooled(X)) - self.threshold_
        return logit[:, 0] if logit.shape[1] == 1 else logit

    def _probabilities(self, X):
        if self.threshold_:
            odds = self._decide(X)
            return np.column_stack([expit(-odds), expit(odds)])
        pooled = self._pooled(X)
        if pooled.prob.shape[1] == 1:
            return np.hstack([pooled.complement, pooled.prob])
        total = pooled.prob.sum(axis=1, keepdims=True)
        return pooled.prob / np.maximum(total, np.finfo(np.float64).tiny)

    def _score_instances(self, X):
        """Return the largest score over hypotheses of a class, less the threshold."""
        z = self._scores(X) - self.threshold_
        best = z.reshape(len(z), -1, self.n_hypotheses_).max(axis=2)
        return best[:, 0] if best.shape[1] == 1 else best
