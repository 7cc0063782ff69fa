"""Base class and mixins of every estimator that takes bags.

A two-class method writes three short methods and gets everything else::

    class MyMethod(WeightedBagClassifier):
        def _fit_binary(self, X, t, bag_weight): ...  # sets attributes ending in _
        def _score_instances(self, X): ...            # one score per instance
        def _score_bags(self, X): ...                 # default: the largest of a bag
"""

from dataclasses import dataclass, fields

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.utils import InputTags, compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_is_fitted,
    column_or_1d,
)

from bagwise._compat import _check_sample_weight, _fit_context
from bagwise._threshold import choose_threshold
from bagwise.bags import Ragged, check_bags
from bagwise.bags.segments import segment_argmax, segment_max


@dataclass(slots=True)
class BagInputTags(InputTags):
    """scikit-learn's input tags and what else bags have."""

    # Whether repeating every instance of every bag leaves the decision as it is.
    # None: not promised.
    duplicate_invariant: bool | None = None


class BaseBagEstimator(BaseEstimator):
    """Base of all estimators whose samples are bags."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        known = {f.name: getattr(tags.input_tags, f.name) for f in fields(InputTags)}
        tags.input_tags = BagInputTags(**known)
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def _check_bags(self, X, y=None, *, reset, min_bags=1):
        """Return `X` as sound `Bags`, with the checked `y` when one is given."""
        tags = self.__sklearn_tags__()
        if y is None and reset and tags.target_tags.required:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                "None. Pass one label per bag."
            )
        X = check_bags(
            X,
            accept_sparse=tags.input_tags.sparse,
            min_bags=min_bags,
            ensure_finite=not tags.input_tags.allow_nan,
        )
        self._check_features(X, reset=reset)
        if y is None:
            return X
        y = column_or_1d(y, warn=True)
        if len(y) != len(X):
            extra = ""
            if len(y) == X.n_instances:
                extra = " It has one entry per instance: labels belong to bags."
            raise ValueError(
                f"y has {len(y)} entries for {len(X)} bags: inconsistent numbers of "
                f"samples.{extra}"
            )
        return X, y

    def _check_features(self, X, *, reset):
        if reset:
            self.n_features_in_ = X.n_features
            if X.feature_names is not None:
                self.feature_names_in_ = np.asarray(X.feature_names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return
        expected = getattr(self, "feature_names_in_", None)
        if X.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {X.n_features} features, but {type(self).__name__} is "
                f"expecting {self.n_features_in_} features as input."
                f"{_name_difference(expected, X.feature_names)}"
            )
        if expected is None or X.feature_names is None:
            return  # an array without names is taken by position
        wrong = np.flatnonzero(expected != np.asarray(X.feature_names, dtype=object))
        if wrong.size:
            j = wrong[0]
            raise ValueError(
                "The feature names should match those that were passed during fit: "
                f"column {j} was {expected[j]!r} and is now {X.feature_names[j]!r}."
            )


def _name_difference(expected, found):
    """Say which names are new and which are missing, where both have names."""
    if expected is None or found is None:
        return ""
    new = [str(name) for name in found if name not in set(expected)][:5]
    missing = [str(name) for name in expected if name not in set(found)][:5]
    text = f" Not seen in fit: {', '.join(new)}." if new else ""
    return text + (f" Missing: {', '.join(missing)}." if missing else "")


def _scores_instances(estimator):
    """Whether a method has instance scores; used with `available_if`."""
    if hasattr(type(estimator), "_score_instances"):
        return True
    raise AttributeError(
        f"{type(estimator).__name__} has no scores for single instances"
    )


class BagClassifierMixin(ClassifierMixin):
    """`predict` and the instance methods, from decision values and instance scores."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _encode_labels(self, y):
        """Set `classes_` and return the position of each label in it."""
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs bags of at least 2 classes, but y holds "
                f"one class only: {self.classes_[0]!r}."
            )
        return codes

    def _bag_weight(self, y_codes, sample_weight):
        """Return the weight of each bag: `sample_weight` times `class_weight`."""
        n_bags = len(y_codes)
        weight = _check_sample_weight(sample_weight, np.empty((n_bags, 1)))
        if (weight < 0).any():
            bag = int(np.flatnonzero(weight < 0)[0])
            raise ValueError(
                f"sample_weight must not be negative, got {weight[bag]} for bag {bag}."
            )
        class_weight = getattr(self, "class_weight", None)
        if class_weight is None:
            return weight
        labels = self.classes_[y_codes]
        per_class = compute_class_weight(class_weight, classes=self.classes_, y=labels)
        return weight * per_class[y_codes]

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
        return Ragged(self.classes_[_label_position(scores.values)], scores.offsets)

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


