"""Curves, counts and errors of test bags, which the script of the page plots."""

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

from bagwise.report.view import View, plain

__all__ = [
    "Curve",
    "calibration",
    "class_counts",
    "class_figures",
    "confusion",
    "curves",
    "kaplan_meier",
    "mean_precision",
    "mean_roc",
    "risk_groups",
    "score_histogram",
    "value_figures",
]

Array = NDArray[np.float64]
GRID = np.linspace(0.0, 1.0, 101)
MAX_CURVES = 8  # classes with curves of their own
MAX_CLASSES = 40  # in tables
MAX_POINTS = 600
WITHIN = 0.9  # share of the bags between the two lines


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


def curves(view: View) -> list[dict[str, Any]]:
    """Return the curves of every class that has some, the mean of all first."""
    chosen: list[int | None] = [None]
    if view.positive is None and len(view.names) <= MAX_CURVES:
        chosen += list(view.all_classes)
    found = []
    for k in chosen:
        one: dict[str, Any] = {"class": k, "roc": {}, "pr": {}}
        one |= {"calibration": {}, "histograms": {}}
        for name in view.finished:
            _put(one["roc"], name, _points(mean_roc(view, name, k)))
            _put(one["pr"], name, _points(mean_precision(view, name, k)))
            bins = calibration(view, name, k)
            if bins is not None:
                one["calibration"][name] = [
                    {key: plain(value) for key, value in b.items()} for b in bins
                ]
            histogram = score_histogram(view, name, k)
            if histogram is not None:
                one["histograms"][name] = {
                    "edges": [plain(v) for v in histogram["edges"]],
                    "rest": histogram["rest"].tolist(),
                    "own": histogram["own"].tolist(),
                    "cut": histogram["cut"],
                }
        found.append(one)
    return found


def _put(found: dict[str, Any], name: str, value: Any) -> None:
    if value is not None:
        found[name] = value


def _points(curve: Curve | None) -> dict[str, Any] | None:
    """Return a curve without the points on its straight pieces."""
    if curve is None:
        return None
    x, y = np.round(curve.x, 3), np.round(curve.y, 3)
    same = (y[1:-1] == y[:-2]) & (y[1:-1] == y[2:])
    keep = np.concatenate([[True], ~same, [True]])
    return {
        "x": x[keep].tolist(),
        "y": y[keep].tolist(),
        "area": plain(curve.area, 4),
    }


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


def out_of_fold(view: View, method: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the test bags of the first repeat and what was predicted for them."""
    folds = [fold for fold in view.folds(method) if fold.repeat == 0]
    bags = np.concatenate([fold.test for fold in folds])
    return bags, np.concatenate([fold.label for fold in folds])


def value_figures(view: View, method: str) -> dict[str, Any]:
    """Return points to draw, and how far predictions are from the truth.

    ``"within"`` is the distance from the truth that 90% of the test bags keep to. Of
    many bags an even sample by their true value is drawn; figures are of all.
    """
    bags, predicted = out_of_fold(view, method)
    truth = view.truth[bags]
    error = predicted - truth
    order = np.argsort(truth, kind="stable")
    if len(order) > MAX_POINTS:
        order = order[np.linspace(0, len(order) - 1, MAX_POINTS).astype(int)]
    sizes, ids = view.problem.X.sizes, view.problem.X.ids
    return {
        "truth": [_digits(v) for v in truth[order]],
        "predicted": [_digits(v) for v in predicted[order]],
        "sizes": [int(sizes[i]) for i in bags[order]],
        "ids": [str(ids[i])[:60] for i in bags[order]],
        "within": _digits(np.quantile(np.abs(error), WITHIN)),
        "bias": _digits(error.mean()),
        "n": len(bags),
    }


def risk_groups(view: View, method: str) -> list[dict[str, Any]]:
    """Return the share without event over time, of thirds of the bags by risk.

    Risks of two folds are those of two models, so that each fold is cut in thirds on
    its own. Kaplan and Meier's estimate, as the corners of its steps.
    """
    parts: list[list[NDArray[Any]]] = [[], [], []]
    for fold in view.folds(method):
        if fold.repeat == 0:
            order = np.argsort(fold.label, kind="stable")
            for part, places in zip(parts, np.array_split(order, 3), strict=True):
                part.append(fold.test[places])
    found = []
    for name, pieces in zip(("low", "middle", "high"), parts, strict=True):
        bags = np.concatenate(pieces)
        if not len(bags):
            continue
        seen, time = view.problem.y["event"][bags], view.truth[bags]
        x, share = kaplan_meier(seen, time)
        found.append(
            {
                "name": f"{name} risk",
                "x": [_digits(v) for v in x],
                "y": [_digits(v) for v in share],
                "n": len(bags),
                "events": int(seen.sum()),
            }
        )
    return found


def kaplan_meier(
    event: NDArray[Any], time: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the corners of the estimated share without event, from time zero on."""
    times = np.unique(time[event])
    at_risk = np.array([(time >= t).sum() for t in times])
    falls = np.array([(event & (time == t)).sum() for t in times])
    share = np.cumprod(1.0 - falls / at_risk) if len(times) else np.empty(0)
    x = np.concatenate([[0.0], np.repeat(times, 2), [time.max()]])
    before = np.concatenate([[1.0], share])
    return x, np.repeat(before, 2)


def _digits(value: Any) -> float | None:
    number = plain(value, 300)
    return None if number is None else float(f"{number:.5g}")
