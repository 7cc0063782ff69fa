"""Pictures of bags: the instances with the highest scores, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.inspection._features import moments, top_features

__all__ = ["plot_bags"]


def plot_bags(
    X: Any,
    scores: Any,
    bags: Any,
    *,
    images: Any = None,
    instance_labels: Any = None,
    n_instances: int = 8,
    titles: Any = None,
) -> Any:
    """Draw one line a bag, its instances from the highest score to the lowest.

    Parameters
    ----------
    X : Bags
        The bags.
    scores : ndarray of shape (n_instances,)
        Scores of all instances of `X`.
    bags : array-like of int
        Which bags to draw.
    images : ndarray of shape (n_instances, height, width[, 3]), optional
        Pictures; without them the features that set an instance apart are drawn.
    instance_labels : ndarray of shape (n_instances,), optional
        Truly positive instances get a coloured frame.
    n_instances : int, default=8
        Most instances of a bag to draw.
    titles : list of str, optional
        One text a bag.

    Returns
    -------
    matplotlib.figure.Figure
        The figure (not shown, not tied to pyplot).
    """
    from matplotlib.figure import Figure

    bags = [int(i) for i in bags]
    columns = int(min(n_instances, max(X.sizes[i] for i in bags)))
    width = 1.15 if images is not None else 2.1
    figure = Figure(figsize=(width * columns + 1.6, 1.45 * len(bags)), layout="tight")
    axes = figure.subplots(len(bags), columns, squeeze=False)
    about = None if images is not None else moments(X)
    low, high = (np.min(images), np.max(images)) if images is not None else (0, 1)
    for line, i in enumerate(bags):
        start, stop = int(X.offsets[i]), int(X.offsets[i + 1])
        order = start + np.argsort(-np.asarray(scores[start:stop]), kind="stable")
        for place, ax in enumerate(axes[line]):
            ax.set_xticks([])
            ax.set_yticks([])
            if place >= len(order):
                ax.axis("off")
                continue
            row = int(order[place])
            if images is not None:
                ax.imshow(images[row], cmap="gray_r", vmin=low, vmax=high)
            else:
                _draw_features(ax, X, row, about)
            known = instance_labels is not None and bool(instance_labels[row])
            for side in ax.spines.values():
                side.set_color("#d9480f" if known else "#c8c8c8")
                side.set_linewidth(2.4 if known else 0.8)
            ax.set_title(f"{scores[row]:.2f}", fontsize=8, pad=2)
        if titles is not None:
            axes[line, 0].set_ylabel(
                titles[line], rotation=0, ha="right", va="center", fontsize=8
            )
    return figure


def _draw_features(ax: Any, X: Any, row: int, about: Any) -> None:
    found = top_features(X, row, 4, *about)[::-1]
    z = [item[2] for item in found]
    colors = ["#1c7ed6" if value >= 0 else "#868e96" for value in z]
    ax.barh(range(len(found)), z, color=colors)
    ax.axvline(0, color="#495057", linewidth=0.6)
    for place, (name, _, value) in enumerate(found):
        side = "right" if value >= 0 else "left"
        ax.text(0, place, f" {name[:14]} ", fontsize=6, va="center", ha=side)
    bound = max(1.0, *np.abs(z)) * 1.1
    ax.set_xlim(-bound, bound)
