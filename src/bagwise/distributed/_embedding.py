"""One row for each bag, from partitions: learned where that is a sum, then gathered."""

from __future__ import annotations

import numpy as np

from bagwise.embedding.codebook import EnergyProjection
from bagwise.solvers.moments import Moments


def fit_mifv(model, parts):
    """Fit a copy of MiFV on `Partitions`."""
    parts.survey()
    parts.set_features(model)
    found = parts.sum(_covariance)
    project = EnergyProjection.of_moments(found, model.energy)
    n = sum(parts.sizes)
    rows = model._sample_rows(n)
    model._fit_mixture(project, parts.take(np.arange(n) if rows is None else rows))
    return model


def _covariance(part):
    return Moments.of(part.X.data)


def fit_embedded(model, parts):
    """Fit a copy of SimpleMI: the rows of the bags are gathered, then learned from."""
    parts.survey(labels=True)
    parts.set_features(model)
    model._encode_labels(parts.label_counts()[0])
    rows = parts.gather(_rows, model)
    y, weight = parts.gather(_labels), parts.gather(_weights)
    base = model._base_estimator(not isinstance(rows, np.ndarray))
    options = {} if np.all(weight == 1.0) else {"sample_weight": weight}
    return model._learn(base, rows, y, options)


def _rows(part, model):
    return model._rows(part.X)


def _labels(part):
    return part.y


def _weights(part):
    return part.weight
