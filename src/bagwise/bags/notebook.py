"""HTML for notebooks: tables, and small pictures as inline SVG.

Pictures use the text color of the page, so that they suit light and dark themes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

__all__ = ["bags_html", "dots", "histogram", "interval", "ragged_html", "table"]

N_ROWS = 5  # bags shown in a table
COLOR = "#1c7ed6"


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], n_more: int = 0) -> str:
    """Return an HTML table; cells are escaped unless they are `Markup`.

    Parameters
    ----------
    header : sequence of str
        Titles of the columns.
    rows : iterable of sequences
        Cells, row by row.
    n_more : int, default=0
        Number of rows that are not shown.
    """
    head = Markup("").join(Markup("<th>{}</th>").format(name) for name in header)
    lines = [
        Markup("<tr>{}</tr>").format(
            Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row)
        )
        for row in rows
    ]
    if n_more > 0:
        text = Markup("<tr><td colspan='{}'>and {:,} more</td></tr>")
        lines.append(text.format(len(header), n_more))
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(
        head, Markup("").join(lines)
    )


def histogram(values: Any, label: str, n_bins: int = 24) -> str:
    """Return a histogram with the smallest and the largest value below.

    Parameters
    ----------
    values : array-like
        Numbers; those that are not finite are excluded.
    label : str
        What is counted over what.
    n_bins : int, default=24
        Maximum number of bars; integers of a short range have one bar each.
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    array = array[np.isfinite(array)]
    if not array.size:
        return Markup("")
    low, high = float(array.min()), float(array.max())
    whole = bool((array == np.round(array)).all()) and high - low < n_bins
    edges = np.arange(low - 0.5, high + 1) if whole else n_bins
    counts = np.histogram(array, edges)[0]
    width = 240 / len(counts)
    bars = Markup("").join(
        Markup("<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}'/>").format(
            k * width, 48 - size, max(width - 1, 0.5), size
        )
        for k, size in enumerate(48 * counts / counts.max())
        if size
    )
    return Markup(
        "<svg width='240' height='82' role='img' aria-label='{label}' "
        "font-family='sans-serif' font-size='11'><g fill='{color}'>{bars}</g>"
        "<path d='M0 48.5H240' stroke='currentColor' stroke-opacity='.4'/>"
        "<g fill='currentColor'><text y='62'>{low:.4g}</text>"
        "<text x='240' y='62' text-anchor='end'>{high:.4g}</text>"
        "<text x='120' y='78' text-anchor='middle'>{label}</text></g></svg>"
    ).format(label=label, color=COLOR, bars=bars, low=low, high=high)


def dots(values: Any, low: float, high: float, label: str, chosen: int = -1) -> str:
    """Return values as dots on a common axis.

    Parameters
    ----------
    values : array-like
        Numbers of one row of a table.
    low, high : float
        Ends of the axis, the same for all rows.
    label : str
        What the dots are, for screen readers.
    chosen : int, default=-1
        Position of the value that is emphasized; none by default.
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    places = 5 + 150 * (array - low) / (high - low if high > low else 1.0)
    circle = Markup("<circle cx='{:.1f}' cy='8' r='{}' fill-opacity='{}'/>")
    marks = Markup("").join(
        circle.format(x, 4.5 if k == chosen else 2.5, 1 if k == chosen else 0.35)
        for k, x in enumerate(places)
        if np.isfinite(x)
    )
    return _strip(label, marks)


def interval(
    low: float, middle: float, high: float, ends: tuple[float, float], label: str
) -> str:
    """Return a dot with its interval on a common axis.

    Parameters
    ----------
    low, middle, high : float
        The value and its interval; the ends may be NaN.
    ends : tuple of float
        Ends of the axis, the same for all rows.
    label : str
        What is shown, for screen readers.
    """
    if not np.isfinite(middle):
        return Markup("")
    span = ends[1] - ends[0] if ends[1] > ends[0] else 1.0
    left, x, right = (5 + 150 * (v - ends[0]) / span for v in (low, middle, high))
    marks = Markup("<circle cx='{:.1f}' cy='8' r='4'/>").format(x)
    if np.isfinite([low, high]).all():
        bar = "<rect x='{:.1f}' y='6.5' width='{:.1f}' height='3' fill-opacity='.45'/>"
        marks = Markup(bar).format(left, max(right - left, 0.5)) + marks
    return _strip(label, marks)


def _strip(label: str, marks: Markup) -> str:
    return Markup(
        "<svg width='160' height='16' role='img' aria-label='{}'>"
        "<path d='M5 8H155' stroke='currentColor' stroke-opacity='.25'/>"
        "<g fill='{}'>{}</g></svg>"
    ).format(label, COLOR, marks)


def bags_html(X: Any) -> str:
    """Return sizes, a histogram of them, and the first bags."""
    known = [] if X.feature_names is None else X.feature_names[:6].tolist()
    names = ", ".join(str(name) for name in known)
    facts = [f"{X.n_bags:,} bags", f"{X.n_instances:,} instances"]
    facts.append(f"{X.n_features:,} features")
    facts.append("sparse" if X.is_sparse else str(X.dtype))
    if X.groups is not None:
        facts.append(f"{len(set(X.groups.tolist())):,} groups")
    header, columns = ["bag", "instances"], [X.ids[:N_ROWS], X.sizes[:N_ROWS]]
    if X.groups is not None:
        header.append("group")
        columns.append(X.groups[:N_ROWS])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Markup("<p><b>Bags</b>: {}{}</p>{}{}").format(
        ", ".join(facts),
        Markup("<br>features: {}{}").format(names, ", ..." * (X.n_features > 6))
        if names
        else "",
        histogram(X.sizes, "bags by number of instances"),
        table(header, rows, X.n_bags - N_ROWS),
    )


def ragged_html(ragged: Any) -> str:
    """Return a histogram of the values, and the first bags with theirs."""
    values = ragged.values
    facts = f"{ragged.n_bags:,} bags, {ragged.n_instances:,} instances, {values.dtype}"
    if values.ndim == 2:
        facts += f", {values.shape[1]} values per instance"
    numbers = values.dtype.kind in "biuf"
    rows = [
        (i, len(part), _few(part))
        for i, part in zip(range(N_ROWS), ragged, strict=False)
    ]
    return Markup("<p><b>Ragged</b>: {}</p>{}{}").format(
        facts,
        histogram(values, "instances by value") if numbers else "",
        table(["bag", "instances", "values"], rows, ragged.n_bags - N_ROWS),
    )


def _few(part: Any) -> str:
    """Return the first values of a bag as text."""
    shown = [
        f"{value:.4g}" if isinstance(value, float) else str(value)
        for value in part[:6].tolist()
    ]
    return ", ".join(shown) + (", ..." if len(part) > 6 else "")
