r"""How far the instances of a bag spread along the normal of a hyperplane.

In a reduced basis (K = Z Z', f(x) = z'w) let :math:`\tilde Z_i` be the centered rows of
bag i, :math:`C_i = \tilde Z_i' \tilde Z_i` and :math:`o_i` its trace. The squared
distances of a bag to its projection on the line through its mean along w sum to

.. math:: J_i(w) = o_i - \frac{w' C_i w}{\|w\|^2},

which does not depend on the length or the sign of w. PC-SVM asks for
:math:`J_i / n_i \le \delta` in every positive bag.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from bagwise.bags.segments import repeat, segment_mean, segment_sum
from bagwise.solvers.simplex import max_min_ball

_MAX_ROUNDS = 100
_MAX_STEPS = 10_000
_POWER_STEPS = 20


@dataclass
class Spread:
    """Centered instances of the positive bags, in coordinates.

    Attributes
    ----------
    rows : ndarray of shape (n_instances, rank)
        Instances minus the mean of their bag.
    offsets : ndarray of shape (n_bags + 1,)
        Where bags begin.
    total : ndarray of shape (n_bags,)
        :math:`o_i`, the summed squared distances to the mean.
    """

    rows: np.ndarray
    offsets: np.ndarray
    total: np.ndarray

    @classmethod
    def of(cls, Z, offsets):
        """Center the rows of each bag."""
        rows = Z - repeat(segment_mean(Z, offsets), offsets)
        squared = np.einsum("ij,ij->i", rows, rows)
        return cls(rows, offsets, segment_sum(squared, offsets))

    @property
    def sizes(self):
        """Number of instances of each bag."""
        return np.diff(self.offsets)

    @property
    def delta_max(self):
        """Above this no constraint can bind."""
        return float((self.total / self.sizes).max())

    def captured(self, w):
        """Return w'C_i w of each bag."""
        return segment_sum((self.rows @ w) ** 2, self.offsets)

    def residual(self, w):
        """Return J_i(w) / n_i of each bag (Eq. (12))."""
        return (self.total - self.captured(w) / (w @ w)) / self.sizes

    def tangent(self, w):
        """Return g_i = C_i w and q_i = w'C_i w of each bag."""
        along = self.rows @ w
        return (
            segment_sum(self.rows * along[:, None], self.offsets),
            segment_sum(along**2, self.offsets),
        )

    def part(self, i):
        """Return the centered instances of one bag."""
        return self.rows[self.offsets[i] : self.offsets[i + 1]]

    def lower_bound(self):
        """Return a delta below which one bag alone cannot be satisfied."""
        best = 0.0
        for i, total in enumerate(self.total):
            part = self.part(i)
            if total > best * len(part):  # otherwise it cannot raise the bound
                best = max(best, (total - _leading(part)[0]) / len(part))
        return float(best)

    def subset(self, chosen):
        """Return some of the bags."""
        keep = repeat(chosen, self.offsets)
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return Spread(self.rows[keep], offsets, self.total[chosen])


@dataclass
class Range:
    """What delta may be on a training set.

    Attributes
    ----------
    lower_bound, delta_min, delta_max : float
        No delta below the first is feasible; the second is feasible, by `direction`;
        from the third on no constraint binds.
    direction : ndarray of shape (rank,)
        A unit vector with the largest residual `delta_min`.
    """

    lower_bound: float
    delta_min: float
    delta_max: float
    direction: np.ndarray


def delta_range(spread, starts=()):
    """Search for the smallest feasible delta.

    Minimizes the largest residual over directions. Each round replaces w'C_i w by its
    tangent at the present direction, a lower bound, and solves the convex rest; the
    largest residual never rises. The problem is not convex: `delta_min` is an upper
    estimate of the smallest feasible delta.

    Parameters
    ----------
    spread : Spread
        The positive bags, at least one with different instances.
    starts : iterable of ndarray of shape (rank,)
        Directions to start from, besides the main axis of the pooled bags and the sum
        of the axes of each.

    Returns
    -------
    Range
    """
    lower = spread.lower_bound()
    # A bag whose total spread is below the bound never attains the maximum.
    hard = spread.subset(spread.total / spread.sizes > lower * (1.0 - 1e-12))
    found = [_descend(hard, u) for u in (_main_axis(hard), _joint_axis(hard), *starts)]
    u = min(found, key=lambda u: hard.residual(u).max())
    # The excluded bags can exceed the maximum by rounding only.
    return Range(lower, float(spread.residual(u).max()), spread.delta_max, u)


def _leading(rows):
    """Largest eigenvalue of rows'rows, and its unit vector."""
    n, rank = rows.shape
    gram = rows @ rows.T if n < rank else rows.T @ rows
    last = len(gram) - 1
    value, vector = scipy.linalg.eigh(gram, subset_by_index=[last, last])
    axis = rows.T @ vector[:, 0] if n < rank else vector[:, 0]
    # The sign is arbitrary: the largest entry is made positive for reproducibility.
    axis = axis * np.sign(axis[np.abs(axis).argmax()] or 1.0)
    return value[0], axis / max(np.linalg.norm(axis), 1e-300)


def _main_axis(spread):
    """Direction of about the largest summed variance of the bags.

    A start need not be exact: power iterations, from the longest row.
    """
    weight = repeat(1.0 / np.sqrt(spread.sizes), spread.offsets)
    rows = spread.rows * weight[:, None]
    u = rows[np.einsum("ij,ij->i", rows, rows).argmax()]
    for _ in range(_POWER_STEPS):
        u = rows.T @ (rows @ u)
        u /= np.linalg.norm(u)
    return u


def _joint_axis(spread):
    """Sum of the main axes of the bags, which no bag is orthogonal to as a rule.

    The main axis of all may be blind to some, and their tangents are zero there.
    """
    total = np.zeros(spread.rows.shape[1])
    for i in np.argsort(-spread.total / spread.sizes, kind="stable"):
        axis = _leading(spread.part(i))[1]
        total += axis if axis @ total >= 0 else -axis
    return total


def _descend(spread, u):
    """Lower the largest residual from the direction u, and return a unit vector."""
    u = u / np.linalg.norm(u)
    value, scale = spread.residual(u).max(), spread.delta_max
    p = np.zeros(len(spread.total))
    p[spread.residual(u).argmax()] = 1.0
    for _ in range(_MAX_ROUNDS):
        # Maximize min_i (2 g_i'u - q_i - o_i) / n_i over the unit ball.
        G, q = spread.tangent(u)
        B = 2.0 * G / spread.sizes[:, None]
        c = (q + spread.total) / spread.sizes
        gap = max_min_ball(B, c, p, 1e-9 * scale, _MAX_STEPS)
        if np.isinf(gap):
            break  # a bag has no spread along u, so no tangent
        candidate = p @ B
        candidate /= np.linalg.norm(candidate)
        new = spread.residual(candidate).max()
        if new >= value - 1e-7 * scale:
            break
        value, u = new, candidate
    return u
