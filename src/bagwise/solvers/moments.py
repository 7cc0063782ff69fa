"""Mean and scatter of rows that are never in one place."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Moments:
    """Weight, mean and scatter of rows; those of two pieces add without cancellation.

    Attributes
    ----------
    weight : float
        Number of rows, or the sum of their weights.
    mean : ndarray of shape (n_columns,)
        Their mean.
    scatter : ndarray of shape (n_columns, n_columns)
        Sum of the outer products of the centered rows.
    """

    weight: float
    mean: np.ndarray
    scatter: np.ndarray

    @classmethod
    def of(cls, rows, weight=None, *, single=False):
        """Measure the rows of one piece.

        With `single`, rows that were stored in half precision are multiplied in single
        precision: their own rounding is a thousand times larger.
        """
        if not single:
            rows = rows.astype(np.float64, copy=False)
        if weight is None:
            mean = rows.mean(axis=0, dtype=np.float64)
            centered = rows - mean.astype(rows.dtype, copy=False)
            scatter = (centered.T @ centered).astype(np.float64, copy=False)
            return cls(float(len(rows)), mean, scatter)
        total = float(weight.sum())
        mean = weight @ rows / total
        centered = np.sqrt(weight)[:, None] * (rows - mean)
        return cls(total, mean, centered.T @ centered)

    def __add__(self, other):
        """Combine the moments of two pieces."""
        total = self.weight + other.weight
        gap = other.mean - self.mean
        scatter = self.scatter + other.scatter
        scatter += (self.weight * other.weight / total) * np.outer(gap, gap)
        return Moments(total, self.mean + gap * (other.weight / total), scatter)
