"""The container of bags: one stacked matrix and the offsets of its bags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bagwise.bags._segmented import Offsets, Segmented, check_offsets, read_only
from bagwise.bags._stack import group_rows, stack_list


class Bags(Segmented):
    """Bags of instances, stacked in one matrix.

    The instances of bag ``i`` are the rows ``data[offsets[i]:offsets[i + 1]]``. The
    container is immutable and indexes like a list of 2-D arrays, so that
    scikit-learn's splitters, searches and pipelines work on it: an int gives the
    matrix of one bag, a contiguous slice gives `Bags` on a view, and an index array
    or a mask gives `Bags` on a copy.

    Parameters
    ----------
    data : array-like or sparse matrix of shape (n_instances, n_features)
        All instances, bag after bag. Kept as it is when it is a C-contiguous matrix
        of float32 or float64 (a memory map included); everything else is converted.
        Sparse input becomes CSR.
    offsets : array-like of shape (n_bags + 1,)
        Row at which each bag begins, and the number of rows at the end.
    ids : array-like of shape (n_bags,), default=None
        Names of the bags; 0, 1, 2, ... by default.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of the columns.

    See Also
    --------
    bagwise.from_frame : From a long table with a bag column.
    bagwise.read_bags : From a file.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> X = Bags.from_list([np.zeros((2, 3)), np.ones((4, 3))])
    >>> X
    Bags(n_bags=2, n_instances=6, n_features=3, sizes 2/3/4 (min/median/max))
    >>> X[1].shape
    (4, 3)
    """

    def __init__(
        self,
        data: Any,
        offsets: npt.ArrayLike,
        *,
        ids: npt.ArrayLike | None = None,
        feature_names: npt.ArrayLike | None = None,
    ) -> None:
        self._stacked = _as_matrix(data)
        self._offsets = check_offsets(offsets, self._stacked.shape[0])
        self._ids = None if ids is None else _names(ids, self.n_bags, "ids", "bags")
        self._feature_names = (
            None
            if feature_names is None
            else _names(feature_names, self.n_features, "feature_names", "features")
        )

    @classmethod
    def from_list(
        cls,
        bags: Sequence[Any],
        *,
        ids: npt.ArrayLike | None = None,
        feature_names: npt.ArrayLike | None = None,
    ) -> Self:
        """Stack a list with one 2-D array (or sparse matrix) per bag."""
        data, offsets = stack_list(bags)
        return cls(data, offsets, ids=ids, feature_names=feature_names)

    @classmethod
    def from_arrays(
        cls, X: Any, bag_ids: npt.ArrayLike, *, feature_names: Any = None
    ) -> Self:
        """Group the rows of `X` by `bag_ids`, which need not be sorted.

        The bags come in the order in which their ids appear first, their instances in
        the order of the rows.
        """
        data, offsets, ids, _ = group_rows(X, bag_ids)
        return cls(data, offsets, ids=ids, feature_names=feature_names)

    @classmethod
    def concatenate(cls, parts: Sequence[Bags]) -> Self:
        """Put the bags of several containers one after the other."""
        if not parts:
            raise ValueError("There is nothing to concatenate: the list is empty.")
        widths = {p.n_features for p in parts}
        if len(widths) > 1:
            raise ValueError(
                "All parts must have the same number of features, got "
                f"{sorted(widths)}."
            )
        sparse = any(p.is_sparse for p in parts)
        stack = sp.vstack if sparse else np.concatenate
        sizes = np.concatenate([p.sizes for p in parts])
        return cls(
            stack([p.data for p in parts]),
            np.concatenate([[0], np.cumsum(sizes)]),
            ids=np.concatenate([p.ids for p in parts]),
            feature_names=parts[0].feature_names,
        )

    @property
    def data(self) -> Any:
        """The stacked instances (read-only), dense or CSR."""
        return self._stacked

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self._stacked.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the instances are stored as CSR."""
        return bool(sp.issparse(self._stacked))

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self._stacked.dtype

    @property
    def ids(self) -> npt.NDArray[Any]:
        """Names of the bags."""
        return np.arange(self.n_bags) if self._ids is None else self._ids

    @property
    def feature_names(self) -> npt.NDArray[Any] | None:
        """Names of the columns, or None."""
        return self._feature_names

    def with_data(self, data: Any, *, feature_names: Any = None) -> Self:
        """Return the same bags with another matrix of as many rows."""
        return type(self)(
            data, self._offsets, ids=self._ids, feature_names=feature_names
        )

    def to_list(self) -> list[Any]:
        """Return the bags as a list of matrices (views)."""
        return list(self)

    def iter_chunks(self, max_instances: int) -> Iterator[Self]:
        """Give whole bags in chunks of at most `max_instances` instances, as views.

        A bag that is larger than `max_instances` makes a chunk of its own. On a
        memory map, only one chunk at a time needs to be in memory.
        """
        if max_instances < 1:
            raise ValueError(f"max_instances must be at least 1, got {max_instances}.")
        start = 0
        while start < self.n_bags:
            limit = self._offsets[start] + max_instances
            stop = int(np.searchsorted(self._offsets, limit, side="right")) - 1
            stop = max(stop, start + 1)
            yield self[start:stop]
            start = stop

    def _rebuild(self, stacked: Any, offsets: Offsets, bags: Any) -> Self:
        out = type(self).__new__(type(self))
        out._stacked = _frozen(stacked)
        out._offsets = read_only(offsets)
        out._ids = read_only(self.ids[bags])
        out._feature_names = self._feature_names
        return out

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        """Refuse: bags are no rectangular array, and numpy would guess."""
        raise TypeError(
            "Bags cannot become one array: bags have different sizes. Use X.data for "
            "the stacked instances, or an estimator made for bags (to use a "
            "scikit-learn transformer on the instances: OnInstances(transformer))."
        )

    def __repr__(self) -> str:
        """Show the sizes."""
        sparse = ", sparse" if self.is_sparse else ""
        return (
            f"Bags(n_bags={self.n_bags}, n_instances={self.n_instances}, "
            f"n_features={self.n_features}, {self._size_summary()}{sparse})"
        )

    def _repr_html_(self) -> str:
        """Show the sizes and the first bags as a table."""
        shown = min(self.n_bags, 5)
        rows = "".join(
            f"<tr><td>{escape(str(self.ids[i]))}</td><td>{self.sizes[i]}</td></tr>"
            for i in range(shown)
        )
        more = self.n_bags - shown
        if more > 0:
            rows += f"<tr><td colspan='2'>and {more} more</td></tr>"
        return (
            f"<p><code>{escape(repr(self))}</code></p><table><thead><tr><th>bag</th>"
            f"<th>instances</th></tr></thead><tbody>{rows}</tbody></table>"
        )


