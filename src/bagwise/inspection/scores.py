"""Scores of bags and of instances from any fitted model, also through pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from bagwise.bags import Bags, Ragged, as_bags, with_columns
from bagwise.bags.segments import segment_argmax
from bagwise.base.thresholds import best_threshold
from bagwise.exceptions import ParameterError

__all__ = [
    "MAX_ROWS",
    "bag_position",
    "bag_scores",
    "bags_for",
    "instance_scores",
    "key_instances",
    "last_step",
    "needs_one_column",
    "own_positive",
    "positive_class",
    "predicts_values",
    "ragged_arange",
    "row_bags",
    "score_in_chunks",
    "score_threshold",
    "scored_class",
]

# Rows that are copied for one prediction: about 100 MB with 100 features.
MAX_ROWS = 131_072

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


def predicts_values(model: Any) -> bool:
    """Return whether a model predicts values or risks instead of classes."""
    return is_regressor(model) or get_tags(model).estimator_type == "survival"


def own_positive(model: Any) -> Any:
    """Return the label for which the model's instance scores are high, or None.

    None for models of values and of more than two classes.
    """
    classes = getattr(model, "classes_", None)
    if classes is None or len(classes) != 2:
        return None
    while hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if steps else model
    named = getattr(last, "pos_label", None)
    return classes[1] if named is None else named


def needs_one_column(model: Any, found: str) -> ValueError:
    """Return the error for a model of several columns when one is needed."""
    if predicts_values(model):
        advice = "fit a model of one target and use that one"
    else:
        advice = f"pass one of {np.asarray(model.classes_).tolist()} as pos_label"
    return ValueError(f"{found}: {advice}.")


def scored_class(model: Any, pos_label: Any = None) -> Any:
    """Return the class for which scores are high; None for values and many classes."""
    return own_positive(model) if pos_label is None else pos_label


def positive_class(model: Any, pos_label: Any = None) -> tuple[int | None, float]:
    """Return the column of the requested class, and the sign for two classes.

    Parameters
    ----------
    model : estimator
        A fitted model.
    pos_label : label, optional
        The class for which scores shall be high. By default the model's own positive
        class; with more than two classes, all of them.

    Returns
    -------
    column : int or None
        None for all columns, and for regressors.
    sign : float
        -1 if the first of two classes is requested.
    """
    if predicts_values(model):
        if pos_label is not None:
            raise ValueError("a regressor has no classes: omit pos_label.")
        return None, 1.0
    classes = getattr(model, "classes_", None)
    parts = _models_of_labels(model, classes)
    if parts is not None:
        raise ValueError(
            f"{type(model).__name__} predicts several labels per bag, each with a "
            f"model of its own: explain one of them, such as model.{parts}[0]."
        )
    if classes is None:
        raise ValueError(
            f"{type(model).__name__} has no attribute classes_: fit it first, and pass "
            "a classifier or a regressor."
        )
    wanted = own_positive(model) if pos_label is None else pos_label
    if wanted is None:
        return None, 1.0
    known = np.asarray(classes)
    found = np.flatnonzero(known == wanted)
    if not found.size:
        problem = f"is {wanted!r}, which is not one of {known.tolist()}"
        raise ParameterError("pos_label", problem)
    return int(found[0]), 1.0 if found[0] == len(classes) - 1 else -1.0


def _models_of_labels(model: Any, classes: Any) -> str | None:
    """Return the attribute in which a multilabel model stores its models, or None."""
    several = isinstance(classes, list) and len(classes) and np.ndim(classes[0])
    return "estimators_" if several else None


def bag_scores(model: Any, X: Bags, pos_label: Any = None) -> Array:
    """Return the score of each bag: decision value, probability or prediction.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of bags, a pipeline or a search.
    X : Bags
        The bags.
    pos_label : label, optional
        The class for which the score is high; see `positive_class`.

    Returns
    -------
    ndarray of shape (n_bags,) or (n_bags, n_classes)
        One column per class if there are more than two and `pos_label` is None, or per
        label of a multilabel model.
    """
    column, sign = positive_class(model, pos_label)
    if predicts_values(model):
        return np.asarray(model.predict(X), dtype=np.float64)
    if hasattr(model, "decision_function"):
        score = np.asarray(model.decision_function(X), dtype=np.float64)
    elif hasattr(model, "predict_proba"):
        score = np.asarray(model.predict_proba(X), dtype=np.float64)
        if score.shape[1] == 2:
            score = score[:, 1]
    else:
        raise ValueError(
            f"{type(model).__name__} has neither decision_function nor predict_proba: "
            "there is no score to explain."
        )
    if score.ndim == 1:
        return sign * score
    return score if pos_label is None else score[:, column]


def _take_rows(X: Bags, rows: Rows, offsets: Rows) -> Bags:
    """Return bags of the given rows of `X.data`, with the names of its features."""
    return Bags(X.data[rows], offsets, feature_names=X.feature_names, codings=X.codings)


def row_bags(X: Bags) -> Bags:
    """Return bags of one instance each."""
    return Bags(
        X.data,
        np.arange(X.n_instances + 1),
        feature_names=X.feature_names,
        codings=X.codings,
    )


def _chunks(sizes: Rows, max_rows: int) -> Iterator[slice]:
    """Yield runs of bags with at most `max_rows` rows together, at least one bag."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + max_rows, side="right"))
        stop = max(stop, start + 1)
        yield slice(start, stop)
        start = stop


