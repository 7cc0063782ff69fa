"""Trees of scikit-learn: forests without overhead, and units of columns they can split.

scikit-learn calls every tree through joblib, with a new set of warning filters each
time: 0.1 ms per tree, which is most of the time for few rows. A plain loop over the
trees gives the same sums in the same order.
"""

import numpy as np
import scipy.sparse as sp
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
    rows = forest._validate_X_predict(rows)  # as in the forest's own methods
    total = 0.0
    for tree in forest.estimators_:
        total = total + tree.tree_.predict(rows)
    return total / len(forest.estimators_)


# A column is centered if its values exceed its range by this factor.
_FAR = 64.0


def tree_units(data):
    """Return a shift and a scale per column, in which trees can split the rows.

    scikit-learn's trees round rows to single precision and split no range below 1e-7.
    Columns far from zero lose their digits there (Unix times become equal), and columns
    of small values look constant. A scale is the power of two next to the range, which
    changes no digit. Only dense columns are shifted, and only those far from zero.

    Parameters
    ----------
    data : array or CSR matrix of shape (n_rows, n_features)
        The training rows.

    Returns
    -------
    shift, scale : ndarray of shape (n_features,)
    """
    low, high = (np.asarray(_column(data, name), float) for name in ("min", "max"))
    width = high - low
    _, exponent = np.frexp(np.where(width > 0, width, 1.0))
    far = np.maximum(np.abs(low), np.abs(high)) > _FAR * width
    far &= not sp.issparse(data)
    return np.where(far, low, 0.0), np.ldexp(1.0, exponent)


def _column(data, name):
    found = getattr(data, name)(axis=0)
    return found.toarray().ravel() if sp.issparse(found) else found


def in_tree_units(data, shift, scale):
    """Return rows in the units of `tree_units`, in single precision."""
    if sp.issparse(data):
        return (data @ sp.diags_array(1.0 / scale)).tocsr().astype(np.float32)
    return ((data - shift) / scale).astype(np.float32)
