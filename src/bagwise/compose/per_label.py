"""Several yes-or-no labels a bag: a model for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

__all__ = ["OneModelPerLabel"]


class OneModelPerLabel(ClassifierMixin, BaseEstimator):
    """Fitted models of bags, one for each label; predictions have a column for each.

    Parameters
    ----------
    models : list of estimator
        Fitted classifiers with two classes each.
    """

    def __init__(self, models: Any = None) -> None:
        self.models = models

    def __sklearn_is_fitted__(self) -> bool:
        """Return True: the models come fitted."""
        return self.models is not None

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the labels of each bag.

        Parameters
        ----------
        X : Bags
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_labels)
            A column for each label.
        """
        return np.column_stack([model.predict(X) for model in self.models])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of each label for each bag.

        Parameters
        ----------
        X : Bags
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_labels)
            Positive where a bag has the label.
        """
        return np.column_stack([model.decision_function(X) for model in self.models])
