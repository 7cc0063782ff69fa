"""The base classes of classifiers: two classes, several, weights.

Internally, the positive class is always the second one: the label +1 of -1 and +1 in
a two-class method, the code 1 in a multi-class method. `pos_label` names it.
Externally, the rules of scikit-learn hold: `classes_` is sorted, and
`decision_function` is positive for ``classes_[1]``. This module converts between the
two.
"""

import warnings

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import _fit_context
from bagwise.bags import Ragged
from bagwise.bags.segments import segment_argmax, segment_max
from bagwise.bags.validation import in_bag_order
from bagwise.base.estimator import (
    BaseBagEstimator,
    check_bag_weight,
    class_factors,
    scores_instances,
)
from bagwise.base.thresholds import choose_threshold, sigmoid_threshold


class BagClassifierMixin(ClassifierMixin):
    """Mixin that derives predictions from scores of bags and of instances.

    A classifier implements ``_decide(X)``, one score per bag (positive for the positive
    class) or one column per class, and, if it has them, ``_score_instances(X)``.
    """

    # Index in `classes_` of the positive class of a binary problem.
    _positive = 1

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def score(self, X, y, sample_weight=None):
        """Return the accuracy on bags.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.
        y : array-like of shape (n_bags,)
            Their labels; a Series follows the ids in its index, as in `fit`.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag; 1 by default.

        Returns
        -------
        float
            The share of bags that `predict` labels correctly.
        """
        weight = in_bag_order(sample_weight, X, "sample_weight")
        return super().score(X, in_bag_order(y, X), weight)

    def _encode_labels(self, y):
        """Set `classes_` and return a code per bag: its position, or 1 for positive."""
        _refuse_gaps(y)
        if not _are_two_plain(y):
            check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs bags of at least 2 classes, but y holds "
                f"one class only: {self.classes_.tolist()[0]!r}."
            )
        self._choose_positive()
        return self._codes_of(y)

    def _codes_of(self, y):
        """Return the codes of labels that are all among `classes_`."""
        codes = np.searchsorted(self.classes_, y)
        return 1 - codes if self._turned else codes

    def _choose_positive(self):
        """Find the positive class of two: what `pos_label` says, or the second."""
        self._positive = 1
        pos_label = getattr(self, "pos_label", None)
        known = self.classes_.tolist()
        if pos_label is None:
            guessed = len(known) == 2 and set(known) not in _CLEAR
            if guessed and self.__sklearn_tags__().input_tags.asymmetric:
                _warn_of_words(type(self).__name__, known)
            return
        if pos_label not in known:
            raise ValueError(
                f"pos_label={pos_label!r} is not among the labels: y holds "
                f"{_listed(known)}."
            )
        if len(known) > 2:
            raise ValueError(
                f"pos_label={pos_label!r} names the positive class of two, but y holds "
                f"{len(known)} classes. Omit it, or merge the other classes into one."
            )
        self._positive = known.index(pos_label)

    @property
    def pos_label_(self):
        """The positive class of two; None with more classes."""
        check_is_fitted(self)
        return self.classes_[self._positive] if len(self.classes_) == 2 else None

    @property
    def _turned(self):
        """Whether the positive class is the first of two, so that signs are changed."""
        return len(self.classes_) == 2 and self._positive == 0

    def _labels_of(self, codes):
        """Return the labels that codes stand for."""
        return (self.classes_[::-1] if self._turned else self.classes_)[codes]

    def _bag_weight(self, codes, sample_weight, X=None):
        """Return the weight of each bag: `sample_weight` times `class_weight`."""
        weight = check_bag_weight(sample_weight, len(codes), X)
        class_weight = getattr(self, "class_weight", None)
        if class_weight is None:
            return weight
        labels = self._labels_of(np.arange(len(self.classes_)))
        return weight * class_factors(class_weight, labels, codes, weight)[codes]

    def _training(self, X, y, sample_weight=None):
        """Return valid bags, codes and weights, without bags of weight zero."""
        X, y = self._check_bags(X, y, reset=True)
        codes = self._encode_labels(y)
        weight = self._bag_weight(codes, sample_weight, X)
        used = self._used(codes, weight)
        if len(used) == len(codes):
            return X, codes, weight
        return X[used], codes[used], weight[used]

    def _fresh_training(self, X, y, sample_weight=None):
        """Forget what an earlier fit has left behind, unless the bags are refused."""
        kept = {*self.get_params(deep=False), "n_features_in_", "feature_names_in_"}
        stale = {
            name: value
            for name, value in vars(self).items()
            if name.endswith("_") and name not in kept
        }
        for name in stale:
            delattr(self, name)
        try:
            return self._training(X, y, sample_weight)
        except Exception:
            vars(self).update(stale)
            raise

    def _used(self, codes, weight):
        """Return the bags with weight: one without is a bag that is not there."""
        used = np.flatnonzero(weight > 0)
        count = np.bincount(codes[used], minlength=len(self.classes_))
        missing = np.flatnonzero(count == 0)
        if missing.size:
            raise ValueError(
                f"class {self._labels_of(missing[0])!s} has no bag with a positive "
                "weight."
            )
        return used

    def _decide(self, X):
        raise NotImplementedError

    def _judge(self, X):
        """Return the scores of all instances, with a column per class beyond two."""
        return self._score_instances(X)

    def _outside(self, scores):
        """Turn scores that are positive for the positive class to `classes_[1]`."""
        if not self._turned:
            return scores
        # Zero predicts the negative class, which is the second: return a positive
        # score.
        tiny = np.finfo(scores.dtype).tiny
        return np.where(scores == 0, tiny, -scores)

    def decision_function(self, X):
        """Return the score of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_classes)
            Positive for `classes_[1]` with two classes, else one column per class.
        """
        check_is_fitted(self)
        return self._outside(self._decide(self._check_bags(X, reset=False)))

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
        scores = self.decision_function(X)
        return self.classes_[_label_position(scores)]

    @available_if(scores_instances)
    def instance_scores(self, X):
        """Return the score of each instance; higher is more positive.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One score per instance, high for the positive class; or one row with a
            column per class.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        return Ragged(self._judge(X), X.offsets)

    @available_if(lambda self: hasattr(self, "instance_scores"))
    def predict_instances(self, X):
        """Predict the label of each instance.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One label per instance, from the sign of `instance_scores` (two classes)
            or its largest column (more).
        """
        scores = self.instance_scores(X)
        codes = _label_position(scores.values)
        return Ragged(self._labels_of(codes), scores.offsets)

    @available_if(lambda self: hasattr(self, "instance_scores"))
    def key_instances(self, X):
        """Return the instance that decides, for each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,)
            Position inside its bag of the instance with the highest score; with more
            than two classes, of the highest score for the predicted class.
        """
        scores = self.instance_scores(X)
        values = scores.values
        first = scores.offsets[:-1]
        if values.ndim == 1:
            return segment_argmax(values, scores.offsets) - first
        column = _label_position(self.decision_function(X))
        rows = segment_argmax(values, scores.offsets)
        return rows[np.arange(len(column)), column] - first


# Pairs of labels whose positive class is obvious. Boolean labels are included, as False
# equals 0 and True equals 1.
_CLEAR = ({0, 1}, {-1, 1})


def _warn_of_words(name, labels):
    """Warn which of two labels is taken as positive, where that is a guess."""
    first, second = labels
    warnings.warn(
        f"{name} treats the positive class differently from the negative one, and uses"
        f" {second!r} as the positive class because it is the last in sorted order. "
        f"Set pos_label={first!r} or pos_label={second!r}.",
        UserWarning,
        stacklevel=2,
    )


def _are_two_plain(y):
    """Whether `y` holds at most two whole numbers, which are valid labels.

    scikit-learn's own check takes as long to say so as a small fit.
    """
    if not (isinstance(y, np.ndarray) and y.ndim == 1 and y.size):
        return False
    return y.dtype.kind in "biu" and bool(((y == y.min()) | (y == y.max())).all())


def _refuse_gaps(y):
    """Raise for numbers that are not labels, and name the first one."""
    y = np.asarray(y)
    wrong = np.flatnonzero(~np.isfinite(y)) if y.dtype.kind == "f" else ()
    if len(wrong):
        raise ValueError(
            f"Input y contains NaN or infinity: the label of bag {wrong[0]} is "
            f"{y[wrong[0]]}. Exclude the bag, or add its label."
        )


def _listed(labels, most=6):
    shown = ", ".join(repr(label) for label in labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"


def _label_position(scores):
    if scores.ndim == 1:
        return (scores > 0).astype(np.intp)
    return scores.argmax(axis=1)


class MulticlassBagClassifier(BagClassifierMixin, BaseBagEstimator):
    """Classifier that supports any number of classes natively, and weights of bags.

    A method implements ``_fit_codes(X, codes, weight)``: `X` is `Bags`, `codes` the
    position of each label in `classes_` (with two classes 1 is the positive one),
    `weight` one positive number per bag; and ``_decide(X)``, with one score per bag for
    two classes and one column per class for more.
    """

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None):
        """Fit on bags.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : array-like of shape (n_bags,)
            One label per bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag in the loss; 1 by default.

        Returns
        -------
        self
        """
        self._fit_codes(*self._fresh_training(X, y, sample_weight))
        return self

    def _fit_codes(self, X, codes, weight):
        raise NotImplementedError


class BinaryBagClassifier(BagClassifierMixin, BaseBagEstimator):
    """Classifier for two classes; more classes are fitted one-vs-rest.

    With more than two classes `estimators_` holds one fitted two-class estimator per
    class, which has the fitted attributes of the method.
    """

    # Function that finds the threshold from scores, for methods with that parameter.
    _find_threshold = staticmethod(sigmoid_threshold)
    # Whether each of several classes has its own threshold.
    _one_threshold_per_class = True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if getattr(self, "threshold", None) == "cv":
            tags.input_tags.order_invariant = False  # folds depend on the order
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Fit on bags.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : array-like of shape (n_bags,)
            One label per bag.

        Returns
        -------
        self
        """
        return self._fit_classes(X, y, None)

    def _fit_classes(self, X, y, sample_weight):
        X, codes, weight = self._fresh_training(X, y, sample_weight)
        self._prepare(X, weight)
        if len(self.classes_) == 2:
            return self._fit_two(X, np.where(codes == 1, 1.0, -1.0), weight)
        self.estimators_ = []
        for k in range(len(self.classes_)):
            one = self._unfitted_copy()
            if not self._one_threshold_per_class:
                one.threshold = "zero"
            self.estimators_.append(
                one._fit_two(X, np.where(codes == k, 1.0, -1.0), weight)
            )
        if hasattr(self.estimators_[0], "n_iter_"):
            self.n_iter_ = max(one.n_iter_ for one in self.estimators_)
        return self

    def _unfitted_copy(self):
        """Return a clone for a two-class sub-problem on the same features."""
        one = clone(self)
        one.classes_ = np.array([False, True])
        one.n_features_in_ = self.n_features_in_
        return one

    def _fit_two(self, X, t, weight):
        self._fit_binary(X, t, weight)
        if hasattr(self, "threshold"):
            self.threshold_ = choose_threshold(self, X, t, weight)
        return self

    def _fitted_to_fold(self, X, t, bag_weight, train):
        """Return a copy that scores bags, fitted without those outside of `train`.

        For the threshold by cross-validation, after the fit to all training bags: a
        method may keep from it what does not depend on the labels of the other bags,
        and what depends on them too little to matter.
        """
        one, part = self._unfitted_copy(), X[train]
        one._prepare(part, bag_weight[train])
        one._fit_binary(part, t[train], bag_weight[train])
        return one

    def _prepare(self, X, weight):
        """Do what needs no labels, once for all classes; by default nothing."""

    def _fit_binary(self, X, t, bag_weight):
        raise NotImplementedError

    def _score_bags(self, X):
        return segment_max(self._score_instances(X), X.offsets)

    def _parts(self):
        """Return the fitted two-class estimators: self, or one for each class."""
        return [self] if len(self.classes_) == 2 else self.estimators_

    def _collect(self, method, X):
        """Call a two-class method on every part and join the columns."""
        columns = [
            getattr(one, method)(X) - getattr(one, "threshold_", 0.0)
            for one in self._parts()
        ]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)

    def _decide(self, X):
        return self._collect("_score_bags", X)

    def _judge(self, X):
        return self._collect("_score_instances", X)


