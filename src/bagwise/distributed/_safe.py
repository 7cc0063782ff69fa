"""SAFE from partitions: a survey, the landmarks, and the additive moments."""

from __future__ import annotations

import numpy as np

from bagwise.kernels._instance import resolve_gamma
from bagwise.least_squares._weights import class_factor
from bagwise.least_squares.safe._base import can_stream
from bagwise.least_squares.safe._features import choose_features, draw_landmarks
from bagwise.least_squares.safe._fit import solve_moments
from bagwise.least_squares.safe._moments import FeatureMap
from bagwise.least_squares.safe._problem import LabelTargets, Settings, Training

_MEDIAN_ROWS = 1000  # rows that gamma="median" looks at, as in a local fit


def fit_safe(model, parts):
    """Fit a copy of SAFE on `Partitions`."""
    try:
        can_stream(model)
    except AttributeError as error:
        raise ValueError(str(error).replace("partial_fit", "distributed.fit")) from None
    settings = Settings.of(model)
    parts.survey(_spread, labels=True)
    parts.set_features(model)
    labels, weights = parts.label_counts()
    codes = model._encode_labels(labels)
    factor = class_factor(model.class_weight, model.classes_, codes, weights)
    settings = settings.with_kernel(_width(settings, parts))
    chosen = FeatureMap(settings, _features(settings, parts, model.n_features_in_))
    if settings.core == "ksc":
        chosen.total = parts.sum(_feature_total, chosen)
    targets = LabelTargets(len(model.classes_))
    moments = parts.sum(_moments, chosen, model.classes_, factor)
    model._take(solve_moments(settings, chosen.features, moments, targets))
    return model


def _spread(part):
    """Weight, mean and squared deviations over all entries of a part."""
    X, weight = part.X, part.weight
    rows = np.repeat(weight, X.sizes)
    total = float(rows.sum())
    entries = total * X.n_features
    mean = float(np.sum(rows @ X.data)) / entries if entries else 0.0
    if X.is_sparse:
        squares = X.data.multiply(X.data)
        return total, mean, float(np.sum(rows @ squares)) - entries * mean**2
    return total, mean, float(np.sum(rows @ np.square(X.data - mean)))


def _width(settings, parts):
    """Kernel width of a local fit on all parts."""
    n_features = parts.surveys[0].n_features
    if settings.kernel == "linear":
        return 1.0
    if settings.gamma == "median":
        n = sum(parts.sizes)
        rows = np.arange(0, n, max(1, -(-n // _MEDIAN_ROWS)))
        # The sample is all there is to look at, hence a step of one from here on.
        return resolve_gamma("median", parts.take(rows))
    if settings.gamma != "scale":
        return resolve_gamma(settings.gamma, np.zeros((1, n_features)))
    spreads = [one.extra for one in parts.surveys]
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


def _moments(part, chosen, classes, factor):
    codes = np.searchsorted(classes, part.y)
    columns = LabelTargets(len(classes)).columns(codes)
    training = Training(part.X, columns, part.weight, part.weight * factor[codes])
    return chosen.moments_if_possible(training)
