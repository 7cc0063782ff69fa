"""A stacked array and offsets: what `Bags` and `Ragged` share, and `Ragged`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bagwise._later import sparse as sp
from bagwise.bags.stored import StoredRows, map_behind, select_rows

Offsets = npt.NDArray[np.int64]


def check_offsets(offsets: npt.ArrayLike, n_rows: int) -> Offsets:
    """Return `offsets` as a read-only int64 array, or raise an error."""
    array = np.ascontiguousarray(offsets)
    if array.ndim != 1 or array.size < 1 or array.dtype.kind not in "iu":
        raise ValueError(
            "offsets must be a 1-D array of integers with n_bags + 1 entries, "
            f"got shape {array.shape} and dtype {array.dtype}."
        )
    array = array.astype(np.int64, copy=False)
    if array[0] != 0 or array[-1] != n_rows:
        raise ValueError(
            f"offsets must begin with 0 and end with the number of rows ({n_rows}), "
            f"got {array[0]} ... {array[-1]}."
        )
    sizes = np.diff(array)
    if (sizes <= 0).any():
        bag = int(np.flatnonzero(sizes <= 0)[0])
        kind = "is empty" if sizes[bag] == 0 else "has a negative size"
        raise ValueError(
            f"bag {bag} {kind} (offsets {array[bag]} to {array[bag + 1]}): every bag "
            "needs at least one instance. Drop the bag and its label."
        )
    return read_only(array)


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view of `array` that cannot be written to (no copy)."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


class Segmented:
    """A stacked array plus offsets that indexes like a sequence of its segments.

    scikit-learn takes anything with `shape` for an array and indexes it with
    ``X[key, ...]``; without `shape`, splits silently become lists. Hence `shape`
    has the one entry `n_bags` and a tuple key is understood.
    """

    _stacked: Any
    _offsets: Offsets

    ndim = 1

    @property
    def offsets(self) -> Offsets:
        """Row at which each segment begins, and the number of rows at the end."""
        return self._offsets

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Number of instances of each bag."""
        return np.diff(self._offsets)

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return int(self._offsets.shape[0]) - 1

    @property
    def n_instances(self) -> int:
        """Number of instances of all bags together."""
        return int(self._offsets[-1])

    @property
    def shape(self) -> tuple[int]:
        """``(n_bags,)``: a container of bags is one-dimensional."""
        return (self.n_bags,)

    @property
    def bag_index(self) -> npt.NDArray[np.int64]:
        """The bag of each instance, shape (n_instances,)."""
        return np.repeat(np.arange(self.n_bags), self.sizes)

    def __len__(self) -> int:
        """Return the number of bags."""
        return self.n_bags

    def __iter__(self) -> Iterator[Any]:
        """Give the bags one after the other, as views."""
        for i in range(self.n_bags):
            yield self._rows_of(i)

    def __getitem__(self, key: Any) -> Any:
        """Index like a list: an int gives one bag, everything else a container."""
        if isinstance(key, tuple):
            key = self._only_first(key)
        if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
            return self._rows_of(self._position(int(key)))
        if isinstance(key, slice):
            return self._take_slice(key)
        return self._take(self._as_positions(key))

    def __copy__(self) -> Self:
        """Return self: it cannot change."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return self: it cannot change, so a copy would only cost memory."""
        return self

    def __sklearn_clone__(self) -> Self:
        """Return self, so that `sklearn.clone` does not copy the data."""
        return self

    def _rebuild(self, stacked: Any, offsets: Offsets, bags: Any, rows: Any) -> Self:
        """Make a container of the same kind from rows that are known to be sound.

        `bags` and `rows` say which ones of this container they are.
        """
        raise NotImplementedError

    def _rows_of(self, i: int) -> Any:
        rows = self._stacked[self._offsets[i] : self._offsets[i + 1]]
        return rows.read() if isinstance(rows, StoredRows) else rows

    def _take_slice(self, key: slice) -> Self:
        start, stop, step = key.indices(self.n_bags)
        if step != 1:
            return self._take(np.arange(start, stop, step))
        stop = max(start, stop)
        first, last = self._offsets[start], self._offsets[stop]
        offsets = self._offsets[start : stop + 1] - first
        rows = slice(int(first), int(last))
        return self._rebuild(self._stacked[rows], offsets, slice(start, stop), rows)

    def _take(self, positions: npt.NDArray[np.int64]) -> Self:
        sizes = self.sizes[positions]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        # Row r of the result comes from row r + shift of its bag.
        shift = self._offsets[positions] - offsets[:-1]
        rows = np.arange(offsets[-1]) + np.repeat(shift, sizes)
        if sp.issparse(self._stacked):
            stacked = self._stacked[rows]
        elif map_behind(self._stacked) is not None and len(positions):
            first = self._offsets[positions]
            stacked = select_rows(self._stacked, first, first + sizes)
        else:
            stacked = np.take(self._stacked, rows, axis=0)
        return self._rebuild(stacked, offsets, positions, rows)

    def _position(self, i: int) -> int:
        if not -self.n_bags <= i < self.n_bags:
            raise IndexError(f"bag {i} is out of range: there are {self.n_bags} bags")
        return i % self.n_bags

    def _only_first(self, key: tuple[Any, ...]) -> Any:
        """Reduce the key ``(bags, ...)`` that scikit-learn uses to ``bags``."""
        rest = [k for k in key if k is not Ellipsis]
        if len(rest) > 1:
            raise IndexError(
                f"{type(self).__name__} has one dimension, its bags, and got the key "
                f"{key!r}. Select features on the stacked matrix: "
                "X.with_data(X.data[:, columns])."
            )
        return rest[0] if rest else slice(None)

    def _as_positions(self, key: Sequence[Any]) -> npt.NDArray[np.int64]:
        index = np.asarray(key)
        if index.size == 0 and index.ndim == 1:
            return np.empty(0, dtype=np.int64)
        if index.ndim != 1 or index.dtype.kind not in "iub":
            raise IndexError(
                "bags are indexed by an int, a slice, a 1-D array of ints or a boolean "
                f"mask, got {type(key).__name__} of dtype {index.dtype} and "
                f"{index.ndim} dimensions"
            )
        if index.dtype.kind == "b":
            if index.shape[0] != self.n_bags:
                raise IndexError(
                    f"the boolean mask has {index.shape[0]} entries for "
                    f"{self.n_bags} bags"
                )
            return np.flatnonzero(index)
        index = index.astype(np.int64, copy=False)
        if index.min() < -self.n_bags or index.max() >= self.n_bags:
            wrong = index[(index < -self.n_bags) | (index >= self.n_bags)][0]
            raise IndexError(
                f"bag {wrong} is out of range: there are {self.n_bags} bags"
            )
        return np.where(index < 0, index + self.n_bags, index)

    def _size_summary(self) -> str:
        if not self.n_bags:
            return "no bags"
        s = self.sizes
        return f"sizes {s.min()}/{np.median(s):g}/{s.max()} (min/median/max)"


