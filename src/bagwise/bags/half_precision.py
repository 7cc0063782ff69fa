"""Half precision, in which features are stored: to float32, and whether it is finite.

NumPy converts one number at a time, and memory that was never used costs more than
what is then computed: the loop here is compiled, and buffers are used again.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.bags._loops import widen_halves

_BLOCK = 1 << 20
_POSITIVE = 0x7C00  # infinity; NaN is above
_NEGATIVE = 0xFC00


class Buffers:
    """Memory for float32 copies, given out again once nobody looks at it."""

    def __init__(self) -> None:
        self.kept: list[npt.NDArray[np.float32]] = []

    def take(self, size: int) -> npt.NDArray[np.float32]:
        """Return an array of `size` numbers, of any values."""
        for k in range(len(self.kept)):
            # Two references: the list's, and the argument's. A view is one more.
            if sys.getrefcount(self.kept[k]) == 2 and self.kept[k].size >= size:
                return self.kept[k][:size]
        self.kept = self.kept[-1:]  # the one before the last is in use no more
        self.kept.append(np.empty(size, dtype=np.float32))
        return self.kept[-1][:size]


def widened(
    array: npt.NDArray[Any], buffers: Buffers | None = None
) -> npt.NDArray[np.float32]:
    """Return a float16 array as float32, in memory of `buffers` if there are some."""
    if not array.flags.c_contiguous or not array.dtype.isnative:
        return array.astype(np.float32)
    size = int(array.size)
    flat = np.empty(size, np.float32) if buffers is None else buffers.take(size)
    widen_halves(_bits(array), flat.view(np.uint32), flat)
    return flat.reshape(array.shape)


def all_finite(array: npt.NDArray[Any]) -> bool:
    """Whether a float16 array holds neither NaN nor infinity.

    Their exponents are all ones: as whole numbers they are the largest of their sign,
    with a sign bit those of all. Nothing is written; blocks stay close to the
    processor for the second look. (A loop that is compiled would not be faster by what
    the compiler takes to start.)
    """
    if not array.flags.c_contiguous or not array.dtype.isnative:
        return bool(np.isfinite(array).all())
    bits = _bits(array)
    for start in range(0, len(bits), _BLOCK):
        block = bits[start : start + _BLOCK]
        if block.max() >= _NEGATIVE or block.view(np.int16).max() >= _POSITIVE:
            return False
    return True


def _bits(array: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    return np.asarray(array).reshape(-1).view(np.uint16)
