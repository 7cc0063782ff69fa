"""Explicit boxes of a grid: all, one for each cell of training values, or a draw."""

from typing import NamedTuple

import numpy as np

from bagwise.kernels.box.features import AnchorSampler, seed_of


class BoxSet(NamedTuple):
    """Boxes by their corners (in levels), and for how many boxes each one stands."""

    low: np.ndarray
    high: np.ndarray
    multiplicity: np.ndarray
    total: float  # number of boxes that all of them stand for, unseen ones included


def intervals(top):
    """All intervals of the levels 0 to `top`."""
    low, high = np.triu_indices(top + 1)
    return low, high, np.ones(len(low))


def cell_intervals(levels, top):
    """One interval for each set of training levels an interval can hold.

    An interval from the a-th to the b-th occupied level may begin anywhere above the
    level before and end anywhere below the level after: the product of these gaps is
    its multiplicity, and the interval in the middle stands for all. Intervals without
    any occupied level are left out.
    """
    used = np.unique(levels).astype(np.int64)
    before = np.concatenate([[-1], used[:-1]])
    after = np.concatenate([used[1:], [top + 1]])
    a, b = np.triu_indices(len(used))
    gap_low, gap_high = used - before, after - used
    low = (used - (gap_low - 1) // 2)[a]
    high = (used + (gap_high - 1) // 2)[b]
    return low, high, (gap_low[a] * gap_high[b]).astype(np.float64)


def count_product(sides):
    """Number of boxes that a list of intervals per dimension makes, as a float."""
    return float(np.prod([float(len(low)) for low, _, _ in sides]))


def product_boxes(sides, total):
    """All boxes with one interval of the list of each dimension."""
    counts = [len(low) for low, _, _ in sides]
    digits = np.unravel_index(np.arange(int(np.prod(counts))), counts)
    low = np.column_stack([s[0][k] for s, k in zip(sides, digits, strict=True)])
    high = np.column_stack([s[1][k] for s, k in zip(sides, digits, strict=True)])
    weight = np.ones(len(low))
    for side, k in zip(sides, digits, strict=True):
        weight *= side[2][k]
    return BoxSet(low.astype(np.uint16), high.astype(np.uint16), weight, total)


def sampled_boxes(grid, n_boxes, random_state):
    """Distinct boxes drawn around the training points of a grid."""
    if len(grid.order_) == 0:
        top = grid.max_level_[None, :].astype(np.uint16)
        return BoxSet(np.zeros_like(top), top, np.ones(1), 1.0)
    boxes, _ = AnchorSampler(grid, seed_of(random_state)).draw(n_boxes)
    low = np.zeros((n_boxes, len(grid.max_level_)), dtype=np.uint16)
    high = np.tile(grid.max_level_.astype(np.uint16), (n_boxes, 1))
    low[:, grid.order_], high[:, grid.order_] = boxes.low, boxes.high
    corners = np.unique(np.hstack([low, high]), axis=0)
    d = low.shape[1]
    return BoxSet(
        np.ascontiguousarray(corners[:, :d]),
        np.ascontiguousarray(corners[:, d:]),
        np.ones(len(corners)),
        float(len(corners)),
    )


def levels_that_fit(n_features, max_boxes, most=21):
    """Largest number of levels whose boxes are at most `max_boxes`, or None below 3."""
    for n_levels in range(most, 2, -1):
        if n_features * np.log(n_levels * (n_levels + 1) / 2) <= np.log(max_boxes):
            return n_levels
    return None
