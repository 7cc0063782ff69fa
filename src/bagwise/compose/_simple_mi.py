"""SimpleMI: one vector per bag and any scikit-learn classifier."""

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bagwise._base import BagClassifierMixin, BaseBagEstimator
from bagwise._compat import HasMethods, StrOptions, _check_sample_weight, _fit_context
from bagwise.bags import Bags, Ragged
from bagwise.bags.segments import bag_matrix, segment_max, segment_mean, segment_min

POOLINGS = ("mean", "max", "min", "minmax", "midpoint", "mean+std")


def pool(X, pooling="mean"):
    """Summarise every bag by one vector.

    Parameters
    ----------
    X : Bags
        The bags, dense or CSR.
    pooling : {"mean", "max", "min", "minmax", "midpoint", "mean+std"} or callable
        What is taken of each feature. "minmax" and "mean+std" give two columns per
        feature, "midpoint" is (min + max) / 2. A callable gets the `Bags` and returns
        one row per bag.

    Returns
    -------
    array or CSR matrix of shape (n_bags, n_columns)
        CSR for sparse bags, except for what a callable returns.
    """
    if callable(pooling):
        rows = pooling(X)
        if getattr(rows, "ndim", None) != 2 or rows.shape[0] != len(X):
            raise ValueError(
                "the pooling function must return one row for each of the "
                f"{len(X)} bags, got shape {getattr(rows, 'shape', None)}."
            )
        return rows
    reduce = _reduce_sparse if X.is_sparse else _reduce_dense
    if pooling == "minmax":
        return _columns(reduce(X, "min"), reduce(X, "max"))
    if pooling == "midpoint":
        return 0.5 * (reduce(X, "min") + reduce(X, "max"))
    if pooling == "mean+std":
        mean = reduce(X, "mean")
        square = X.data.multiply(X.data) if X.is_sparse else None
        if square is not None:
            power = bag_matrix(X.offsets, mean=True) @ square
            variance = power - mean.multiply(mean)
            variance.data = np.maximum(variance.data, 0.0)
            return _columns(mean, variance.sqrt())
        centred = X.data - mean[X.bag_index]
        return _columns(mean, np.sqrt(segment_mean(centred**2, X.offsets)))
    return reduce(X, pooling)


def _reduce_dense(X, op):
    reduce = {"mean": segment_mean, "max": segment_max, "min": segment_min}[op]
    return reduce(X.data, X.offsets)


def _reduce_sparse(X, op):
    if op == "mean":
        return sp.csr_array(bag_matrix(X.offsets, mean=True) @ X.data)
    rows = [
        getattr(X.data[a:b], op)(axis=0)
        for a, b in zip(X.offsets, X.offsets[1:], strict=False)
    ]
    return sp.vstack([sp.csr_array(r.reshape(1, -1)) for r in rows], format="csr")


def _columns(*parts):
    if sp.issparse(parts[0]):
        return sp.hstack(parts, format="csr")
    return np.hstack(parts)


def _base_has(name):
    def check(self):
        base = getattr(self, "estimator_", self.estimator)
        return hasattr(SVC() if base is None else base, name)

    return check


class SimpleMI(BagClassifierMixin, BaseBagEstimator):
    r"""Classify the average, or another summary, of each bag.

    A bag :math:`B` becomes one vector, by default

    .. math:: \bar x(B) = \frac{1}{|B|} \sum_{x \in B} x

    and any classifier of rows learns from the vectors. It is the cheapest method of
    the field and hard to beat when most instances of a bag matter.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier. By default ``SVC(C=10)``, and ``LinearSVC()`` on
        sparse data.
    pooling : {"mean", "max", "min", "minmax", "midpoint", "mean+std"} or callable, \
            default="mean"
        The summary. A callable gets the `Bags` and returns one row per bag.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    Notes
    -----
    `instance_scores` is the score of a bag that holds the instance alone. Class
    weights are set on `estimator`. Pooling costs one pass over the instances; sparse
    data stay sparse.

    Differs from [1]_: any classifier may follow, and there are more summaries.

    References
    ----------
    .. [1] Dong, L., "A comparison of multi-instance learning algorithms", Master's
       thesis, University of Waikato, 2006.

    Examples
    --------
    >>> from bagwise.compose import SimpleMI
    >>> from bagwise.datasets import make_bags
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_bags(random_state=0)
    >>> SimpleMI(LogisticRegression(), pooling="max").fit(X, y).score(X, y) > 0.8
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "pooling": [StrOptions(set(POOLINGS)), callable],
    }

    def __init__(self, estimator=None, *, pooling="mean"):
        self.estimator = estimator
        self.pooling = pooling

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        base = SVC() if self.estimator is None else self.estimator
        tags.input_tags.sparse = get_tags(base).input_tags.sparse
        tags.input_tags.duplicate_invariant = None if callable(self.pooling) else True
        return tags

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None):
        """Fit the classifier on one vector per bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : array-like of shape (n_bags,)
            One label per bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag, when the classifier takes weights.

        Returns
        -------
        self
        """
        X, y = self._check_bags(X, y, reset=True)
        self._encode_labels(y)
        base = self.estimator
        if base is None:
            base = LinearSVC() if X.is_sparse else SVC(C=10.0)
        weights = {}
        if sample_weight is not None:
            if not has_fit_parameter(base, "sample_weight"):
                raise ValueError(f"{type(base).__name__} does not take sample_weight.")
            weights["sample_weight"] = _check_sample_weight(sample_weight, X)
        self.estimator_ = clone(base).fit(pool(X, self.pooling), y, **weights)
        return self

    def predict(self, X):
        """Predict the label of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,)
            One label per bag.
        """
        rows = self._pooled(X)
        return self.estimator_.predict(rows)

    def decision_function(self, X):
        """Return the score of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_classes)
            The classifier's decision values; its probabilities (for two classes:
            minus one half) when it has none.
        """
        rows = self._pooled(X)
        return _decide(self.estimator_, rows)

    @available_if(_base_has("predict_proba"))
    def predict_proba(self, X):
        """Return the probability of each class for each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            The classifier's probabilities.
        """
        rows = self._pooled(X)
        return self.estimator_.predict_proba(rows)

    def instance_scores(self, X):
        """Score every instance as a bag of its own.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One score per instance, or one row with a column per class.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        alone = Bags(X.data, np.arange(X.n_instances + 1))
        scores = _decide(self.estimator_, pool(alone, self.pooling))
        return Ragged(scores, X.offsets)

    def _pooled(self, X):
        check_is_fitted(self)
        return pool(self._check_bags(X, reset=False), self.pooling)


def _decide(estimator, rows):
    if hasattr(estimator, "decision_function"):
        return estimator.decision_function(rows)
    probability = estimator.predict_proba(rows)
    return probability[:, 1] - 0.5 if probability.shape[1] == 2 else probability
