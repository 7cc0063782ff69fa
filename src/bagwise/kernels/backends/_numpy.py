"""The block primitives by numpy, BLAS and compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.linalg import cho_factor, lapack

from bagwise._sizes import check_memory
from bagwise.bags import Bags
from bagwise.bags.segments import segment_sum
from bagwise.kernels import _tiles
from bagwise.kernels._tiles import StackedRows, self_sums, weighted_sums
from bagwise.kernels.instance import instance_kernel, row_blocks

Array = npt.NDArray[Any]
Params = dict[str, Any]


class NumpyBackend:
    """Every primitive, on the CPU; what another backend overrides."""

    def pair_sums(
        self, rows: StackedRows, cols: StackedRows | None, params: Params
    ) -> Array:
        """Sum an instance kernel over the pairs of instances of two bags."""
        return weighted_sums(rows, cols, lambda A, B: instance_kernel(A, B, **params))

    def self_sums(self, stack: StackedRows, params: Params) -> Array:
        """Sum an instance kernel over the pairs of instances of the same bag."""
        return self_sums(stack, lambda A, B: instance_kernel(A, B, **params))

    def smallest_squared(self, X: Bags, Y: Bags | None) -> Array:
        """Smallest squared distance between the instances of two bags."""
        return _tiles.smallest_squared(X, Y)

    def nearest_blocks(self, data: Any, Y: Bags) -> Iterator[tuple[slice, Array]]:
        """Squared distances of rows to the nearest instance of each bag, by blocks."""
        return _tiles.nearest_blocks(data, Y)

    def points_to_bags(self, X: Bags, points: Any) -> Array:
        """Squared distance of each bag to each point, by its nearest instance."""
        return _tiles.points_to_bags(X, points)

    def kernel_matrix(self, data: Any, params: Params, hint: str) -> KernelMatrix:
        """Return the kernel matrix of the rows; `hint` says what to do if it is large.

        The memory it takes is checked before.
        """
        n = data.shape[0]
        check_memory(8.0 * n * n, f"The kernel matrix of {n} instances", hint)
        return KernelMatrix(instance_kernel(data, **params))

    def kernel_product(self, A: Any, B: Any, coef: Array, params: Params) -> Array:
        """Return k(A, B) @ coef without keeping k(A, B)."""
        out = np.empty((A.shape[0], coef.shape[1]))
        for block in row_blocks(A.shape[0], 8.0 * B.shape[0]):
            part = A[block].astype(np.float64, copy=False)
            out[block] = instance_kernel(part, B, **params) @ coef
        return out

    def cholesky(self, matrix: Array) -> Factor:
        """Factorize a symmetric positive definite matrix."""
        return Factor(matrix)

    def eigh(self, matrix: Array) -> tuple[Array, Array]:
        """Eigenvalues, ascending, and eigenvectors of a symmetric matrix."""
        values, vectors = scipy.linalg.eigh(matrix)
        return values, vectors


class KernelMatrix:
    """A symmetric kernel matrix that is kept, for products."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.shape = tuple(matrix.shape)

    def __matmul__(self, values: Array) -> Array:
        return np.asarray(self.matrix @ values)

    def diagonal(self) -> Array:
        """Return the diagonal."""
        return np.diag(self.matrix)

    def to_numpy(self) -> Array:
        """Return the matrix as an array."""
        return np.asarray(self.matrix)

    def bag_sums(
        self, weight: Array, offsets: Array
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Return J'KJ, and the product with KJ; J sums the weighted rows of bags."""
        if np.count_nonzero(weight) == offsets.shape[0] - 1:
            rows = np.flatnonzero(weight)  # one instance for each bag
            block = self.matrix[:, rows] * weight[rows]
        else:
            block = segment_sum(weight[:, None] * self.matrix, offsets).T
        gram = segment_sum(weight[:, None] * block, offsets)
        return gram, lambda c: np.asarray(block @ c)


class Factor:
    """Cholesky factor of a positive definite matrix.

    Attributes
    ----------
    rcond : float
        Estimate of the reciprocal condition number; zero where the factorization broke
        down.
    """

    def __init__(self, matrix: Array) -> None:
        try:
            self._factor = cho_factor(matrix, lower=True, check_finite=False)[0]
            norm = np.abs(matrix).sum(axis=0).max()
            self.rcond = float(lapack.dpocon(self._factor, norm, uplo="L")[0])
        except np.linalg.LinAlgError:
            self.rcond = 0.0

    def solve(self, right: Array) -> Array:
        """Solve for one or several right-hand sides."""
        # LAPACK is called directly: checks around it cost ten times a small solve, and
        # batches of folds need thousands of solves.
        return np.asarray(lapack.dpotrs(self._factor, right, lower=1)[0])
