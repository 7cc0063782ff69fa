"""Base class of methods that turn a bag into one row for any classifier of rows."""

import numpy as np
import scipy.sparse as sp
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import _fit_context
from bagwise._sizes import check_memory
from bagwise.bags import Bags, Ragged
from bagwise.base import BagClassifierMixin, BaseBagEstimator
from bagwise.base.estimator import check_bag_weight, weight_arguments
from bagwise.compose.forests import class_probabilities
from bagwise.kernels.instance import instance_kernel, row_blocks


def _base_has(name):
    def check(self):
        return hasattr(getattr(self, "estimator_", self._base_estimator()), name)

    return check


def dense_rows(rows):
    """Return the rows of bags as a dense array."""
    if not sp.issparse(rows):
        return rows
    check_memory(
        8.0 * rows.shape[0] * rows.shape[1],
        f"{rows.shape[0]} dense rows of {rows.shape[1]} columns",
        "Fit on sparse bags, with an estimator that takes sparse rows.",
    )
    return rows.toarray()


def in_blocks(function, rows, dense):
    """Return a function of rows; sparse ones become dense in blocks if they have to."""
    if not dense or not sp.issparse(rows):
        return function(rows)
    parts = row_blocks(rows.shape[0], 8.0 * rows.shape[1])
    return np.concatenate([function(rows[part].toarray()) for part in parts])


def needed_weights(estimator, weight):
    """Return the keyword that weighs an estimator, or the last step of a pipeline."""
    options = weight_arguments(estimator, weight)
    if not options:
        raise ValueError(f"{type(estimator).__name__} does not take sample_weight.")
    return options


class EmbeddedClassifier(BagClassifierMixin, BaseBagEstimator):
    """Turn bags into rows, then fit any scikit-learn classifier.

    Subclasses have a parameter `estimator` and define `_rows(X)`, the row of each bag;
    `_fit_rows(X, y, weight)` where the rows have to be learned first; and
    `_default_estimator(sparse)`.
    """

    def _base_estimator(self, sparse=False):
        # Not `estimator or default`: an unfitted ensemble has no truth value.
        if self.estimator is not None:
            return self.estimator
        return self._default_estimator(sparse)

    def _fit_rows(self, X, y, weight):
        return self._rows(X)

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None):
        """Fit the classifier on one row per bag.

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
        codes = self._encode_labels(y)
        weight = check_bag_weight(sample_weight, len(X), X)
        used = self._used(codes, weight)
        if len(used) < len(y):  # bags with zero weight are left out
            X, y, weight = X[used], y[used], weight[used]
        base = self._base_estimator(self._learns_sparse(X))
        options = {} if sample_weight is None else needed_weights(base, weight)
        rows = self._fit_rows(X, y, weight)
        return self._learn(base, rows, y, options)

    def _learn(self, base, rows, y, options):
        """Fit a copy of the learner on the rows of the bags."""
        self._learns_dense, self._origin = not sp.issparse(rows), None
        if self.estimator is None:
            weight = options.get("sample_weight")
            base, self._origin = self._adapt_default(base, rows, weight)
        rows = self._placed(rows)
        # The parameters of the default need no validation.
        known = get_config()["skip_parameter_validation"] or self.estimator is None
        with config_context(skip_parameter_validation=known):
            self.estimator_ = clone(base).fit(rows, y, **options)
        return self

    def _learns_sparse(self, X):
        """Whether the default learner is the one for sparse data."""
        return X.is_sparse

    def _adapt_default(self, base, rows, weight):
        """Return the default learner for these rows, and the origin of the rows."""
        return base, None

    def _placed(self, rows):
        """Return rows as the learner gets them: dense or not, minus their origin."""
        rows = dense_rows(rows) if self._learns_dense else rows
        return rows if self._origin is None else rows - self._origin

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
        rows = self._checked_rows(X)
        if _is_plain_rbf(self.estimator_, rows):
            second = _rbf_values(self.estimator_, rows) >= 0.0  # ties as in libsvm
            return self.estimator_.classes_[second.astype(np.intp)]
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
        rows = self._checked_rows(X)
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
        rows = self._checked_rows(X)
        return class_probabilities(self.estimator_, rows)

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
        scores = in_blocks(self._decide, self._rows(alone), self._learns_dense)
        return Ragged(-scores if self._turned else scores, X.offsets)

    def _decide(self, rows):
        return _decide(self.estimator_, self._placed(rows))

    def _checked_rows(self, X):
        check_is_fitted(self)
        return self._placed(self._rows(self._check_bags(X, reset=False)))


def _decide(estimator, rows):
    if _is_plain_rbf(estimator, rows):
        return _rbf_values(estimator, rows)
    if hasattr(estimator, "decision_function"):
        return estimator.decision_function(rows)
    probability = class_probabilities(estimator, rows)
    return probability[:, 1] - 0.5 if probability.shape[1] == 2 else probability


def _is_plain_rbf(estimator, rows):
    """Whether the estimator is a two-class SVC with a Gaussian kernel on dense rows."""
    return (
        type(estimator) is SVC
        and estimator.kernel == "rbf"
        and len(estimator.classes_) == 2
        and isinstance(rows, np.ndarray)
        and isinstance(estimator.support_vectors_, np.ndarray)
    )


def _rbf_values(estimator, rows):
    """Return the decision values of an SVC by matrix products.

    libsvm goes through pairs of rows one by one, which takes most of the time where
    every instance is scored as a bag of its own.
    """
    support = estimator.support_vectors_
    found = np.empty(len(rows))
    for block in row_blocks(len(rows), 8 * len(support)):
        K = instance_kernel(support, rows[block], gamma=estimator._gamma)
        found[block] = estimator.dual_coef_[0] @ K + estimator.intercept_[0]
    return found
