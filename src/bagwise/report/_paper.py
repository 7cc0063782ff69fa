"""Figures of results for a paper, in the width of a journal."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.comparison.comparison import Comparison
from bagwise.comparison.leaderboard import Leaderboard
from bagwise.inspection.heatmap import rasterize, spacing
from bagwise.inspection.pictures import plot_text, save_figure
from bagwise.report._bags import instance_table, percentiles
from bagwise.report._curves import calibration, risk_groups, value_figures
from bagwise.report._evaluation import draw_bins
from bagwise.report._plots import (
    plot_confusion,
    plot_key_instances,
    plot_precision_recall,
    plot_ranking,
    plot_roc,
)
from bagwise.report.view import View

__all__ = ["FIGURES", "write_figure"]

WIDTHS = {"single": 89.0, "medium": 120.0, "double": 183.0}  # millimeters
INCH, DPI = 25.4, 300
LETTER = 0.055  # width in inches of a letter of 7 points
INK = "#212529"
MOST = 5  # maximum number of methods in a figure with curves
N_MAPS = 4
FORMATS = (".pdf", ".svg", ".png")
STYLE = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
}


def write_figure(
    results: Comparison | Leaderboard,
    path: str | os.PathLike[str],
    kind: str = "ranking",
    *,
    width: str | float = "single",
    methods: Sequence[str] | None = None,
    bags: Sequence[Any] | None = None,
) -> Path:
    """Write a figure for a paper, in the width of a column and with editable text.

    Parameters
    ----------
    results : Comparison or Leaderboard
        Result of `compare`, or of several (for "critical-difference").
    path : path
        The file; ``.pdf``, ``.svg`` or ``.png``.
    kind : str, default="ranking"
        "ranking", "roc", "precision-recall", "calibration", "confusion", "values" (true
        against predicted ones), "survival" (thirds by predicted risk), "heatmap"
        (instance scores at their coordinates), "key-instances" (contributions of
        features to the highest instances; not of an opened comparison) or
        "critical-difference" [1]_.
    width : {"single", "medium", "double"} or float, default="single"
        89, 120 or 183 mm, or a number of millimeters.
    methods : sequence of str, optional
        Names of methods; by default the best five in curves, and otherwise the best.
    bags : sequence, optional
        Ids of the bags in heat maps; by default two bags of each class.

    Returns
    -------
    Path
        The file.

    References
    ----------
    .. [1] Demsar, J., "Statistical comparisons of classifiers over multiple data sets",
       Journal of Machine Learning Research 7, 1-30, 2006.
    """
    import matplotlib as mpl

    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(
            f"the file of a figure ends in {', '.join(FORMATS)}; got {path.name!r}"
        )
    if kind not in FIGURES:
        raise ValueError(f"unknown kind {kind!r}; known: {', '.join(FIGURES)}")
    board = kind == "critical-difference"
    if board != isinstance(results, Leaderboard):
        raise ValueError(
            "critical-difference needs a Leaderboard: results on several data sets"
            if board
            else f"{kind} is a figure of one comparison"
        )
    if isinstance(results, Comparison):
        known = [row.method for row in results.ranking if row.n_folds]
        wrong = [name for name in methods or () if name not in known]
        if wrong:
            raise ValueError(
                f"no results of {wrong[0]!r}; there are results of {', '.join(known)}"
            )
    with mpl.rc_context(STYLE):
        figure = FIGURES[kind](results, _inches(width), methods, bags)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_figure(figure, path, DPI)
    return path


def _inches(width: str | float) -> float:
    if isinstance(width, str):
        if width not in WIDTHS:
            known = ", ".join(f"{name} ({mm:g} mm)" for name, mm in WIDTHS.items())
            raise ValueError(f"width is {known} or millimeters, got {width!r}")
        width = WIDTHS[width]
    if not 30 <= width <= 1000:
        raise ValueError(f"width must be 30 to 1000 mm, got {width:g}")
    return width / INCH


def _panel(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    ax = Figure(figsize=(width, height), layout="constrained").subplots()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


# Kinds of figures; arguments: comparison, width, methods and bags of the figure -------


def _ranking(found: Any, width: float, methods: Any, bags: Any) -> Any:
    n = len([row for row in found.ranking if row.n_folds])
    ax = plot_ranking(found, _panel(width, 0.75 + 0.19 * n))
    ax.get_legend().remove()  # inside, it would reduce the width of the axes
    ax.figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return ax.figure


def _square(plot: Callable[..., Any]) -> Callable[..., Any]:
    def draw(found: Any, width: float, methods: Any, bags: Any) -> Any:
        if View(found).task not in ("classification", "multilabel"):
            raise ValueError("these curves are for classes")
        side = min(width, 4.2)
        return plot(found, methods, _panel(side, side)).figure

    return draw


def _confusion(found: Any, width: float, methods: Any, bags: Any) -> Any:
    name = methods[0] if methods else found.best
    side = min(width, 1.6 + 0.45 * max(2, len(found.problem.classes)))
    ax = _panel(side, side)
    plot_confusion(found, name, ax)
    ax.spines[:].set_visible(True)
    return ax.figure


def _calibration(found: Any, width: float, methods: Any, bags: Any) -> Any:
    view, side = View(found), min(width, 4.2)
    if view.task not in ("classification", "multilabel"):
        raise ValueError("calibration is for classes; kind values shows values")
    known = {name: calibration(view, name) for name in methods or view.finished}
    known = {name: bins for name, bins in known.items() if bins}
    if not known:
        raise ValueError(
            "none of the methods has probabilities (compare --calibrate adds them)"
        )
    ax = _panel(side, side)
    for k, (name, bins) in enumerate(list(known.items())[:MOST]):
        draw_bins(ax, bins, f"C{k}", plot_text(name, 32))
    ax.plot([0, 1], [0, 1], color="#adb5bd", linewidth=1, linestyle="--", zorder=0)
    ax.set_xlabel("Predicted probability")
    ax.set_ylabel("Observed frequency")
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.legend(loc="upper left", frameon=False)
    return ax.figure


def _values(found: Any, width: float, methods: Any, bags: Any) -> Any:
    view, side = View(found), min(width, 4.2)
    if view.task != "regression":
        raise ValueError("values is for regression")
    name = methods[0] if methods else found.best
    points = value_figures(view, name)
    truth, predicted = np.array(points["truth"]), np.array(points["predicted"])
    ax = _panel(side, side)
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    ax.plot(ends, ends, color="#adb5bd", linewidth=1, linestyle="--", zorder=0)
    ax.plot(predicted, truth, "o", color="#1c7ed6", markersize=3, alpha=0.6)
    ax.set_xlabel("Predicted value, out of fold")
    ax.set_ylabel("True value")
    ax.set_title(plot_text(name, 40))
    return ax.figure


def _survival(found: Any, width: float, methods: Any, bags: Any) -> Any:
    view = View(found)
    if view.task != "survival":
        raise ValueError("survival is for times until an event")
    name = methods[0] if methods else found.best
    ax = _panel(width, 0.75 * min(width, 4.8))
    colors = ("#3a7d44", "#2166a5", "#b4451f")
    for one, color in zip(risk_groups(view, name), colors, strict=False):
        label = f"{one['name']} ({one['events']} events, {one['n']} bags)"
        ax.plot(one["x"], one["y"], color=color, label=label)
    ax.set_ylim(0, 1.03)
    ax.set_xlabel("Time")
    ax.set_ylabel("Share without event")
    ax.set_title(plot_text(f"{name}, thirds by predicted risk, out of fold", 60))
    ax.legend(frameon=False)
    return ax.figure


def _heatmap(found: Any, width: float, methods: Any, bags: Any) -> Any:
    """Plot percentiles of instance scores, which models of several folds share."""
    from matplotlib.figure import Figure

    view, X = View(found), found.problem.X
    if X.coords is None or X.coords.shape[1] < 2:
        raise ValueError("the instances have no coordinates")
    tables = ((name, instance_table(view, name)) for name in methods or view.finished)
    name, table = next(((n, t) for n, t in tables if t is not None), ("", None))
    if table is None:
        raise ValueError("no instance scores are stored for these methods")
    heat = percentiles(table)
    chosen = _bags_of(view, table, bags)
    n_columns = min(2 if width < 5 else 4, len(chosen))
    n_rows = -(-len(chosen) // n_columns)
    figure = Figure(figsize=(width, n_rows * width / n_columns), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False)
    for ax in axes.ravel():
        ax.axis("off")
    for ax, i in zip(axes.ravel(), chosen, strict=False):
        rows = slice(int(X.offsets[i]), int(X.offsets[i + 1]))
        where = np.asarray(X.coords[rows, :2], dtype=np.float64)
        raster, extent = rasterize(heat[rows], where, spacing(where))
        image = ax.imshow(
            raster,
            cmap="coolwarm",
            vmin=0,
            vmax=100,
            extent=extent,
            interpolation="nearest",
        )
        label = f"{X.ids[i]}: {found.problem.y[i]}"
        ax.set_title(plot_text(label, 14 * int(width) // n_columns), fontsize=7)
    what = f"Percentile of the instance score, {plot_text(name, 24)}, out of fold"
    figure.colorbar(
        image, ax=axes, location="bottom", label=what, shrink=0.8, aspect=40
    )
    return figure


def _bags_of(view: View, table: Any, bags: Any) -> list[int]:
    """Return the positions of bags by id; by default two bags of each class."""
    X = view.problem.X
    scored = ~np.isnan(table[X.offsets[:-1]])
    if bags is not None:
        places = {str(name): i for i, name in enumerate(X.ids)}
        wrong = [name for name in bags if str(name) not in places]
        if wrong:
            raise ValueError(f"there is no bag {wrong[0]!r}")
        chosen = [places[str(name)] for name in bags]
        missing = [i for i in chosen if not scored[i]]
        if missing:
            raise ValueError(
                f"no instance scores of bag {X.ids[missing[0]]!s} are stored"
            )
        return chosen
    if view.task != "classification":
        return np.flatnonzero(scored)[:N_MAPS].tolist()
    order = [k for k in (view.positive, *view.all_classes) if k is not None]
    found: list[int] = []
    for k in dict.fromkeys(order):
        found += np.flatnonzero(scored & (view.truth == k))[:2].tolist()
    return found[:N_MAPS]


def _key_instances(found: Any, width: float, methods: Any, bags: Any) -> Any:
    if found.opened:
        raise ValueError(
            "key instances need the features, which results on disk do not hold:"
            " `bagwise explain MODEL DATA --plots pdf` plots them"
        )
    figure = plot_key_instances(
        found, 4, methods[0] if methods else None, 3 if width < 5 else 6
    )
    figure.set_size_inches(
        width, width * figure.get_figheight() / figure.get_figwidth()
    )
    return figure


def _critical_difference(board: Any, width: float, methods: Any, bags: Any) -> Any:
    """Plot mean ranks on an axis; bars join methods within the critical difference."""
    from matplotlib.figure import Figure

    n, runs = len(board.methods), board.tied
    n_left = (n + 1) // 2
    # All lengths are in inches, from the upper left corner.
    letters = int((0.42 * width - 0.2) / LETTER)
    names = [plot_text(name, max(letters - 5, 8)) for name in board.methods]
    margin = 0.2 + LETTER * (max(map(len, names)) + 5)
    axis, step = 0.62, 0.17
    start = axis + 0.22 + 0.09 * len(runs)
    height = start + step * n_left
    figure = Figure(figsize=(width, height))
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set_xlim(0, width)
    ax.set_ylim(height, 0)
    ax.axis("off")

    def x(rank: float) -> float:
        return margin + (rank - 1) / (n - 1) * (width - 2 * margin)

    def line(xs: Any, ys: Any, size: float = 0.8) -> None:
        ax.plot(xs, ys, color=INK, linewidth=size, solid_capstyle="butt")

    line([x(1), x(n)], [axis, axis])
    for tick in range(1, n + 1):
        line([x(tick)] * 2, [axis - 0.05, axis])
        ax.text(x(tick), axis - 0.08, str(tick), ha="center", va="bottom", fontsize=7)
    difference = board.critical_difference
    end = min(1 + difference, n)
    line([x(1), x(end)], [0.2, 0.2])
    for at in (1, end):
        line([x(at)] * 2, [0.16, 0.24])
    about = f"critical difference {difference:.2f}"
    about += ", beyond the axis" if 1 + difference > n else ""
    ax.text((x(1) + x(end)) / 2, 0.14, about, ha="center", va="bottom", fontsize=7)
    for k, (first, last) in enumerate(runs):
        ends = [x(board.ranks[first]) - 0.02, x(board.ranks[last]) + 0.02]
        line(ends, [axis + 0.1 + 0.09 * k] * 2, 2.2)
    for j, (name, rank) in enumerate(zip(names, board.ranks, strict=True)):
        left = j < n_left
        y = start + step * (j if left else n - 1 - j)
        edge = margin - 0.08 if left else width - margin + 0.08
        line([x(rank), x(rank), edge], [axis, y, y], 0.6)
        text = f"{name} {rank:.2f}" if left else f"{rank:.2f} {name}"
        side, at = ("right", edge - 0.04) if left else ("left", edge + 0.04)
        ax.text(at, y, text, ha=side, va="center", fontsize=7)
    return figure


FIGURES: dict[str, Callable[..., Any]] = {
    "ranking": _ranking,
    "roc": _square(plot_roc),
    "precision-recall": _square(plot_precision_recall),
    "calibration": _calibration,
    "confusion": _confusion,
    "values": _values,
    "survival": _survival,
    "heatmap": _heatmap,
    "key-instances": _key_instances,
    "critical-difference": _critical_difference,
}
