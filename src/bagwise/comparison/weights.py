"""Weights of bags, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags.validation import refuse_masked

__all__ = ["check_weights"]


def check_weights(
    sample_weight: Any, n_bags: int, y: NDArray[Any], task: str
) -> NDArray[np.float64]:
    """Return weights as numbers, one per bag; refuse what no method could use."""
    refuse_masked(sample_weight, "sample_weight")
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight must hold numbers") from None
    if weight.shape != (n_bags,):
        raise ValueError(f"sample_weight has shape {weight.shape} for {n_bags} bags")
    bad = np.flatnonzero(~np.isfinite(weight) | (weight < 0))
    if len(bad):
        raise ValueError(
            f"the weight of bag {bad[0]} is {weight[bad[0]]:g}; weights must be finite"
            " and not negative"
        )
    if not weight.any():
        raise ValueError("all weights are zero")
    if task == "classification":
        classes, codes = np.unique(y, return_inverse=True)
        empty = classes[np.bincount(codes, weight) == 0]
        if len(empty):
            raise ValueError(f"all bags of class {empty[0]!s} have a weight of zero")
    return weight
