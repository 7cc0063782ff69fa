"""Blocks of kernel values and distances on a torch device, and their reductions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bagwise.kernels._tiles import Stack

Array = npt.NDArray[Any]
Params = dict[str, Any]

# Distances below this share of the scale are computed again from differences.
_DOUBT = {torch.float32: 1e-4, torch.float64: 1e-8}


def tensor(array: Any) -> torch.Tensor:
    """Return a view of an array that is only read, whether it is writable or not."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")
        return torch.from_numpy(np.ascontiguousarray(array))


class Tiles:
    """Reductions of blocks whose first axis holds the rows of some bags."""

    def __init__(self, stack: Stack, device: torch.device) -> None:
        self.offsets = np.asarray(stack.offsets)
        sizes = torch.as_tensor(np.diff(self.offsets), dtype=torch.int64)
        self.sizes = sizes.to(device)
        self.even = bool((np.asarray(stack.weight) == 1.0).all())
        self.weight = torch.as_tensor(np.array(stack.weight)).to(device)

    def rows(self, bags: slice) -> slice:
        """Return the rows of some bags."""
        return slice(int(self.offsets[bags.start]), int(self.offsets[bags.stop]))

    def sum(self, bags: slice, block: torch.Tensor) -> torch.Tensor:
        """Sum the weighted rows of each bag."""
        if not self.even:
            block = block * self.weight[self.rows(bags), None].to(block.dtype)
        return torch.segment_reduce(
            block, "sum", lengths=self.sizes[bags], axis=0, unsafe=True
        )

    def min(self, bags: slice, block: torch.Tensor) -> torch.Tensor:
        """Smallest of the rows of each bag."""
        return torch.segment_reduce(
            block, "min", lengths=self.sizes[bags], axis=0, unsafe=True
        )


class Squared:
    """Squared distances between rows of A and of B, not below zero."""

    def __init__(self, A: torch.Tensor, B: torch.Tensor) -> None:
        self.A, self.B = A, B
        self.a = (A * A).sum(dim=1)
        self.b = (B * B).sum(dim=1)
        scale = float(self.a.max()) + float(self.b.max())
        self.doubt = scale * _DOUBT[A.dtype]

    def __call__(self, first: slice, second: slice, swap: bool = False) -> torch.Tensor:
        """Return the block of some rows; with `swap`, B stands on the first axis."""
        A, B, a, b = self.A, self.B, self.a, self.b
        if swap:
            A, B, a, b = B, A, b, a
        block = torch.addmm(b[None, second], A[first], B[second].T, alpha=-2.0)
        return block.add_(a[first, None]).clamp_(min=0.0)


class _Rbf:
    """exp(-gamma |a - b|^2): the exponent is one product of rows with two more columns.

    With a' = (2 gamma a, -gamma |a|^2, 1) and b' = (b, 1, -gamma |b|^2) it is a'b'.
    """

    def __init__(self, A: torch.Tensor, B: torch.Tensor, params: Params) -> None:
        gamma = params["gamma"]
        one = A.new_ones(len(A), 1)
        norm = -gamma * (A * A).sum(dim=1, keepdim=True)
        self.A = torch.cat([2.0 * gamma * A, norm, one], dim=1)
        one = B.new_ones(len(B), 1)
        norm = -gamma * (B * B).sum(dim=1, keepdim=True)
        self.B = torch.cat([B, one, norm], dim=1)

    def __call__(
        self, first: slice, second: slice, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the block of some rows."""
        # Rounding may lift an exponent above zero by 1e-7, which is not worth a pass.
        return torch.mm(self.A[first], self.B[second].T, out=out).exp_()


class _Laplacian:
    """exp(-gamma |a - b|_1)."""

    def __init__(self, A: torch.Tensor, B: torch.Tensor, params: Params) -> None:
        self.A, self.B, self.gamma = A, B, params["gamma"]

    def __call__(
        self, first: slice, second: slice, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the block of some rows."""
        block = torch.cdist(self.A[first], self.B[second], p=1.0)
        block = block.mul_(-self.gamma).exp_()
        return block if out is None else out.copy_(block)


class _Poly:
    """(gamma a'b + coef0)^degree; the linear kernel is its special case."""

    def __init__(self, A: torch.Tensor, B: torch.Tensor, params: Params) -> None:
        self.A, self.B, self.params = A, B, params

    def __call__(
        self, first: slice, second: slice, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the block of some rows."""
        block = torch.mm(self.A[first], self.B[second].T, out=out)
        if self.params["kernel"] == "linear":
            return block
        block.mul_(self.params["gamma"]).add_(self.params["coef0"])
        return block.pow_(self.params["degree"])


KERNELS: dict[str, Any] = {
    "rbf": _Rbf,
    "laplacian": _Laplacian,
    "poly": _Poly,
    "linear": _Poly,
}
