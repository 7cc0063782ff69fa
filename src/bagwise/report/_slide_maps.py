"""Bags whose instances have places, as small pictures of their scores."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.inspection.heatmap import rasterise, spacing

__all__ = ["places", "slide_maps"]

MAX_BYTES = 2_400_000  # of all pictures of a page
LEAST_CELLS, MOST_CELLS = 2_500, 60_000  # of one picture


def places(X: Bags) -> NDArray[np.float64] | None:
    """Return x and y of every instance, or None if they have none."""
    if X.coords is None or X.coords.shape[1] < 2:
        return None
    return np.asarray(X.coords[:, :2], dtype=np.float64)


def slide_maps(
    X: Bags, bags: Sequence[int], heat: Mapping[str, NDArray[Any]]
) -> dict[str, Any] | None:
    """Return a picture of every bag and method: bytes, row by row, as base64.

    A byte of 0 is a cell without instances; 1 to 255 are the mean percentile, among
    the instances of all bags, of those that lie in it. Pictures are as fine as the
    number of them allows; where even coarse ones are too many, the last bags get none.

    Parameters
    ----------
    X : Bags
        All bags.
    bags : sequence of int
        Those that are shown.
    heat : dict of ndarray of shape (n_instances,)
        Percentiles of the scores by method, NaN where there are none.

    Returns
    -------
    dict or None
        "frames" (width, height, left, top and side of a cell for each bag, or None)
        and "cells" (by method, one text for each bag, or None). None where instances
        have no places or no scores.
    """
    where = places(X)
    if where is None or not heat or not len(bags):
        return None
    share = MAX_BYTES // (len(heat) * len(bags))
    most = int(np.clip(share, LEAST_CELLS, MOST_CELLS))
    left = MAX_BYTES
    frames: list[Any] = []
    cells: dict[str, list[str | None]] = {name: [] for name in heat}
    for i in bags:
        rows = slice(int(X.offsets[i]), int(X.offsets[i + 1]))
        size = _side(where[rows], most)
        frame = None
        for name, values in heat.items():
            text = None
            if left > 0 and not np.isnan(values[rows]).any():
                raster, extent = rasterise(values[rows], where[rows], size)
                text = _packed(raster)
                left -= raster.size
                height, width = raster.shape
                frame = [width, height, extent[0], extent[3], size]
            cells[name].append(text)
        frames.append(frame)
    return {"frames": frames, "cells": cells} if any(frames) else None


def _side(where: NDArray[np.float64], most: int) -> float:
    """Return the side of cells: that of an instance, or so that there are few."""
    size = spacing(where)
    span = np.ptp(where, axis=0)
    while np.prod(np.floor(span / size) + 1.0) > most:
        cells = float(np.prod(np.floor(span / size) + 1.0))
        size *= max(1.02, float(np.sqrt(cells / most)))
    return float(size)


def _packed(raster: NDArray[np.float64]) -> str:
    known = ~np.isnan(raster)
    out = np.zeros(raster.shape, dtype=np.uint8)
    out[known] = 1 + np.round(2.54 * np.clip(raster[known], 0.0, 100.0))
    return base64.b64encode(out.tobytes()).decode("ascii")
