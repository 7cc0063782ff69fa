"""What a method does class by class, and patient by patient."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.report._curves import mean_precision, mean_roc
from bagwise.report._view import View
from bagwise.report.numbers import plain

__all__ = [
    "class_counts",
    "class_figures",
    "confusion",
    "constant_answer",
    "group_counts",
]

MAX_CLASSES = 40


def class_counts(view: View) -> NDArray[np.int64]:
    """Return how many bags have each class or label; none where y is no class."""
    if view.task == "multilabel":
        return view.truth.sum(axis=0)
    if view.task in ("regression", "survival"):
        return np.empty(0, dtype=np.int64)
    return np.bincount(view.truth, minlength=len(view.names))


def confusion(view: View, method: str) -> NDArray[np.int64] | None:
    """Return how many test bags of a class (row) were given a class (column).

    Labels are what they are in every fold, so those of the first repeat are counted
    together. None where a bag has several labels.
    """
    if view.task != "classification":
        return None
    n = len(view.names)
    counts = np.zeros((n, n), dtype=np.int64)
    for fold in view.folds(method):
        if fold.repeat == 0:
            np.add.at(counts, (fold.truth, fold.label), 1)
    return counts


def constant_answer(view: View, method: str) -> str | None:
    """Return the answer a method gives to every test bag, if there is one."""
    folds = view.folds(method)
    if not folds:
        return None
    first = folds[0].label[0]
    if not all((fold.label == first).all() for fold in folds):
        return None
    if view.task in ("regression", "survival"):
        return f"{float(first):.4g}"
    if view.task == "multilabel":
        given = [view.names[k] for k in np.flatnonzero(first)]
        return ", ".join(given) or "no label"
    return view.names[int(first)]


def class_figures(view: View, method: str) -> dict[str, Any]:
    """Return the confusion matrix, and figures of each class against the rest.

    Precision, recall and F1 are those of the counts of the first repeat; areas are
    means over folds.
    """
    counts = confusion(view, method)
    folds = [fold for fold in view.folds(method) if fold.repeat == 0]
    rows = []
    for k in list(view.all_classes)[:MAX_CLASSES]:
        member = np.concatenate([view.member(fold, k) for fold in folds]).astype(bool)
        called = np.concatenate([view.called(fold, k) for fold in folds]).astype(bool)
        hit, true, said = (member & called).sum(), member.sum(), called.sum()
        roc = mean_roc(view, method, k)
        precision = mean_precision(view, method, k)
        rows.append(
            {
                "bags": int(true),
                "predicted": int(said),
                "precision": plain(hit / said, 3) if said else None,
                "recall": plain(hit / true, 3) if true else None,
                "f1": plain(2 * hit / (true + said), 3) if true + said else None,
                "auroc": None if roc is None else plain(roc.area, 3),
                "ap": None if precision is None else plain(precision.area, 3),
            }
        )
    few = slice(MAX_CLASSES)
    return {
        "matrix": None if counts is None else counts[few, few].tolist(),
        "rows": rows,
        "n": sum(len(fold.test) for fold in folds),
    }


def group_counts(view: View) -> tuple[int, int] | None:
    """Return how many groups there are, and how many hold bags of several classes.

    A group of several classes has no label of its own. None without groups.
    """
    groups = view.problem.groups
    if groups is None:
        return None
    codes = np.unique(np.asarray(groups).astype(str), return_inverse=True)[1]
    n_groups = int(codes.max()) + 1
    if view.truth.ndim > 1:
        return n_groups, 0
    low, high = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(low, codes, view.truth)
    np.maximum.at(high, codes, view.truth)
    return n_groups, int((low < high).sum())
