"""Curves, counts and errors of test bags, which the script of the page plots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.metrics import (
    average_precision_score,
    precision_recall_curve,
    roc_curve,
)

from bagwise.base.survival import kaplan_meier
from bagwise.base.thresholds import best_threshold
from bagwise.comparison.clinical import calibration_bins
from bagwise.report.view import FoldPredictions, View, plain

__all__ = [
    "Curve",
    "calibration",
    "class_counts",
    "class_figures",
    "confusion",
    "curves",
    "mean_precision",
    "mean_roc",
    "risk_groups",
    "scaled_scores",
    "score_histogram",
    "threshold_warning",
    "value_figures",
]

Array = NDArray[np.float64]
GRID = np.linspace(0.0, 1.0, 101)
MAX_CURVES = 8  # classes with a curve each
MAX_CLASSES = 40  # classes in tables
MAX_POINTS = 600
WITHIN = 0.9  # fraction of the bags in the band around the diagonal
N_PARTS = 10  # parts of the test bags; thresholds are chosen on the others
LEAST_GAIN, ALPHA = 0.05, 0.05  # gain in accuracy, level of its test


@dataclass(frozen=True)
class Curve:
    """A curve over the unit interval, and the area under it."""

    x: Array
    y: Array
    area: float


def mean_roc(view: View, method: str, k: int | None = None) -> Curve | None:
    """Return the ROC curve averaged over folds.

    Scores of different folds come from different models and have different scales, so
    curves are averaged (the mean true positive rate at each false positive rate)
    instead of pooling the scores. Leave-one-bag-out has no curve per fold; its scores
    are pooled. Without a class `k`: the positive one of two classes, and with more the
    mean over all classes against the rest.
    """

    def one(positive: NDArray[Any], score: Array) -> tuple[Array, float]:
        fpr, tpr, _ = roc_curve(positive, score, drop_intermediate=True)
        curve = np.interp(GRID, fpr, tpr)
        # On a vertical segment of the curve, the upper end is used.
        last = np.searchsorted(fpr, GRID, side="right") - 1
        area = float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2))
        return np.where(fpr[last] == GRID, tpr[last], curve), area

    found = _mean_curve(view, method, k, one)
    if found is None:
        return None
    return Curve(np.append(0.0, found.x), np.append(0.0, found.y), found.area)


def mean_precision(view: View, method: str, k: int | None = None) -> Curve | None:
    """Return precision against recall, of all folds of a repeat together.

    The average precision of the few bags of one fold is far above that of new data.
    Precision at a recall is that of the highest threshold that reaches the recall,
    without interpolation; the area is the average precision.
    """

    def one(positive: NDArray[Any], score: Array) -> tuple[Array, float]:
        precision, recall, _ = precision_recall_curve(positive, score)
        precision, recall = precision[-2::-1], recall[-2::-1]  # decreasing thresholds
        at = np.minimum(np.searchsorted(recall, GRID), len(recall) - 1)
        return precision[at], float(average_precision_score(positive, score))

    return _mean_curve(view, method, k, one, pooled=True)


def _mean_curve(
    view: View,
    method: str,
    k: int | None,
    one: Callable[[NDArray[Any], Array], tuple[Array, float]],
    pooled: bool = False,
) -> Curve | None:
    curves, areas = [], []
    for positive, score in _score_columns(view, method, k, pooled or view.pooled):
        if positive.any() and not positive.all():
            curve, area = one(positive, score)
            curves.append(curve)
            areas.append(area)
    if not curves:
        return None
    return Curve(GRID, np.mean(curves, axis=0), float(np.mean(areas)))


def _score_columns(
    view: View, method: str, k: int | None, pooled: bool
) -> Iterator[tuple[NDArray[Any], Array]]:
    """Yield membership and score for each requested class, by fold or by repeat."""
    folds = view.folds(method)
    if not folds or any(fold.score is None for fold in folds):
        return
    for c in view.own_class() if k is None else [k]:
        parts = [view.against_rest(fold, fold.score, c) for fold in folds]
        if not pooled:
            yield from parts
            continue
        for repeat in sorted({fold.repeat for fold in folds}):
            own = [
                part
                for fold, part in zip(folds, parts, strict=True)
                if fold.repeat == repeat
            ]
            yield tuple(np.concatenate(values) for values in zip(*own, strict=True))


def calibration(
    view: View, method: str, k: int | None = None, n_bins: int = 8
) -> list[dict[str, float]] | None:
    """Return observed against predicted frequency in bins of about equal count.

    Bags of the first repeat, with 95% intervals of Clopper and Pearson. With more than
    two classes and no `k`: how often the predicted class is correct, against its
    probability; with several labels per bag, all labels together. Equal probabilities
    share a bin. None for methods without probabilities.
    """
    folds = view.first_repeat(method)
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
    return calibration_bins(np.concatenate(hits), np.concatenate(values), n_bins)


def score_histogram(
    view: View, method: str, k: int | None = None, n_bins: int = 24
) -> dict[str, Any] | None:
    """Return a histogram of the scores of test bags, of class `k` and of the others.

    Zero is an edge of a bin. If it is the threshold of the method (``"threshold"``),
    the bars right of zero count the bags that are predicted to be of the class. None
    without scores, and for several classes without a `k`.
    """
    own = view.positive if k is None else k
    folds = view.first_repeat(method)
    if own is None or not folds or any(fold.score is None for fold in folds):
        return None
    member, score, called = scaled_scores(view, folds, own)
    bound = max(float(np.quantile(np.abs(score), 0.99)), 1e-9)
    edges = np.linspace(-bound, bound, n_bins + 1)
    edges[n_bins // 2] = 0.0
    # A score of zero is predicted negative; for the first class, it lies right of zero.
    above = bool((called == (score > 0)).all())
    not_below = bool((called == (score >= 0)).all())
    side = "right" if not_below and not above else "left"
    place = np.clip(np.searchsorted(edges, score, side) - 1, 0, n_bins - 1)
    return {
        "edges": edges,
        "rest": np.bincount(place[~member], minlength=n_bins),
        "own": np.bincount(place[member], minlength=n_bins),
        "threshold": above or not_below,
    }


def scaled_scores(
    view: View, folds: list[FoldPredictions], k: int
) -> tuple[NDArray[np.bool_], Array, NDArray[np.bool_]]:
    """Return membership, score and prediction of the bags of some folds, for a class.

    The scores of a fold are divided by their mean absolute value, which keeps zero and
    gives folds a common scale. Folds of a single bag are left as they are.
    """
    members, scores, called = [], [], []
    for fold in folds:
        member, score = view.against_rest(fold, fold.score, k)
        size = 1.0 if view.pooled else float(np.abs(score).mean())
        members.append(member)
        scores.append(score / (size if size > 0 else 1.0))
        called.append(view.called(fold, k).astype(bool))
    return tuple(np.concatenate(parts) for parts in (members, scores, called))


def threshold_warning(view: View, method: str) -> str | None:
    """Return a sentence if the labels of a method are clearly worse than its scores.

    Test bags are labeled again with the threshold that is best for other test bags (ten
    parts). The difference counts if accuracy increases by at least 0.05, significantly
    by the sign test at 5%, and balanced accuracy does not decrease. None otherwise.
    """
    folds = view.first_repeat(method)
    if view.positive is None or not folds or any(f.score is None for f in folds):
        return None
    member, score, called = scaled_scores(view, folds, view.positive)
    part = np.random.default_rng(0).permutation(len(score)) % N_PARTS
    again = np.zeros(len(score), dtype=bool)
    for k in np.unique(part):
        rest = part != k
        if not rest.any():
            return None
        again[~rest] = score[~rest] > best_threshold(score[rest], member[rest])
    old, new = called == member, again == member
    gained, lost = int((new & ~old).sum()), int((old & ~new).sum())
    if not member.any() or member.all() or gained - lost < LEAST_GAIN * len(old):
        return None
    balanced = [hit[member].mean() + hit[~member].mean() for hit in (old, new)]
    p = binomtest(gained, gained + lost, alternative="greater").pvalue
    if p >= ALPHA or balanced[1] < balanced[0]:
        return None
    positive, other = view.names[view.positive], view.names[1 - view.positive]
    n_false, n_other = int((called & ~member).sum()), int((~member).sum())
    n_missed, n_positive = int((member & ~called).sum()), int(member.sum())
    return (
        f"labels are worse than the ranking of the bags. Accuracy is {old.mean():.3f}, "
        f"and {new.mean():.3f} with a threshold chosen on other test bags. {n_false} "
        f"of {n_other} bags of {other} are predicted {positive}, and {n_missed} of "
        f"{n_positive} bags of {positive} are predicted {other}."
    )


def curves(view: View) -> list[dict[str, Any]]:
    """Return the mean curves, and those of each class if there are few classes."""
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
                    "threshold": histogram["threshold"],
                }
        found.append(one)
    return found


def _put(found: dict[str, Any], name: str, value: Any) -> None:
    if value is not None:
        found[name] = value


def _points(curve: Curve | None) -> dict[str, Any] | None:
    """Return a curve without the inner points of horizontal segments."""
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
    """Return the number of bags of each class or label; empty for regression."""
    if view.task == "multilabel":
        return view.truth.sum(axis=0)
    if view.task in ("regression", "survival"):
        return np.empty(0, dtype=np.int64)
    return np.bincount(view.truth, minlength=len(view.names))


def confusion(view: View, method: str) -> NDArray[np.int64] | None:
    """Return the number of test bags by true class (row) and predicted class (column).

    Test bags of the first repeat. None for several labels per bag.
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
    """Return the confusion matrix, and metrics of each class against the rest.

    Precision, recall and F1 are computed from the counts of the first repeat; areas
    under curves are means over folds.
    """
    counts = confusion(view, method)
    folds = view.first_repeat(method)
    rows = []
    for k in list(view.all_classes)[:MAX_CLASSES]:
        member = np.concatenate([view.member(fold, k) for fold in folds]).astype(bool)
        called = np.concatenate([view.called(fold, k) for fold in folds]).astype(bool)
        hit, true, predicted = (member & called).sum(), member.sum(), called.sum()
        both = true + predicted
        roc = mean_roc(view, method, k)
        precision = mean_precision(view, method, k)
        rows.append(
            {
                "bags": int(true),
                "predicted": int(predicted),
                "precision": plain(hit / predicted, 3) if predicted else None,
                "recall": plain(hit / true, 3) if true else None,
                "f1": plain(2 * hit / both, 3) if both else None,
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
    """Return the test bags of the first repeat and their predictions."""
    folds = view.first_repeat(method)
    bags = np.concatenate([fold.test for fold in folds])
    return bags, np.concatenate([fold.label for fold in folds])


def value_figures(view: View, method: str) -> dict[str, Any]:
    """Return points to plot, and the size of the errors.

    ``"within"`` is the 90% quantile of the absolute errors. Of many bags, an even
    sample by true value is plotted; the errors are those of all test bags.
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
    """Return the Kaplan-Meier curves of thirds of the test bags by predicted risk.

    Risks of different folds come from different models, so each fold is divided into
    thirds separately. A curve is given by the corners of its steps.
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


def _digits(value: Any) -> float | None:
    number = plain(value, 300)
    return None if number is None else float(f"{number:.5g}")
