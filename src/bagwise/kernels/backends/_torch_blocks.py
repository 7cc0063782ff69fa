"""Blocks of kernel values and distances on a torch device, and their reductions.

For the fused kernel of `_triton`, which sums the values of pairs of blocks without
writing them, every bag is padded to whole blocks of 16 rows. Rows are laid out in
strips that bound the memory, and the sums of blocks are added up to bags.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bagwise.kernels._tiles import StackedRows

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

    def __init__(self, stack: StackedRows, device: torch.device) -> None:
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
        # Rounding may lift an exponent above zero by 1e-7, which needs no correction.
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


BLOCK = 16
# Maximum rows of a tile of the kernel, and number of padded rows at the end.
LARGEST_TILE = 128
# Maximum number of sums of pairs of blocks in a strip.
_STRIP = 2**28
# The exponent of a padded row: its kernel values underflow to zero.
_NOTHING = 1e30
# Beyond this binary exponent, a product of rows with 22 bits loses the fifth digit.
_FARTHEST = 128.0

BlockSums = Callable[["Blocks", "Blocks", slice, slice, bool], torch.Tensor]


def pair_sums(
    left: Any,
    right: Any,
    A: torch.Tensor,
    B: torch.Tensor,
    symmetric: bool,
    gamma: float,
    block_sums: BlockSums,
) -> torch.Tensor | None:
    """Sum exp(-gamma |a - b|^2) over the pairs of instances of two bags.

    Parameters
    ----------
    left, right : Tiles
        Offsets and weights of the rows and of the columns.
    A, B : float32 tensors
        Their instances, centered.
    symmetric : bool
        Whether the two are the same.
    gamma : float
        The width.
    block_sums : callable
        ``block_sums(rows, cols, row_blocks, col_blocks, symmetric)`` returns the sums
        of pairs of blocks, and possibly more rows and columns. When symmetric, only
        those of bags that do not come before the bag of the row need to be there.

    Returns
    -------
    tensor of shape (n_bags, n_bags) or None
        None when rows lie so far from the center that digits would be lost.
    """
    rows = Blocks(left, A, gamma)
    cols = rows if symmetric else Blocks(right, B, gamma)
    if max(rows.farthest, cols.farthest) > _FARTHEST:
        return None
    out = torch.zeros(rows.n_bags, cols.n_bags, device=A.device)
    for bags in rows.strips(cols.n_blocks):
        others = slice(bags.start if symmetric else 0, cols.n_bags)
        found = block_sums(
            rows, cols, rows.blocks(bags), cols.blocks(others), symmetric
        )
        found = rows.to_bags(found, bags).T.contiguous()
        out[bags, others] = cols.to_bags(found, others).T
    if not symmetric:
        return out
    upper = torch.triu(out)
    return upper + torch.triu(upper, 1).T


class Blocks:
    """Rows as two half-precision parts, bags padded to whole blocks.

    Scaled by the square root of 2 gamma / log 2, so that the exponent of two is the
    inner product less the two halves of the squared norms. Weights go into the norms.

    Attributes
    ----------
    high, low : float16 tensors of shape (n_padded, width)
        The rows are their sum, to 22 bits.
    norm : float32 tensor of shape (n_padded,)
        Half of the squared norms, less the logarithms of the weights.
    starts : int array of shape (n_bags + 1,)
        The first block of each bag.
    farthest : float
        The largest half of a squared norm.
    """

    def __init__(self, tiles: Any, rows: torch.Tensor, gamma: float) -> None:
        device = rows.device
        sizes = np.diff(tiles.offsets)
        per_bag = -(-sizes // BLOCK)
        self.starts = np.concatenate([[0], np.cumsum(per_bag)])
        self.n_bags, self.n_blocks = len(sizes), int(self.starts[-1])
        self.per_bag = torch.as_tensor(per_bag).to(device)
        place = np.repeat(self.starts[:-1] * BLOCK - tiles.offsets[:-1], sizes)
        place = torch.as_tensor(place + np.arange(len(place))).to(device)
        self.width = max(16, 1 << (rows.shape[1] - 1).bit_length())
        scaled = rows * (2.0 * gamma / np.log(2.0)) ** 0.5
        norm = 0.5 * (scaled * scaled).sum(dim=1)
        self.farthest = float(norm.max())
        high = scaled.half()
        low = (scaled - high.float()).half()
        shape = (self.n_blocks * BLOCK + LARGEST_TILE, self.width)
        self.high = torch.zeros(shape, dtype=torch.float16, device=device)
        self.low = torch.zeros_like(self.high)
        self.high[place, : rows.shape[1]] = high
        self.low[place, : rows.shape[1]] = low
        self.norm = torch.full((shape[0],), _NOTHING, device=device)
        self.norm[place] = norm - torch.log2(tiles.weight.to(norm.dtype))

    def blocks(self, bags: slice) -> slice:
        """Return the blocks of some bags."""
        return slice(int(self.starts[bags.start]), int(self.starts[bags.stop]))

    def first_of_bag(self, blocks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the first block of the bag that each block belongs to."""
        bag = np.searchsorted(self.starts, blocks, side="right") - 1
        return self.starts[bag]

    def strips(self, n_columns: int) -> Iterator[slice]:
        """Cut the bags so that the sums of their blocks stay small."""
        most = max(1, _STRIP // n_columns)
        start = 0
        while start < self.n_bags:
            limit = self.starts[start] + most
            stop = int(np.searchsorted(self.starts, limit, side="right")) - 1
            stop = min(max(stop, start + 1), self.n_bags)
            yield slice(start, stop)
            start = stop

    def to_bags(self, sums: torch.Tensor, bags: slice) -> torch.Tensor:
        """Add up the blocks of each bag along the first axis."""
        own = self.blocks(bags)
        return torch.segment_reduce(
            sums[: own.stop - own.start],
            "sum",
            lengths=self.per_bag[bags],
            axis=0,
            unsafe=True,
        )
