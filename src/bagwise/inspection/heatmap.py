"""Scores at the coordinates of instances: heat maps, and files for QuPath."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

__all__ = ["plot_heatmap", "rasterize", "spacing", "to_geojson"]

Array = NDArray[np.float64]
MOST_CELLS = 4_000_000


def plot_heatmap(
    scores: Any,
    coords: Any,
    size: float | None = None,
    *,
    ax: Any = None,
    cmap: str = "coolwarm",
    center: float | None = None,
    limits: tuple[float, float] | None = None,
    title: str | None = None,
    label: str = "instance score",
) -> Any:
    """Plot the scores of the instances of one bag at their coordinates.

    Parameters
    ----------
    scores : array-like of shape (n_instances,)
        One score per instance of one bag.
    coords : array-like of shape (n_instances, 2)
        The left and upper edge of each instance, x to the right and y downwards, as in
        images.
    size : float, default=None
        Side of an instance in the units of `coords`; by default the median distance
        from an instance to its nearest neighbor, along rows or columns.
    ax : matplotlib axes, optional
        Axes to plot on.
    cmap : str, default="coolwarm"
        Color map.
    center : float, default=None
        Score of the middle color, such as the threshold. By default 0 if scores have
        both signs; otherwise the colors range from the lowest to the highest score.
    limits : (float, float), default=None
        Scores of the outer colors, for a common scale of several bags. With a `center`
        both sides of it have a scale of their own. By default equal steps of color on
        both sides, up to the score that is furthest from it.
    title : str, optional
        Title of the axes.
    label : str, default="instance score"
        Label of the color bar.

    Returns
    -------
    matplotlib axes
        The axes, of a figure that is not tied to pyplot when `ax` was not given.

    Notes
    -----
    Instances become cells of a raster, with the mean score if several fall into one
    cell: the cost is one pass over the instances and one image.

    Examples
    --------
    >>> from bagwise.inspection import plot_heatmap
    >>> ax = plot_heatmap([0.1, 0.9, -0.4], [[0, 0], [256, 0], [0, 256]])
    >>> ax.images[0].get_array().shape
    (2, 2)
    """
    values, places, size = _checked(scores, coords, size)
    raster, extent = rasterize(values, places, size)
    if ax is None:
        from matplotlib.figure import Figure

        sides = 6.0 * np.array(raster.shape) / max(raster.shape)  # inches
        height, width = np.maximum(sides, 2.0)
        ax = Figure(figsize=(width + 1.2, height + 0.6), layout="tight").subplots()
    norm = _norm(values, center, limits)
    image = ax.imshow(
        raster, cmap=cmap, norm=norm, extent=extent, interpolation="nearest"
    )
    ax.set_facecolor("#f1f3f5")
    ax.set_xlabel("x")
    ax.set_ylabel("y")
    if title is not None:
        ax.set_title(title, fontsize=10)
    ax.tick_params(labelsize=7)
    ax.figure.colorbar(image, ax=ax, label=label, shrink=0.8)
    return ax


def _norm(values: Array, center: float | None, limits: Any) -> Any:
    """Return how scores become colors."""
    from matplotlib.colors import Normalize, TwoSlopeNorm

    low, high = float(values.min()), float(values.max())
    if limits is not None:
        low, high = float(limits[0]), float(limits[1])
        if not low <= high:
            raise ValueError(f"limits must increase, got {low:g} and {high:g}.")
    if center is None and low < 0 < high:
        center = 0.0
    if center is None:
        return Normalize(low, high)
    if limits is None:
        half = max(abs(low - center), abs(high - center)) or 1.0
        return Normalize(center - half, center + half)
    least = 1e-6 * max(high - low, abs(center), 1e-300)
    return TwoSlopeNorm(center, min(low, center - least), max(high, center + least))


def rasterize(
    values: Array, places: Array, size: float
) -> tuple[Array, tuple[float, float, float, float]]:
    """Return the mean score of each cell (NaN if it is empty) and the extent.

    Parameters
    ----------
    values : ndarray of shape (n_instances,)
        Scores.
    places : ndarray of shape (n_instances, 2)
        Coordinates of the left and upper edges.
    size : float
        Side of a cell.
    """
    origin = places.min(axis=0)
    cells = np.floor((places - origin) / size + 1e-6).astype(np.int64)
    width, height = (int(n) + 1 for n in cells.max(axis=0))
    if width * height > MOST_CELLS:
        raise ValueError(
            f"a raster of {width} x {height} cells of size {size:g} is too large: pass "
            "the side of an instance as size=, in the units of coords."
        )
    flat = cells[:, 1] * width + cells[:, 0]
    count = np.bincount(flat, minlength=width * height)
    total = np.bincount(flat, weights=values, minlength=width * height)
    raster = np.full(width * height, np.nan)
    np.divide(total, count, out=raster, where=count > 0)
    left, top = float(origin[0]), float(origin[1])
    extent = (left, left + width * size, top + height * size, top)
    return raster.reshape(height, width), extent


def to_geojson(
    scores: Any,
    coords: Any,
    size: float | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    ids: Any = None,
    threshold: float = 0.0,
    classes: tuple[str, str] = ("Negative", "Positive"),
) -> dict[str, Any]:
    """Write instances as squares for QuPath (File, Import objects).

    Parameters
    ----------
    scores, coords, size
        As in `plot_heatmap`.
    path : path, optional
        File to write.
    ids : array-like of shape (n_instances,), optional
        Names of the instances.
    threshold : float, default=0
        Instances with a score above it are of the second class.
    classes : pair of str, default=("Negative", "Positive")
        Names of the classes.

    Returns
    -------
    dict
        A GeoJSON feature collection: one tile per instance with its score as a
        measurement and its class.
    """
    values, places, size = _checked(scores, coords, size)
    names = None if ids is None else [str(one) for one in ids]
    if names is not None and len(names) != len(values):
        raise ValueError(f"ids has {len(names)} entries for {len(values)} instances.")
    colors = ([28, 126, 214], [217, 72, 15])
    kinds = [
        {"name": name, "color": color}
        for name, color in zip(classes, colors, strict=True)
    ]
    features = []
    for k, (x, y) in enumerate(places.tolist()):
        corners = [[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]
        about: dict[str, Any] = {
            "objectType": "tile",
            "classification": kinds[int(values[k] > threshold)],
            "measurements": {"score": float(values[k])},
        }
        if names is not None:
            about["name"] = names[k]
        features.append(
            {
                "type": "Feature",
                "geometry": {"type": "Polygon", "coordinates": [corners]},
                "properties": about,
            }
        )
    made = {"type": "FeatureCollection", "features": features}
    if path is not None:
        Path(path).write_text(json.dumps(made), encoding="utf-8")
    return made


def _checked(scores: Any, coords: Any, size: Any) -> tuple[Array, Array, float]:
    values = np.asarray(scores, dtype=np.float64)
    places = np.asarray(coords, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError("scores must hold one value per instance of one bag.")
    if places.ndim != 2 or places.shape[1] < 2 or len(places) != len(values):
        raise ValueError(
            f"coords must have shape ({len(values)}, 2), one position per score, got "
            f"{places.shape}."
        )
    places = places[:, :2]
    if not (np.isfinite(values).all() and np.isfinite(places).all()):
        raise ValueError("scores and coords must be finite.")
    if size is None:
        size = spacing(places)
    if not size > 0:
        raise ValueError(f"size must be positive, got {size}.")
    return values, places, float(size)


def spacing(places: Array) -> float:
    """Return the median distance from an instance to its nearest neighbor.

    Not the smallest distance: pieces of tissue may lie on different grids, and columns
    of two grids may be arbitrarily close.
    """
    distinct = np.unique(places, axis=0)
    if len(distinct) < 2:
        return 1.0
    nearest = KDTree(distinct).query(distinct, k=2, p=np.inf)[0][:, 1]
    return float(np.median(nearest))
