"""Trees of scikit-learn without overhead, and units of columns they can split.

scikit-learn calls every tree of a forest through joblib, with a new set of warning
filters each time: 0.1 ms per tree, which is most of the time for few rows. A plain loop
over the trees gives the same sums in the same order. For the rows of one bag even the
call of a tree takes most of the time (3 microseconds, 9 in boosting): the nodes of all
trees are put together once, and one compiled loop visits them.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.utils.validation import check_is_fitted

from bagwise.compose._loops import sum_of_trees

_CLASSIFIERS = (ExtraTreesClassifier, RandomForestClassifier)
_REGRESSORS = (ExtraTreesRegressor, RandomForestRegressor)
_BOOSTED = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
# Up to this many rows the nodes of all trees are visited in one loop.
_FEW_ROWS = 64


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
    if type(model) is HistGradientBoostingRegressor and model.loss == "squared_error":
        found = _boosted(model, rows)
        return model.predict(rows) if found is None else found
    if not _is_plain(model, _REGRESSORS):
        return model.predict(rows)
    return _mean_of_trees(model, rows)[:, 0]


def decision_values(model, rows):
    """Return ``model.decision_function(rows)`` of a classifier, to the last bit."""
    found = None
    if type(model) is HistGradientBoostingClassifier:
        found = _boosted(model, rows)
    return model.decision_function(rows) if found is None else found


def _is_plain(model, kinds):
    """Whether a model is a forest of one output that predicts on one core."""
    if type(model) not in kinds or model.n_jobs not in (None, 1) or model.verbose:
        return False
    check_is_fitted(model)
    return model.n_outputs_ == 1


def _mean_of_trees(forest, rows):
    rows = forest._validate_X_predict(rows)  # as in the forest's own methods
    nodes = _nodes_of(forest, forest.estimators_) if _is_few(rows) else None
    if nodes is not None:
        total = np.zeros((len(rows), nodes.value.shape[1]))
        sum_of_trees(np.ascontiguousarray(rows, float), *nodes, total)
    else:
        total = 0.0
        for tree in forest.estimators_:
            total = total + tree.tree_.predict(rows)
    return total / len(forest.estimators_)


def _boosted(model, rows):
    """Return the sum of the trees of one output; None where the model does it."""
    check_is_fitted(model)
    if model.n_trees_per_iteration_ != 1 or not _is_few(rows):
        return None
    nodes = _nodes_of(model, model._predictors)
    if nodes is None or rows.shape[1] != model.n_features_in_:
        return None
    total = np.full((len(rows), 1), model._baseline_prediction.item())
    sum_of_trees(np.ascontiguousarray(rows, float), *nodes, total)
    return total[:, 0]


def _is_few(rows):
    """Whether rows are those of one bag or two, without gaps."""
    return (
        isinstance(rows, np.ndarray)
        and len(rows) <= _FEW_ROWS
        and rows.dtype.kind == "f"
        and bool(np.isfinite(rows).all())
    )


class Nodes(NamedTuple):
    """The nodes of all trees, one tree after the other."""

    roots: np.ndarray  # of shape (n_trees,)
    feature: np.ndarray  # of shape (n_nodes,), as all others
    threshold: np.ndarray
    left: np.ndarray  # -1 at leaves
    right: np.ndarray
    value: np.ndarray  # of shape (n_nodes, n_outputs)


_known = WeakKeyDictionary()


def _nodes_of(model, trees):
    """Return the nodes of a fitted model, None with categories; found once."""
    known = _known.get(model)
    if known is None or known[0] is not trees:  # a refit makes a new list
        boosted = type(model) in _BOOSTED
        parts = [_boosted_nodes(t) if boosted else _tree_nodes(t.tree_) for t in trees]
        known = _known[model] = trees, _joined(parts)
    return known[1]


def _tree_nodes(tree):
    left = tree.children_left
    return tree.feature, tree.threshold, left, tree.children_right, tree.value[:, 0]


def _boosted_nodes(iteration):
    nodes = iteration[0].nodes
    if nodes["is_categorical"].any():
        return None
    left = np.where(nodes["is_leaf"], -1, nodes["left"].astype(np.int64))
    order = "feature_idx", "num_threshold", "right", "value"
    feature, threshold, right, value = (nodes[name] for name in order)
    return feature, threshold, left, right, value[:, None]


def _joined(parts):
    if not parts or any(part is None for part in parts):
        return None
    sizes = [len(part[0]) for part in parts]
    roots = np.cumsum([0, *sizes[:-1]])
    feature, threshold, left, right, value = map(
        np.concatenate, zip(*parts, strict=True)
    )
    shift = np.repeat(roots, sizes)
    left = np.where(left < 0, -1, left + shift)
    kinds = np.int64, np.float64, np.int64, np.int64, np.float64
    arrays = feature, threshold, left, right + shift, value
    pairs = zip(arrays, kinds, strict=True)
    return Nodes(roots, *(np.ascontiguousarray(a, dtype=kind) for a, kind in pairs))


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
