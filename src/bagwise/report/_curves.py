"""Curves of a comparison, from the stored scores of test bags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta
from sklearn.metrics import roc_curve

from bagwise.comparison._comparison import Comparison

__all__ = [
    "Roc",
    "calibration",
    "instance_table",
    "mean_roc",
    "member_table",
    "score_histogram",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Roc:
    """A ROC curve and its area."""

    fpr: Array
    tpr: Array
    auc: float


def fold_scores(
    comparison: Comparison, method: str
) -> list[tuple[NDArray[Any], dict[str, NDArray[Any]]]]:
    """Return truth (class index) and stored arrays of every finished fold."""
    found = []
    for row in comparison.runs(method):
        arrays = comparison.arrays[row["key"]]
        y = comparison.problem.y[arrays["test"]]
        found.append((np.searchsorted(comparison.problem.classes, y), arrays))
    return found


def mean_roc(comparison: Comparison, method: str, n_points: int = 101) -> Roc | None:
    """Return the ROC curve averaged over folds.

    Scores of different folds come from different models and are not on one scale, so
    the curves are averaged (the mean true positive rate at each false positive rate)
    rather than the scores pooled. Leave-one-bag-out has no curve per fold and is
    pooled. More than two classes: mean over one-vs-rest curves.
    """
    folds = [
        (truth, arrays["score"]) for truth, arrays in fold_scores(comparison, method)
    ]
    if not folds:
        return None
    if comparison.protocol.pooled:
        truth = np.concatenate([fold[0] for fold in folds])
        folds = [(truth, np.concatenate([fold[1] for fold in folds]))]
    grid = np.linspace(0.0, 1.0, n_points)
    curves, areas = [], []
    for truth, score in folds:
        columns = (
            [(truth == 1, score)]
            if score.ndim == 1
            else [(truth == k, score[:, k]) for k in range(score.shape[1])]
        )
        for positive, column in columns:
            if positive.all() or not positive.any():
                continue
            fpr, tpr, _ = roc_curve(positive, column, drop_intermediate=True)
            curve = np.interp(grid, fpr, tpr)
            # On a vertical piece of the curve its upper end counts.
            last = np.searchsorted(fpr, grid, side="right") - 1
            curves.append(np.where(fpr[last] == grid, tpr[last], curve))
            areas.append(float(np.trapezoid(tpr, fpr)))
    if not curves:
        return None
    tpr = np.mean(curves, axis=0)
    return Roc(np.append(0.0, grid), np.append(0.0, tpr), float(np.mean(areas)))


def calibration(
    comparison: Comparison, method: str, n_bins: int = 8
) -> list[dict[str, float]] | None:
    """Return observed against predicted frequency in bins of equal count.

    None for methods without probabilities and for more than two classes. Intervals
    are Clopper and Pearson's, 95%.
    """
    folds = fold_scores(comparison, method)
    parts = [(t, a["probability"]) for t, a in folds if "probability" in a]
    if not parts or len(parts) < len(folds) or parts[0][1].ndim > 1:
        return None
    truth = np.concatenate([part[0] for part in parts])
    p = np.concatenate([part[1] for part in parts])
    order = np.argsort(p, kind="stable")
    n_bins = int(min(n_bins, max(2, len(p) // 12)))
    bins = []
    for chunk in np.array_split(order, n_bins):
        n, hits = len(chunk), int(truth[chunk].sum())
        low = float(beta.ppf(0.025, hits, n - hits + 1)) if hits else 0.0
        high = float(beta.ppf(0.975, hits + 1, n - hits)) if hits < n else 1.0
        bins.append(
            {
                "predicted": float(p[chunk].mean()),
                "observed": hits / n,
                "low": low,
                "high": high,
                "n": n,
            }
        )
    return bins


def score_histogram(
    comparison: Comparison, method: str, n_bins: int = 25
) -> dict[str, Any] | None:
    """Return how decision values of test bags are spread, for each class.

    Within a fold, scores are divided by their mean size, which keeps the threshold at
    0 and puts folds on a common scale. None for more than two classes.
    """
    folds = fold_scores(comparison, method)
    if not folds or folds[0][1]["score"].ndim > 1:
        return None
    scaled, truths = [], []
    for truth, arrays in folds:
        size = float(np.abs(arrays["score"]).mean())
        scaled.append(arrays["score"] / (size if size > 0 else 1.0))
        truths.append(truth)
    score, truth = np.concatenate(scaled), np.concatenate(truths)
    bound = float(np.quantile(np.abs(score), 0.99)) if len(score) else 1.0
    bound = max(bound, 1e-9)
    edges = np.linspace(-bound, bound, n_bins + 1)
    clipped = np.clip(score, -bound, bound)
    return {
        "edges": edges,
        "negative": np.histogram(clipped[truth == 0], edges)[0],
        "positive": np.histogram(clipped[truth == 1], edges)[0],
    }


def instance_table(comparison: Comparison, method: str) -> Array | None:
    """Return the out-of-fold score of every instance; NaN where there is none."""
    X = comparison.problem.X
    values = np.full(X.n_instances, np.nan)
    found = False
    for row in comparison.runs(method):
        arrays = comparison.arrays[row["key"]]
        if "instances" not in arrays or row["repeat"] != 0:
            continue
        found, start = True, 0
        for i in arrays["test"]:
            first, last = int(X.offsets[i]), int(X.offsets[i + 1])
            values[first:last] = arrays["instances"][start : start + last - first]
            start += last - first
    return values if found else None


def member_table(comparison: Comparison, method: str) -> list[dict[str, Any]] | None:
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
    for row in comparison.runs(method):
        arrays = comparison.arrays[row["key"]]
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
