"""Sums over pairs of blocks by one GPU kernel: no kernel value is ever written.

A program keeps a tile of rows, walks along tiles of columns, evaluates the kernel on
the matrix units and writes one sum for each pair of blocks. A block has as many rows as
a warp holds of a product, so that it is summed by shuffles alone. Rows are the sum of
two half-precision numbers, and of their four products the smallest is left out: 22 of
the 24 bits of single precision at a third of the rate of half precision.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bagwise.kernels.backends._torch_blocks import BLOCK, Blocks

__all__ = ["block_sums", "suits"]

# Tiles of columns in one program.
_RUN = 64
# Maximum width of rows, and minimum number of pairs for a launch.
_WIDEST = 256
_FEWEST_PAIRS = 1e8
# Candidates for rows of a tile, warps and pipeline stages: the fastest by width.
_SHAPES = ((128, 8, 2), (128, 8, 3), (64, 4, 2), (64, 4, 3))
_fastest: dict[int, tuple[int, int, int]] = {}


def suits(rows: Any, cols: Any, width: int) -> bool:
    """Return whether bags fill the blocks, and the rows fit."""
    pairs = float(rows[-1]) * float(cols[-1])
    sizes = min(rows[-1] / (len(rows) - 1), cols[-1] / (len(cols) - 1))
    return bool(pairs >= _FEWEST_PAIRS and sizes >= 8 and width <= _WIDEST)


def block_sums(
    rows: Blocks, cols: Blocks, own: slice, others: slice, symmetric: bool
) -> torch.Tensor:
    """Sum the kernel over pairs of blocks; see `_torch_blocks.pair_sums`."""
    shape = _shape(rows, cols, own, others)
    return _launch(rows, cols, own, others, symmetric, shape)


def _launch(
    rows: Blocks,
    cols: Blocks,
    own: slice,
    others: slice,
    symmetric: bool,
    shape: tuple[int, int, int],
    most: int | None = None,
) -> torch.Tensor:
    """Run the kernel, on the first `most` tiles of rows when that is given."""
    tile, warps, stages = shape
    per = tile // BLOCK
    n_rows = triton.cdiv(own.stop - own.start, per)
    n_cols = triton.cdiv(others.stop - others.start, per)
    if most is not None:
        n_rows, n_cols = min(n_rows, most), min(n_cols, _RUN)
    device = rows.high.device
    out = torch.zeros(n_rows * per, n_cols * per, device=device)
    begin = rows.first_of_bag(own.start + per * torch.arange(n_rows).numpy())
    begin = torch.as_tensor((begin - others.start) // per, dtype=torch.int32)
    _kernel[(n_rows, triton.cdiv(n_cols, _RUN))](
        rows.high,
        rows.low,
        rows.norm,
        cols.high,
        cols.low,
        cols.norm,
        begin.to(device),
        out,
        own.start * BLOCK,
        others.start * BLOCK,
        n_cols,
        WIDTH=rows.width,
        BLOCK=BLOCK,
        TILE=tile,
        RUN=_RUN,
        SYMMETRIC=symmetric,
        num_warps=warps,
        num_stages=stages,
    )
    return out


def _shape(
    rows: Blocks, cols: Blocks, own: slice, others: slice
) -> tuple[int, int, int]:
    """Try the shapes on a small part of the grid, once for each width."""
    if rows.width not in _fastest:
        times = {}
        for shape in _SHAPES:
            most = 264 * 128 // shape[0]
            given = (rows, cols, own, others, False, shape, most)
            try:
                _launch(*given)
            except triton.runtime.errors.OutOfResources:
                continue
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            done = _launch(*given)
            end.record()
            torch.cuda.synchronize()
            times[shape] = begin.elapsed_time(end) / done.numel()
        _fastest[rows.width] = min(times, key=lambda shape: times[shape])
    return _fastest[rows.width]


@triton.jit
def _kernel(
    a_high,
    a_low,
    a_norm,
    b_high,
    b_low,
    b_norm,
    begin,
    out,
    first_row,
    first_column,
    n_columns,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    RUN: tl.constexpr,
    SYMMETRIC: tl.constexpr,
):
    PER: tl.constexpr = TILE // BLOCK
    tile = tl.program_id(0)
    first = tl.program_id(1) * RUN
    last = tl.minimum(first + RUN, n_columns)
    if SYMMETRIC:
        first = tl.maximum(first, tl.load(begin + tile))
    lane = tl.arange(0, TILE)
    place = lane[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    # The start of a tile may be beyond 32 bits, places inside of it are not.
    a = (first_row + tile * TILE).to(tl.int64)
    ah = tl.load(a_high + a * WIDTH + place)
    al = tl.load(a_low + a * WIDTH + place)
    an = tl.load(a_norm + a + lane)
    block = tl.arange(0, PER)
    row = (tile * PER + block).to(tl.int64)[:, None] * (n_columns * PER)
    target = out + row + block[None, :]
    for c in range(first, last):
        b = (first_column + c * TILE).to(tl.int64)
        bh = tl.load(b_high + b * WIDTH + place)
        bl = tl.load(b_low + b * WIDTH + place)
        bn = tl.load(b_norm + b + lane)
        dot = tl.dot(al, tl.trans(bh))
        dot = tl.dot(ah, tl.trans(bl), dot)
        dot = tl.dot(ah, tl.trans(bh), dot)
        power = tl.exp2(dot - an[:, None] - bn[None, :])
        pairs = tl.reshape(power, (PER, BLOCK, PER, BLOCK))
        pairs = tl.permute(pairs, (0, 2, 1, 3))
        sums = tl.sum(tl.reshape(pairs, (PER, PER, BLOCK * BLOCK)), axis=2)
        tl.store(target + c * PER, sums)
