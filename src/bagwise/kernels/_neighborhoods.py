"""The epsilon-graph inside each bag: which of its instances are close together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.bags import Bags
from bagwise.bags.segments import repeat, segment_sum
from bagwise.kernels._tiles import bag_groups
from bagwise.kernels.instance import row_blocks, squared_distances

Array = npt.NDArray[Any]

# Bags are looked at together up to this many rows: one matrix product, not one a bag.
_GROUP_ROWS = 256

# In a bag of two the only distance is the mean distance, and whether it is below the
# mean would be decided by the last bit. Equal means not below.
_BELOW = 1.0 - 1e-9


def check_delta(delta: float | str) -> None:
    """Refuse a radius that is neither "mean" nor a number of at least zero."""
    if isinstance(delta, str):
        if delta != "mean":
            raise ValueError(f"delta must be 'mean' or a number, got {delta!r}.")
    elif not delta >= 0:
        raise ValueError(f"delta must not be negative, got {delta!r}.")


def clique_weights(X: Bags, delta: float | str = "mean") -> Array:
    """Return one over the number of neighbours of each instance, itself included.

    Cost ``O(sum of squared bag sizes * n_features)``.
    """
    check_delta(delta)
    count = np.empty(X.n_instances)
    for bags in bag_groups(X.offsets, _GROUP_ROWS):
        part = slice(int(X.offsets[bags.start]), int(X.offsets[bags.stop]))
        if bags.stop - bags.start == 1:
            count[part] = _count_large(X.data[part], delta)
        else:
            offsets = X.offsets[bags.start : bags.stop + 1] - part.start
            count[part] = _count_group(X.data[part], offsets, delta)
    return 1.0 / count


def bag_radius(rows: Any, delta: float | str) -> float:
    """Return the radius of one bag: its mean distance between two instances."""
    if not isinstance(delta, str):
        return float(delta)
    n = rows.shape[0]
    total = sum(float(D.sum()) for _, D in distance_blocks(rows))
    return float(total / max(1, n * (n - 1)))


def distance_blocks(rows: Any) -> Iterator[tuple[slice, Array]]:
    """Give distances inside one bag, a block of rows against all at a time."""
    n = rows.shape[0]
    blocks = list(row_blocks(n, 8.0 * 3 * n))
    for block in blocks:
        other = None if len(blocks) == 1 else rows
        D = np.sqrt(squared_distances(rows[block], other))
        # A row is no neighbour of its own; only B = None leaves exact zeros there.
        D[np.arange(block.stop - block.start), np.arange(block.start, block.stop)] = 0.0
        yield block, D


def close(D: Array, block: slice, radius: Any) -> Array:
    """Mark the edges of a block of distances: near, and not the row itself."""
    near = D < radius * _BELOW
    near[np.arange(near.shape[0]), np.arange(block.start, block.stop)] = False
    return np.asarray(near)


def _count_large(rows: Any, delta: float | str) -> Array:
    if rows.shape[0] == 1:
        return np.ones(1)
    radius = bag_radius(rows, delta)
    count = np.ones(rows.shape[0])
    for block, D in distance_blocks(rows):
        count[block] += close(D, block, radius).sum(axis=1)
    return count


def _count_group(rows: Any, offsets: Array, delta: float | str) -> Array:
    """Count neighbours in several bags with one matrix of distances."""
    sizes = np.diff(offsets)
    bag = np.repeat(np.arange(sizes.shape[0]), sizes)
    same = bag[:, None] == bag[None, :]
    D = np.sqrt(squared_distances(rows))
    D = (D + D.T) / 2
    if isinstance(delta, str):
        total = segment_sum(np.where(same, D, 0.0).sum(axis=1), offsets)
        radius = repeat(total / np.maximum(1, sizes * (sizes - 1)), offsets)[:, None]
    else:
        radius = np.full((rows.shape[0], 1), float(delta))
    near = close(D, slice(0, rows.shape[0]), radius) & same
    return np.asarray(1.0 + near.sum(axis=1))
