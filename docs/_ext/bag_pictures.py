"""Figures of the site: bags in the plane, and the scores of methods."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

from bagwise import Bags
from bagwise.comparison.description import build_estimator
from bagwise.inspection import instance_importance

POSITIVE, NEGATIVE, KEY = "#c8553d", "#33658a", "black"
BOX = 4.2  # half the width of the plotted square


def plane_bags(n_bags: int = 36, seed: int = 3) -> tuple[Bags, np.ndarray]:
    """Return bags in the plane: positive ones hold one or two points at the top right.

    Parameters
    ----------
    n_bags : int
        Number of bags, half of them positive.
    seed : int
        Random seed.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    bags = []
    for label in y:
        rows = rng.normal(scale=1.2, size=(rng.integers(3, 7), 2)) - 0.7
        if label:
            n_witnesses = rng.integers(1, 3)
            rows[:n_witnesses] = [2.2, 2.0] + 0.5 * rng.normal(size=(n_witnesses, 2))
        bags.append(rows)
    return Bags.from_list(bags), y


def plane_values(n_bags: int = 48, seed: int = 3) -> tuple[Bags, np.ndarray]:
    """Return bags whose value is the height of their points on a ridge, on average."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-2, 2, size=(n_bags, 1, 2))
    bags = [c + 0.8 * rng.normal(size=(rng.integers(3, 7), 2)) for c in centers]
    y = np.array([np.mean(np.tanh(b[:, 0]) + 0.5 * b[:, 1]) for b in bags])
    return Bags.from_list(bags), y


def as_times(risk: np.ndarray) -> np.ndarray:
    """Return times until an event that are short where the risk is high."""
    return np.array(
        [(True, float(np.exp(-value))) for value in risk],
        dtype=[("event", bool), ("time", float)],
    )


def grid_of_bags(n: int = 45) -> tuple[np.ndarray, Bags]:
    """Return the points of a grid, each a bag of its own."""
    line = np.linspace(-BOX, BOX, n)
    points = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    return line, Bags(points, np.arange(len(points) + 1))


def draw_method(method: Any, path: Path) -> None:
    """Plot the scores of a method of the catalog on bags in the plane.

    Parameters
    ----------
    method : Method
        An entry of the catalog; it is fitted with its defaults.
    path : Path
        File of the picture.
    """
    regression = method.task != "classification"
    X, y = plane_values() if regression else plane_bags()
    target = as_times(y) if method.task == "survival" else y
    model = build_estimator(method.spec())
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    line, points = grid_of_bags()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, target)
        score = model.predict if regression else _score(model)
        heights = np.asarray(score(points), dtype=float).reshape(len(line), -1)
        keys = None if regression else _keys(model, X)
    figure, axis = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
    if regression:
        _draw_values(axis, line, heights, X, y)
    else:
        _draw_scores(axis, line, heights, X, y, keys)
    axis.set(xlim=(-BOX, BOX), ylim=(-BOX, BOX), xlabel="feature 1")
    axis.set_ylabel("feature 2")
    axis.set_aspect("equal")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _score(model: Any) -> Any:
    if hasattr(model, "decision_function"):
        return model.decision_function
    return lambda X: model.predict_proba(X)[:, 1] - 0.5


def _keys(model: Any, X: Bags) -> np.ndarray:
    """Return the rows of the most important instances of predicted positive bags."""
    scores = instance_importance(model, X, "single")
    found = np.asarray(model.predict(X)) == 1
    return np.array(
        [X.offsets[i] + int(np.argmax(scores[i])) for i in np.flatnonzero(found)],
        dtype=int,
    )


def _draw_scores(axis, line, heights, X, y, keys):
    spread = np.percentile(np.abs(heights), 95) or 1.0
    levels = np.linspace(-spread, spread, 13)
    shown = axis.contourf(
        line, line, heights, levels=levels, cmap="RdBu_r", alpha=0.45, extend="both"
    )
    axis.figure.colorbar(shown, ax=axis, shrink=0.85, label="score of the bag")
    if heights.min() < 0.0 < heights.max():
        axis.contour(line, line, heights, levels=[0.0], colors="black", linewidths=1.3)
    owner = y[X.bag_index]
    for label, marker, color in ((0, "s", NEGATIVE), (1, "o", POSITIVE)):
        rows = X.data[owner == label]
        axis.scatter(*rows.T, s=17, marker=marker, c=color, edgecolors="w", lw=0.4)
    if len(keys):
        axis.scatter(*X.data[keys].T, s=75, facecolors="none", edgecolors=KEY, lw=1.1)
    axis.legend(
        handles=[
            Line2D([], [], ls="", marker="o", c=POSITIVE, label="in positive bags"),
            Line2D([], [], ls="", marker="s", c=NEGATIVE, label="in negative bags"),
            Line2D(
                [], [], ls="", marker="o", mfc="none", c=KEY, ms=9, label="key instance"
            ),
        ],
        fontsize=7.5,
        loc="lower right",
        framealpha=0.85,
    )


def _draw_values(axis, line, heights, X, y):
    shown = axis.contourf(line, line, heights, levels=13, cmap="viridis", alpha=0.75)
    means = np.array([X[i].mean(axis=0) for i in range(len(X))])
    axis.scatter(*X.data.T, s=7, c="w", alpha=0.5)
    axis.scatter(
        *means.T,
        s=46,
        c=y,
        cmap="viridis",
        edgecolors="black",
        lw=0.8,
        vmin=shown.zmin,
        vmax=shown.zmax,
    )
    axis.figure.colorbar(shown, ax=axis, shrink=0.85, label="prediction")


SPOTS = [(-0.5, 0.7), (0.45, 0.8), (-0.1, 0.0), (0.5, -0.35), (-0.45, -0.75)]
# Label, number of instances, and which one makes the bag positive.
THREE_BAGS = [("positive", 5, 1), ("negative", 4, None), ("positive", 5, 2)]


def draw_bags(path: Path, table: bool = True) -> None:
    """Plot three bags and their labels.

    Parameters
    ----------
    path : Path
        File of the picture.
    table : bool
        Whether the same bags are shown next to it as a table.
    """
    if table:
        shares = {"width_ratios": [1.2, 1]}
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(9.6, 3.9), layout="constrained", gridspec_kw=shares
        )
        left.set_title("Labels are known for bags")
        _draw_table(right)
    else:
        figure, left = plt.subplots(figsize=(5.2, 2.7), layout="constrained")
    for k, (label, size, key) in enumerate(THREE_BAGS):
        color = POSITIVE if label == "positive" else NEGATIVE
        center = 2.6 * (k - 1)
        left.add_patch(
            Ellipse((center, 0), 2.2, 2.8, fc=color, alpha=0.12, ec=color, lw=1.5)
        )
        for j, (dx, dy) in enumerate(SPOTS[:size]):
            left.scatter(
                center + dx,
                dy,
                s=380 if j == key else 150,
                marker="*" if j == key else "o",
                c=POSITIVE if j == key else "0.55",
                edgecolors="w",
                zorder=3,
            )
        left.text(
            center, -1.8, f"bag {k + 1}: {label}", ha="center", color=color, size=11
        )
    left.set(xlim=(-3.9, 3.9), ylim=(-2.0, 1.6))
    left.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_table(axis):
    """The first rows of the bags: the label is that of the bag in every one."""
    rng = np.random.default_rng(4)
    rows = [
        (f"bag {k + 1}", label)
        for k, (label, size, _) in enumerate(THREE_BAGS)
        for _ in range(size)
    ][:10]
    cells = [
        [bag, *(f"{abs(v):.1f}" for v in rng.normal(size=3)), label]
        for bag, label in rows
    ]
    tints = {"positive": "#f6dcd6", "negative": "#d9e4ed"}
    table = axis.table(
        cellText=[*cells, ["…"] * 5],
        cellColours=[*([tints[label]] * 5 for _, label in rows), ["w"] * 5],
        colLabels=["bag", "x0", "x1", "x2", "label"],
        colWidths=[0.2, 0.16, 0.16, 0.16, 0.26],
        loc="center",
        cellLoc="center",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(10)
    table.scale(1, 1.25)
    for cell in table.get_celld().values():
        cell.set_edgecolor("0.8")
    axis.set_title("The same data as a table: one row per instance")
    axis.axis("off")
