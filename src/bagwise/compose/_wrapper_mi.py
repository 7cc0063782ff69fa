"""WrapperMI: a classifier or regressor of instances whose outputs are averaged."""

from numbers import Real

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from bagwise._compat import HasMethods, Interval, StrOptions
from bagwise.bags.segments import repeat, segment_max, segment_mean
from bagwise.base import BaseBagRegressor, ProbabilityMixin, WeightedBagClassifier
from bagwise.compose.embedded import needed_weights
from bagwise.compose.forests import class_probabilities, values
from bagwise.compose.pooling import mostly_zero

# Minimum distance of thresholds from 0 and 1, so that odds are finite.
_SURE = 1e-12


class WrapperMI(ProbabilityMixin, WeightedBagClassifier):
    r"""Classify instances with the label of their bag and average the result.

    Every instance inherits the label of its bag and the weight :math:`1/|B|`, so that
    all bags have the same weight. A classifier of rows learns
    :math:`p(x)`, and a bag has the probability ([1]_)

    .. math:: P(B) = \frac{1}{|B|} \sum_{x \in B} p(x).

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier with `predict_proba` and `sample_weight`;
        ``LogisticRegression(C=0.1)`` by default.
    aggregation : {"arithmetic", "geometric", "max"}, default="arithmetic"
        Arithmetic mean of the probabilities, normalized geometric mean (the mean of
        the log-odds), or their maximum.
    threshold : {"cv", "train", "zero"}, default="cv"
        The decision threshold of two classes: where a sigmoid fitted to out-of-fold or
        training scores equals one half, or 1/2. With few informative instances per bag,
        or few bags of one class, the mean probability stays on one side of 1/2; "train"
        is unusable with an instance classifier that has no training errors. With more
        classes the largest mean probability decides.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier of instances (two classes; see `estimators_` for more).
    threshold_ : float
        The threshold that is subtracted from decision values and instance scores.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    Notes
    -----
    Weights sum to one in each bag and are not rescaled, since a regularized learner
    depends on their total: repeating every instance of a bag changes nothing. The cost
    is that of the classifier on `n_instances` rows, times the number of classes when
    there are more than two, and two to six times with ``threshold="cv"`` (the fewer,
    the more bags). The odds of `predict_proba` are divided by
    those of the threshold, so that a bag at the threshold has probability one half.

    Differs from [1]_: nothing for the arithmetic mean with the threshold "zero".

    References
    ----------
    .. [1] Frank, E. and Xu, X., "Applying propositional learning algorithms to
       multi-instance data", Working paper 06/03, University of Waikato, 2003.

    Examples
    --------
    >>> from bagwise.compose import WrapperMI
    >>> from bagwise.datasets import make_bags
    >>> X, y = make_bags(random_state=0)
    >>> WrapperMI().fit(X, y).score(X, y) > 0.8
    True
    """

    # Mean probabilities of several classes are compared without thresholds.
    _one_threshold_per_class = False

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"]), None],
        "aggregation": [StrOptions({"arithmetic", "geometric", "max"})],
        "threshold": [StrOptions({"zero", "train", "cv"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        estimator=None,
        *,
        aggregation="arithmetic",
        threshold="cv",
        class_weight=None,
        pos_label=None,
    ):
        self.estimator = estimator
        self.aggregation = aggregation
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "absolute"
        tags.input_tags.sparse = get_tags(self._inner()).input_tags.sparse
        tags.input_tags.duplicate_invariant = True
        tags.input_tags.respects_standard_assumption = (
            None if self.aggregation == "max" else False
        )
        tags.input_tags.asymmetric = self.aggregation == "max"
        return tags

    def _inner(self):
        if self.estimator is None:
            return LogisticRegression(C=0.1, max_iter=1000)
        return self.estimator

    def _fit_binary(self, X, t, bag_weight):
        self.aggregation_ = self.aggregation
        base = self._inner()
        if not has_fit_parameter(base, "sample_weight"):
            raise ValueError(
                f"{type(base).__name__} does not take sample_weight, which WrapperMI "
                "needs to give every bag the same weight."
            )
        weight = repeat(bag_weight / X.sizes, X.offsets)
        labels = repeat(t > 0, X.offsets)
        if not _takes_up_an_offset(base):
            self.estimator_ = clone(base).fit(X.data, labels, sample_weight=weight)
            return
        # The intercept absorbs the means of columns: the problem is equivalent, and the
        # solver converges however far the data are from the origin.
        rows, mean = _about_the_mean(X, weight)
        model = clone(base).fit(rows, labels, sample_weight=weight)
        model.intercept_ = model.intercept_ - model.coef_ @ mean
        self.estimator_ = model

    def _instance_probability(self, X):
        return class_probabilities(self.estimator_, X.data)[:, 1]

    def _positive_probability(self, X):
        p = self._instance_probability(X)
        if self.aggregation_ == "arithmetic":
            return segment_mean(p, X.offsets)
        if self.aggregation_ == "max":
            return segment_max(p, X.offsets)
        tiny = np.finfo(np.float64).tiny
        positive = segment_mean(np.log(np.maximum(p, tiny)), X.offsets)
        negative = segment_mean(np.log(np.maximum(1.0 - p, tiny)), X.offsets)
        return 1.0 / (1.0 + np.exp(np.clip(negative - positive, -700, 700)))

    def _moved_probability(self, X):
        level = np.clip(0.5 + self.threshold_, _SURE, 1.0 - _SURE)
        p = self._positive_probability(X)
        return p * (1.0 - level) / (p * (1.0 - level) + (1.0 - p) * level)

    def _score_bags(self, X):
        return self._positive_probability(X) - 0.5

    def _score_instances(self, X):
        return self._instance_probability(X) - 0.5


def _takes_up_an_offset(base):
    """Whether a learner is a logistic regression whose intercept is not penalized."""
    return (
        type(base) is LogisticRegression
        and base.fit_intercept
        and base.solver != "liblinear"
    )


def _about_the_mean(X, weight):
    """Return rows about the means of their columns; sparse ones as they are.

    The means are weighted: a bag of weight two moves them as two bags would, and the
    solver takes the same steps.
    """
    if mostly_zero(X):
        return X.data, np.zeros(X.n_features)
    rows = X.data.toarray() if X.is_sparse else X.data
    rows = np.asarray(rows, dtype=np.float64)
    mean = weight @ rows / weight.sum()
    return rows - mean, mean


class WrapperMIRegressor(BaseBagRegressor):
    r"""Predict a value for every instance and average.

    Every instance inherits the value of its bag and the weight :math:`1/|B|`. A
    regressor of rows learns :math:`g(x)`, and a bag has the mean, the median or the
    trimmed mean of the values of its instances: instance-MIR ([1]_).

    Parameters
    ----------
    estimator : regressor, default=None
        Any scikit-learn regressor with `sample_weight`; ridge regression by default.
    pooling : {"mean", "median", "trimmed"}, default="mean"
        How values of instances are combined into the value of a bag. "trimmed" excludes
        the smallest and the largest.
    trim : float, default=0.2
        Share of the instances that "trimmed" excludes at each end.

    Attributes
    ----------
    estimator_ : regressor
        The fitted regressor of instances.

    Notes
    -----
    Weights sum to one in each bag: repeating every instance of a bag changes nothing.
    The cost is that of the regressor on `n_instances` rows. Differs from [1]_: nothing.

    References
    ----------
    .. [1] Wang, Z., Radosavljevic, V., Han, B., Obradovic, Z. and Vucetic, S., "Aerosol
       optical depth prediction from satellite observations by multiple instance
       regression", SDM, 2008. :doi:`10.1137/1.9781611972788.15`

    Examples
    --------
    >>> from bagwise.compose import WrapperMIRegressor
    >>> X = [[[0.0], [1.0]], [[2.0], [1.5]], [[3.0]], [[1.0], [0.0]]]
    >>> model = WrapperMIRegressor().fit(X, [0.5, 1.8, 3.0, 0.5])
    >>> model.instance_scores(X).values.shape
    (7,)
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "pooling": [StrOptions({"mean", "median", "trimmed"})],
        "trim": [Interval(Real, 0, 0.5, closed="left")],
    }

    def __init__(self, estimator=None, *, pooling="mean", trim=0.2):
        self.estimator = estimator
        self.pooling = pooling
        self.trim = trim

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "absolute"
        tags.input_tags.sparse = get_tags(self._inner()).input_tags.sparse
        # If a bag is duplicated, the same share is trimmed, but not the same rows.
        tags.input_tags.duplicate_invariant = self.pooling != "trimmed" or None
        return tags

    def _inner(self):
        return Ridge() if self.estimator is None else self.estimator

    def _fit_bags(self, X, y, weight):
        self.pooling_, self.trim_ = self.pooling, self.trim
        base = self._inner()
        options = needed_weights(base, repeat(weight / X.sizes, X.offsets))
        rows_y = repeat(y, X.offsets)
        self.estimator_ = clone(base).fit(X.data, rows_y, **options)

    def _score_instances(self, X):
        return np.asarray(values(self.estimator_, X.data), dtype=np.float64)

    def _predict_bags(self, X):
        scores = self._score_instances(X)
        if self.pooling_ == "mean":
            return segment_mean(scores, X.offsets)
        trim = 0.5 if self.pooling_ == "median" else self.trim_
        bounds = zip(X.offsets[:-1], X.offsets[1:], strict=True)
        return np.array([_trimmed(scores[a:b], trim) for a, b in bounds])


def _trimmed(scores, share):
    """Mean without a share of the values at each end; 0.5 is the median."""
    if share == 0.5:
        return np.median(scores)
    ranked = np.sort(scores)
    k = int(share * len(ranked))
    return ranked[k : len(ranked) - k].mean()
