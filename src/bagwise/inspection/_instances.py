"""Instance scores of any fitted model, also through pipelines."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from bagwise.bags import Ragged, as_bags
from bagwise.bags.segments import segment_argmax

__all__ = ["instance_scores", "key_instances", "last_step"]


def last_step(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the model at the end of pipelines and searches, and what it is given.

    Parameters
    ----------
    model : estimator
        A fitted model, pipeline, search, or calibrator of a single model.
    X : Bags
        Bags for `model`.
    """
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif isinstance(model, Pipeline):
            for _, step in model.steps[:-1]:
                if step not in (None, "passthrough"):
                    X = step.transform(X)
            model = model.steps[-1][1]
        elif len(getattr(model, "calibrated_classifiers_", ())) == 1:
            model = model.calibrated_classifiers_[0].estimator
        else:
            return model, X


def instance_scores(model: Any, X: Any) -> Ragged | None:
    """Return one score per instance from a fitted model, or None if it has none.

    scikit-learn's pipelines, searches and calibrators forward `predict`, but not the
    methods of this library; this function looks through pipelines, searches and
    calibrators (the mean over their models) for the step that scores instances.

    Parameters
    ----------
    model : estimator
        A fitted classifier of bags, or a pipeline or search that ends in one.
    X : Bags
        The bags to score.

    Returns
    -------
    scores : Ragged or None
        Higher is more positive. None when no step scores instances (a model of whole
        bags), or when earlier steps have already turned bags into a matrix.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise.compose import OnInstances, WrapperMI
    >>> X, y = [[[0.0], [1.0]], [[2.0]], [[0.5]], [[3.0], [0.0]]], [0, 1, 0, 1]
    >>> model = make_pipeline(OnInstances(StandardScaler()), WrapperMI()).fit(X, y)
    >>> len(instance_scores(model, X))
    4
    """
    model, X = last_step(model, as_bags(X))
    if not hasattr(X, "offsets"):
        return None
    several = getattr(model, "calibrated_classifiers_", None)
    if several is not None:
        parts = [instance_scores(one.estimator, X) for one in several]
        values = [part.values for part in parts if part is not None]
        return Ragged(sum(values) / len(values), X.offsets) if values else None
    if not hasattr(model, "instance_scores"):
        return None
    return model.instance_scores(X)


def key_instances(model: Any, X: Any) -> Any:
    """Return for every bag the index of its highest instance, or None.

    The index counts from the start of the bag, as in the method of the same name.

    Parameters
    ----------
    model : estimator
        A fitted model, also at the end of pipelines and searches.
    X : Bags or list of 2-D arrays
        The bags.

    Returns
    -------
    ndarray of shape (n_bags,) or None
        None for a model that does not score instances.
    """
    scores = instance_scores(model, X)
    if scores is None:
        return None
    offsets = as_bags(X).offsets
    return segment_argmax(scores.values, offsets) - offsets[:-1]
