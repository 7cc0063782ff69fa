r"""How far the instances of a bag spread along the normal of a hyperplane.

In a reduced basis (K = Z Z', f(x) = z'w) let :math:`\tilde Z_i` be the centred rows of
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

_MIRROR_STEPS = 600
_MAX_ROUNDS = 100


@dataclass
class Spread:
    """Centred instances of the positive bags, in coordinates.

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
        """Centre the rows of each bag."""
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

    def lower_bound(self):
        """Return a delta below which one bag alone cannot be satisfied."""
        best = 0.0
        for i in range(len(self.total)):
            part = self.rows[self.offsets[i] : self.offsets[i + 1]]
            if self.total[i] <= best * len(part):
                continue  # it cannot raise the bound
            gram = part @ part.T if len(part) <= part.shape[1] else part.T @ part
            last = len(gram) - 1
            top = scipy.linalg.eigh(
                gram, eigvals_only=True, subset_by_index=[last, last]
            )[0]
            best = max(best, (self.total[i] - top) / len(part))
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

    Minimises the largest residual over directions. Each round replaces w'C_i w by its
    tangent at the present direction, a lower bound, and solves the convex rest; the
    largest residual never rises. The problem is not convex: `delta_min` is an upper
    estimate of the smallest feasible delta.

    Parameters
    ----------
    spread : Spread
        The positive bags.
    starts : iterable of ndarray of shape (rank,)
        Directions to start from, besides the main axis of the pooled bags.

    Returns
    -------
    Range
    """
    lower = spread.lower_bound()
    # A bag whose whole spread is below the bound never decides the maximum.
    hard = spread.subset(spread.total / spread.sizes > lower * (1.0 - 1e-12))
    if not len(hard.total):
        hard = spread
    best = None
    for start in [_main_axis(hard), *starts]:
        length = np.linalg.norm(start)
        if length == 0:
            continue
        value, u = _descend(hard, start / length)
        if best is None or value < best[0]:
            best = value, u
    value, u = best
    return Range(lower, float(spread.residual(u).max()), spread.delta_max, u)


def _main_axis(spread):
    scaled = (
        spread.rows
        / np.sqrt(repeat(spread.sizes.astype(float), spread.offsets))[:, None]
    )
    n, rank = scaled.shape
    gram = scaled @ scaled.T if n < rank else scaled.T @ scaled
    last = len(gram) - 1
    _, vector = scipy.linalg.eigh(gram, subset_by_index=[last, last])
    axis = scaled.T @ vector[:, 0] if n < rank else vector[:, 0]
    # The sign is free: the largest entry is positive, whatever the machine.
    return axis * np.sign(axis[np.abs(axis).argmax()] or 1.0)


def _descend(spread, u):
    value = spread.residual(u).max()
    for _ in range(_MAX_ROUNDS):
        G, q = spread.tangent(u)
        candidate = _best_direction(
            2.0 * G / spread.sizes[:, None], (q + spread.total) / spread.sizes
        )
        new = spread.residual(candidate).max()
        if new >= value - 1e-7 * max(1.0, abs(value)):
            break
        value, u = new, candidate
    return value, u


def _best_direction(B, c):
    """Maximise min_i (B_i'u - c_i) over the unit ball, through its simplex dual.

    The dual is min_p |B'p| - c'p over the simplex; entropic mirror descent on the
    M x M matrix B B', with the best of all iterates kept.
    """
    H = B @ B.T
    p = np.full(len(c), 1.0 / len(c))
    step = 1.0 / max(np.sqrt(np.abs(np.diag(H)).max()), np.abs(c).max(), 1e-300)
    best, best_p = -np.inf, p
    for k in range(_MIRROR_STEPS):
        Hp = H @ p
        length = np.sqrt(max(p @ Hp, 1e-300))
        slope = Hp / length - c  # the primal values of u = B'p / |B'p|
        if slope.min() > best:
            best, best_p = slope.min(), p
        if p @ slope - slope.min() < 1e-9 * max(1.0, abs(best)):
            break
        move = -step * 4.0 / np.sqrt(k + 1.0) * (slope - slope.min())
        p = p * np.exp(move)
        p /= p.sum()
    u = best_p @ B
    return u / max(np.linalg.norm(u), 1e-300)
