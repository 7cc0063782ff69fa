"""The base class of regressors: one real value, or several, per bag."""

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from bagwise._compat import _fit_context
from bagwise.bags import Ragged
from bagwise.bags.segments import segment_argmax
from bagwise.bags.validation import in_bag_order
from bagwise.base.estimator import (
    BaseBagEstimator,
    check_bag_weight,
    scores_instances,
)


class BaseBagRegressor(RegressorMixin, BaseBagEstimator):
    """Regressor of bags.

    A method implements ``_fit_bags(X, y, weight)`` and ``_predict_bags(X)``, and
    ``_score_instances(X)`` if it has a value for single instances, in units of y. The
    arguments of `_fit_bags` are validated: `X` is `Bags`, `y` finite float64 of shape
    (n_bags,), or (n_bags, n_outputs) where the tag ``target_tags.multi_output`` is set
    and a table was passed, `weight` one positive number per bag.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit on bags.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs)
            One real value per bag; several where the method takes them.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag in the loss; 1 by default. Zero excludes a bag.

        Returns
        -------
        self
        """
        self._fit_bags(*self._training(X, y, sample_weight))
        return self

    def score(self, X, y, sample_weight=None):
        """Return the coefficient of determination on bags.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs)
            Their values; a Series follows the ids in its index, as in `fit`.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag; 1 by default.

        Returns
        -------
        float
            1 for perfect predictions, 0 for those of the mean of `y`.
        """
        weight = in_bag_order(sample_weight, X, "sample_weight")
        return super().score(X, in_bag_order(y, X), weight)

    def _training(self, X, y, sample_weight):
        """Return valid bags, targets and weights, without bags of weight zero."""
        X, y = self._check_bags(X, y, reset=True)
        weight = check_bag_weight(sample_weight, len(X), X)
        used = weight > 0
        if not used.any():
            raise ValueError("no bag has a positive weight.")
        if not used.all():  # bags with zero weight are left out
            X, y, weight = X[used], y[used], weight[used]
        return X, y, weight

    def _check_bags(self, X, y=None, *, reset, min_bags=1):
        checked = super()._check_bags(X, y, reset=reset, min_bags=min_bags)
        if y is None:
            return checked
        X, y = checked
        wrong = ~np.isfinite(y.reshape(len(y), -1)).all(axis=1)
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"Input y contains NaN or infinity: bag {X.ids[i]} (position {i}) has "
                f"{y[i]}. Exclude the bag, or add its value."
            )
        return X, y

    def _check_target(self, y):
        if self.__sklearn_tags__().target_tags.multi_output:
            y = np.asarray(y)
            if y.ndim != 2:
                y = column_or_1d(y, warn=True)
        else:
            y = column_or_1d(y, warn=True)
        if y.dtype.kind == "c":
            raise ValueError("y holds complex numbers. Complex data not supported.")
        try:
            return y.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{type(self).__name__} needs real numbers as y ({error}). Labels are "
                "for classifiers."
            ) from None

    def _fit_bags(self, X, y, weight):
        raise NotImplementedError

    def _predict_bags(self, X):
        raise NotImplementedError

    def predict(self, X):
        """Predict the value of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_outputs)
            In units of y.
        """
        check_is_fitted(self)
        return self._predict_bags(self._check_bags(X, reset=False))

    @available_if(scores_instances)
    def instance_scores(self, X):
        """Return the value of each instance, in units of y.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One value per instance, or one row with a column per output.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        return Ragged(self._score_instances(X), X.offsets)

    @available_if(lambda self: hasattr(self, "instance_scores"))
    def key_instances(self, X):
        """Return the instance that decides, for each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_outputs)
            Position inside its bag of the instance with the highest value.
        """
        scores = self.instance_scores(X)
        first = scores.offsets[:-1]
        rows = segment_argmax(scores.values, scores.offsets)
        return rows - (first if rows.ndim == 1 else first[:, None])
