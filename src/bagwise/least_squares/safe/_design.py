"""The linear maps of SAFE: bag aggregation, residual weights, instance weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bagwise.bags.segments import repeat, segment_sum

AGGREGATIONS = ("sum", "mean", "sqrt")


def aggregation_weights(aggregation, offsets):
    """Weight of every instance in the score of its bag: 1, 1/N_k or 1/sqrt(N_k)."""
    sizes = np.diff(offsets).astype(np.float64)
    if aggregation == "sum":
        return np.ones(int(offsets[-1]))
    if aggregation == "mean":
        return repeat(1.0 / sizes, offsets)
    if aggregation == "sqrt":
        return repeat(1.0 / np.sqrt(sizes), offsets)
    raise ValueError(f"aggregation must be one of {AGGREGATIONS}, got {aggregation!r}.")


def witness_weights(witnesses, offsets):
    """One-hot weights: the score of a bag is that of its witness."""
    weight = np.zeros(int(offsets[-1]))
    weight[witnesses] = 1.0
    return weight


@dataclass(frozen=True)
class BagDesign:
    """Everything of the problem that is not the kernel.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Rows at which bags begin.
    weight : ndarray of shape (n_instances,)
        Non-zero entries of the aggregation matrix J.
    residual : ndarray of shape (n_bags,)
        Positive weight of each bag's squared residual, rho for all in the paper.
    variance : ndarray of shape (n_instances,)
        Positive diagonal of V.
    """

    offsets: np.ndarray
    weight: np.ndarray
    residual: np.ndarray
    variance: np.ndarray

    @cached_property
    def n(self):
        """Vector J'1."""
        return segment_sum(self.weight, self.offsets)

    @cached_property
    def root_variance(self):
        """Diagonal of the square root of V."""
        return np.sqrt(self.variance)

    def to_bags(self, values):
        """Compute J' values."""
        weight = self.weight if values.ndim == 1 else self.weight[:, None]
        return segment_sum(weight * values, self.offsets)

    def to_instances(self, per_bag):
        """Compute J per_bag."""
        weight = self.weight if per_bag.ndim == 1 else self.weight[:, None]
        return weight * repeat(per_bag, self.offsets)

    def dense(self):
        """Return J as a dense matrix (references and small problems only)."""
        J = np.zeros((self.weight.shape[0], self.residual.shape[0]))
        J[np.arange(J.shape[0]), repeat(np.arange(J.shape[1]), self.offsets)] = (
            self.weight
        )
        return J

    def with_residual(self, residual):
        """Return the same maps with other residual weights."""
        return BagDesign(self.offsets, self.weight, residual, self.variance)
