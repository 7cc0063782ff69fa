"""What a method does class by class, and patient by patient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.comparison._evaluate import auroc
from bagwise.report._curves import mean_precision, mean_roc
from bagwise.report._numbers import plain
from bagwise.report._view import View

__all__ = ["class_figures", "confusion", "constant_class", "group_figures"]

MAX_CLASSES = 40


def confusion(view: View, method: str) -> NDArray[np.int64]:
    """Return how many test bags of a class (row) were given a class (column).

    Labels are what they are in every fold, so those of the first repeat are counted
    together.
    """
    n = len(view.names)
    counts = np.zeros((n, n), dtype=np.int64)
    for fold in view.folds(method):
        if fold.repeat == 0:
            np.add.at(counts, (fold.truth, fold.label), 1)
    return counts


def constant_class(view: View, method: str) -> str | None:
    """Return the class a method gives to every test bag, if there is one."""
    given = {int(k) for fold in view.folds(method) for k in np.unique(fold.label)}
    return view.names[given.pop()] if len(given) == 1 else None


def class_figures(view: View, method: str) -> dict[str, Any]:
    """Return the confusion matrix, and figures of each class against the rest.

    Precision, recall and F1 are those of the counts; areas are means over folds.
    """
    counts = confusion(view, method)
    rows = []
    for k in list(view.all_classes)[:MAX_CLASSES]:
        hit, true, said = counts[k, k], counts[k].sum(), counts[:, k].sum()
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
    return {
        "matrix": counts[:MAX_CLASSES, :MAX_CLASSES].tolist(),
        "rows": rows,
        "n": int(counts.sum()),
    }


def group_figures(view: View, methods: Sequence[str]) -> dict[str, Any] | None:
    """Return figures per group (patient, compound): its bags pooled by mean score.

    None for bags without groups. A group whose bags are of several classes has no
    label of its own and is left out; ``"mixed"`` counts these.
    """
    groups = getattr(view.problem.X, "groups", None)
    if groups is None:
        return None
    codes = np.unique(np.asarray(groups).astype(str), return_inverse=True)[1]
    n_groups = int(codes.max()) + 1
    first = np.full(n_groups, -1)
    mixed = np.zeros(n_groups, dtype=bool)
    for i, g in enumerate(codes):
        first[g] = view.truth[i] if first[g] < 0 else first[g]
        mixed[g] |= first[g] != view.truth[i]
    rows = [
        {"method": name, **_pooled(view, name, codes, first, mixed)} for name in methods
    ]
    return {"n": n_groups, "mixed": int(mixed.sum()), "rows": rows}


def _pooled(
    view: View, method: str, codes: Any, first: Any, mixed: Any
) -> dict[str, Any]:
    hits, areas, tested = [], [], 0
    for fold in view.folds(method):
        values = fold.score if fold.probability is None else fold.probability
        if values is None:
            return {"n": 0, "accuracy": None, "auroc": None}
        keep = ~mixed[codes[fold.test]]
        own, group, sizes = np.unique(
            codes[fold.test][keep], return_inverse=True, return_counts=True
        )
        if not len(own):
            continue
        means = np.zeros((len(own), *values.shape[1:]))
        np.add.at(means, group, values[keep])
        means /= sizes.reshape(-1, *[1] * (values.ndim - 1))
        truth = first[own]
        tested += len(own) if fold.repeat == 0 else 0
        if view.positive is None:
            label = means.argmax(axis=1)
        else:
            cut = 0.0 if fold.probability is None else 0.5
            label = np.where(means > cut, view.positive, 1 - view.positive)
            truth = (truth == view.positive).astype(int)
            label = (label == view.positive).astype(int)
        hits.append(float((truth == label).mean()))
        areas.append(auroc(truth, means))
    known = [area for area in areas if not np.isnan(area)]
    return {
        "n": tested,
        "accuracy": float(np.mean(hits)) if hits else None,
        "auroc": float(np.mean(known)) if known else None,
    }
