"""Reduced bases: Z with K = Z Z', so that a kernel SVM becomes a linear one.

With the rows of Z as features, a function of the training span is f(x_k) = z_k'w with
|f| = |w|. Exact (eigenvectors, or pivoted Cholesky up to a tolerance) or approximate
(Nystroem on random landmarks).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpstrf, dtrtri, dtrtrs
from sklearn.utils import check_random_state

from bagwise._sizes import check_memory, memory_budget
from bagwise.kernels.backends import active
from bagwise.kernels.instance import instance_kernel, kernel_diagonal

Method = Literal["auto", "eigh", "cholesky", "nystroem", "linear"]


class KernelBasis:
    """A feature map z(x) = k(x, landmarks) T, or the identity for a linear kernel.

    Attributes
    ----------
    Z : ndarray or CSR matrix of shape (n_instances, rank)
        The map of the rows the basis was fitted on; None after `without_rows`.
    landmarks, projection : ndarray
        The landmarks and T; both None for the linear kernel. T is L_P^{-T}, with the
        triangle L_P of the rows of the `pivots`, where these are given, and made when
        it is asked for: many fits need it for one vector only (`expand`).
    """

    def __init__(
        self,
        Z: Any,
        landmarks: Any,
        projection: Any,
        params: dict[str, Any],
        pivots: Any = None,
    ):
        self.Z = Z
        self.landmarks = landmarks
        if pivots is None:
            self.projection = projection
        else:
            self._pivots = pivots
        self.params = params

    @cached_property
    def projection(self) -> Any:
        """T, where the map is k(x, landmarks) T."""
        triangle = self.Z[self._pivots]
        return np.ascontiguousarray(dtrtri(triangle.T, lower=0, overwrite_c=1)[0])

    def expand(self, w: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the weights of the landmarks, z(x)'w = k(x, landmarks)'a.

        Parameters
        ----------
        w : ndarray of shape (rank,)
            Weights of the columns of the map.
        """
        if "projection" in vars(self):
            return np.asarray(self.projection @ w)
        triangle = self.Z[self._pivots].T
        return np.asarray(dtrtrs(triangle, w, lower=0)[0])

    @property
    def rank(self) -> int:
        """Number of columns of the map."""
        if self.landmarks is None:
            return int(self.params["n_features"])
        return int((self.projection if self.Z is None else self.Z).shape[1])

    def transform(self, A: Any) -> Any:
        """Map other rows.

        Parameters
        ----------
        A : array or CSR matrix of shape (n, n_features)
            The rows.

        Returns
        -------
        array or CSR matrix of shape (n, rank)
            Their features.
        """
        if self.landmarks is None:
            return A
        kernel = {k: v for k, v in self.params.items() if k != "n_features"}
        return instance_kernel(A, self.landmarks, **kernel) @ self.projection

    def without_rows(self) -> KernelBasis:
        """Return the map without the training rows: all that prediction needs."""
        return KernelBasis(None, self.landmarks, self.projection, self.params)


def fit_basis(
    data: Any,
    *,
    kernel: str = "rbf",
    gamma: float = 1.0,
    degree: float = 3,
    coef0: float = 1.0,
    method: Method = "auto",
    n_components: int | None = None,
    tol: float = 1e-10,
    random_state: Any = None,
    matrix: npt.NDArray[Any] | None = None,
) -> KernelBasis:
    """Find a reduced basis for the rows of `data`.

    Parameters
    ----------
    data : array or CSR matrix of shape (n_instances, n_features)
        The instances.
    kernel, gamma, degree, coef0
        As in `instance_kernel`.
    method : {"auto", "eigh", "cholesky", "nystroem", "linear"}
        "auto": the rows themselves for a linear kernel; Nystroem when `n_components`
        is given; else pivoted Cholesky, of the whole matrix where it fits.
    n_components : int, default=None
        Maximum number of columns. Required by "nystroem".
    tol : float
        Directions below `tol` times the largest eigenvalue (pivot) are dropped.
    random_state : int or RandomState, default=None
        Random seed of the landmarks of "nystroem".
    matrix : ndarray of shape (n_instances, n_instances), default=None
        The kernel matrix of `data`, where it is known: spares "cholesky" to compute
        it. Not written to.
    """
    n = data.shape[0]
    kernel_params: dict[str, Any] = {
        "kernel": kernel,
        "gamma": gamma,
        "degree": degree,
        "coef0": coef0,
    }
    params = {**kernel_params, "n_features": data.shape[1]}
    if method == "auto":
        if kernel == "linear":
            method = "linear"
        elif n_components is not None and n_components < n:
            method = "nystroem"
        else:
            method = "cholesky"
    if method == "linear":
        return KernelBasis(data, None, None, params)
    if method == "eigh":
        hint = "Set n_components to use a Nystroem basis."
        check_memory(8.0 * n * n, f"The kernel matrix of {n} instances", hint)
        K = instance_kernel(data, **kernel_params)
        T = _whiten(K, tol, n_components)
        return KernelBasis(K @ T, data, T, params)
    if method == "nystroem":
        if n_components is None:
            raise ValueError("a Nystroem basis needs n_components.")
        rows = check_random_state(random_state).permutation(n)[:n_components]
        marks = data[np.sort(rows)]
        T = _whiten(instance_kernel(marks, **kernel_params), tol, None)
        check_memory(8.0 * n * T.shape[1], "The reduced basis", "Lower n_components.")
        basis = KernelBasis(None, marks, T, params)
        basis.Z = basis.transform(data)
        return basis
    if method == "cholesky":
        if n_components is None and 16.0 * n * n <= memory_budget():
            return _cholesky_of_matrix(data, kernel_params, params, tol, matrix)
        return _pivoted_cholesky(data, kernel_params, params, n_components, tol)
    raise ValueError(f"unknown method {method!r} for a reduced basis.")


