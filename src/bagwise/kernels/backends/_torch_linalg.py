"""Kernel matrices that are kept on a torch device, and factorisations there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bagwise.kernels._tiles import Stack, spans
from bagwise.kernels.backends._numpy import Factor, KernelMatrix
from bagwise.kernels.backends._torch_blocks import Tiles

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
        stack = Stack(None, offsets, weight)
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