class WeightedBagClassifier(BinaryBagClassifier):
    """Two-class method whose loss can weight bags."""

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
            Weight of each bag in the loss; 1 by default.

        Returns
        -------
        self
        """
        return self._fit_classes(X, y, sample_weight)


class ProbabilityMixin:
    """Adds `predict_proba` to a method that has a probability.

    A two-class method implements ``_positive_probability(X)``, any other
    ``_probabilities(X)``, a column per class (of two, the positive one comes second).
    Where a two-class method has a `threshold`, its scores are log-odds, which are moved
    by the threshold: a bag at the threshold has probability one half.
    """

    def predict_proba(self, X):
        """Return the probability of each class for each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Rows sum to one; with more than two classes the one-vs-rest
            probabilities are divided by their sum.
        """
        check_is_fitted(self)
        columns = self._probabilities(self._check_bags(X, reset=False))
        return columns[:, ::-1] if self._turned else columns

    def _probabilities(self, X):
        columns = [
            one._moved_probability(X)
            if getattr(one, "threshold_", 0.0)
            else one._positive_probability(X)
            for one in self._parts()
        ]
        if len(columns) == 1:
            return np.column_stack([1.0 - columns[0], columns[0]])
        raw = np.column_stack(columns)
        total = raw.sum(axis=1, keepdims=True)
        flat = np.full_like(raw, 1.0 / raw.shape[1])
        return np.divide(raw, total, out=flat, where=total > 0)

    def _moved_probability(self, X):
        return expit(self._score_bags(X) - self.threshold_)
