"""Plots of a comparison for notebooks (matplotlib)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bagwise.comparison._comparison import Comparison
from bagwise.comparison._evaluate import METRICS
from bagwise.inspection._pictures import plot_bags
from bagwise.report._curves import instance_table, mean_roc

__all__ = ["plot_key_instances", "plot_ranking", "plot_roc"]


def plot_ranking(comparison: Comparison, ax: Any = None) -> Any:
    """Draw mean and interval of every method, the best on top."""
    rows = [row for row in comparison.ranking if row.n_folds][::-1]
    ax = _axes(ax, (6.4, 0.8 + 0.34 * len(rows)))
    colors = {"best": "#2b8a3e", "not told apart": "#1c7ed6"}
    for place, row in enumerate(rows):
        color = colors.get(row.verdict, "#868e96")
        if not np.isnan(row.low):
            ax.plot([row.low, row.high], [place, place], color=color, linewidth=2)
        ax.plot(row.mean, place, "o", color=color, markersize=6)
    ax.set_yticks(range(len(rows)), [row.method for row in rows])
    ax.set_xlabel(f"{METRICS[comparison.metric].title}, 95% interval")
    ax.grid(axis="x", alpha=0.3)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax


def plot_roc(
    comparison: Comparison, methods: Sequence[str] | None = None, ax: Any = None
) -> Any:
    """Draw ROC curves, averaged over folds at equal false positive rates."""
    names = methods or [row.method for row in comparison.ranking if row.n_folds][:5]
    ax = _axes(ax, (5.0, 5.0))
    ax.plot([0, 1], [0, 1], color="#adb5bd", linewidth=1, linestyle="--")
    for name in names:
        curve = mean_roc(comparison, name)
        if curve is not None:
            ax.plot(curve.fpr, curve.tpr, label=f"{name} ({curve.auc:.3f})")
    ax.set_xlabel("False positive rate")
    ax.set_ylabel("True positive rate")
    ax.set_aspect("equal")
    ax.legend(loc="lower right", fontsize=8, frameon=False)
    return ax


def plot_key_instances(
    comparison: Comparison,
    n_bags: int = 6,
    method: str | None = None,
    n_instances: int = 8,
) -> Any:
    """Draw the highest instances of positive bags, scored out of fold."""
    ranked = [row.method for row in comparison.ranking]
    names = [method] if method is not None else ranked
    for name in names:
        scores = instance_table(comparison, name)
        if scores is not None:
            break
    else:
        who = repr(method) if method is not None else "no method of this comparison"
        raise ValueError(f"{who} does not score instances")
    problem = comparison.problem
    seen = ~np.isnan(scores[problem.X.offsets[:-1]])
    positive = problem.y == problem.classes[-1]
    bags = np.flatnonzero(positive & seen)[:n_bags]
    return plot_bags(
        problem.X,
        scores,
        bags,
        images=problem.images,
        instance_labels=problem.instance_labels,
        n_instances=n_instances,
        titles=[f"bag {problem.X.ids[i]}" for i in bags],
    )


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=size, layout="tight")
    return ax
