"""Predictions of scikit-learn's forests without their overhead per tree.

scikit-learn calls every tree through joblib, with a new set of warning filters each
time: 0.1 ms per tree, which is most of the time for few rows. A plain loop over the
trees gives the same sums in the same order.
"""

from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.utils.validation import check_is_fitted

_CLASSIFIERS = (ExtraTreesClassifier, RandomForestClassifier)
_REGRESSORS = (ExtraTreesRegressor, RandomForestRegressor)


def class_probabilities(model, rows):
    """Return ``model.predict_proba(rows)``, to the last bit.

    Parameters
    ----------
    model : classifier
        Any fitted classifier; forests on one core are summed here.
    rows : array or CSR matrix of shape (n_rows, n_features)
        The rows.

    Returns
    -------
    ndarray of shape (n_rows, n_classes)
    """
    if not _is_plain(model, _CLASSIFIERS):
        return model.predict_proba(rows)
    return _mean_of_trees(model, rows)[:, : model.n_classes_]


def values(model, rows):
    """Return ``model.predict(rows)`` of a regressor, to the last bit."""
    if not _is_plain(model, _REGRESSORS):
        return model.predict(rows)
    return _mean_of_trees(model, rows)[:, 0]


def _is_plain(model, kinds):
    """Whether a model is a forest of one output that predicts on one core."""
    if type(model) not in kinds or model.n_jobs not in (None, 1) or model.verbose:
        return False
    check_is_fitted(model)
    return model.n_outputs_ == 1


def _mean_of_trees(forest, rows):
    rows = forest._validate_X_predict(rows)  # as its own methods do
    total = 0.0
    for tree in forest.estimators_:
        total = total + tree.tree_.predict(rows)
    return total / len(forest.estimators_)
