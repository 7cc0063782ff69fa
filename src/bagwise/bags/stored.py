"""Instances that stay on disk: memory maps, selections of rows, half precision."""

from __future__ import annotations

import mmap
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.bags._loops import widen_halves

# A selection from a memory map is copied into memory if it takes fewer bytes.
COPIED_BELOW = 64 * 2**20


class StoredRows:
    """Runs of rows of a matrix on disk, none of them read yet.

    Parameters
    ----------
    source : memory map of shape (n, n_features)
        The matrix.
    starts, stops : ndarray of int
        First row of each run, and the row after its last.
    """

    ndim = 2

    def __init__(
        self,
        source: npt.NDArray[Any],
        starts: npt.NDArray[np.int64],
        stops: npt.NDArray[np.int64],
    ) -> None:
        # Adjacent runs are merged into one, which is read at once.
        first = np.ones(len(starts), dtype=bool)
        first[1:] = starts[1:] != stops[:-1]
        last = np.append(first[1:], True) if len(first) else first
        self.source = source
        self.starts = starts[first]
        self.stops = stops[last]
        self.ends = np.cumsum(self.stops - self.starts)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return (int(self.ends[-1]) if len(self.ends) else 0, self.source.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in which the rows are stored."""
        return self.source.dtype

    def read(self) -> npt.NDArray[Any]:
        """Read all rows into memory."""
        out = np.empty(self.shape, dtype=self.dtype)
        row = 0
        for start, stop in zip(self.starts, self.stops, strict=True):
            out[row : row + stop - start] = self.source[start:stop]
            row += stop - start
        return out

    def view_or_read(self) -> npt.NDArray[Any]:
        """Return one run as it lies in the map, several as a copy in memory."""
        if len(self.starts) == 1:
            return self.source[self.starts[0] : self.stops[0]]
        return self.read()

    def __getitem__(self, key: Any) -> Any:
        """Select without reading (a slice of step 1), or read (row numbers)."""
        if isinstance(key, slice):
            first, last, step = key.indices(self.shape[0])
            if step == 1:
                return self._slice(first, max(first, last))
            key = np.arange(first, last, step)
        return np.asarray(self.source[self.positions(np.asarray(key))])

    def positions(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the rows of the source behind some rows."""
        rows = np.where(rows < 0, rows + self.shape[0], rows)
        run = np.searchsorted(self.ends, rows, side="right")
        return self.stops[run] - (self.ends[run] - rows)

    def _slice(self, first: int, last: int) -> StoredRows:
        begins = self.ends - (self.stops - self.starts)
        kept = np.flatnonzero((self.ends > first) & (begins < last))
        starts = self.starts[kept] + np.maximum(first - begins[kept], 0)
        stops = self.stops[kept] - np.maximum(self.ends[kept] - last, 0)
        return StoredRows(self.source, starts, stops)

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        """Read all rows."""
        return np.asarray(self.read(), dtype=dtype)


def map_behind(array: Any) -> mmap.mmap | None:
    """Return the memory map that an array looks at, or None."""
    if isinstance(array, StoredRows):
        array = array.source
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, mmap.mmap) else None


def select_rows(
    stacked: Any, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> Any:
    """Select runs of rows: in memory where they are few, else left on disk."""
    n_bytes = int((stops - starts).sum()) * stacked.shape[1] * stacked.dtype.itemsize
    if isinstance(stacked, StoredRows):
        runs = [stacked[a:b] for a, b in zip(starts, stops, strict=True)]
        starts = np.concatenate([run.starts for run in runs])
        stops = np.concatenate([run.stops for run in runs])
        stacked = stacked.source
    found = StoredRows(stacked, starts, stops)
    return found if n_bytes > COPIED_BELOW else found.read()


def forget_pages(array: Any) -> None:
    """Let go of the pages of a memory map that were read; they stay on disk.

    Without it the pages count as memory of the process until others need it. Copy on
    write maps keep their changes in pages, and are left alone.
    """
    source = array.source if isinstance(array, StoredRows) else array
    found = map_behind(array)
    if found is None or getattr(source, "mode", "r") == "c":
        return
    if hasattr(found, "madvise"):
        found.madvise(mmap.MADV_DONTNEED)


def temporary_map(shape: tuple[int, int], dtype: Any) -> npt.NDArray[Any]:
    """Return a writable matrix on disk, in a file that vanishes with it."""
    with tempfile.TemporaryFile(prefix="bagwise-") as file:
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape)


# NumPy converts half precision one number at a time, hence the compiled loop.
_BLOCK = 1 << 20
_POSITIVE = 0x7C00  # infinity; NaN is above
_NEGATIVE = 0xFC00


def widened(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return a float16 array as float32."""
    if not array.flags.c_contiguous or not array.dtype.isnative:
        return array.astype(np.float32)
    flat = np.empty(array.size, np.float32)
    widen_halves(_bits(array), flat.view(np.uint32), flat)
    return flat.reshape(array.shape)


def all_finite(array: npt.NDArray[Any]) -> bool:
    """Whether a float16 array holds neither NaN nor infinity.

    In these all bits of the exponent are ones. Read as integers they are the largest
    values without, and with, the sign bit. Blocks stay in the processor's cache for the
    second comparison.
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
