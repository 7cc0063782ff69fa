"""Every way into `Bags` that does not start from a table or a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise._later import sparse as sp
from bagwise.bags._bags import Bags


def as_bags(X: Any) -> Bags:
    """Return `X` as `Bags`.

    Parameters
    ----------
    X : Bags, sequence of 2-D arrays or sparse matrices, or 3-D array
        The bags. A bare 2-D array is refused, since it does not say where one bag
        ends and the next begins.

    Returns
    -------
    Bags
        `X` itself when it is one already.
    """
    if isinstance(X, Bags):
        return X
    if sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2):
        raise ValueError(
            f"Expected bags, got one matrix of shape {X.shape}, which does not say "
            "where a bag ends. Use Bags.from_arrays(X, bag_ids), Bags(X, offsets), or "
            "a list with one 2-D array per bag. "
            "Reshape your data: X[:, None, :] makes every row a bag of one."
        )
    if isinstance(X, np.ndarray) and X.ndim == 3:
        n_bags, size, width = X.shape
        if n_bags == 0 or size == 0:
            raise ValueError(f"Expected at least one bag and instance, got {X.shape}.")
        offsets = np.arange(0, (n_bags + 1) * size, size)
        return Bags(X.reshape(n_bags * size, width), offsets)
    if hasattr(X, "columns"):
        raise TypeError(
            f"Expected bags, got a {type(X).__name__}. Turn the table into bags before "
            'any split: X, y = bagwise.from_frame(df, bag="...", label="...").'
        )
    if isinstance(X, (str, bytes, dict)) or not hasattr(X, "__iter__"):
        raise TypeError(
            "Expected bags: a Bags object, a list with one 2-D array per bag, or a 3-D "
            f"array; got {type(X).__name__}."
        )
    if isinstance(X, np.ndarray) and X.ndim != 1:
        raise ValueError(
            f"Expected bags, got an array with {X.ndim} dimension(s). A 3-D array has "
            "the shape (n_bags, n_instances_per_bag, n_features)."
        )
    return Bags.from_list(list(X))
