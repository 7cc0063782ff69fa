"""One score per bag from any fitted model, and predictions of many small bags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.utils import get_tags

from bagwise.bags import Bags

__all__ = [
    "MAX_ROWS",
    "bag_scores",
    "positive_class",
    "row_bags",
    "score_in_chunks",
    "take_rows",
]

# Rows that are copied for one prediction: about 100 MB of 100 features.
MAX_ROWS = 131_072

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


def predicts_values(model: Any) -> bool:
    """Tell models of values and risks from those of classes."""
    return is_regressor(model) or get_tags(model).estimator_type == "survival"


def own_positive(model: Any) -> Any:
    """Return the label for which the model's instance scores are high, or None."""
    classes = getattr(model, "classes_", None)
    if classes is None or len(classes) != 2:
        return None
    while hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if steps else model
    named = getattr(last, "pos_label", None)
    return classes[1] if named is None else named


def spoken_for(model: Any, pos_label: Any = None) -> Any:
    """Return the class that high scores speak for; None for values and many classes."""
    return own_positive(model) if pos_label is None else pos_label


def positive_class(model: Any, pos_label: Any = None) -> tuple[int | None, float]:
    """Return the column of the class that is asked for, and the sign for two classes.

    Parameters
    ----------
    model : estimator
        A fitted model.
    pos_label : label, optional
        The class that scores are to be high for. By default the model's own positive
        class; with more than two classes, all of them.

    Returns
    -------
    column : int or None
        None for all columns, and for regressors.
    sign : float
        -1 when, of two, the first class is asked for.
    """
    if predicts_values(model):
        if pos_label is not None:
            raise ValueError("a regressor has no classes: leave pos_label out.")
        return None, 1.0
    classes = getattr(model, "classes_", None)
    parts = _models_of_labels(model, classes)
    if parts is not None:
        raise ValueError(
            f"{type(model).__name__} gives several labels to a bag, each by a model of "
            f"its own: explain one of them, such as model.{parts}[0]."
        )
    if classes is None:
        raise ValueError(
            f"{type(model).__name__} has no classes_: it is not fitted, or neither a "
            "classifier nor a regressor."
        )
    wanted = own_positive(model) if pos_label is None else pos_label
    if wanted is None:
        return None, 1.0
    known = np.asarray(classes)
    found = np.flatnonzero(known == wanted)
    if not found.size:
        raise ValueError(f"pos_label={wanted!r} is not one of {known.tolist()}.")
    return int(found[0]), 1.0 if found[0] == len(classes) - 1 else -1.0


def _models_of_labels(model: Any, classes: Any) -> str | None:
    """Return where a model of several labels keeps one model for each of them."""
    if hasattr(model, "models"):
        return "models"
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
        The class that the score is high for; see `positive_class`.

    Returns
    -------
    ndarray of shape (n_bags,) or (n_bags, n_classes)
        One column per class when there are more than two and none was named, or per
        label of several that a bag may have.
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


def take_rows(X: Bags, rows: Rows, offsets: Rows) -> Bags:
    """Return bags of the given rows of `X.data`, with the names of its features."""
    return Bags(X.data[rows], offsets, feature_names=X.feature_names)


def row_bags(X: Bags) -> Bags:
    """Return a bag of one for every instance."""
    return Bags(X.data, np.arange(X.n_instances + 1), feature_names=X.feature_names)


def chunks(sizes: Rows, max_rows: int) -> Iterator[slice]:
    """Cut a list of bags into runs of at most `max_rows` rows, one bag at least."""
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
    """Score many bags made of rows of `X`, a chunk of bags in one prediction.

    Parameters
    ----------
    model, X, pos_label
        As in `bag_scores`.
    sizes : ndarray of shape (n_new,)
        Instances of each new bag.
    rows_of : callable
        ``rows_of(chunk)`` gives the rows of the new bags of a slice, stacked.
    max_rows : int
        Rows of one prediction.
    """
    parts = []
    for chunk in chunks(sizes, max_rows):
        offsets = np.concatenate([[0], np.cumsum(sizes[chunk])])
        parts.append(
            bag_scores(model, take_rows(X, rows_of(chunk), offsets), pos_label)
        )
    return np.concatenate(parts)


def ragged_arange(sizes: Rows) -> Rows:
    """Return 0..sizes[0]-1, 0..sizes[1]-1, ... in one array."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
