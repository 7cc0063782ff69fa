"""Plots of a comparison with matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from bagwise.comparison.comparison import Comparison
from bagwise.comparison.evaluate import METRICS
from bagwise.inspection.features import feature_name, moments
from bagwise.inspection.pictures import for_class, plot_bags, plot_text
from bagwise.report._bags import instance_table, sampled_by_row, slopes_by_bag
from bagwise.report._curves import Curve, confusion, mean_precision, mean_roc
from bagwise.report.view import View

__all__ = [
    "plot_confusion",
    "plot_key_instances",
    "plot_precision_recall",
    "plot_ranking",
    "plot_roc",
]


def plot_ranking(comparison: Comparison, ax: Any = None) -> Any:
    """Plot the mean and the interval of every method, the best on top.

    Parameters
    ----------
    comparison : Comparison
        The results.
    ax : matplotlib.axes.Axes, optional
        Axes to plot on; new ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    rows = [row for row in comparison.ranking if row.n_folds][::-1]
    ax = _axes(ax, (6.4, 1.1 + 0.34 * len(rows)))
    colors = {"best": "#2b8a3e", "worse": "#868e96", "untested": "#868e96"}
    for place, row in enumerate(rows):
        color = colors.get(row.verdict, "#1c7ed6")
        if not np.isnan(row.low):
            ax.plot([row.low, row.high], [place, place], color=color, linewidth=2)
        ax.plot(row.mean, place, "o", color=color, markersize=6)
    ax.set_yticks(range(len(rows)), [plot_text(row.method) for row in rows])
    ax.set_ylim(-0.6, len(rows) - 0.4)
    for verdict in dict.fromkeys(row.verdict for row in reversed(rows)):
        color = colors.get(verdict, "#1c7ed6")
        ax.plot([], [], "o", color=color, label=verdict)
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=8, frameon=False
    )
    ax.set_xlabel(f"{METRICS[comparison.metric].title} with 95% interval")
    ax.grid(axis="x", alpha=0.3)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax


def plot_roc(
    comparison: Comparison, methods: Sequence[str] | None = None, ax: Any = None
) -> Any:
    """Plot ROC curves, averaged over folds at equal false positive rates.

    Parameters
    ----------
    comparison : Comparison
        The results.
    methods : sequence of str, optional
        Names of methods; the best five by default.
    ax : matplotlib.axes.Axes, optional
        Axes to plot on; new ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    ax = _curves(comparison, methods, ax, mean_roc)
    ax.plot([0, 1], [0, 1], color="#adb5bd", linewidth=1, linestyle="--", zorder=0)
    ax.set_xlabel("False positive rate")
    ax.set_ylabel("True positive rate")
    ax.legend(loc="lower right", fontsize=8, frameon=False, title="AUROC")
    return ax


def plot_precision_recall(
    comparison: Comparison, methods: Sequence[str] | None = None, ax: Any = None
) -> Any:
    """Plot precision against recall of all test bags, with average precision.

    Parameters
    ----------
    comparison : Comparison
        The results.
    methods : sequence of str, optional
        Names of methods; the best five by default.
    ax : matplotlib.axes.Axes, optional
        Axes to plot on; new ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    ax = _curves(comparison, methods, ax, mean_precision)
    ax.set_xlabel("Recall")
    ax.set_ylabel("Precision")
    ax.legend(loc="lower left", fontsize=8, frameon=False, title="Average precision")
    return ax


def _curves(
    comparison: Comparison,
    methods: Sequence[str] | None,
    ax: Any,
    make: Callable[[View, str], Curve | None],
) -> Any:
    view = View(comparison)
    ax = _axes(ax, (5.0, 5.0))
    for name in methods or view.finished[:5]:
        curve = make(view, name)
        if curve is not None:
            ax.plot(curve.x, curve.y, label=f"{plot_text(name)} ({curve.area:.3f})")
    about = "mean of all classes against the rest"
    if view.positive is not None:
        about = f"positive class: {plot_text(view.names[view.positive], 40)}"
    ax.set_title(about, fontsize=9)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_aspect("equal")
    return ax


