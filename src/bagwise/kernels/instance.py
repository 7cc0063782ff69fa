"""Kernels and distances between instances, and the memory they may take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn import get_config
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from bagwise._sizes import memory_budget


def row_products(A: Any, B: Any) -> npt.NDArray[Any]:
    """Return the dense matrix of products of the rows of `A` and of `B`.

    Two sparse matrices of different precision are brought to the higher one: a model
    that was fitted in one is asked in the other.
    """
    if sp.issparse(A) and sp.issparse(B) and A.dtype != B.dtype:
        common = np.result_type(A.dtype, B.dtype)
        A, B = A.astype(common, copy=False), B.astype(common, copy=False)
    return np.asarray(safe_sparse_dot(A, B.T, dense_output=True))


INSTANCE_KERNELS = ("rbf", "linear", "poly", "laplacian")


def squared_distances(A: Any, B: Any = None) -> npt.NDArray[Any]:
    """Squared Euclidean distances between the rows of `A` and of `B`.

    One matrix product. Dense data are centered first, which costs nothing and keeps the
    digits when the rows are far from the origin; negative rounding is clipped and the
    distance of a row to itself is exactly zero.

    Parameters
    ----------
    A : array or CSR matrix of shape (n, n_features)
        Rows.
    B : array or CSR matrix of shape (m, n_features), default=None
        Other rows; those of `A` by default.

    Returns
    -------
    ndarray of shape (n, m)
        The squares of the distances.
    """
    same = B is None or B is A
    if not sp.issparse(A) and not sp.issparse(B):
        center = A.mean(axis=0)
        A = A - center
        B = A if same else B - center
    elif same:
        B = A
    D = row_products(A, B)
    D *= -2.0
    norms = row_norms(A, squared=True)
    D += norms[:, None]
    D += norms if same else row_norms(B, squared=True)
    if same:
        np.fill_diagonal(D, 0.0)
    if D.min(initial=0.0) < 0.0:  # the check is cheaper than clipping
        np.maximum(D, 0.0, out=D)
    return D


def instance_kernel(
    A: Any,
    B: Any = None,
    *,
    kernel: str = "rbf",
    gamma: float = 1.0,
    degree: float = 3,
    coef0: float = 1.0,
) -> npt.NDArray[Any]:
    r"""Kernel matrix between the rows of `A` and of `B` (dense or CSR).

    Parameters
    ----------
    A, B : array or CSR matrix of shape (n, n_features) and (m, n_features)
        The instances; `B` is `A` by default.
    kernel : {"rbf", "linear", "poly", "laplacian"}
        :math:`e^{-\gamma |a-b|^2}`, :math:`a'b`, :math:`(\gamma a'b + c_0)^p`,
        :math:`e^{-\gamma |a-b|_1}`.
    gamma : float
        The width :math:`\gamma`; see `resolve_gamma` for the named ones.
    degree, coef0 : float
        :math:`p` and :math:`c_0` of the polynomial kernel.
    """
    if kernel == "rbf":
        D = squared_distances(A, B)
        D *= -gamma
        return np.exp(D, out=D)
    if kernel == "laplacian":
        D = manhattan_distances(A, A if B is None else B)
        D *= -gamma
        return np.exp(D, out=D)
    if kernel in ("linear", "poly"):
        K = row_products(A, A if B is None else B)
        if kernel == "poly":
            K *= gamma
            K += coef0
            K **= degree
        return K
    raise ValueError(
        f"unknown instance kernel {kernel!r}; known are {', '.join(INSTANCE_KERNELS)}."
    )


def kernel_params(model: Any, gamma: float) -> dict[str, Any]:
    """Return the kernel of a model as keywords of `instance_kernel`.

    Parameters
    ----------
    model : object
        With attributes `kernel`, `degree` and `coef0`.
    gamma : float
        The width, as a number.
    """
    return {
        "kernel": model.kernel,
        "gamma": gamma,
        "degree": model.degree,
        "coef0": model.coef0,
    }


def kernel_diagonal(
    A: Any,
    *,
    kernel: str = "rbf",
    gamma: float = 1.0,
    degree: float = 3,
    coef0: float = 1.0,
) -> npt.NDArray[Any]:
    """Kernel of every row with itself."""
    if kernel in ("rbf", "laplacian"):
        return np.ones(A.shape[0])
    norms = row_norms(A, squared=True)
    if kernel == "poly":
        norms = (gamma * norms + coef0) ** degree
    return norms


def resolve_gamma(gamma: float | str, data: Any, weight: Any = None) -> float:
    """Return the width of a kernel as a number.

    Parameters
    ----------
    gamma : {"scale", "auto", "median"} or float
        "scale" is 1 / (n_features * variance) and "auto" 1 / n_features, as in
        scikit-learn; "median" is 1 / the median squared distance of instances (a
        deterministic sample of at most 1,000 rows).
    data : array or CSR matrix
        The training instances.
    weight : array of shape (n_instances,), default=None
        Weights of the rows in the variance of "scale", so that a weight of two is the
        same as a repeated row.
    """
    if not isinstance(gamma, str):
        return float(gamma)
    n_features = data.shape[1]
    if gamma == "auto":
        return 1.0 / n_features
    if gamma == "scale":
        if weight is not None and np.ptp(weight) > 0:
            share = weight / (weight.sum() * n_features)
            center = share @ np.asarray(data.sum(axis=1)).ravel()
            if not sp.issparse(data):  # accurate far from the origin
                data, center = data - center, 0.0
            variance = share @ row_norms(data, squared=True) - center**2
        elif sp.issparse(data):
            variance = data.multiply(data).mean() - data.mean() ** 2
        else:
            variance = data.var(dtype=np.float64)
        return 1.0 / (n_features * variance) if variance > 0 else 1.0
    if gamma == "median":
        step = max(1, -(-data.shape[0] // 1000))
        D = squared_distances(data[::step])
        off_diagonal = D[np.triu_indices_from(D, k=1)]
        middle = float(np.median(off_diagonal)) if off_diagonal.size else 0.0
        if middle <= 0 and off_diagonal.size:  # mostly duplicates
            middle = float(off_diagonal.mean())
        return 1.0 / middle if middle > 0 else 1.0
    raise ValueError(
        f"gamma must be a number or 'scale', 'auto', 'median', got {gamma!r}."
    )


def row_blocks(n_rows: int, bytes_per_row: float) -> Iterator[slice]:
    """Cut `n_rows` into slices that keep to scikit-learn's `working_memory`.

    And to a quarter of the memory budget, where that is less.
    """
    budget = min(get_config()["working_memory"] * 2**20, 0.25 * memory_budget())
    step = max(1, int(budget // max(1.0, bytes_per_row)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))
