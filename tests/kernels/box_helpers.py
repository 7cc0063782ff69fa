"""Boxes counted one by one: the truth for every test of the box kernel."""

import itertools

import numpy as np


def all_boxes(top):
    """Corners of every box of the grid."""
    sides = [[(a, b) for a in range(s + 1) for b in range(a, s + 1)] for s in top]
    corners = np.array(list(itertools.product(*sides)))
    return corners[:, :, 0], corners[:, :, 1]


def box_hits(points, top):
    """For every box of the grid, whether it holds one of the points."""
    low, high = all_boxes(top)
    points = np.asarray(points)
    inside = (points[None] >= low[:, None]) & (points[None] <= high[:, None])
    return inside.all(axis=2).any(axis=1)


def brute_count(P, Q, top):
    """Number of boxes with a point of both sets."""
    return int((box_hits(P, top) & box_hits(Q, top)).sum())


def random_bags(rng, top, sizes):
    """Bags of grid points; the corners are there, so that grids fitted on them fit."""
    bags = [rng.integers(0, np.array(top) + 1, (n, len(top))) for n in sizes]
    bags[0][0], bags[-1][-1] = 0, top
    return [bag.astype(float) for bag in bags]
