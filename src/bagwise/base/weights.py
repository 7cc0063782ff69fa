"""Weights of bags and of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import compute_class_weight
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


def class_factors(
    class_weight: dict[Any, float] | str | None,
    classes: NDArray[Any],
    codes: NDArray[np.int64] | None = None,
    count: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the factor that `class_weight` gives to the weight of each class.

    A factor is the same as a `sample_weight` for all samples of the class.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        The parameter of the estimator. "balanced" makes the weights of all classes
        equal; samples count as often as they weigh.
    classes : ndarray of shape (n_classes,)
        The labels.
    codes, count : ndarray of shape (n_samples,), default=None
        Position in `classes` and weight of each sample; only for "balanced".
    """
    if class_weight == "balanced":
        total = np.bincount(codes, weights=count, minlength=len(classes))
        return total.sum() / (len(classes) * total)
    return compute_class_weight(class_weight, classes=classes, y=classes)
