"""Set-kernel sums by blocks of rows, for a kernel that never writes single values.

Every bag is padded to whole blocks of 16 rows. What sums the values of pairs of blocks
is given by the caller (`_triton` on a GPU); here rows are laid out for it, in strips
that bound the memory, and blocks are added up to bags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

BLOCK = 16
# Most rows of a tile of the kernel: so many more are there to read at the end.
LARGEST_TILE = 128
# Sums of pairs of blocks in a strip, at most.
_STRIP = 2**28
# The exponent of a padded row: nothing is left of it.
_NOTHING = 1e30
# Beyond this exponent of two, a product of rows with 22 bits loses the fifth digit.
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
        Their instances, centred.
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
        None when rows lie so far from the centre that digits would be lost.
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
