"""Linear models from partitions: loss and gradient are sums over the parts."""

from __future__ import annotations

import numpy as np

from bagwise.least_squares.weights import class_factor


def fit_milr(model, parts):
    """Fit a copy of MILogisticRegression on `Partitions`."""
    parts.survey(labels=True)
    parts.set_features(model)
    labels, _, bags = parts.label_counts()
    model._encode_labels(labels)
    codes = np.searchsorted(model.classes_, labels)
    # A class counts its bags here, whatever they weigh, as in a local fit.
    factor = class_factor(model.class_weight, model.classes_, codes, bags)
    if len(model.classes_) == 2:
        return _fit_one(model, parts, model.classes_, model._positive, factor)
    model.estimators_ = []
    for k in range(len(model.classes_)):
        one = model._unfitted_copy()
        model.estimators_.append(_fit_one(one, parts, model.classes_, k, factor))
    model.n_iter_ = max(one.n_iter_ for one in model.estimators_)
    return model


def _fit_one(model, parts, classes, k, factor):
    """Fit one class against the rest."""
    targets = parts.map(_targets, classes, k, factor)
    model._fit_sums(targets)
    model._cut_sums(targets)
    return model


def _targets(part, classes, k, factor):
    """Replace the labels by 1.0 for class `k` and weigh the bags by their class."""
    codes = np.searchsorted(classes, part.y)
    target = (codes == k).astype(np.float64)
    return part._replace(y=target, weight=part.weight * factor[codes])


def fit_mi_linear_regression(model, parts):
    """Fit a copy of MILinearRegression on `Partitions`."""
    parts.survey()
    parts.set_features(model)
    model._fit_sums(parts.map(_values))
    return model


def _values(part):
    if part.y.ndim != 1 or not np.isfinite(part.y.astype(np.float64)).all():
        raise ValueError("y must be one finite number for each bag.")
    return part._replace(y=part.y.astype(np.float64))
