"""Multi-instance logistic regression."""

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise._compat import Interval, StrOptions
from bagwise.bags.chunks import Chunks, larger_than_chunk
from bagwise.base import ProbabilityMixin, WeightedBagClassifier
from bagwise.linear_model.loss import (
    LOSSES,
    BagLoss,
    SummedLoss,
    column_means,
    fit_linear,
    linear_scores,
    precise,
)
from bagwise.linear_model.pooling import bag_logit, pool, sharpness

#: Poolings offered by the linear models.
LINEAR_POOLINGS = ("softmax", "max", "mean", "noisy_or", "lse", "gmean")
# For these, 1 - P is the pooling of 1 - p, so the classes can be exchanged.
SYMMETRIC_POOLINGS = ("mean", "gmean")

_LOW_DIMENSION = 20


class MILogisticRegression(ProbabilityMixin, WeightedBagClassifier):
    r"""Logistic regression on instances, pooled into bags.

    Finds one direction :math:`w` and an intercept :math:`b` that minimize ([1]_, [2]_)

    .. math::
        \frac{1}{\sum_i \omega_i} \sum_i \omega_i\, \ell(P_i, y_i)
            + \frac{1}{2C} \|w\|^2, \qquad
        P_i = \mathrm{pool}_j\ p_{ij}, \qquad
        p_{ij} = \frac{1}{1 + e^{-(w'x_{ij} + b)}}

    where :math:`C` is `C`, :math:`\omega_i` the weight of bag :math:`i`, the pooling is
    `pooling` with sharpness `alpha`:

    - ``"softmax"``: :math:`\sum_j p_{ij} e^{\alpha p_{ij}} / \sum_j e^{\alpha p_{ij}}`,
      between the mean and the maximum;
    - ``"max"``, ``"mean"``: of the :math:`p_{ij}`;
    - ``"noisy_or"``: :math:`1 - \prod_j (1 - p_{ij})`;
    - ``"lse"``: :math:`\frac1\alpha \log \frac1n \sum_j e^{\alpha p_{ij}}`;
    - ``"gmean"``: the logit of the bag is the mean logit of its instances [3]_;

    and the loss :math:`\ell` is :math:`(P - y)^2` (``"squared"``) or
    :math:`-y \log P - (1-y) \log(1-P)` (``"log"``).

    Parameters
    ----------
    C : float, default=10.0
        Inverse strength of the penalty. The loss is a *mean* over bags, so that `C`
        does not depend on the number of bags.
    alpha : float or "auto", default="auto"
        Sharpness of the poolings softmax and lse. A bag in which one of :math:`n`
        instances has probability one reaches only :math:`e^\alpha / (e^\alpha + n -
        1)`. ``"auto"``: the value 3.5 of [1]_, or :math:`\log 4(n - 1)` if that is
        more, with which such a bag reaches 4/5; :math:`n` is the mean size of training
        bags.
    pooling : str, default="softmax"
        One of those above, which combines probabilities of instances into that of a
        bag.
    loss : {"squared", "log"}, default="squared"
        Loss between probability and label.
    fit_intercept : bool, default=True
        Whether to fit :math:`b`. It is not penalized.
    threshold : {"train", "cv", "zero"}, default="train"
        Decision threshold of the log-odds of a bag: where a sigmoid fitted to training
        or out-of-fold scores equals one half, or a probability of 1/2, which all bags
        or no bags may exceed if the penalty is strong.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with `sample_weight`.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    n_init : int or "auto", default="auto"
        Number of starts: the first with equal weights of all instances, the second
        from the solution of the convex problem (gmean with the log loss), the rest at
        random; the lowest objective is kept. ``"auto"``: 1 for that convex problem,
        else 5 with up to 20 features and 2 with more.
    max_iter : int, default=500
        Largest number of L-BFGS iterations from each start.
    tol : float, default=1e-5
        A start has converged when no entry of the gradient is larger.
    random_state : int, RandomState instance or None, default=None
        Random seed of the starts.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of bags. With more than two classes, `estimators_` has one fitted model
        per class, with the attributes below.
    coef_ : ndarray of shape (n_features,)
        The direction :math:`w`.
    intercept_ : float
        The intercept :math:`b`.
    alpha_ : float
        The sharpness.
    threshold_ : float
        The threshold that is subtracted from the log-odds of bags and instances.
    objective_ : float
        Smallest value of the objective.
    objective_path_ : ndarray
        Objective after each iteration of the kept start.
    n_iter_ : int
        Iterations of that start.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    bagwise.decomposition.MIDR : The same model on a learned projection.

    Notes
    -----
    Differs from [1]_: a ridge penalty (without it, :math:`w` is infinite for separable
    training bags), more poolings and losses, several starts, a sharpness that
    depends on the size of bags, and a decision threshold (the method of [1]_ is
    ``alpha=3.5, threshold="zero"``). All problems except gmean with the log loss are
    non-convex. With ``pooling="max"`` the objective is not smooth, and the iterations
    end when they no longer make progress.

    Bags of one instance with the log loss give
    :class:`~sklearn.linear_model.LogisticRegression` with ``C / n_bags`` in place of
    `C`, since scikit-learn sums the loss.

    An iteration costs two products with the instance matrix; sparse instances are
    never made dense, their mean is folded into the intercept. A memory map larger than
    memory is read in chunks, once for each evaluation of the loss.

    References
    ----------
    .. [1] Ray, S. and Craven, M., "Supervised versus multiple instance learning: an
       empirical comparison", ICML, 2005. :doi:`10.1145/1102351.1102439`
    .. [2] Sun, Y.-Y., Ng, M. K. and Zhou, Z.-H., "Multi-instance dimensionality
       reduction", AAAI, 2010.
    .. [3] Xu, X. and Frank, E., "Logistic regression and boosting for labeled bags of
       instances", PAKDD, 2004. :doi:`10.1007/978-3-540-24775-3_35`

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.linear_model import MILogisticRegression
    >>> X = [np.array([[-1.0], [-2.0]]), np.array([[-1.5], [2.0]]),
    ...      np.array([[-2.0], [-0.5]]), np.array([[3.0], [-1.0]])]
    >>> model = MILogisticRegression(random_state=0).fit(X, [0, 1, 0, 1])
    >>> model.predict([np.array([[-1.0], [2.5]])])
    array([1])
    """

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "pooling": [StrOptions(set(LINEAR_POOLINGS))],
        "loss": [StrOptions(set(LOSSES))],
        "fit_intercept": ["boolean"],
        "threshold": [StrOptions({"zero", "train", "cv"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C=10.0,
        *,
        alpha="auto",
        pooling="softmax",
        loss="squared",
        fit_intercept=True,
        threshold="train",
        class_weight=None,
        pos_label=None,
        n_init="auto",
        max_iter=500,
        tol=1e-5,
        random_state=None,
    ):
        self.C = C
        self.alpha = alpha
        self.pooling = pooling
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "absolute"
        tags.input_tags.sparse = True
        by_size = self.alpha == "auto" and self.pooling in ("softmax", "lse")
        tags.input_tags.duplicate_invariant = not by_size and self.pooling != "noisy_or"
        tags.input_tags.respects_standard_assumption = self.pooling not in (
            "mean",
            "gmean",
        )
        tags.input_tags.asymmetric = self.pooling not in SYMMETRIC_POOLINGS
        tags.input_tags.chunked = True
        return tags

    def _fit_binary(self, X, t, bag_weight):
        positive = (t > 0).astype(np.float64)
        if larger_than_chunk(X):
            self._fit_sums(Chunks(X, positive, bag_weight))
            return
        # Without a free intercept the mean must not be subtracted.
        mean = column_means(X, bag_weight) if self.fit_intercept else None
        X = precise(X, mean)
        loss = BagLoss(
            X.data, X.offsets, positive, bag_weight, mean=mean, **self._loss_options()
        )
        loss.alpha = self.alpha_ = sharpness(self.alpha, loss.rates()[1])
        self._minimise(loss)

    def _fit_sums(self, pieces):
        """Fit from sums over pieces whose targets are 0.0 or 1.0."""
        loss = SummedLoss(pieces, center=self.fit_intercept, **self._loss_options())
        loss.options["alpha"] = self.alpha_ = sharpness(self.alpha, loss.rates()[1])
        self._minimise(loss)

    def _find_threshold_in_chunks(self, pieces):
        """Find the threshold from chunks that are never in memory together."""
        if self.threshold == "cv":
            raise ValueError(
                'threshold="cv" needs all bags in one place; use "train" or "zero".'
            )
        if self.threshold == "zero":
            self.threshold_ = 0.0
            return
        found = pieces.each(_judge_piece, self)
        scores, target, weight = (
            np.concatenate(part) for part in zip(*found, strict=True)
        )
        self.threshold_ = self._find_threshold(scores, target > 0.5, weight)

    def _loss_options(self):
        return {"pooling": self.pooling, "loss": self.loss}

    def _minimise(self, loss):
        best = fit_with_restarts(
            loss,
            C=self.C,
            fit_intercept=self.fit_intercept,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=self.random_state,
        )
        warn_unless_converged(best, self)
        self.pooling_ = self.pooling
        self.coef_ = best.coef[:, 0]
        self.intercept_ = float(best.intercept[0])
        if loss.mean is not None:
            self.intercept_ -= float(loss.mean @ self.coef_)
        self.objective_ = best.objective
        self.objective_path_ = np.array(best.path)
        self.n_iter_ = best.n_iter

    def _score_instances(self, X):
        if larger_than_chunk(X):
            return np.concatenate(Chunks(X).each(_score_piece, self))
        return linear_scores(X.data, self.coef_[:, None], self.intercept_)[:, 0]

    def _pooled(self, X):
        return pool(self._score_instances(X), X.offsets, self.pooling_, self.alpha_)

    def _score_bags(self, X):
        return bag_logit(self._pooled(X))

    def _positive_probability(self, X):
        return self._pooled(X).prob


def _score_piece(piece, model):
    data = piece.X.data
    return linear_scores(data, model.coef_[:, None], model.intercept_)[:, 0]


def _judge_piece(piece, model):
    return model._score_bags(piece.X), piece.y, piece.weight


def is_convex(loss):
    """Whether a `BagLoss` is convex: logistic regression on the means of bags."""
    return loss.pooling == "gmean" and loss.loss == "log"


def fit_with_restarts(
    loss, *, C, fit_intercept=True, n_init="auto", max_iter=500, tol=1e-5, random_state
):
    """Minimize the ridge objective of a loss from several starts.

    Parameters
    ----------
    loss : BagLoss or SummedLoss
        The loss of the bags.
    C, fit_intercept, n_init, max_iter, tol, random_state
        As in `MILogisticRegression`.

    Returns
    -------
    LinearFit
        With the lowest objective.
    """
    if n_init == "auto":
        many = 5 if loss.n_features <= _LOW_DIMENSION or loss.n_hypotheses > 1 else 2
        n_init = 1 if is_convex(loss) else many
    rng = check_random_state(random_state)
    options = {
        "ridge": 1.0 / C,
        "fit_intercept": fit_intercept,
        "max_iter": max_iter,
        "tol": tol,
    }
    if loss.pooling == "max":  # kinks: the gradient is no stopping criterion
        options["ftol"] = 1e-7
    best = None
    for number in range(n_init):
        start = _start(loss, number, options, rng)
        fit = fit_linear(loss, *start, **options)
        if best is None or fit.objective < best.objective:
            best = fit
    return best


def _start(loss, number, options, rng):
    """Return direction and intercept of start `number`."""
    shape = (loss.n_features, loss.n_columns)
    level = base_intercept(loss) if options["fit_intercept"] else np.zeros(shape[1])
    # Hypotheses must start from different values: equal ones have equal gradients and
    # stay equal.
    if number == 0 and loss.n_hypotheses == 1:
        return np.zeros(shape), level
    if number == 1 and loss.n_hypotheses == 1:
        fit = fit_linear(loss.of_means(), np.zeros(shape), level, **options)
        return fit.coef, fit.intercept
    # Scale the start so that scores have variance one in any units of the features.
    spread = np.sqrt(max(loss.mean_square(), np.finfo(np.float64).tiny))
    return rng.standard_normal(shape) / spread, level


def base_intercept(loss):
    """Return intercepts at which constant scores give each output its frequency."""
    rate, size = loss.rates()
    rate = np.clip(rate, 1e-3, 1.0 - 1e-3)
    if loss.pooling == "noisy_or":
        rate = -np.expm1(np.log1p(-rate) / (loss.n_hypotheses * size))
    return np.repeat(np.log(rate) - np.log1p(-rate), loss.n_hypotheses)


def warn_unless_converged(fit, estimator):
    """Warn when the iterations ran out or no descent step was found."""
    name = type(estimator).__name__
    if fit.stop == "max_iter":
        message = f"{name} stopped at max_iter={estimator.max_iter} iterations"
    elif fit.stop == "stalled" and estimator.pooling != "max":
        message = f"{name} found no step that lowers the objective"
    else:
        return
    warnings.warn(
        f"{message} before the gradient fell below tol={estimator.tol}. Scale the "
        "features, or increase max_iter or tol.",
        ConvergenceWarning,
        stacklevel=4,
    )
