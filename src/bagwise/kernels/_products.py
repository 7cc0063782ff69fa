"""Products of rows, dense or sparse, in any two precisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.extmath import safe_sparse_dot

__all__ = ["row_products"]


def row_products(A: Any, B: Any) -> npt.NDArray[Any]:
    """Return the dense matrix of products of the rows of `A` and of `B`.

    Two sparse matrices of different precision are brought to the higher one: a model
    that was fitted in one is asked in the other.
    """
    if sp.issparse(A) and sp.issparse(B) and A.dtype != B.dtype:
        common = np.result_type(A.dtype, B.dtype)
        A, B = A.astype(common, copy=False), B.astype(common, copy=False)
    return np.asarray(safe_sparse_dot(A, B.T, dense_output=True))