def _as_matrix(data: Any) -> Any:
    """Return `data` as a read-only float matrix, C-contiguous or CSR."""
    if sp.issparse(data):
        if data.dtype.kind not in "fiub":
            raise TypeError(f"data must be real numbers, got dtype {data.dtype}.")
        matrix = sp.csr_array(data) if isinstance(data, sp.sparray) else data.tocsr()
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return _frozen(matrix)
    array = np.asanyarray(data)
    if array.ndim != 2:
        raise ValueError(
            "data must be one matrix of shape (n_instances, n_features), got "
            f"{array.ndim} dimension(s). A list of bags goes into Bags.from_list."
        )
    if array.dtype.kind not in "fiub":
        array = _to_numbers(array)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if not array.flags.c_contiguous:  # (asking numpy would turn a memory map plain)
        array = np.ascontiguousarray(array)
    return _frozen(array)


def _to_numbers(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Convert an object or string matrix, naming the column that cannot be."""
    for j in range(array.shape[1]):
        try:
            array[:, j].astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"column {j} is not numeric ({error}). Encode it first, for instance "
                "with a one-hot encoding."
            ) from None
    return array.astype(np.float64)


def _frozen(matrix: Any) -> Any:
    """Make a matrix read-only without touching the caller's own array."""
    if not sp.issparse(matrix):
        return read_only(matrix)
    parts = (matrix.data, matrix.indices, matrix.indptr)
    frozen = type(matrix)(parts, shape=matrix.shape, copy=False)
    frozen.has_canonical_format = matrix.has_canonical_format
    frozen.data = read_only(frozen.data)
    return frozen


def _names(values: npt.ArrayLike, length: int, what: str, of: str) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or array.shape[0] != length:
        raise ValueError(
            f"{what} must have one entry for each of the {length} {of}, got shape "
            f"{array.shape}."
        )
    return read_only(array)