def _label_position(scores):
    if scores.ndim == 1:
        return (scores > 0).astype(np.intp)
    return scores.argmax(axis=1)


class BinaryBagClassifier(BagClassifierMixin, BaseBagEstimator):
    """Classifier whose mathematics knows two classes; more become one-vs-rest.

    With more than two classes `estimators_` holds one fitted two-class estimator per
    class, and fitted attributes of the method live there.
    """

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
        X, y = self._check_bags(X, y, reset=True)
        codes = self._encode_labels(y)
        weight = self._bag_weight(codes, sample_weight)
        used = weight > 0
        if not used.all():  # a bag without weight is a bag that is not there
            X, codes, weight = X[used], codes[used], weight[used]
            if len(np.unique(codes)) < len(self.classes_):
                raise ValueError("a class has no bag with a positive weight.")
        self._prepare(X)
        if len(self.classes_) == 2:
            return self._fit_two(X, np.where(codes == 1, 1.0, -1.0), weight)
        self.estimators_ = []
        for k in range(len(self.classes_)):
            one = self._unfitted_copy()
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

    def _prepare(self, X):
        """Do what needs no labels, once for all classes; by default nothing."""

    def _fit_binary(self, X, t, bag_weight):
        raise NotImplementedError

    def _score_bags(self, X):
        return segment_max(self._score_instances(X), X.offsets)

    def _parts(self):
        """Return the fitted two-class estimators: self, or one for each class."""
        check_is_fitted(self)
        return [self] if len(self.classes_) == 2 else self.estimators_

    def _collect(self, method, X):
        """Call a two-class method on every part and join the columns."""
        columns = [
            getattr(one, method)(X) - getattr(one, "threshold_", 0.0)
            for one in self._parts()
        ]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)

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
        return self._collect("_score_bags", self._check_bags(X, reset=False))

    @available_if(_scores_instances)
    def instance_scores(self, X):
        """Return the score of each instance; higher is more positive.

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
        return Ragged(self._collect("_score_instances", X), X.offsets)


class WeightedBagClassifier(BinaryBagClassifier):
    """Two-class method whose loss can weigh bags."""

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
    """Adds `predict_proba` to a two-class method that has a probability."""

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
        X = self._check_bags(X, reset=False)
        columns = [one._positive_probability(X) for one in self._parts()]
        if len(columns) == 1:
            return np.column_stack([1.0 - columns[0], columns[0]])
        raw = np.column_stack(columns)
        total = raw.sum(axis=1, keepdims=True)
        flat = np.full_like(raw, 1.0 / raw.shape[1])
        return np.divide(raw, total, out=flat, where=total > 0)


class BagTransformerMixin(TransformerMixin):
    """Transformer of bags, to bags or to a matrix with one row per bag."""

    def __init_subclass__(cls, **kwargs):
        # Bags are no data frame: scikit-learn's wrapping of outputs must stay away.
        kwargs.setdefault("auto_wrap_output_keys", None)
        super().__init_subclass__(**kwargs)

    def set_output(self, *, transform=None):
        """Return self: the output is bags or an array, whatever is asked for."""
        return self
