"""Every way into `Bags` that does not start from a table or a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bagwise.bags._bags import Bags
from bagwise.bags._segmented import Offsets


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


def stack_list(bags: Sequence[Any]) -> tuple[Any, Offsets]:
    """Stack a list of matrices and return the matrix with its offsets."""
    if len(bags) == 0:
        raise ValueError("The list of bags is empty: there is nothing to learn from.")
    matrices = [_bag_matrix(bag, i) for i, bag in enumerate(bags)]
    width = matrices[0].shape[1]
    for i, matrix in enumerate(matrices):
        if matrix.shape[0] == 0:
            raise ValueError(
                f"bag {i} is empty: every bag needs at least one instance. Drop the "
                "bag and its label."
            )
        if matrix.shape[1] != width:
            raise ValueError(
                "All bags must have the same number of features: bag 0 has "
                f"{width}, bag {i} has {matrix.shape[1]}."
            )
    offsets = np.cumsum([0, *(m.shape[0] for m in matrices)])
    if any(sp.issparse(m) for m in matrices):
        return sp.vstack(matrices, format="csr"), offsets
    return np.concatenate(matrices), offsets


def _bag_matrix(bag: Any, i: int) -> Any:
    if sp.issparse(bag):
        return bag
    try:
        matrix = np.asarray(bag)
    except ValueError as error:
        raise ValueError(f"bag {i} is not a matrix: {error}") from None
    if matrix.ndim != 2:
        raise ValueError(
            f"bag {i} has {matrix.ndim} dimension(s); a bag is a 2-D array of shape "
            "(n_instances, n_features). A bag of one instance x is x[None, :]."
        )
    if matrix.dtype.kind not in "fiub":
        try:
            matrix = matrix.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"bag {i} is not numeric (dtype {matrix.dtype}: {error}). Encode "
                "text and categories first."
            ) from None
    return matrix


def group_rows(
    X: Any, bag_ids: npt.ArrayLike
) -> tuple[Any, Offsets, npt.NDArray[Any], npt.NDArray[np.int64] | slice]:
    """Group rows by their bag id: the matrix, offsets, ids and the order of the rows.

    Bags come in the order of first appearance. Rows that already stand together are
    not copied.
    """
    keys = np.asarray(bag_ids)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if keys.ndim != 1 or keys.shape[0] != n_rows:
        raise ValueError(
            f"bag_ids must have one entry for each of the {n_rows} rows, got shape "
            f"{keys.shape}."
        )
    if n_rows == 0:
        raise ValueError("There are no rows: nothing to learn from.")
    _refuse_missing(keys)
    order: npt.NDArray[np.int64] | slice
    if keys.dtype.kind == "O":
        # Mixed or missing types cannot be sorted; a dict keeps first appearance.
        seen: dict[Any, int] = {}
        codes = np.array([seen.setdefault(k, len(seen)) for k in keys.tolist()])
        ids = np.empty(len(seen), dtype=object)
        ids[:] = list(seen)
    else:
        values, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))
        codes, ids = rank[inverse], values[np.argsort(first)]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes))]).astype(np.int64)
    if (np.diff(codes) >= 0).all():
        return X, offsets, ids, slice(None)
    order = np.argsort(codes, kind="stable")
    matrix = X if hasattr(X, "shape") else np.asarray(X)
    return matrix[order], offsets, ids, order


def _refuse_missing(keys: npt.NDArray[Any]) -> None:
    if keys.dtype.kind == "f":
        missing = np.isnan(keys)
    elif keys.dtype.kind == "O":
        missing = np.array([k is None or k != k for k in keys.tolist()])
    else:
        return
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(f"the bag id of row {row} is missing.")
