"""Lists of matrices and rows with bag ids, stacked into one matrix with offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise._later import sparse as sp
from bagwise.bags.segmented import Offsets
from bagwise.bags.validation import refuse_other_values


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
        matrix = np.asanyarray(bag)
    except ValueError as error:
        raise ValueError(f"bag {i} is not a matrix: {error}") from None
    refuse_other_values(matrix, f"bag {i}")
    matrix = np.asarray(matrix)
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


def one_per_bag(
    per_row: npt.NDArray[Any], offsets: Offsets, ids: npt.NDArray[Any], what: str
) -> npt.NDArray[Any]:
    """Return the one value that all rows of a bag share, or name a bag with two."""
    first = per_row[offsets[:-1]]
    differs = per_row != np.repeat(first, np.diff(offsets))
    if differs.any():
        row = int(np.flatnonzero(differs)[0])
        bag = int(np.searchsorted(offsets, row, side="right")) - 1
        raise ValueError(
            f"{what} differ within bag {ids[bag]}: {first[bag]} and {per_row[row]}. A "
            "bag belongs to one group."
        )
    return first


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
