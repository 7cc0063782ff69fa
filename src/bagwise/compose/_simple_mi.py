"""SimpleMI: one vector per bag and any scikit-learn classifier or regressor."""

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from bagwise._compat import HasMethods, StrOptions
from bagwise.bags import Bags
from bagwise.base import BaseBagRegressor
from bagwise.compose.embedded import (
    EmbeddedClassifier,
    dense_rows,
    in_blocks,
    needed_weights,
)
from bagwise.compose.forests import values
from bagwise.compose.pooling import POOLINGS, mostly_zero, pool


def _reads_instances(model):
    return getattr(model, "pooling_", model.pooling) != "bag_rows"


class SimpleMI(EmbeddedClassifier):
    r"""Classify the average, or another summary, of each bag.

    A bag :math:`B` becomes one vector, by default

    .. math:: \bar x(B) = \frac{1}{|B|} \sum_{x \in B} x

    and any classifier of rows learns from the vectors. It is the cheapest method, and a
    strong one if most instances of a bag are relevant.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier. By default ``SVC(C=10)`` on centered rows, and
        ``LinearSVC()`` on sparse data of which more than half the entries are zero.
    pooling : str or callable, default="mean"
        The summary: "mean", "max", "min", "minmax", "midpoint", "mean+std" or
        "statistics". A callable gets the `Bags` and returns one row per bag.
        "bag_rows" takes `Bags.bag_rows` in place of the instances, such as the 2-D
        fingerprints of molecules.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    Notes
    -----
    `instance_scores` is the score of a bag that contains only this instance. Class
    weights are set on `estimator`. Pooling costs one pass over the instances; sparse
    data stay sparse, and only the rows of the bags become dense for an `estimator` that
    does not take sparse rows.

    The default classifier depends on the storage: bags that are mostly zero are
    classified by a linear SVM as CSR and by a Gaussian SVM as dense arrays, and the
    labels differ. Pass `estimator` for the same classifier on both. The kernel width of
    the default SVM takes `sample_weight` into account.

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
        "pooling": [StrOptions({*POOLINGS, "bag_rows"}), callable],
    }

    def __init__(self, estimator=None, *, pooling="mean", pos_label=None):
        self.estimator = estimator
        self.pooling = pooling
        self.pos_label = pos_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.duplicate_invariant = None if callable(self.pooling) else True
        tags.input_tags.respects_standard_assumption = (
            None if callable(self.pooling) else False
        )
        tags.input_tags.chunked = not callable(self.pooling)
        return tags

    def _default_estimator(self, sparse):
        return LinearSVC() if sparse else SVC(C=10.0)

    def _learns_sparse(self, X):
        return mostly_zero(X)

    def _fit_rows(self, X, y, weight):
        self.pooling_ = self.pooling
        rows = self._rows(X)
        if not sp.issparse(rows):
            return rows
        if self.estimator is None:  # (as for dense bags, and no larger than X)
            return rows if mostly_zero(X) else rows.toarray()
        return rows if _takes_sparse(self.estimator) else dense_rows(rows)

    def _adapt_default(self, base, rows, weight):
        # The default learner uses distances, which are inaccurate far from the origin.
        if sp.issparse(rows):
            return base, None
        rows = np.asarray(rows, dtype=np.float64)
        mean = np.average(rows, axis=0, weights=weight)
        if weight is None:
            return base, mean
        # gamma="scale" with the weights, as if bags were repeated.
        spread = np.average((rows - mean) ** 2, axis=0, weights=weight).sum()
        return base.set_params(gamma=1.0 / spread if spread > 0 else 1.0), mean

    def _rows(self, X):
        return pool(X, self.pooling_)

    @available_if(_reads_instances)
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
        return super().instance_scores(X)


class SimpleMIRegressor(BaseBagRegressor):
    r"""Predict a value from the average, or another summary, of each bag.

    A bag :math:`B` becomes one vector, by default :math:`\bar x(B) = \frac{1}{|B|}
    \sum_{x \in B} x`, and any regressor of rows learns from the vectors ([1]_). It is
    the usual baseline.

    Parameters
    ----------
    estimator : regressor, default=None
        Any scikit-learn regressor. By default ridge regression whose `alpha` is the
        variance of the vectors, so that a common factor of all columns has no effect.
    pooling : str or callable, default="mean"
        The summary: "mean", "max", "min", "minmax", "midpoint", "mean+std" or
        "statistics". "statistics" is mean, standard deviation, minimum and maximum of
        every feature and the log of the bag's size. A callable gets the `Bags` and
        returns one row per bag. "bag_rows" takes `Bags.bag_rows` in place of the
        instances.

    Attributes
    ----------
    estimator_ : regressor
        The fitted regressor.

    Notes
    -----
    `instance_scores` is the prediction for a bag that contains only this instance.
    Pooling costs one pass over the instances; sparse data stay sparse, and only the
    rows of the bags become dense for an `estimator` that does not take sparse rows.

    Differs from [1]_: real values in place of classes.

    References
    ----------
    .. [1] Dong, L., "A comparison of multi-instance learning algorithms", Master's
       thesis, University of Waikato, 2006.

    Examples
    --------
    >>> from bagwise.compose import SimpleMIRegressor
    >>> X = [[[0.0], [1.0]], [[2.0], [0.5]], [[3.0]], [[1.0], [0.0]]]
    >>> y = [0.5, 1.2, 3.0, 0.5]
    >>> SimpleMIRegressor().fit(X, y).score(X, y) > 0.9
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "pooling": [StrOptions({*POOLINGS, "bag_rows"}), callable],
    }

    def __init__(self, estimator=None, *, pooling="mean"):
        self.estimator = estimator
        self.pooling = pooling

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self._inner())
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = inner.target_tags.multi_output
        fixed = callable(self.pooling) or self.pooling == "statistics"
        tags.input_tags.duplicate_invariant = None if fixed else True
        return tags

    def _inner(self):
        return Ridge() if self.estimator is None else self.estimator

    def _fit_bags(self, X, y, weight):
        base = clone(self._inner())
        options = {}
        if not (weight == weight[0]).all():
            options = needed_weights(base, weight)
        self.pooling_ = self.pooling
        rows = pool(X, self.pooling)
        self._learns_dense = not sp.issparse(rows) or not _takes_sparse(base)
        if self._learns_dense:
            rows = dense_rows(rows)
        if self.estimator is None:
            base.set_params(alpha=_mean_variance(rows, weight))
        self.estimator_ = base.fit(rows, y, **options)

    def _predict_bags(self, X):
        return in_blocks(self._values, pool(X, self.pooling_), self._learns_dense)

    def _values(self, rows):
        return values(self.estimator_, rows)

    def _score_instances(self, X):
        return self._predict_bags(Bags(X.data, np.arange(X.n_instances + 1)))

    @available_if(_reads_instances)
    def instance_scores(self, X):
        """Predict a value for every instance, as for a bag with this instance only.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One value per instance.
        """
        return super().instance_scores(X)


def _takes_sparse(estimator):
    return get_tags(estimator).input_tags.sparse


def _mean_variance(rows, weight):
    """Return the mean variance of the columns of weighted rows; 1 if all are constant.

    A variance that rounding can have made counts as zero.
    """
    share, noise = weight / weight.sum(), len(weight) * np.finfo(np.float64).eps
    mean = share @ rows
    if sp.issparse(rows):
        squares = share @ rows.multiply(rows)
        variance = squares - mean**2
        least = noise * squares
    else:
        variance = share @ (rows - mean) ** 2
        least = (noise * mean) ** 2
    return float(np.where(variance > least, variance, 0.0).mean()) or 1.0