def score_in_chunks(
    model: Any, X: Bags, sizes: Rows, rows_of: Any, pos_label: Any, max_rows: int
) -> Array:
    """Score many bags made of rows of `X`, in predictions of bounded size.

    Parameters
    ----------
    model, X, pos_label
        As in `bag_scores`.
    sizes : ndarray of shape (n_new,)
        Instances of each new bag.
    rows_of : callable
        ``rows_of(chunk)`` returns the rows of a slice of the new bags, concatenated.
    max_rows : int
        Maximum number of rows in one prediction.
    """
    parts = []
    for chunk in _chunks(sizes, max_rows):
        offsets = np.concatenate([[0], np.cumsum(sizes[chunk])])
        parts.append(
            bag_scores(model, _take_rows(X, rows_of(chunk), offsets), pos_label)
        )
    return np.concatenate(parts)


def ragged_arange(sizes: Rows) -> Rows:
    """Return 0..sizes[0]-1, 0..sizes[1]-1, ... in one array."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)


def last_step(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the model at the end of pipelines and searches, and its input.

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

    scikit-learn's pipelines, searches and calibrators forward `predict`, but not
    `instance_scores`. This function finds the step that scores instances inside
    pipelines, searches and calibrators (there the mean over the models).

    Parameters
    ----------
    model : estimator
        A fitted classifier of bags, or a pipeline or search that ends in one.
    X : Bags
        The bags to score.

    Returns
    -------
    scores : Ragged or None
        Higher is more positive. None if no step scores instances (a model of whole
        bags), or if an earlier step has embedded the bags in a matrix.

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
    """Return for every bag the index of the instance with the highest score, or None.

    The index counts from the start of the bag, as in the method `key_instances`.

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


def score_threshold(
    model: Any, method: str, top: Array, labels: Any, label: Any
) -> float | None:
    """Return the instance score from which bags are predicted positive.

    Parameters
    ----------
    model : estimator
        A fitted model.
    method : str
        Definition of the scores, see `instance_importance`.
    top : ndarray of shape (n_bags,)
        Score of the key instance of each bag.
    labels : ndarray of shape (n_bags,) or (n_bags, n_labels)
        Predicted labels.
    label : label or None
        The class for which scores are high.

    Returns
    -------
    float or None
        0 for changes of a score, and where no other score separates the predicted
        classes better. None for models of values.
    """
    if predicts_values(model):
        return None
    if label is None or method in ("leave_out", "add_to") or labels.ndim != 1:
        return 0.0
    if method == "single":  # scores of bags, or probabilities
        return 0.0 if hasattr(model, "decision_function") else 0.5
    called = labels == label
    best = best_threshold(top, called)
    hits = [np.mean((top > t) == called) for t in (0.0, best)]
    return 0.0 if hits[0] >= hits[1] else float(best)


def bags_for(model: Any, X: Any) -> Bags:
    """Return bags with the columns that a model was fitted to, in their order."""
    while isinstance(model, Pipeline):  # the first steps may not change bags
        steps = [step for _, step in model.steps if step not in (None, "passthrough")]
        if not steps:
            break
        model = steps[0]
    expected = getattr(model, "feature_names_in_", None)
    return with_columns(as_bags(X), expected, type(model).__name__)


def bag_position(X: Bags, bag: Any) -> int:
    """Return the position of a bag.

    Parameters
    ----------
    X : Bags
        The bags.
    bag : int or id
        The position, as an integer; anything else is one of ``X.ids``.
    """
    if isinstance(bag, int | np.integer) and not isinstance(bag, bool):
        if 0 <= bag < len(X):
            return int(bag)
    else:
        for position, known in enumerate(X.ids.tolist()):
            if known == bag:
                return position
    raise ValueError(
        f"there is no bag {bag!r}: pass a position from 0 to {len(X) - 1}, or an id "
        f"such as {X.ids[:1].tolist()[0]!r}."
    )
