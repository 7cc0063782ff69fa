"""Set-kernel sums by one fused GPU kernel: no tile of kernel values is ever written.

Every bag is padded to whole blocks of rows. A program keeps a tile of several blocks,
walks along blocks of the columns, evaluates the kernel on the matrix units and writes
one sum for each pair of blocks. Rows are split into the sum of two half-precision
numbers, and of their four products the smallest is left out: 22 of the 24 bits of
single precision at a third of the rate of half precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

# Rows of a tile; blocks of the columns in one program.
_TILE = 128
_RUN = 64
# The widest rows, and the fewest pairs that are worth a launch.
_WIDEST = 256
_FEWEST_PAIRS = 1e8
# The exponent of a padded row: nothing is left of it.
_NOTHING = 1e30


def suits(rows: Any, cols: Any, width: int) -> bool:
    """Tell whether bags fill the blocks, and the rows fit."""
    pairs = float(rows[-1]) * float(cols[-1])
    sizes = min(rows[-1] / (len(rows) - 1), cols[-1] / (len(cols) - 1))
    return bool(pairs >= _FEWEST_PAIRS and sizes >= 8 and width <= _WIDEST)


def pair_sums(
    left: Any,
    right: Any,
    A: torch.Tensor,
    B: torch.Tensor,
    symmetric: bool,
    gamma: float,
) -> torch.Tensor:
    """Sum exp(-gamma |a - b|^2) over the pairs of instances of two bags.

    Parameters
    ----------
    left, right : _Tiles
        Offsets and weights of the rows and of the columns.
    A, B : float32 tensors
        Their instances, centred.
    symmetric : bool
        Whether the two are the same.
    gamma : float
        The width.
    """
    sizes = np.diff(left.offsets), np.diff(right.offsets)
    typical = max(float(np.quantile(s, 0.9)) for s in sizes)
    block = min(64, max(16, 1 << (int(np.ceil(typical)) - 1).bit_length()))
    rows = _Blocks(left, A, gamma, block)
    cols = rows if symmetric else _Blocks(right, B, gamma, block)
    out = torch.empty(
        rows.n_padded, cols.n_padded, dtype=torch.float32, device=A.device
    )
    grid = (rows.n_padded * block // _TILE, triton.cdiv(cols.n_padded, _RUN))

    def launch(grid: tuple[int, int], warps: int, stages: int) -> None:
        _kernel[grid](
            rows.high,
            rows.low,
            rows.norm,
            cols.high,
            cols.low,
            cols.norm,
            out,
            cols.n_padded,
            WIDTH=rows.width,
            BLOCK=block,
            TILE=_TILE,
            RUN=_RUN,
            SYMMETRIC=symmetric,
            num_warps=warps,
            num_stages=stages,
        )

    launch(grid, *_shape(launch, grid, (rows.width, block)))
    out = out[: rows.n_blocks, : cols.n_blocks]
    if symmetric:
        upper = torch.triu(out)
        out = upper + torch.triu(upper, 1).T
    return cols.to_bags(rows.to_bags(out).T).T


# Warps and stages of the pipeline to choose from; the fastest by width and block.
_SHAPES = ((4, 2), (4, 3), (8, 2), (8, 3), (8, 4))
_fastest: dict[tuple[int, int], tuple[int, int]] = {}


def _shape(launch: Any, grid: tuple[int, int], key: tuple[int, int]) -> tuple[int, int]:
    """Try the shapes on a small part of the grid, once for each kind of problem."""
    if key not in _fastest:
        small = (min(grid[0], 264), 1)
        times = {}
        for shape in _SHAPES:
            try:
                launch(small, *shape)
            except triton.runtime.errors.OutOfResources:
                continue
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            launch(small, *shape)
            end.record()
            torch.cuda.synchronize()
            times[shape] = begin.elapsed_time(end)
        _fastest[key] = min(times, key=lambda shape: times[shape])
    return _fastest[key]


class _Blocks:
    """Rows as two half-precision parts, bags padded to whole blocks.

    Scaled by the square root of 2 gamma / log 2, so that the exponent of two is the
    inner product less the two halves of the squared norms. Weights go into the norms.
    """

    def __init__(self, tiles: Any, rows: torch.Tensor, gamma: float, block: int):
        device = rows.device
        sizes = np.diff(tiles.offsets)
        per_bag = -(-sizes // block)
        starts = np.concatenate([[0], np.cumsum(per_bag)]) * block
        place = np.repeat(starts[:-1] - tiles.offsets[:-1], sizes)
        place = torch.as_tensor(place + np.arange(len(place))).to(device)
        self.n_blocks = int(per_bag.sum())
        whole = _TILE // block
        self.n_padded = -(-self.n_blocks // whole) * whole
        self.one_each = self.n_blocks == len(sizes)
        self.per_bag = torch.as_tensor(per_bag).to(device)
        self.width = max(16, 1 << (rows.shape[1] - 1).bit_length())
        scaled = rows * (2.0 * gamma / np.log(2.0)) ** 0.5
        high = scaled.half()
        low = (scaled - high.float()).half()
        norm = 0.5 * (scaled * scaled).sum(dim=1)
        norm -= torch.log2(tiles.weight.to(norm.dtype))
        shape = (self.n_padded * block, self.width)
        self.high = torch.zeros(shape, dtype=torch.float16, device=device)
        self.low = torch.zeros_like(self.high)
        self.high[place, : rows.shape[1]] = high
        self.low[place, : rows.shape[1]] = low
        self.norm = torch.full((shape[0],), _NOTHING, device=device)
        self.norm[place] = norm

    def to_bags(self, sums: torch.Tensor) -> torch.Tensor:
        """Add up the blocks of each bag along the first axis."""
        if self.one_each:
            return sums
        return torch.segment_reduce(
            sums.contiguous(), "sum", lengths=self.per_bag, axis=0, unsafe=True
        )


@triton.jit
def _kernel(
    a_high,
    a_low,
    a_norm,
    b_high,
    b_low,
    b_norm,
    out,
    n_cols,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    RUN: tl.constexpr,
    SYMMETRIC: tl.constexpr,
):
    PER: tl.constexpr = TILE // BLOCK
    tile = tl.program_id(0)
    first = tl.program_id(1) * RUN
    last = tl.minimum(first + RUN, n_cols)
    if SYMMETRIC:
        first = tl.maximum(first, tile * PER)
    column = tl.arange(0, WIDTH)
    lane = tl.arange(0, BLOCK)
    a = tile * TILE + tl.arange(0, TILE)
    place = a[:, None] * WIDTH + column[None, :]
    ah = tl.load(a_high + place)
    al = tl.load(a_low + place)
    an = tl.load(a_norm + a)
    target = (tile * PER + tl.arange(0, PER)).to(tl.int64) * n_cols
    for c in range(first, last):
        b = c * BLOCK + lane
        place_b = b[:, None] * WIDTH + column[None, :]
        bh = tl.load(b_high + place_b)
        bl = tl.load(b_low + place_b)
        bn = tl.load(b_norm + b)
        dot = tl.dot(al, tl.trans(bh))
        dot = tl.dot(ah, tl.trans(bl), dot)
        dot = tl.dot(ah, tl.trans(bh), dot)
        power = tl.exp2(dot - an[:, None] - bn[None, :])
        of_rows = tl.sum(power, axis=1)
        of_blocks = tl.sum(tl.reshape(of_rows, (PER, BLOCK)), axis=1)
        tl.store(out + target + c, of_blocks)
