"""Predictions of a fitted model for partitions, and their score."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, check_scoring, r2_score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from bagwise.distributed._partitions import Partitions, labels_of, weights_of


def predict(model, parts, *, method="predict", bag=None, features=None):
    """Apply a fitted model to partitions.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of bags, or a pipeline of them; it is sent to the workers.
    parts : dask DataFrame, dask Bag, or sequence
        As in :func:`fit`; labels are not needed.
    method : str, default="predict"
        Name of a method that returns one value or one row per bag: "predict",
        "decision_function", "predict_proba", "transform".
    bag, features
        Columns of a DataFrame.

    Returns
    -------
    ndarray of shape (n_bags,) or (n_bags, n_columns)
        In the order of the parts.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.distributed import predict
    >>> from bagwise.least_squares import SAFE
    >>> X, y = np.random.default_rng(0).normal(size=(8, 3, 2)), np.arange(8) % 2
    >>> model = SAFE().fit(X, y)
    >>> bool(np.all(predict(model, [(X[:3],), (X[3:],)]) == model.predict(X)))
    True
    """
    return Partitions(parts, bag, None, features, labeled=False).gather(
        _answer, model, method
    )


def score(model, parts, *, scoring=None, bag=None, label=None, features=None):
    """Score a fitted model on partitions with labels.

    Parameters
    ----------
    model : estimator
        Any fitted classifier or regressor of bags.
    parts : dask DataFrame, dask Bag, or sequence
        As in :func:`fit`. Weights of bags are used as weights in the score.
    scoring : str or callable, default=None
        As in scikit-learn; accuracy or R2 by default. Only predictions and labels
        are gathered.
    bag, label, features
        Columns of a DataFrame.

    Returns
    -------
    float
        The score on all bags together.
    """
    found = Partitions(parts, bag, label, features)
    y, weight = found.gather(labels_of), found.gather(weights_of)
    extra = {} if np.all(weight == 1.0) else {"sample_weight": weight}
    proxy = _Remote(model, found)
    return check_scoring(proxy, scoring=scoring)(proxy, None, y, **extra)


def _answer(part, model, method):
    return getattr(model, method)(part.X)


class _Remote(BaseEstimator):
    """A model whose predictions are computed on the parts, for scorers."""

    def __init__(self, model=None, parts=None):
        self.model = model
        self.parts = parts

    def __sklearn_tags__(self):
        return get_tags(self.model)

    def __sklearn_is_fitted__(self):
        return True

    @property
    def classes_(self):
        return self.model.classes_

    def fit(self, X, y):
        """Raise: the model is already fitted."""
        raise NotImplementedError

    def predict(self, X):
        """Return the predictions for all parts."""
        return self.parts.gather(_answer, self.model, "predict")

    def score(self, X, y, sample_weight=None):
        """Return the default score of the model's kind."""
        measure = accuracy_score if hasattr(self.model, "classes_") else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    @available_if(lambda self: hasattr(self.model, "decision_function"))
    def decision_function(self, X):
        """Return the decision values for all parts."""
        return self.parts.gather(_answer, self.model, "decision_function")

    @available_if(lambda self: hasattr(self.model, "predict_proba"))
    def predict_proba(self, X):
        """Return the probabilities for all parts."""
        return self.parts.gather(_answer, self.model, "predict_proba")
