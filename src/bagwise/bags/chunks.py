"""Sums over bags in chunks of bounded size, mean and scatter among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bagwise._later import sparse as sp
from bagwise.bags._bags import Bags
from bagwise.bags.stored import widened

# Bytes of instances in a chunk, after conversion. Up to 32 MB the allocator reuses
# memory of the process; larger arrays are requested from the system each time, which
# costs as much as a product with a few columns.
_CHUNK_BYTES = 16 * 2**20


class Chunk(NamedTuple):
    """Whole bags with their targets and weights."""

    X: Bags
    y: Any
    weight: Any


class Chunks:
    """Bags that may be larger than memory, in chunks; sums over the chunks.

    Methods that learn from sums over bags use these two methods, wherever the bags are:
    `bagwise.distributed` has the same ones for parts on a cluster. Half precision is
    for storage and becomes float32 chunk by chunk.

    Parameters
    ----------
    X : Bags
        The bags, for instance on a memory map.
    y : ndarray of shape (n_bags, ...), default=None
        Their targets.
    weight : ndarray of shape (n_bags,), default=None
        Their weights; one by default.
    """

    def __init__(self, X: Bags, y: Any = None, weight: Any = None) -> None:
        self.X = X
        self.y = y
        self.weight = np.ones(X.n_bags) if weight is None else weight

    def __iter__(self) -> Iterator[Chunk]:
        """Iterate over the chunks."""
        width = 8 if self.X.dtype == np.float64 else 4
        rows = max(1, _CHUNK_BYTES // (width * self.X.n_features))
        first = 0
        for chunk in self.X.iter_chunks(rows):
            bags = slice(first, first + chunk.n_bags)
            first += chunk.n_bags
            if chunk.dtype == np.float16:
                chunk = chunk.with_data(widened(chunk.data))
            y = None if self.y is None else self.y[bags]
            yield Chunk(chunk, y, self.weight[bags])

    def each(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """Return ``function(chunk, *shared)`` of every chunk."""
        return [function(chunk, *shared) for chunk in self]

    def sum(
        self, function: Callable[..., Any], *shared: Any, per_bag: Any = None
    ) -> Any:
        """Return the sum of ``function(chunk, *shared)``, of tuples entry by entry.

        With `per_bag`, an array over all bags, it is ``function(chunk, values,
        *shared)`` with the values of the chunk's own bags.
        """
        total, first = None, 0
        for chunk in self:
            own = () if per_bag is None else (per_bag[first : first + len(chunk.X)],)
            first += len(chunk.X)
            part = function(chunk, *own, *shared)
            total = part if total is None else add(total, part)
        return total


def add(a: Any, b: Any) -> Any:
    """Add numbers, arrays, objects with ``+``, or tuples of these."""
    if isinstance(a, tuple):
        return tuple(add(x, y) for x, y in zip(a, b, strict=True))
    return a + b


def larger_than_chunk(X: Bags) -> bool:
    """Whether bags are on disk and too large to be read at once."""
    if not X.on_disk:
        return False
    large = X.n_instances * X.n_features > _CHUNK_BYTES
    return large or X.dtype == np.float16


class RowsOnDisk:
    """Instances on disk as a matrix: multiplied in chunks, rows read on demand.

    Parameters
    ----------
    X : Bags
        The instances.
    extra : ndarray of shape (n_extra, n_features), default=None
        Rows in memory that follow them.
    """

    ndim = 2

    def __init__(self, X: Bags, extra: Any = None) -> None:
        self.X = X
        self.extra = np.empty((0, X.n_features)) if extra is None else extra

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return (self.X.n_instances + len(self.extra), self.X.n_features)

    def with_rows(self, rows: npt.NDArray[Any]) -> RowsOnDisk:
        """Return the matrix with more rows at its end."""
        return RowsOnDisk(self.X, np.vstack([self.extra, rows]))

    def __getitem__(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Read some rows."""
        n = self.X.n_instances
        out = np.empty((len(rows), self.X.n_features))
        stored = rows < n
        out[stored] = self.X.take_rows(rows[stored])
        out[~stored] = self.extra[rows[~stored] - n]
        return out

    def __matmul__(self, vector: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Multiply with a vector, in one pass."""
        parts = [chunk.X.data @ vector for chunk in Chunks(self.X)]
        return np.concatenate([*parts, self.extra @ vector])

    def __rmatmul__(self, weights: Any) -> npt.NDArray[np.float64]:
        """Combine the rows, in one pass; `weights` is a CSR matrix or a vector."""
        n, row = self.X.n_instances, 0
        columns = weights.tocsc() if sp.issparse(weights) else weights
        total = columns[..., n:] @ self.extra
        for chunk in Chunks(self.X):
            data = chunk.X.data.astype(np.float64, copy=False)
            total = total + columns[..., row : row + len(data)] @ data
            row += len(data)
        return np.asarray(total)

    @property
    def T(self) -> _Transposed:
        """The transposed matrix, to be multiplied with vectors."""
        return _Transposed(self)


class _Transposed:
    def __init__(self, rows: RowsOnDisk) -> None:
        self.rows = rows

    def __matmul__(self, vector: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        return self.rows.__rmatmul__(vector)


@dataclass(frozen=True)
class Moments:
    """Weight, mean and scatter of rows; those of two pieces add without cancellation.

    Attributes
    ----------
    weight : float
        Number of rows, or the sum of their weights.
    mean : ndarray of shape (n_columns,)
        Their mean.
    scatter : ndarray of shape (n_columns, n_columns)
        Sum of the outer products of the centered rows.
    """

    weight: float
    mean: npt.NDArray[np.float64]
    scatter: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls,
        rows: npt.NDArray[Any],
        weight: npt.NDArray[np.float64] | None = None,
        *,
        single: bool = False,
    ) -> Moments:
        """Measure the rows of one piece.

        With `single`, rows that were stored in half precision are multiplied in single
        precision: their own rounding is a thousand times larger.
        """
        if not single:
            rows = rows.astype(np.float64, copy=False)
        if weight is None:
            mean = rows.mean(axis=0, dtype=np.float64)
            centered = rows - mean.astype(rows.dtype, copy=False)
            scatter = (centered.T @ centered).astype(np.float64, copy=False)
            return cls(float(len(rows)), mean, scatter)
        total = float(weight.sum())
        mean = weight @ rows / total
        centered = np.sqrt(weight)[:, None] * (rows - mean)
        return cls(total, mean, centered.T @ centered)

    def __add__(self, other: Moments) -> Moments:
        """Combine the moments of two pieces."""
        total = self.weight + other.weight
        gap = other.mean - self.mean
        scatter = self.scatter + other.scatter
        scatter += (self.weight * other.weight / total) * np.outer(gap, gap)
        return Moments(total, self.mean + gap * (other.weight / total), scatter)