def plot_confusion(
    comparison: Comparison, method: str | None = None, ax: Any = None
) -> Any:
    """Plot the number of test bags by true and predicted class.

    Parameters
    ----------
    comparison : Comparison
        The results.
    method : str, optional
        Name of a method; the best by default.
    ax : matplotlib.axes.Axes, optional
        Axes to plot on; new ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    view = View(comparison)
    counts = confusion(view, comparison.best if method is None else method)
    if counts is None:
        raise ValueError("a confusion matrix needs one class label per bag")
    size = 1.8 + 0.5 * len(view.names)
    ax = _axes(ax, (size, size))
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(share, cmap="Blues", vmin=0.0, vmax=1.0)
    for (i, j), n in np.ndenumerate(counts):
        shade = "white" if share[i, j] > 0.55 else "#212529"
        ax.text(j, i, str(n), ha="center", va="center", fontsize=9, color=shade)
    names = [plot_text(name, 24) for name in view.names]
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    ax.set_xlabel("Predicted class")
    ax.set_ylabel("True class")
    ax.set_title("Number of test bags", fontsize=9)
    return ax


def plot_key_instances(
    comparison: Comparison,
    n_bags: int = 6,
    method: str | None = None,
    n_instances: int = 8,
) -> Any:
    """Plot the instances of positive bags with the highest out-of-fold scores.

    Every bag is scored by a model that was not fitted to it. Bars are contributions of
    features to the score, of bags for which the comparison has stored them. Where there
    are none (sparse or many features, many classes), bars show the features that are
    furthest from their mean.

    Parameters
    ----------
    comparison : Comparison
        The results.
    n_bags : int, default=6
        Number of bags; with more than two classes, bags of any class.
    method : str, optional
        Name of a method; the best one with instance scores by default.
    n_instances : int, default=8
        Maximum number of instances per bag.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    view = View(comparison)
    names = [method] if method is not None else view.finished
    for name in names:
        scores = instance_table(view, name)
        if scores is not None:
            break
    else:
        who = repr(method) if method is not None else "any method of this comparison"
        raise ValueError(f"no instance scores are stored for {who}")
    problem = comparison.problem
    chosen = ~np.isnan(scores[problem.X.offsets[:-1]])
    if view.positive is not None:
        chosen &= view.truth == view.positive
    bags, parts = np.flatnonzero(chosen), None
    if problem.images is None:
        bags, parts = _contributions(view, name, bags, n_bags)
    bags = bags[:n_bags]
    label = None if view.positive is None else view.names[view.positive]
    return plot_bags(
        problem.X,
        scores,
        bags,
        images=problem.images,
        instance_labels=problem.instance_labels,
        n_instances=n_instances,
        contributions=parts,
        about=f"scores{for_class(label)}, out of fold",
        titles=[
            plot_text(f"bag {problem.X.ids[i]}: {problem.y[i]}", 40)
            for i in bags[:n_bags]
        ],
    )


def _contributions(view: View, method: str, bags: Any, most: int) -> tuple[Any, Any]:
    """Return the first bags with known contributions of features, and these.

    Of all bags where instance scores are linear, and of a few with sampled ones.
    """
    X = view.problem.X
    slopes = {} if X.is_sparse else slopes_by_bag(view, method)
    values = {} if slopes or X.is_sparse else sampled_by_row(view, method)
    known = {*slopes, *X.bag_index[np.array([*values], dtype=np.int64)].tolist()}
    chosen = [int(i) for i in bags if int(i) in known][:most]
    if not chosen:
        return bags[:most], None
    mean = moments(X)[0]
    for i in chosen if slopes else ():
        rows = np.arange(X.offsets[i], X.offsets[i + 1])
        parts = slopes[i] * (X.take_rows(rows) - mean)
        values |= zip(rows.tolist(), parts, strict=True)
    names = [feature_name(X, j) for j in range(X.n_features)]
    return chosen, SimpleNamespace(values=values, names=names)


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=size, layout="tight")
    return ax
