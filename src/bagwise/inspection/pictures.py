"""Pictures of bags: the instances with the highest scores, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.inspection.features import moments, top_features
from bagwise.inspection.names import as_drawn, instance_name

__all__ = ["plot_bags"]

UP, DOWN, KNOWN, PLAIN = "#d9480f", "#1c7ed6", "#d9480f", "#c8c8c8"
N_BARS = 4


def plot_bags(
    X: Any,
    scores: Any,
    bags: Any,
    *,
    images: Any = None,
    instance_labels: Any = None,
    n_instances: int = 8,
    titles: Any = None,
    contributions: Any = None,
    about: str = "score",
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
        Pictures; without them features are drawn.
    instance_labels : ndarray of shape (n_instances,), optional
        Truly positive instances get a coloured frame.
    n_instances : int, default=8
        Most instances of a bag to draw.
    titles : list of str, optional
        One text a bag.
    contributions : FeatureContributions, optional
        Parts of the scores; the largest are drawn as bars. Without them, the features
        that are furthest from their mean, in standard deviations.
    about : str, default="score"
        What the number above an instance is.

    Returns
    -------
    matplotlib.figure.Figure
        The figure (not shown, not tied to pyplot).
    """
    from matplotlib.figure import Figure

    bags = [int(i) for i in bags]
    columns = int(min(n_instances, max(X.sizes[i] for i in bags)))
    width = 1.15 if images is not None else 2.1
    head, foot = 0.4, 0.35 if images is None or instance_labels is not None else 0.1
    size = (max(width * columns + 1.8, 5.0), 1.5 * len(bags) + head + foot)
    figure = Figure(figsize=size)
    axes = figure.subplots(len(bags), columns, squeeze=False)
    moment = moments(X) if images is None and contributions is None else None
    low, high = (np.min(images), np.max(images)) if images is not None else (0, 1)
    drawn: list[Any] = []
    for line, i in enumerate(bags):
        start, stop = int(X.offsets[i]), int(X.offsets[i + 1])
        order = start + np.argsort(-np.asarray(scores[start:stop]), kind="stable")
        for place, ax in enumerate(axes[line]):
            ax.set_yticks([])
            if place >= len(order):
                ax.axis("off")
                continue
            row = int(order[place])
            if images is not None:
                ax.set_xticks([])
                ax.imshow(images[row], cmap="gray_r", vmin=low, vmax=high)
            else:
                _draw_bars(ax, *_bars(X, row, contributions, moment))
                drawn.append(ax)
            known = instance_labels is not None and bool(instance_labels[row])
            for side in ax.spines.values():
                side.set_color(KNOWN if known else PLAIN)
                side.set_linewidth(2.4 if known else 0.8)
            name = as_drawn(instance_name(X, row), 10 if images is not None else 20)
            ax.set_title(f"{name}: {scores[row]:.2f}", fontsize=7, pad=3)
        if titles is not None:
            axes[line, 0].set_ylabel(
                titles[line],
                rotation=0,
                ha="right",
                va="center",
                fontsize=8,
                labelpad=6,
            )
    bound = max((np.abs(ax.get_xlim()).max() for ax in drawn), default=1.0)
    for ax in drawn:  # one scale, so that bars can be compared
        ax.set_xlim(-bound, bound)
    figure.suptitle(
        f"Instances with the highest scores ({about})", fontsize=10, x=0.01, ha="left"
    )
    _legend(figure, images, contributions, instance_labels)
    # By hand: to ask every panel for its size takes seconds.
    longest = max(
        (len(part) for t in titles or () for part in t.split("\n")), default=0
    )
    figure.subplots_adjust(
        left=(0.2 + 0.07 * longest) / size[0],
        right=1 - 0.1 / size[0],
        bottom=(foot + 0.15) / size[1],
        top=1 - (head + 0.2) / size[1],
        wspace=0.08,
        hspace=0.45 if images is None else 0.3,
    )
    return figure


def _bars(
    X: Any, row: int, contributions: Any, moment: Any
) -> tuple[list[str], list[float]]:
    if contributions is None:
        found = top_features(X, row, N_BARS, *moment)
        return [name for name, _, _ in found], [z for _, _, z in found]
    parts = contributions.values[row]
    first = np.argsort(-np.abs(parts), kind="stable")[:N_BARS]
    return [contributions.names[j] for j in first], [float(parts[j]) for j in first]


def _draw_bars(ax: Any, names: list[str], values: list[float]) -> None:
    names, values = names[::-1], values[::-1]
    ax.barh(range(len(values)), values, color=[UP if v >= 0 else DOWN for v in values])
    ax.axvline(0, color="#495057", linewidth=0.6)
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        side = "right" if value >= 0 else "left"
        ax.text(0, place, f" {as_drawn(name, 14)} ", fontsize=6, va="center", ha=side)
    bound = max(1e-12, *np.abs(values)) * 1.1
    ax.set_xlim(-bound, bound)
    ax.tick_params(axis="x", labelsize=5, length=2, pad=1)
    ax.locator_params(axis="x", nbins=3)


def _legend(figure: Any, images: Any, contributions: Any, known: Any) -> None:
    """Say what colours and bars mean."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown: list[Any] = []
    if images is None and contributions is not None:
        shown.append(Patch(color=UP, label="adds to the score"))
        shown.append(Patch(color=DOWN, label="takes from it"))
    elif images is None:
        what = "the mean of all instances (axis: standard deviations)"
        shown.append(Patch(color=UP, label="feature above"))
        shown.append(Patch(color=DOWN, label=f"below {what}"))
    if known is not None:
        frame = {"marker": "s", "linestyle": "", "fillstyle": "none"}
        shown.append(
            Line2D([], [], color=KNOWN, label="truly positive instance", **frame)
        )
    if shown:
        figure.legend(
            handles=shown, loc="lower left", ncols=len(shown), fontsize=7, frameon=False
        )
