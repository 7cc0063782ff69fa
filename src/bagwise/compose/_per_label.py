"""OneModelPerLabel: a bag classifier for each of several yes-or-no labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise.bags import as_bags
from bagwise.bags.validation import in_bag_order
from bagwise.base.estimator import DocumentedEstimator, weight_arguments


def _models_have(name: str) -> Any:
    def check(self: Any) -> bool:
        models = getattr(self, "estimators_", [self.estimator])
        return all(hasattr(model, name) for model in models)

    return check


class OneModelPerLabel(MetaEstimatorMixin, ClassifierMixin, DocumentedEstimator):
    """Fit a copy of a bag classifier for each label of bags that have several.

    `y` is a table with a column for each label; predictions have the same columns.

    Parameters
    ----------
    estimator : classifier
        Any classifier of bags, or a pipeline that ends in one.

    Attributes
    ----------
    estimators_ : list of classifier
        The fitted classifiers, one for each column of `y`.

    Notes
    -----
    Labels are learned independently of each other. Costs one fit for each label.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.compose import OneModelPerLabel, SimpleMI
    >>> from bagwise.datasets import make_bags
    >>> X, y = make_bags(40, random_state=0)
    >>> Y = np.column_stack([y, X.sizes > 6])
    >>> OneModelPerLabel(SimpleMI()).fit(X, Y).predict(X).shape
    (40, 2)
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    @classmethod
    def of(cls, models: list[Any]) -> OneModelPerLabel:
        """Return a classifier made of fitted models, one for each label.

        Parameters
        ----------
        models : list of estimators
            Fitted models, in the order of the labels.

        Returns
        -------
        OneModelPerLabel
            The fitted classifier.
        """
        one = cls(clone(models[0]))
        one.estimators_ = models
        return one

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OneModelPerLabel:
        """Fit a classifier for each label.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : array-like of shape (n_bags, n_labels)
            A column for each label.
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags, where the classifier takes them.

        Returns
        -------
        self
        """
        X = as_bags(X)
        y = np.asarray(in_bag_order(y, X))
        if y.ndim != 2:
            raise ValueError(
                "OneModelPerLabel needs y with a column for each label, got shape "
                f"{y.shape}. With one label per bag, fit the estimator itself."
            )
        options = {}
        if sample_weight is not None:
            weight = np.asarray(in_bag_order(sample_weight, X, "sample_weight"))
            options = weight_arguments(self.estimator, weight)
            if not options:
                name = type(self.estimator).__name__
                raise ValueError(f"{name} does not take sample_weight.")
        self.estimators_ = [
            clone(self.estimator).fit(X, column, **options) for column in y.T
        ]
        return self

    @property
    def classes_(self) -> list[NDArray[Any]]:
        """The classes of each label."""
        return [one.classes_ for one in self.estimators_]

    def _columns(self, method: str, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        X = as_bags(X)
        return np.stack([getattr(one, method)(X) for one in self.estimators_], axis=1)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the labels of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_labels)
            A column for each label.
        """
        return self._columns("predict", X)

    @available_if(_models_have("decision_function"))
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of each label for each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_labels)
            Positive where a bag has the label.
        """
        return self._columns("decision_function", X)

    @available_if(_models_have("predict_proba"))
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of the second class of each label for each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_labels)
            Probabilities that a bag has the label.
        """
        check_is_fitted(self)
        X = as_bags(X)
        columns = [one.predict_proba(X)[:, 1] for one in self.estimators_]
        return np.stack(columns, axis=1)
