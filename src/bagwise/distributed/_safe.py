"""SAFE and SAFERegressor from partitions: survey, landmarks, sums of moments."""

from __future__ import annotations

import numpy as np

from bagwise.base.estimator import class_factors
from bagwise.kernels.instance import resolve_gamma
from bagwise.least_squares.safe_fit import solve_moments
from bagwise.least_squares.safe_moments import (
    FeatureMap,
    choose_features,
    draw_landmarks,
)
from bagwise.least_squares.safe_problem import (
    Settings,
    Training,
    ValueTargets,
    can_stream,
)

_MEDIAN_ROWS = 1000  # rows used by gamma="median", as in a local fit


def fit_safe(model, parts):
    """Fit a copy of SAFE on `Partitions`."""
    settings = _stream_settings(model)
    parts.survey(_spread, labels=True)
    classes, factor = encode_classes(model, parts)
    parts = parts.map(_indicators, classes, factor)
    if model.class_weight is not None:
        parts.survey(_spread)  # again, with class weights
    return _fit(model, parts, settings)


def encode_classes(model, parts):
    """Return the classes and their weights; needs a survey with labels."""
    labels, weights = parts.label_counts()
    codes = model._encode_labels(labels)
    # In the order of their codes: of two classes, the second is positive.
    classes = model._labels_of(np.arange(len(model.classes_)))
    return classes, class_factors(model.class_weight, classes, codes, weights)


def fit_safe_regressor(model, parts):
    """Fit a copy of SAFERegressor on `Partitions`."""
    settings = _stream_settings(model)
    shapes = {one.extra[-1] for one in parts.survey(_spread)}
    if len(shapes) > 1:
        raise ValueError(f"y has different numbers of columns: {sorted(shapes)}.")
    model._one_output = shapes.pop() == ()
    return _fit(model, parts.map(_values), settings)


def _stream_settings(model):
    try:
        can_stream(model)
    except AttributeError as error:
        raise ValueError(
            f"distributed.fit has the same limits as partial_fit: {error}"
        ) from None
    return Settings.of(model)


def _fit(model, parts, settings):
    """Fit on parts whose labels have become columns of targets, with their weights."""
    parts.set_features(model)
    settings = settings.with_kernel(_width(settings, parts))
    chosen = FeatureMap(settings, _features(settings, parts, model.n_features_in_))
    if settings.core == "ksc":
        chosen.total = parts.sum(_feature_total, chosen)
    moments = parts.sum(_moments, chosen)
    targets = model._targets(moments.target.shape[0])
    model._take(solve_moments(settings, chosen.features, moments, targets))
    return model


def _indicators(part, classes, factor):
    columns = (part.y[:, None] == classes).astype(np.float64)
    return part._replace(y=columns, weight=part.weight * (columns @ factor))


def _values(part):
    y = part.y.astype(np.float64)
    return part._replace(y=ValueTargets.columns(y))


def _spread(part):
    """Return weight, mean and squared deviations of all entries, and y's shape."""
    X, weight = part.X, part.weight
    rows = np.repeat(weight, X.sizes)
    total = float(rows.sum())
    entries = total * X.n_features
    mean = float(np.sum(rows @ X.data)) / entries if entries else 0.0
    if X.is_sparse:
        squares = X.data.multiply(X.data)
        square = float(np.sum(rows @ squares)) - entries * mean**2
    else:
        square = float(np.sum(rows @ np.square(X.data - mean)))
    return total, mean, square, part.y.shape[1:]


def _width(settings, parts):
    """Kernel width of a local fit on all parts."""
    n_features = parts.surveys[0].n_features
    if settings.kernel == "linear":
        return 1.0
    if settings.gamma == "median":
        n = sum(parts.sizes)
        rows = np.arange(0, n, max(1, -(-n // _MEDIAN_ROWS)))
        # `rows` is already the subsample, so resolve_gamma uses all of it.
        return resolve_gamma("median", parts.take(rows))
    if settings.gamma != "scale":
        return resolve_gamma(settings.gamma, np.zeros((1, n_features)))
    spreads = [one.extra[:3] for one in parts.surveys]
    total = sum(weight for weight, _, _ in spreads)
    mean = sum(weight * middle for weight, middle, _ in spreads) / total
    square = sum(
        deviation + weight * n_features * (middle - mean) ** 2
        for weight, middle, deviation in spreads
    )
    # 1 / (n_features * variance), and the variance is square / (total * n_features)
    return total / square if square > 0 else 1.0


def _features(settings, parts, n_features):
    def draw():
        n, m = sum(parts.sizes), settings.n_components
        return parts.take(draw_landmarks(n, m, settings.random_state))

    return choose_features(settings, n_features, draw)


def _feature_total(part, chosen):
    return chosen.sum(part.X, part.weight)


def _moments(part, chosen):
    training = Training(part.X, part.y, part.weight)
    return chosen.moments_if_possible(training)