def _whiten(K: npt.NDArray[Any], tol: float, most: int | None) -> npt.NDArray[Any]:
    """Return T = U lambda^(-1/2), so that (K T)(K T)' = K."""
    values, vectors = active().eigh(K)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = int((values > tol * max(values[0], np.finfo(float).tiny)).sum())
    kept = max(1, kept if most is None else min(kept, most))
    safe = np.maximum(values[:kept], np.finfo(float).tiny)
    return np.ascontiguousarray(vectors[:, :kept] / np.sqrt(safe))


def _cholesky_of_matrix(
    data: Any,
    kernel_params: dict[str, Any],
    params: dict[str, Any],
    tol: float,
    matrix: npt.NDArray[Any] | None,
) -> KernelBasis:
    """Pivoted Cholesky of the whole matrix by LAPACK, in blocks: many times faster."""
    # Always a new array, which the factor overwrites.
    K = instance_kernel(data, **kernel_params) if matrix is None else matrix.copy()
    top = float(np.diag(K).max())
    # The transpose of a C-ordered symmetric matrix is in LAPACK's order: no copy.
    factor, pivots, rank, _ = dpstrf(K.T, tol=tol * top, lower=1, overwrite_a=1)
    rank = max(int(rank), 1)
    pivots = pivots - 1
    Z = np.empty((data.shape[0], rank))
    Z[pivots] = np.tril(factor)[:, :rank]
    return KernelBasis(Z, data[pivots[:rank]], None, params, pivots[:rank])


def _pivoted_cholesky(
    data: Any,
    kernel_params: dict[str, Any],
    params: dict[str, Any],
    most: int | None,
    tol: float,
) -> KernelBasis:
    """Greedy columns of K until the largest remaining diagonal is below `tol`.

    Never forms K: O(n r) memory and O(n r^2) time for rank r.
    """
    n = data.shape[0]
    limit = n if most is None else min(n, most)
    residual = kernel_diagonal(data, **kernel_params).astype(np.float64)
    top = residual.max()
    columns = min(limit, 256)
    L = np.zeros((n, columns))
    pivots: list[int] = []
    while len(pivots) < limit:
        p = int(residual.argmax())
        if residual[p] <= tol * top:
            break
        r = len(pivots)
        if r == L.shape[1]:
            wider = min(limit, 2 * r)
            check_memory(
                8.0 * n * wider,
                f"The reduced basis of {n} instances (rank {wider})",
                "Set n_components, or a larger tol.",
            )
            L = np.concatenate([L, np.zeros((n, wider - r))], axis=1)
        column = instance_kernel(data, data[p : p + 1], **kernel_params)[:, 0]
        column = column - L[:, :r] @ L[p, :r]
        L[:, r] = column / np.sqrt(residual[p])
        residual -= L[:, r] ** 2
        residual[p] = 0.0
        np.maximum(residual, 0.0, out=residual)
        pivots.append(p)
    Z = np.ascontiguousarray(L[:, : len(pivots)])
    return KernelBasis(Z, data[pivots], None, params, np.array(pivots))
