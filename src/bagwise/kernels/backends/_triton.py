"""Set-kernel sums by one fused GPU kernel: no tile of kernel values is ever written.

A program takes one bag of the rows and a run of bags of the columns, evaluates their
blocks on the matrix units and adds them up. Rows are split into the sum of two half
precision numbers, and of the four products the smallest is left out: 22 of the 24 bits
of single precision at a third of the rate of half precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

# Bags of the columns in one program; the widest rows; fewest pairs worth a launch.
_CHUNK = 64
_WIDEST = 256
_FEWEST_PAIRS = 1e8


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
    n_rows, n_cols = len(left.offsets) - 1, len(right.offsets) - 1
    width = max(16, 1 << (A.shape[1] - 1).bit_length())
    first = _split(A, gamma, width)
    second = first if symmetric else _split(B, gamma, width)
    mean = max(left.offsets[-1] / n_rows, right.offsets[-1] / n_cols)
    block = min(64, max(16, 1 << (int(np.ceil(mean)) - 1).bit_length()))
    device = A.device
    out = torch.zeros(n_rows, n_cols, dtype=torch.float32, device=device)
    grid = (n_rows, triton.cdiv(n_cols, _CHUNK))
    _kernel[grid](
        *first,
        *second,
        torch.as_tensor(left.offsets).to(device),
        torch.as_tensor(right.offsets).to(device),
        left.weight.float(),
        right.weight.float(),
        out,
        n_cols,
        WIDTH=width,
        BLOCK=block,
        CHUNK=_CHUNK,
        SYMMETRIC=symmetric,
        num_warps=4 if block > 16 else 1,
    )
    return out


def _split(
    rows: torch.Tensor, gamma: float, width: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scaled rows as two half-precision parts, and half their squared norms."""
    scaled = torch.nn.functional.pad(rows, (0, width - rows.shape[1]))
    scaled = scaled * (2.0 * gamma) ** 0.5
    high = scaled.half()
    low = (scaled - high.float()).half()
    return high, low, 0.5 * (scaled * scaled).sum(dim=1)


@triton.jit
def _kernel(
    a_high,
    a_low,
    a_norm,
    b_high,
    b_low,
    b_norm,
    a_offsets,
    b_offsets,
    a_weight,
    b_weight,
    out,
    n_cols,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
    SYMMETRIC: tl.constexpr,
):
    i = tl.program_id(0)
    first = tl.program_id(1) * CHUNK
    last = tl.minimum(first + CHUNK, n_cols)
    if SYMMETRIC:
        first = tl.maximum(first, i)
    a_start = tl.load(a_offsets + i)
    a_stop = tl.load(a_offsets + i + 1)
    lane = tl.arange(0, BLOCK)
    column = tl.arange(0, WIDTH)
    for a0 in range(a_start, a_stop, BLOCK):
        a = a0 + lane
        a_in = a < a_stop
        place = a[:, None] * WIDTH + column[None, :]
        ah = tl.load(a_high + place, mask=a_in[:, None], other=0.0)
        al = tl.load(a_low + place, mask=a_in[:, None], other=0.0)
        an = tl.load(a_norm + a, mask=a_in, other=0.0)
        aw = tl.load(a_weight + a, mask=a_in, other=0.0)
        for j in range(first, last):
            b_start = tl.load(b_offsets + j)
            b_stop = tl.load(b_offsets + j + 1)
            total = tl.zeros([BLOCK], dtype=tl.float32)
            for b0 in range(b_start, b_stop, BLOCK):
                b = b0 + lane
                b_in = b < b_stop
                place_b = b[:, None] * WIDTH + column[None, :]
                bh = tl.load(b_high + place_b, mask=b_in[:, None], other=0.0)
                bl = tl.load(b_low + place_b, mask=b_in[:, None], other=0.0)
                bn = tl.load(b_norm + b, mask=b_in, other=0.0)
                bw = tl.load(b_weight + b, mask=b_in, other=0.0)
                dot = tl.dot(al, tl.trans(bh))
                dot = tl.dot(ah, tl.trans(bl), dot)
                dot = tl.dot(ah, tl.trans(bh), dot)
                power = tl.exp(tl.minimum(dot - an[:, None] - bn[None, :], 0.0))
                total += tl.sum(power * bw[None, :], axis=1)
            value = tl.sum(total * aw, axis=0)
            tl.atomic_add(out + i.to(tl.int64) * n_cols + j, value)
            if SYMMETRIC:
                if i != j:
                    tl.atomic_add(out + j.to(tl.int64) * n_cols + i, value)
