"""Charts of features: over all bags, and inside one."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.inspection._contributions import FeatureContributions
from bagwise.inspection.names import as_drawn, for_class, instance_name

__all__ = ["plot_bag_contributions", "plot_feature_importance"]

UP, DOWN = "#d9480f", "#1c7ed6"


def plot_feature_importance(found: Any, n: int = 15, ax: Any = None) -> Any:
    """Draw the most important features over all bags as bars.

    Parameters
    ----------
    found : Bunch or FeatureContributions
        What `bag_permutation_importance` (with the standard deviation over the repeats)
        or `feature_contributions` (mean sizes) returned.
    n : int, default=15
        Most bars.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes
        The axes, of a figure that is not tied to pyplot when `ax` was not given.
    """
    if isinstance(found, FeatureContributions):
        mean, spread = found.mean_size(), None
        text = f"mean size of the part of the {found.level} score"
        text += for_class(found.pos_label)
    else:
        mean, spread = found.importances_mean, found.importances_std
        text = "fall of the score when the feature is permuted"
    first = np.argsort(-mean, kind="stable")[:n][::-1]
    ax = _axes(ax, (6.0, 0.6 + 0.28 * len(first)))
    ax.barh(
        range(len(first)),
        mean[first],
        xerr=None if spread is None else spread[first],
        color=DOWN,
        error_kw={"ecolor": "#495057", "elinewidth": 1.0},
    )
    ax.set_yticks(range(len(first)), [as_drawn(found.names[j], 24) for j in first])
    ax.axvline(0, color="#495057", linewidth=0.8)
    ax.set_xlabel(text)
    ax.set_title("Features", fontsize=10)
    ax.tick_params(labelsize=8)
    return ax


def plot_bag_contributions(
    found: FeatureContributions,
    bag: int,
    *,
    n_features: int = 8,
    n_instances: int = 12,
    ax: Any = None,
) -> Any:
    """Draw what features add inside one bag, instance by instance.

    Parameters
    ----------
    found : FeatureContributions
        The parts of instance scores, or of bag scores (then one bar a feature).
    bag : int
        Which bag.
    n_features, n_instances : int, default=8 and 12
        The largest parts and the instances with the highest scores are drawn.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes
        The axes.
    """
    X = found.X
    if not 0 <= bag < len(X):
        raise ValueError(f"there is no bag {bag}: X has {len(X)} bags.")
    rows = found.of_bag(bag)
    title = f"bag {as_drawn(X.ids[bag], 40)}"
    speaks = for_class(found.pos_label)
    if found.level == "bag":
        order = np.argsort(-np.abs(rows[0]), kind="stable")[:n_features][::-1]
        ax = _axes(ax, (6.0, 0.8 + 0.28 * len(order)))
        parts = rows[0][order]
        ax.barh(range(len(order)), parts, color=[UP if v > 0 else DOWN for v in parts])
        ax.set_yticks(range(len(order)), [as_drawn(found.names[j], 24) for j in order])
        ax.axvline(0, color="#495057", linewidth=0.8)
        ax.set_xlabel(f"part of the score of the bag{speaks}")
        ax.set_title(f"{title}: score {found.scores[bag]:.3g}", fontsize=10)
        ax.tick_params(labelsize=8)
        return ax
    start = int(X.offsets[bag])
    scores = found.scores[start : start + len(rows)]
    top = np.argsort(-scores, kind="stable")[:n_instances]
    size = np.abs(rows[top]).max(axis=0)
    kept = np.argsort(-size, kind="stable")[:n_features]
    table = rows[np.ix_(top, kept)].T
    ax = _axes(ax, (1.8 + 0.5 * len(top), 1.4 + 0.3 * len(kept)))
    bound = float(np.abs(table).max()) or 1.0
    image = ax.imshow(table, cmap="coolwarm", vmin=-bound, vmax=bound, aspect="auto")
    ax.set_yticks(range(len(kept)), [as_drawn(found.names[j], 24) for j in kept])
    names = [instance_name(X, start + int(j)) for j in top]
    ax.set_xticks(range(len(top)), [as_drawn(n, 12) for n in names], rotation=45)
    ax.set_xlabel("instances, the highest score first")
    ax.set_title(f"{title}: parts of instance scores", fontsize=10)
    ax.tick_params(labelsize=8)
    ax.figure.colorbar(image, ax=ax, label=f"part of the score{speaks}")
    return ax


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="tight").subplots()
