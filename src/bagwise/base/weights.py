"""How an estimator is given the weights of bags."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter


def weight_arguments(
    model: Any, sample_weight: NDArray[np.float64] | None
) -> dict[str, NDArray[np.float64]]:
    """Return how `fit` of a model is given the weights; empty if it takes none.

    A pipeline of an embedding and a classifier takes them in its last step: the
    embedding sees every bag alike.
    """
    if sample_weight is None:
        return {}
    if isinstance(model, Pipeline):
        name, last = model.steps[-1]
        inner = weight_arguments(last, sample_weight)
        return {f"{name}__{key}": value for key, value in inner.items()}
    if has_fit_parameter(model, "sample_weight"):
        return {"sample_weight": sample_weight}
    return {}
