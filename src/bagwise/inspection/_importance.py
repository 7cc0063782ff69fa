"""Importance of instances, from the model's scores or from its predictions alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags, Ragged, as_bags
from bagwise.inspection._instances import instance_scores
from bagwise.inspection.scores import (
    MAX_ROWS,
    bag_scores,
    own_positive,
    positive_class,
    predicts_values,
    ragged_arange,
    row_bags,
    score_in_chunks,
)

__all__ = ["IMPORTANCE_METHODS", "instance_importance"]

IMPORTANCE_METHODS = ("native", "single", "leave_out", "add_to")

Array = NDArray[np.float64]


def instance_importance(
    model: Any,
    X: Any,
    method: str = "single",
    *,
    pos_label: Any = None,
    reference: Any = None,
    max_rows: int = MAX_ROWS,
) -> Ragged:
    r"""Say how much each instance counts for the score of its bag, for any model.

    With the score :math:`f(B)` of a bag (decision value, or prediction of a regressor),
    the importance of an instance :math:`x` of a bag :math:`B` is

    - ``"native"``: what the model's own `instance_scores` say;
    - ``"single"``: :math:`f(\{x\})`, the score of a bag that holds it alone;
    - ``"leave_out"``: :math:`f(B) - f(B \setminus \{x\})`, the drop without it;
    - ``"add_to"``: :math:`f(R \cup \{x\}) - f(R)`, the gain of a reference bag
      :math:`R`, which is `reference`.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of bags, or a pipeline or search of one.
    X : Bags or list of 2-D arrays
        The bags.
    method : {"single", "native", "leave_out", "add_to"}, default="single"
        What is asked; see above.
    pos_label : label, default=None
        Class that a high value speaks for. By default the positive class of two; all
        classes, one column each, of more.
    reference : 2-D array, default=None
        A bag for "add_to". By default, of the bags with a negative score (all bags for
        a regressor), the one with the median score. A bag of one loses all that it has
        under "leave_out": its drop is the one to this bag.
    max_rows : int, default=131072
        Most rows of one prediction; what bounds the memory.

    Returns
    -------
    Ragged
        One value per instance, or one row with a column per class.

    Notes
    -----
    With :math:`n_i` instances in bag :math:`i`, "single" predicts
    :math:`\sum n_i` rows, as many as one prediction of `X`; "leave_out" predicts
    :math:`\sum n_i (n_i - 1)` rows, quadratic in the size of a bag; "add_to"
    :math:`(|R| + 1) \sum n_i`. All are cut into predictions of thousands of bags.

    Each question misses something. "single" puts an instance in a bag that may look
    like none the model has seen, and misses what takes two instances. "leave_out"
    misses what is there twice: of two instances either of which makes the bag
    positive, none is missed, and both get zero (their Shapley values would be half of
    the score each). `faithfulness` tells which answer suits a model.

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.inspection import instance_importance
    >>> from bagwise.svm import BagSVC
    >>> X, y = make_bags(random_state=0)
    >>> model = BagSVC(kernel="emd").fit(X, y)
    >>> instance_importance(model, X, "leave_out")
    Ragged(n_bags=30, n_instances=156, sizes 3/5/8 (min/median/max))
    """
    if method not in IMPORTANCE_METHODS:
        raise ValueError(
            f"unknown method {method!r}; choose one of {', '.join(IMPORTANCE_METHODS)}."
        )
    if max_rows < 1:
        raise ValueError(f"max_rows must be at least 1, got {max_rows}.")
    X = as_bags(X)
    if method == "native":
        return Ragged(_native(model, X, pos_label), X.offsets)
    if method == "single":
        parts = row_bags(X).iter_chunks(max_rows)
        found = np.concatenate([bag_scores(model, p, pos_label) for p in parts])
        return Ragged(found, X.offsets)
    whole = bag_scores(model, X, pos_label)
    if method == "leave_out":
        return Ragged(
            _leave_out(model, X, whole, pos_label, reference, max_rows), X.offsets
        )
    if whole.ndim == 1:
        bag = _reference(X, whole, reference, predicts_values(model))
        return Ragged(_add_to(model, X, bag, pos_label, max_rows), X.offsets)
    columns = [
        _add_to(model, X, _reference(X, column, reference, False), label, max_rows)
        for label, column in zip(model.classes_, whole.T, strict=True)
    ]
    return Ragged(np.column_stack(columns), X.offsets)


def _native(model: Any, X: Bags, pos_label: Any) -> Array:
    found = instance_scores(model, X)
    if found is None:
        raise ValueError(
            "the model scores whole bags only: there are no native scores. Take "
            "method='single', 'leave_out' or 'add_to', which ask its predictions."
        )
    values = np.asarray(found.values, dtype=np.float64)
    column, _ = positive_class(model, pos_label)
    if values.ndim == 2:
        return values if pos_label is None else values[:, column]
    if pos_label is None or predicts_values(model):
        return values
    return values if pos_label == own_positive(model) else -values


def _leave_out(
    model: Any, X: Bags, whole: Array, pos_label: Any, reference: Any, max_rows: int
) -> Array:
    bag = X.bag_index
    first = X.offsets[:-1][bag]
    place = np.arange(X.n_instances) - first
    sizes = X.sizes[bag] - 1
    found = np.empty((X.n_instances, *whole.shape[1:]))
    some = np.flatnonzero(sizes > 0)

    def rows_of(chunk: slice) -> NDArray[np.int64]:
        left_out = some[chunk]
        within = ragged_arange(sizes[left_out])
        gap = np.repeat(place[left_out], sizes[left_out])
        start = np.repeat(first[left_out], sizes[left_out])
        return start + within + (within >= gap)

    if some.size:
        rest = score_in_chunks(model, X, sizes[some], rows_of, pos_label, max_rows)
        found[some] = whole[bag[some]] - rest
    alone = np.flatnonzero(sizes == 0)
    if alone.size:
        columns = whole[:, None] if whole.ndim == 1 else whole
        levels = [
            _score_of(model, X, _reference(X, c, reference, predicts_values(model)), k)
            for k, c in _labelled(model, columns, pos_label, whole.ndim)
        ]
        level = np.array(levels) if whole.ndim == 2 else levels[0]
        found[alone] = whole[bag[alone]] - level
    return found


def _labelled(model: Any, columns: Array, pos_label: Any, ndim: int) -> Any:
    if ndim == 1:
        return [(pos_label, columns[:, 0])]
    return list(zip(model.classes_, columns.T, strict=True))


def _score_of(model: Any, X: Bags, bag: Any, pos_label: Any) -> float:
    one = Bags(bag, [0, bag.shape[0]], feature_names=X.feature_names)
    return float(bag_scores(model, one, pos_label)[0])


def _reference(X: Bags, score: Array, reference: Any, regressor: bool) -> Any:
    """Return the rows of the reference bag."""
    if reference is not None:
        bag = as_bags([reference])
        if bag.n_features != X.n_features:
            raise ValueError(
                f"the reference bag has {bag.n_features} features, X {X.n_features}."
            )
        return bag.data
    negative = np.flatnonzero(score <= 0)
    pool = negative if negative.size and not regressor else np.arange(len(X))
    order = pool[np.argsort(score[pool], kind="stable")]
    return X[int(order[(len(order) - 1) // 2])]


def _add_to(
    model: Any, X: Bags, reference: Any, pos_label: Any, max_rows: int
) -> Array:
    joined = Bags.concatenate(
        [X, Bags(reference, [0, reference.shape[0]], feature_names=X.feature_names)]
    )
    n, m = X.n_instances, reference.shape[0]
    own = np.arange(n, n + m)
    level = _score_of(model, X, reference, pos_label)

    def rows_of(chunk: slice) -> NDArray[np.int64]:
        added = np.arange(n)[chunk]
        block = np.broadcast_to(own, (len(added), m))
        return np.column_stack([block, added]).ravel()

    sizes = np.full(n, m + 1)
    return score_in_chunks(model, joined, sizes, rows_of, pos_label, max_rows) - level
