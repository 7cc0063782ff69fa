"""The page of a leaderboard: ranks, critical difference, accuracy against time."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import BaseLoader, Environment, StrictUndefined
from numpy.typing import NDArray

from bagwise.comparison.evaluate import METRICS
from bagwise.inspection.pictures import plot_text
from studies.leaderboard import Leaderboard

__all__ = ["leaderboard_context", "write_leaderboard"]

# Possible positions of a name: points above its mark, and the end that is there.
SHIFTS = [
    (up + away * (1 if up > 0 else -1), side)
    for away in (0, 12, 24, 36, 48)
    for up in (3, -9)
    for side in ("left", "right")
]


def leaderboard_context(board: Leaderboard) -> dict[str, Any]:
    """Return the plain values that the page shows."""
    metric = METRICS[board.metric]
    best = board.values.max(1) if metric.higher else board.values.min(1)
    return {
        "metric": metric.title,
        "datasets": [
            {"name": name, "split": board.protocols[name]} for name in board.datasets
        ],
        "rows": [
            {
                "rank": f"{row['mean_rank']:.2f}",
                "method": row["method"],
                "mean": f"{row['mean']:.3f}",
                "wins": row["wins"],
                "seconds": f"{row['fit_seconds']:.3f}",
                "p": "" if row["p_holm"] != row["p_holm"] else f"{row['p_holm']:.3f}",
                "with_best": row["with_best"],
                "values": [
                    {
                        "text": f"{board.values[i, j]:.3f}",
                        "best": bool(board.values[i, j] == best[i]),
                    }
                    for i in range(len(board.datasets))
                ],
            }
            for j, row in enumerate(board.rows())
        ],
        "critical_difference": f"{board.critical_difference:.2f}",
        "p_friedman": (
            "not defined"
            if board.p_friedman != board.p_friedman
            else f"{board.p_friedman:.2g}"
        ),
        "left_out": list(board.left_out),
    }


def write_leaderboard(board: Leaderboard, path: str | os.PathLike[str]) -> Path:
    """Write the page of a leaderboard.

    Parameters
    ----------
    board : Leaderboard
        What `studies.leaderboard.leaderboard` returned.
    path : path
        The file.

    Returns
    -------
    Path
        The file.
    """
    template = Path(__file__).with_name("leaderboard.html")
    environment = Environment(
        loader=BaseLoader(), autoescape=True, undefined=StrictUndefined
    )
    page = environment.from_string(template.read_text(encoding="utf-8")).render(
        **leaderboard_context(board),
        rank_picture=_encode(plot_ranks(board)),
        time_picture=_encode(plot_times(board)),
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(page, encoding="utf-8")
    scratch.replace(path)
    return path


def plot_ranks(board: Leaderboard) -> Any:
    """Plot mean ranks, and shade those not significantly different from the best.

    Parameters
    ----------
    board : Leaderboard
        Methods over several data sets.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    from matplotlib.figure import Figure

    n = len(board.methods)
    figure = Figure(figsize=(8.0, 1.0 + 0.3 * n), layout="constrained")
    ax = figure.add_subplot()
    for place, rank in enumerate(board.ranks):
        with_best = rank - board.ranks[0] <= board.critical_difference
        color = "#1c7ed6" if with_best else "#868e96"
        ax.plot([1, rank], [place, place], color="#e9ecef", linewidth=1, zorder=0)
        ax.plot(rank, place, "o", color=color)
        ax.annotate(
            f"{rank:.2f}",
            (rank, place),
            xytext=(7, -3),
            textcoords="offset points",
            fontsize=8,
            color="#495057",
        )
    low = board.ranks[0]
    high = low + board.critical_difference
    ax.axvspan(low, high, color="#d0ebff", alpha=0.5, linewidth=0)
    ax.set_yticks(range(n), [plot_text(name) for name in board.methods])
    ax.invert_yaxis()
    ax.set_xlim(0.8, max(n, high) + 0.6)
    ax.set_xlabel(
        f"mean rank over {len(board.datasets)} data sets; shaded: not"
        " significantly different from the first"
    )
    ax.spines[["top", "right", "left"]].set_visible(False)
    return figure


def plot_times(board: Leaderboard) -> Any:
    """Plot the mean of the metric against the time to fit.

    Parameters
    ----------
    board : Leaderboard
        Methods over several data sets.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    ax = figure.add_subplot()
    seconds = np.exp(np.log(np.maximum(board.times, 1e-5)).mean(axis=0))
    means = board.values.mean(axis=0)
    ax.scatter(seconds, means, color="#1c7ed6", s=30)
    ax.set_xscale("log")
    ax.set_xlabel("seconds to fit, geometric mean over data sets")
    ax.set_ylabel(f"{METRICS[board.metric].title}, mean over data sets")
    ax.margins(x=0.15, y=0.08)
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    _label_points(ax, board.methods, np.column_stack([seconds, means]))
    return figure


def _label_points(ax: Any, names: Sequence[str], points: NDArray[Any]) -> None:
    """Write each name next to its point, where it covers neither points nor names."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    figure = ax.figure
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()  # computes the layout, so that pixels are final
    radius = 3 * figure.dpi / 72
    taken = [Bbox([p - radius, p + radius]) for p in ax.transData.transform(points)]
    for name, point in zip(names, points, strict=True):
        for shift, side in SHIFTS:
            text = ax.annotate(
                plot_text(name),
                point,
                xytext=(5 if side == "left" else -5, shift),
                textcoords="offset points",
                ha=side,
                fontsize=8,
                arrowprops={"arrowstyle": "-", "color": "#adb5bd", "linewidth": 0.6},
            )
            text.set_in_layout(False)
            text.update_positions(renderer)
            # Box of the text without its line.
            box = Text.get_window_extent(text, renderer)
            inside = ax.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
            inside &= ax.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1
            last = (shift, side) == SHIFTS[-1]  # a covered name is better than no name
            if last or (inside and not box.count_overlaps(taken)):
                taken.append(box)
                break
            text.remove()


def _encode(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return base64.b64encode(buffer.getvalue()).decode("ascii")
