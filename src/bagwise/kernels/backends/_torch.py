"""The block primitives by torch, on a GPU or on the CPU.

Arrays come in and arrays go out; rows are copied to the device once for a call. Tiles
hold whole bags, so that a tile is reduced by segments without pieces to put together.
They are large, since a GPU is limited by the number of launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from bagwise.bags import Bags
from bagwise.kernels._tiles import StackedRows, bag_groups, exact_pair_minimum, spans
from bagwise.kernels.backends._numpy import Factor, KernelMatrix, NumpyBackend, Params
from bagwise.kernels.backends._torch_blocks import (
    KERNELS,
    Squared,
    Tiles,
    pair_sums,
    tensor,
)

Array = npt.NDArray[Any]


class TorchMatrix(KernelMatrix):
    """A symmetric kernel matrix on a device."""

    def _put(self, values: Array) -> torch.Tensor:
        tensor = torch.as_tensor(np.array(values, dtype=np.float64))
        return tensor.to(self.matrix.device).to(self.matrix.dtype)

    def __matmul__(self, values: Array) -> Array:
        product = self.matrix @ self._put(values)
        return np.asarray(product.double().cpu().numpy())

    def diagonal(self) -> Array:
        """Return the diagonal."""
        return np.asarray(self.matrix.diagonal().double().cpu().numpy())

    def to_numpy(self) -> Array:
        """Return the matrix as an array."""
        return np.asarray(self.matrix.double().cpu().numpy())

    def bag_sums(
        self, weight: Array, offsets: Array
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Return J'KJ, and the product with KJ; J sums the weighted rows of bags."""
        n = self.shape[0]
        stack = StackedRows(None, offsets, weight)
        tiles = Tiles(stack, self.matrix.device)
        every = slice(0, stack.n_bags)
        sums = self.matrix.new_empty(stack.n_bags, n)
        # Column blocks: a weighted copy of the whole matrix would double the memory.
        for part in spans(n, max(1, 2**28 // n)):
            sums[:, part] = tiles.sum(every, self.matrix[:, part].contiguous())
        block = sums.T.contiguous()
        gram = tiles.sum(every, block)
        gram = (gram + gram.T) / 2
        result = np.asarray(gram.double().cpu().numpy())
        return result, lambda c: np.asarray(
            (block @ self._put(c)).double().cpu().numpy()
        )


class TorchFactor(Factor):
    """Cholesky factor on a device."""

    def __init__(self, matrix: torch.Tensor) -> None:
        self._factor, info = torch.linalg.cholesky_ex(matrix)
        self.rcond = 0.0
        if not int(info):
            norm = float(matrix.abs().sum(dim=0).max())
            self.rcond = 1.0 / (norm * self._inverse_norm())

    def _device_solve(self, right: torch.Tensor) -> torch.Tensor:
        return torch.cholesky_solve(right, self._factor)

    def _inverse_norm(self) -> float:
        """Estimate the 1-norm of the inverse from a few solves (Hager's method)."""
        n = self._factor.shape[0]
        x = torch.full((n, 1), 1.0 / n, dtype=torch.float64, device=self._factor.device)
        estimate = 0.0
        for _ in range(5):
            y = self._device_solve(x)
            estimate = max(estimate, float(y.abs().sum()))
            z = self._device_solve(torch.sign(y))
            j = int(z.abs().argmax())
            if float(z[j].abs()) <= float((z * x).sum()):
                break
            x = torch.zeros_like(x)
            x[j] = 1.0
        return estimate

    def solve(self, right: Array) -> Array:
        """Solve for one or several right-hand sides."""
        given = torch.as_tensor(np.array(right, dtype=np.float64))
        given = given.to(self._factor.device)
        flat = given[:, None] if given.dim() == 1 else given
        found = self._device_solve(flat)
        return np.asarray(found.reshape(given.shape).cpu().numpy())


# Rows of a tile, and of a tile of bags with themselves.
_TILE_GPU, _TILE_CPU, _GROUP = 8192, 1024, 2048
# Share of the free memory that a kernel matrix may take.
_SHARE = 0.85


class TorchBackend(NumpyBackend):
    """The primitives on a torch device; sparse data stay with numpy.

    Parameters
    ----------
    device : torch.device
        Where blocks are computed: in float32 on a GPU, in float64 on the CPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        gpu = device.type == "cuda"
        self.dtype = torch.float32 if gpu else torch.float64
        self.tile = _TILE_GPU if gpu else _TILE_CPU

    def _put(self, array: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
        return tensor(array).to(self.device).to(dtype or self.dtype)

    def _centered(
        self, A: Any, B: Any = None, dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Put rows on the device, less the mean of `A`, which keeps the digits."""
        first = tensor(A).to(self.device)
        center = first.mean(dim=0, dtype=torch.float64).to(first.dtype)
        kind = dtype or self.dtype
        if B is None:
            first = (first - center).to(kind)
            return first, first
        second = tensor(B).to(self.device)
        return (first - center).to(kind), (second - center).to(kind)

    def pair_sums(
        self, rows: StackedRows, cols: StackedRows | None, params: Params
    ) -> Array:
        """Sum an instance kernel over the pairs of instances of two bags."""
        if sp.issparse(rows.data) or (cols is not None and sp.issparse(cols.data)):
            return super().pair_sums(rows, cols, params)
        sums = self.device_sums(rows, cols, params).cpu()
        return sums.numpy().astype(np.float64, copy=False)

    def device_sums(
        self,
        rows: StackedRows,
        cols: StackedRows | None,
        params: Params,
        *,
        fused: bool = True,
    ) -> torch.Tensor:
        """Return `pair_sums` of dense rows where it was computed.

        Parameters
        ----------
        rows, cols : StackedRows
            The bags of the rows and of the columns; the same when `cols` is None.
        params : dict
            The instance kernel.
        fused : bool, default=True
            Use the fused kernel where there is a compiler for it and it suits.
        """
        other = rows if cols is None else cols
        A, B = self._instances(rows.data, None if cols is None else cols.data, params)
        left, right = Tiles(rows, self.device), Tiles(other, self.device)
        if fused:
            sums = self._fused(left, right, A, B, cols is None, params)
            if sums is not None:
                return sums
        kernel = KERNELS[params["kernel"]](A, B, params)
        out = torch.zeros(
            rows.n_bags, other.n_bags, dtype=self.dtype, device=self.device
        )
        parts = list(bag_groups(other.offsets, self.tile))
        for i, bags in enumerate(bag_groups(rows.offsets, self.tile)):
            for others in parts[i:] if cols is None else parts:
                block = left.sum(bags, kernel(left.rows(bags), right.rows(others)))
                block = right.sum(others, block.T.contiguous())
                if cols is None and bags == others:
                    block = (block + block.T) / 2
                out[bags, others] = block.T
                if cols is None:
                    out[others, bags] = block
        return out

    def _instances(
        self, A: Any, B: Any, params: Params
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if params["kernel"] in ("rbf", "laplacian"):  # independent of the origin
            return self._centered(A, B)
        first = self._put(A)
        return first, first if B is None else self._put(B)

    def _fused(
        self,
        left: Tiles,
        right: Tiles,
        A: torch.Tensor,
        B: torch.Tensor,
        symmetric: bool,
        params: Params,
    ) -> torch.Tensor | None:
        """Sums by one kernel that never writes a tile, where there is a compiler."""
        if self.device.type != "cuda" or params["kernel"] != "rbf":
            return None
        try:
            from bagwise.kernels.backends._triton import block_sums, suits
        except ImportError:
            return None
        if not suits(left.offsets, right.offsets, A.shape[1]):
            return None
        return pair_sums(left, right, A, B, symmetric, params["gamma"], block_sums)

    def self_sums(self, stack: StackedRows, params: Params) -> Array:
        """Sum an instance kernel over the pairs of instances of the same bag."""
        if sp.issparse(stack.data):
            return super().self_sums(stack, params)
        A, _ = self._instances(stack.data, None, params)
        tiles = Tiles(stack, self.device)
        kernel = KERNELS[params["kernel"]](A, A, params)
        out = torch.empty(stack.n_bags, dtype=self.dtype, device=self.device)
        for bags in bag_groups(stack.offsets, min(self.tile, _GROUP)):
            part = tiles.rows(bags)
            block = tiles.sum(bags, kernel(part, part))
            block = tiles.sum(bags, block.T.contiguous())
            out[bags] = block.diagonal()
        return out.double().cpu().numpy()

    def smallest_squared(self, X: Bags, Y: Bags | None) -> Array:
        """Smallest squared distance between the instances of two bags."""
        other = X if Y is None else Y
        if X.is_sparse or other.is_sparse:
            return super().smallest_squared(X, Y)
        A, B = self._centered(X.data, None if Y is None else Y.data)
        left, right = Tiles(_plain(X), self.device), Tiles(_plain(other), self.device)
        distance = Squared(A, B)
        out = torch.empty(len(X), len(other), dtype=self.dtype, device=self.device)
        parts = list(bag_groups(other.offsets, self.tile))
        for i, bags in enumerate(bag_groups(X.offsets, self.tile)):
            for others in parts[i:] if Y is None else parts:
                block = left.min(bags, distance(left.rows(bags), right.rows(others)))
                block = right.min(others, block.T.contiguous())
                out[bags, others] = block.T
                if Y is None:
                    out[others, bags] = block
        found = out.double().cpu().numpy()
        for i, j in np.argwhere(found < distance.doubt):
            found[i, j] = exact_pair_minimum(X[int(i)], other[int(j)])
        return np.minimum(found, found.T) if Y is None else found

    def nearest_blocks(self, data: Any, Y: Bags) -> Iterator[tuple[slice, Array]]:
        """Squared distances of rows to the nearest instance of each bag, by blocks."""
        if sp.issparse(data) or Y.is_sparse:
            yield from super().nearest_blocks(data, Y)
            return
        A, B = self._centered(data, Y.data)
        tiles = Tiles(_plain(Y), self.device)
        distance = Squared(A, B)
        for part in spans(A.shape[0], self.tile):
            out = np.empty((part.stop - part.start, len(Y)))
            for bags in bag_groups(Y.offsets, self.tile):
                block = distance(tiles.rows(bags), part, swap=True)
                out[:, bags] = tiles.min(bags, block).T.double().cpu().numpy()
            for i, j in np.argwhere(out < distance.doubt):
                row = part.start + int(i)
                out[i, j] = exact_pair_minimum(data[row : row + 1], Y[int(j)])
            yield part, out

    def points_to_bags(self, X: Bags, points: Any) -> Array:
        """Squared distance of each bag to each point, by its nearest instance."""
        if X.is_sparse or sp.issparse(points):
            return super().points_to_bags(X, points)
        A, B = self._centered(X.data, points)
        tiles = Tiles(_plain(X), self.device)
        distance = Squared(A, B)
        out = torch.empty(len(X), len(B), dtype=self.dtype, device=self.device)
        for bags in bag_groups(X.offsets, self.tile):
            for part in spans(len(B), self.tile):
                out[bags, part] = tiles.min(bags, distance(tiles.rows(bags), part))
        return out.double().cpu().numpy()

    def kernel_matrix(self, data: Any, params: Params, hint: str) -> KernelMatrix:
        """Return the kernel matrix of the rows, in double precision if it fits."""
        if sp.issparse(data):
            return super().kernel_matrix(data, params, hint)
        n = data.shape[0]
        dtype = self._fitting(float(n) * n, f"The kernel matrix of {n} instances", hint)
        if _moves(params):
            A, _ = self._centered(data, dtype=dtype)
        else:
            A = self._put(data, dtype)
        kernel = KERNELS[params["kernel"]](A, A, params)
        out = torch.empty(n, n, dtype=dtype, device=self.device)
        for part in spans(n, self.tile):
            kernel(part, slice(0, n), out=out[part])
        if params["kernel"] in ("rbf", "laplacian"):
            out.diagonal().fill_(1.0)
        return TorchMatrix(out)

    def _fitting(self, entries: float, what: str, hint: str) -> torch.dtype:
        """Return the best type in which so many entries fit, or say that none does."""
        if self.device.type != "cuda":
            return torch.float64
        free = _SHARE * torch.cuda.mem_get_info(self.device)[0]
        for dtype, size in ((torch.float64, 8), (torch.float32, 4)):
            if entries * size <= free:
                return dtype
        raise ValueError(
            f"{what} would take {entries * 4 / 1e9:.1f} GB on {self.device}, where "
            f"{free / 1e9:.1f} GB may be used. {hint}"
        )

    def kernel_product(self, A: Any, B: Any, coef: Array, params: Params) -> Array:
        """Return k(A, B) @ coef without keeping k(A, B)."""
        if sp.issparse(A) or sp.issparse(B):
            return super().kernel_product(A, B, coef, params)
        # Coefficients of both signs cancel: single precision would be inaccurate.
        wide = torch.float64
        rows, marks = self._put(A, wide), self._put(B, wide)
        if _moves(params):
            center = marks.mean(dim=0)
            rows, marks = rows - center, marks - center
        kernel = KERNELS[params["kernel"]](rows, marks, params)
        right = self._put(coef, wide)
        step = max(256, self.tile * self.tile // max(1, len(marks)))
        parts = [
            kernel(part, slice(0, len(marks))) @ right
            for part in spans(len(rows), step)
        ]
        return torch.cat(parts).cpu().numpy()

    def cholesky(self, matrix: Array) -> Factor:
        """Factorise a symmetric positive definite matrix."""
        return TorchFactor(self._put(matrix, torch.float64))

    def eigh(self, matrix: Array) -> tuple[Array, Array]:
        """Eigenvalues, ascending, and eigenvectors of a symmetric matrix."""
        values, vectors = torch.linalg.eigh(self._put(matrix, torch.float64))
        return values.cpu().numpy(), vectors.cpu().numpy()


def _plain(X: Bags) -> StackedRows:
    return StackedRows(X.data, X.offsets, np.ones(X.n_instances))


def _moves(params: Params) -> bool:
    """Whether a kernel does not depend on the origin."""
    return params["kernel"] in ("rbf", "laplacian")