class Ragged(Segmented):
    """Values of instances, grouped by bag: the result of the instance methods.

    It is indexed like `Bags`: an int gives the values of one bag, a slice, an index
    array or a mask gives a `Ragged`.

    Parameters
    ----------
    values : array-like of shape (n_instances,) or (n_instances, n_columns)
        The values of all instances, stacked bag after bag.
    offsets : array-like of shape (n_bags + 1,)
        Row at which each bag begins, and the number of instances at the end.

    Examples
    --------
    >>> from bagwise import Ragged
    >>> scores = Ragged([0.1, 0.9, 0.4], [0, 2, 3])
    >>> scores[0]
    array([0.1, 0.9])
    >>> scores
    Ragged(n_bags=2, n_instances=3, sizes 1/1.5/2 (min/median/max))
    """

    def __init__(self, values: npt.ArrayLike, offsets: npt.ArrayLike) -> None:
        stacked = np.asarray(values)
        if stacked.ndim not in (1, 2):
            raise ValueError(f"values must have 1 or 2 dimensions, got {stacked.ndim}.")
        self._stacked = read_only(stacked)
        self._offsets = check_offsets(offsets, stacked.shape[0])

    @classmethod
    def from_list(cls, bags: list[npt.ArrayLike]) -> Self:
        """Stack one array of values per bag.

        Parameters
        ----------
        bags : list of array-like
            The values of each bag.

        Returns
        -------
        Ragged
            All of them.
        """
        arrays = [np.asarray(b) for b in bags]
        sizes = [0, *(a.shape[0] for a in arrays)]
        return cls(np.concatenate(arrays), np.cumsum(sizes))

    @property
    def values(self) -> npt.NDArray[Any]:
        """The stacked values (read-only)."""
        return self._stacked

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        return self._stacked.dtype

    def _repr_html_(self) -> str:
        """Return the values of the first bags and a histogram as HTML."""
        from bagwise.bags.notebook import ragged_html

        return str(ragged_html(self))

    def to_list(self) -> list[npt.NDArray[Any]]:
        """Return the bags as a list of arrays (views).

        Returns
        -------
        list of ndarray
            One array per bag.
        """
        return list(self)

    def _rebuild(self, stacked: Any, offsets: Offsets, bags: Any, rows: Any) -> Self:
        out = type(self).__new__(type(self))
        out._stacked = read_only(stacked)
        out._offsets = read_only(offsets)
        return out

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        """Raise: the caller must choose between stacked values and a list."""
        raise TypeError(
            "A Ragged holds bags of different sizes, not a rectangular array. Use "
            ".values for the stacked values or .to_list() for one array per bag."
        )

    def __repr__(self) -> str:
        """Show the sizes."""
        return (
            f"Ragged(n_bags={self.n_bags}, n_instances={self.n_instances}, "
            f"{self._size_summary()})"
        )
