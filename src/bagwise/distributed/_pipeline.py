"""A pipeline from partitions: steps on bags stay where the bags are."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags


def fit_pipeline(model, parts, fit):
    """Fit a copy of a pipeline; `fit` fits one estimator of bags on parts.

    As soon as a step gives one row for each bag, the rows are gathered and the rest of
    the pipeline is fitted here.
    """
    steps = list(model.steps)
    for i, (name, step) in enumerate(steps[:-1]):
        if step is None or step == "passthrough":
            continue
        fitted = fit(step, parts)
        steps[i] = (name, fitted)
        probe = Bags(np.zeros((1, fitted.n_features_in_)), [0, 1])
        if isinstance(fitted.transform(probe), Bags):
            parts = parts.map(_transform, fitted)
            continue
        steps[i + 1 :] = _fit_rows(steps[i + 1 :], parts, fitted)
        break
    else:
        name, last = steps[-1]
        steps[-1] = (name, fit(last, parts))
    model.steps = steps
    return model


def _fit_rows(steps, parts, embedding):
    """Fit the last steps on the rows of all bags."""
    rest = Pipeline([(name, clone(step)) for name, step in steps])
    rows = parts.gather(_rows, embedding)
    y = parts.gather(_labels) if parts.labelled else None
    weight, options = parts.gather(_weights), {}
    if not np.all(weight == 1.0):
        options[f"{steps[-1][0]}__sample_weight"] = weight
    return rest.fit(rows, y, **options).steps


def _transform(part, transformer):
    return part._replace(X=transformer.transform(part.X))


def _rows(part, transformer):
    return np.asarray(transformer.transform(part.X))


def _labels(part):
    return part.y


def _weights(part):
    return part.weight
