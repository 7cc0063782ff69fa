"""Curves of a comparison, from the stored scores of test bags."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta
from sklearn.metrics import (
    average_precision_score,
    precision_recall_curve,
    roc_curve,
)

from bagwise.report._view import View

__all__ = [
    "Curve",
    "calibration",
    "instance_table",
    "mean_precision",
    "mean_roc",
    "member_table",
    "score_histogram",
]

Array = NDArray[np.float64]
GRID = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True)
class Curve:
    """A curve over the unit interval and the area under it."""

    x: Array
    y: Array
    area: float


def mean_roc(view: View, method: str, k: int | None = None) -> Curve | None:
    """Return the ROC curve averaged over folds.

    Scores of different folds come from different models and are not on one scale, so
    the curves are averaged (the mean true positive rate at each false positive rate)
    rather than the scores pooled. Leave-one-bag-out has no curve per fold and is
    pooled. Without a class `k`: of two the positive one, of more the mean of all
    against the rest.
    """

    def one(positive: NDArray[Any], score: Array) -> tuple[Array, float]:
        fpr, tpr, _ = roc_curve(positive, score, drop_intermediate=True)
        curve = np.interp(GRID, fpr, tpr)
        # On a vertical piece of the curve its upper end counts.
        last = np.searchsorted(fpr, GRID, side="right") - 1
        area = float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2))
        return np.where(fpr[last] == GRID, tpr[last], curve), area

    found = _mean_curve(view, method, k, one)
    if found is None:
        return None
    return Curve(np.append(0.0, found.x), np.append(0.0, found.y), found.area)


def mean_precision(view: View, method: str, k: int | None = None) -> Curve | None:
    """Return precision against recall, averaged over folds as in `mean_roc`.

    Precision is that of the highest threshold which reaches the recall, without
    interpolation; the area is the average precision.
    """

    def one(positive: NDArray[Any], score: Array) -> tuple[Array, float]:
        precision, recall, _ = precision_recall_curve(positive, score)
        precision, recall = precision[-2::-1], recall[-2::-1]  # from high thresholds on
        at = np.minimum(np.searchsorted(recall, GRID), len(recall) - 1)
        return precision[at], float(average_precision_score(positive, score))

    return _mean_curve(view, method, k, one)


def _mean_curve(
    view: View,
    method: str,
    k: int | None,
    one: Callable[[NDArray[Any], Array], tuple[Array, float]],
) -> Curve | None:
    curves, areas = [], []
    for positive, score in _score_columns(view, method, k):
        if positive.any() and not positive.all():
            curve, area = one(positive, score)
            curves.append(curve)
            areas.append(area)
    if not curves:
        return None
    return Curve(GRID, np.mean(curves, axis=0), float(np.mean(areas)))


def _score_columns(
    view: View, method: str, k: int | None
) -> Iterator[tuple[NDArray[Any], Array]]:
    """Yield membership and score of every class asked for, fold by fold."""
    folds = view.folds(method)
    if not folds or any(fold.score is None for fold in folds):
        return
    for c in view.own_class() if k is None else [k]:
        parts = [view.against_rest(fold, fold.score, c) for fold in folds]
        if view.pooled:
            yield tuple(np.concatenate(values) for values in zip(*parts, strict=True))
        else:
            yield from parts


def calibration(
    view: View, method: str, k: int | None = None, n_bins: int = 8
) -> list[dict[str, float]] | None:
    """Return observed against predicted frequency in bins of about equal count.

    Of more than two classes without a `k`: how often the predicted class is right,
    against the probability that was given to it; of several labels a bag, all of them
    together. Equal probabilities share a bin.
    Intervals are Clopper and Pearson's, 95%. None for methods without probabilities.
    """
    folds = view.folds(method)
    if not folds or any(fold.probability is None for fold in folds):
        return None
    hits, values = [], []
    for fold in folds:
        p = np.asarray(fold.probability)
        own = view.positive if k is None else k
        if own is None and view.task == "multilabel":
            hits.append(fold.truth.ravel() == 1)
            values.append(p.ravel())
        elif own is None:
            hits.append(fold.truth == fold.label)
            values.append(p[np.arange(len(p)), fold.label])
        else:
            hits.append(view.member(fold, own).astype(bool))
            column = p if p.ndim == 1 else p[:, own]
            flip = p.ndim == 1 and own != view.positive
            values.append(1.0 - column if flip else column)
    return _bins(np.concatenate(hits), np.concatenate(values), n_bins)


def _bins(hit: NDArray[Any], p: Array, n_bins: int) -> list[dict[str, float]]:
    n_bins = int(min(n_bins, max(2, len(p) // 12)))
    inner = np.linspace(0.0, 1.0, n_bins + 1)[1:-1]
    cuts = np.unique(np.quantile(p, inner, method="lower"))
    place = np.searchsorted(cuts, p)
    bins = []
    for b in np.unique(place):
        chosen = place == b
        n, hits = int(chosen.sum()), int(hit[chosen].sum())
        low = float(beta.ppf(0.025, hits, n - hits + 1)) if hits else 0.0
        high = float(beta.ppf(0.975, hits + 1, n - hits)) if hits < n else 1.0
        bins.append(
            {
                "predicted": float(p[chosen].mean()),
                "observed": hits / n,
                "low": low,
                "high": high,
                "n": n,
            }
        )
    return bins


def score_histogram(
    view: View, method: str, k: int | None = None, n_bins: int = 25
) -> dict[str, Any] | None:
    """Return how decision values of test bags are spread, of a class and of the rest.

    Within a fold, scores are divided by their mean size, which keeps zero where it is
    and puts folds on a common scale. ``"cut"`` tells whether zero is where the method
    cuts. None without scores, and for several classes without a `k`.
    """
    folds = view.folds(method)
    own = view.positive if k is None else k
    if own is None or not folds or any(fold.score is None for fold in folds):
        return None
    scaled, members, cut = [], [], True
    for fold in folds:
        member, score = view.against_rest(fold, fold.score, own)
        size = float(np.abs(score).mean())
        scaled.append(score / (size if size > 0 else 1.0))
        members.append(member)
        called = view.called(fold, own).astype(bool)
        cut &= bool((called == (score > 0))[score != 0].all())
    score, member = np.concatenate(scaled), np.concatenate(members)
    bound = max(float(np.quantile(np.abs(score), 0.99)), 1e-9)
    edges = np.linspace(-bound, bound, n_bins + 1)
    clipped = np.clip(score, -bound, bound)
    return {
        "edges": edges,
        "rest": np.histogram(clipped[~member], edges)[0],
        "own": np.histogram(clipped[member], edges)[0],
        "cut": cut,
    }


def instance_table(view: View, method: str) -> Array | None:
    """Return the out-of-fold score of every instance; NaN where there is none.

    Of two classes scores are for the positive one, of more for the one that was
    predicted for the bag; of several labels a bag, the highest. Of real values they
    are in the same units.
    """
    X = view.problem.X
    values = np.full(X.n_instances, np.nan)
    found = False
    for fold in view.folds(method):
        if fold.instances is None or fold.repeat != 0:
            continue
        found, start = True, 0
        for place in fold.scored:
            i = fold.test[place]
            first, last = int(X.offsets[i]), int(X.offsets[i + 1])
            part = fold.instances[start : start + last - first]
            if part.ndim == 2:
                one = fold.label.ndim == 1
                part = part[:, fold.label[place]] if one else part.max(axis=1)
            values[first:last] = part
            start += last - first
    return values if found else None


def member_table(view: View, method: str) -> list[dict[str, Any]] | None:
    """Return what a stack trusts, averaged over folds; None for other methods.

    Returns
    -------
    list of dict, or None
        "name", "weight" (on the member's log-odds), "low" and "high" (smallest and
        largest over folds), "auroc" (out of fold) and "folds" (how many had the
        member), the heaviest member first.
    """
    weights: dict[str, list[float]] = {}
    areas: dict[str, list[float]] = {}
    for row in view.comparison.runs(method):
        arrays = view.comparison.arrays[row["key"]]
        if "member_names" not in arrays:
            return None
        for k, name in enumerate(arrays["member_names"]):
            weights.setdefault(str(name), []).append(float(arrays["member_weights"][k]))
            areas.setdefault(str(name), []).append(float(arrays["member_scores"][k]))
    if not weights:
        return None
    table = [
        {
            "name": name,
            "weight": float(np.mean(values)),
            "low": min(values),
            "high": max(values),
            "auroc": float(np.mean(areas[name])),
            "folds": len(values),
        }
        for name, values in weights.items()
    ]
    return sorted(table, key=lambda member: -member["weight"])
