"""Neighbors of instances within their bag: by coordinates, or by order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.bags._bags import Bags

Array = npt.NDArray[Any]
Block = tuple[slice, Array, Array]

# Pairs of neighbors that are held in memory at once.
_PAIRS = 2**20


def places_of(X: Bags) -> Array:
    """Return the coordinates of instances, or their positions in their bags.

    Parameters
    ----------
    X : Bags
        The bags.

    Returns
    -------
    ndarray of shape (n_instances, n_axes)
        Finite numbers, as `Bags` checks coordinates.
    """
    if X.coords is None:
        place = np.arange(X.n_instances) - np.repeat(X.offsets[:-1], X.sizes)
        return place[:, None].astype(np.float64)
    return np.asarray(X.coords, dtype=np.float64)


def neighbor_pairs(
    X: Bags,
    k: int | None = None,
    radius: float | None = None,
    most: int = _PAIRS,
) -> Iterator[Block]:
    """Yield the neighbors of instances in blocks of limited size.

    Parameters
    ----------
    X : Bags
        The bags.
    k : int, default=None
        Most neighbors of an instance; all within the radius by default.
    radius : float, default=None
        Largest distance of a neighbor; any by default.
    most : int, default=2**20
        Pairs of neighbors in a block, at most; the neighbors of one instance always
        come together.

    Yields
    ------
    rows : slice
        Instances of one bag.
    counts : int array of shape (n_rows,)
        How many neighbors each of them has, without itself.
    neighbors : int array of shape (counts.sum(),)
        Row numbers of the neighbors, instance after instance.
    """
    from scipy.spatial import KDTree

    places = places_of(X)
    limit = np.inf if radius is None else float(radius)
    for start, stop in zip(X.offsets[:-1], X.offsets[1:], strict=True):
        tree = KDTree(places[start:stop])
        if k is not None:
            yield from _nearest(tree, int(start), k, limit, most)
        else:
            yield from _within(tree, int(start), limit, most)


def _nearest(tree: Any, start: int, k: int, limit: float, most: int) -> Iterator[Block]:
    """Yield the k nearest neighbors of the instances of a bag."""
    size = tree.n
    wanted = min(k + 1, size)
    # The largest distance is included, as in `query_ball_point`.
    bound = np.nextafter(limit, np.inf)
    step = max(1, most // wanted)
    for first in range(0, size, step):
        last = min(size, first + step)
        _, found = tree.query(
            tree.data[first:last], k=[*range(1, wanted + 1)], distance_upper_bound=bound
        )
        own = np.arange(first, last)[:, None]
        # If duplicates displace the instance itself, the farthest neighbor is dropped.
        known = (found < size) & (found != own)
        crowded = known.sum(axis=1) > k
        known[crowded, -1] = False
        yield (
            slice(start + first, start + last),
            known.sum(axis=1),
            start + found[known],
        )


def _within(tree: Any, start: int, limit: float, most: int) -> Iterator[Block]:
    """Yield all neighbors of the instances of a bag within a distance."""
    lengths = tree.query_ball_point(tree.data, limit, return_length=True)
    ends = np.cumsum(lengths)
    first = 0
    while first < tree.n:
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, "right")))
        lists = tree.query_ball_point(tree.data[first:last], limit, return_sorted=True)
        found = np.concatenate([np.asarray(one, dtype=np.int64) for one in lists])
        own = np.repeat(np.arange(first, last), lengths[first:last])
        yield (
            slice(start + first, start + last),
            lengths[first:last] - 1,
            start + found[found != own],
        )
        first = last


def neighbor_rows(X: Bags, k: int) -> Array:
    """Return the k nearest instances of each one, in its bag.

    Parameters
    ----------
    X : Bags
        The bags.
    k : int
        Neighbors of an instance.

    Returns
    -------
    int array of shape (n_instances, k)
        Row numbers, and -1 where a bag has fewer instances.
    """
    out = np.full((X.n_instances, k), -1, dtype=np.int64)
    for rows, counts, neighbors in neighbor_pairs(X, k):
        slot = np.arange(k) < counts[:, None]
        block = out[rows]
        block[slot] = neighbors
    return out
