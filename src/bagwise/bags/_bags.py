"""The container of bags: one stacked matrix and the offsets of its bags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bagwise._later import sparse as sp
from bagwise._sizes import check_memory
from bagwise.bags.codings import (
    Coding,
    Codings,
    check_codings,
    joined_codings,
    texts_of,
)
from bagwise.bags.segmented import Offsets, Segmented, check_offsets, read_only
from bagwise.bags.stored import StoredRows, forget_pages, map_behind, widened
from bagwise.bags.validation import (
    as_matrix,
    column_order,
    frozen,
    group_rows,
    joined,
    names,
    of_frames,
    one_per_bag,
    part,
    places,
    refuse_missing_group,
    rows_of_bags,
    stack_list,
)

# Rows read from a memory map before its pages are released.
_ROWS_AT_ONCE = 1000


class Bags(Segmented):
    """Bags of instances, stacked in one matrix.

    The instances of bag ``i`` are the rows ``data[offsets[i]:offsets[i + 1]]``. The
    container is immutable and indexes like a list of 2-D arrays, so that
    scikit-learn's splitters, searches and pipelines work on it: an int gives the
    matrix of one bag, a contiguous slice gives `Bags` on a view, and an index array
    or a mask gives `Bags` on a copy. Large selections from a memory map stay on disk.

    Parameters
    ----------
    data : array-like or sparse matrix of shape (n_instances, n_features)
        All instances, bag after bag. A C-contiguous matrix of floats (also a memory
        map) is used without a copy; everything else is converted. Half precision is for
        storage only: methods that read in chunks convert each chunk, all others compute
        with float32. Sparse input becomes CSR.
    offsets : array-like of shape (n_bags + 1,)
        Row at which each bag begins, and the number of rows at the end.
    ids : array-like of shape (n_bags,), default=None
        Names of the bags; 0, 1, 2, ... by default.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of the columns.
    groups : array-like of shape (n_bags,), default=None
        Group of each bag, such as a patient or a compound. Bags of one group are
        never split across folds.
    instance_ids : array-like of shape (n_instances,), default=None
        Names of the instances, in the order of the rows.
    coords : array-like of shape (n_instances, k), default=None
        Position of each instance, such as the corner of a patch in a slide. No method
        learns from it.
    instance_types : array-like of shape (n_instances,), default=None
        The type of each instance, such as the type of a cell. No method learns from
        them; reports and explanations summarize scores per type.
    codings : dict of int to Coding, default=None
        The meaning of the numbers in columns that are categories, texts or dates, by
        the position of the column, as created by `bagwise.from_frame`. Methods that
        need numbers refuse such bags: put `bagwise.compose.EncodeColumns` before them.
    bag_rows : array-like of shape (n_bags, k), default=None
        One row per bag that describes the bag as a whole, such as the 2-D fingerprint
        of a molecule. Only ``SimpleMI(pooling="bag_rows")`` learns from it.
    bag_features : sequence of str, default=()
        Names of columns that describe the bag and are intentionally constant within it.

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

    _codings: Mapping[int, Coding] = MappingProxyType({})
    _bag_rows: npt.NDArray[Any] | None = None
    _bag_features: tuple[str, ...] = ()

    def __init__(
        self,
        data: Any,
        offsets: npt.ArrayLike,
        *,
        ids: npt.ArrayLike | None = None,
        feature_names: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        instance_ids: npt.ArrayLike | None = None,
        coords: npt.ArrayLike | None = None,
        instance_types: npt.ArrayLike | None = None,
        codings: Mapping[int, Coding] | None = None,
        bag_rows: npt.ArrayLike | None = None,
        bag_features: Sequence[str] = (),
    ) -> None:
        self._stacked = as_matrix(data)
        self._offsets = check_offsets(offsets, self._stacked.shape[0])
        self._ids = names(ids, self.n_bags, "ids", "bags")
        self._feature_names = names(
            feature_names, self.n_features, "feature_names", "features"
        )
        self._groups = names(groups, self.n_bags, "groups", "bags")
        refuse_missing_group(self._groups)
        n = self.n_instances
        self._instance_ids = names(instance_ids, n, "instance_ids", "instances")
        self._coords = places(coords, n)
        self._instance_types = names(instance_types, n, "instance_types", "instances")
        if codings:
            self._codings = check_codings(codings, self._stacked)
        if bag_rows is not None:
            self._bag_rows = rows_of_bags(bag_rows, self.n_bags)
        if bag_features:
            self._bag_features = tuple(map(str, bag_features))

    @classmethod
    def from_list(
        cls,
        bags: Sequence[Any],
        *,
        ids: npt.ArrayLike | None = None,
        feature_names: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        instance_ids: npt.ArrayLike | None = None,
        coords: npt.ArrayLike | None = None,
        instance_types: npt.ArrayLike | None = None,
    ) -> Self:
        """Stack a list with one 2-D array (or sparse matrix) per bag.

        Parameters
        ----------
        bags : sequence of arrays or sparse matrices of shape (n_i, n_features)
            The bags. Data frames must have the same columns, in any order; their names
            become `feature_names`. A list of strings is a bag of texts, for
            ``OnInstances(TfidfVectorizer())``.
        ids, feature_names, groups, instance_ids, coords, instance_types
            As for `Bags`; those of instances are stacked, bag after bag.

        Returns
        -------
        Bags
            The bags, in the order of the list.
        """
        bags, columns = of_frames(list(bags))
        feature_names = columns if feature_names is None else feature_names
        texts, codings = texts_of(bags), None
        if texts is None:
            data, offsets = stack_list(bags)
        else:
            coding, codes = Coding.of(texts, "text")
            data, codings = codes[:, None], {0: coding}
            offsets = np.cumsum([0, *map(len, bags)])
        return cls(
            data,
            offsets,
            ids=ids,
            feature_names=feature_names,
            groups=groups,
            instance_ids=instance_ids,
            coords=coords,
            instance_types=instance_types,
            codings=codings,
        )

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        bag_ids: npt.ArrayLike,
        *,
        feature_names: Any = None,
        groups: npt.ArrayLike | None = None,
        instance_ids: npt.ArrayLike | None = None,
        coords: npt.ArrayLike | None = None,
        instance_types: npt.ArrayLike | None = None,
    ) -> Self:
        """Group the rows of `X` by `bag_ids`, which need not be sorted.

        The bags come in the order in which their ids appear first, their instances in
        the order of the rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            One row per instance.
        bag_ids : array-like of shape (n_rows,)
            The bag of each row.
        feature_names : array-like of str of shape (n_features,), default=None
            Names of the columns.
        groups : array-like of shape (n_rows,), default=None
            The group of each row; all rows of a bag must have the same.
        instance_ids : array-like of shape (n_rows,), default=None
            The name of each row.
        coords : array-like of shape (n_rows, k), default=None
            Position of each row.
        instance_types : array-like of shape (n_rows,), default=None
            The type of each row.

        Returns
        -------
        Bags
            The bags, with `bag_ids` as their `ids`.
        """
        data, offsets, ids, order = group_rows(X, bag_ids)
        n_rows = int(offsets[-1])
        labels = names(instance_ids, n_rows, "instance_ids", "rows")
        where = places(coords, n_rows)
        types = names(instance_types, n_rows, "instance_types", "rows")
        per_row = names(groups, n_rows, "groups", "rows")
        if per_row is not None:
            per_row = one_per_bag(per_row[order], offsets, ids, "groups")
        return cls(
            data,
            offsets,
            ids=ids,
            feature_names=feature_names,
            groups=per_row,
            instance_ids=None if labels is None else labels[order],
            coords=None if where is None else where[order],
            instance_types=None if types is None else types[order],
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Bags]) -> Self:
        """Concatenate the bags of several containers.

        Parameters
        ----------
        parts : sequence of Bags
            Containers with the same features; columns with names are rearranged in the
            order of the first part. Either all or none of them have groups, and names,
            coordinates and types of instances.

        Returns
        -------
        Bags
            All bags, with the feature names of the first part.
        """
        if not parts:
            raise ValueError("There is nothing to concatenate: the list is empty.")
        widths = {p.n_features for p in parts}
        if len(widths) > 1:
            raise ValueError(
                "All parts must have the same number of features, got "
                f"{sorted(widths)}."
            )
        parts = [p._like(parts[0], f"part {i}") for i, p in enumerate(parts)]
        sparse = any(p.is_sparse for p in parts)
        stack = sp.vstack if sparse else np.concatenate
        data, codings = joined_codings(parts)
        sizes = np.concatenate([p.sizes for p in parts])
        return cls(
            stack(data),
            np.concatenate([[0], np.cumsum(sizes)]),
            ids=np.concatenate([p.ids for p in parts]),
            feature_names=parts[0].feature_names,
            groups=joined(parts, "groups"),
            instance_ids=joined(parts, "instance_ids"),
            coords=joined(parts, "coords"),
            instance_types=joined(parts, "instance_types"),
            codings=codings,
            bag_rows=joined(parts, "bag_rows"),
        )

    def _like(self, first: Bags, what: str) -> Bags:
        """Return these bags with their columns in the order of others'."""
        if first.feature_names is None or self.feature_names is None:
            return self
        wanted = first.feature_names.tolist()
        order = column_order(wanted, self.feature_names.tolist(), what, "part 0")
        if order is None:
            return self
        return self.take_columns(order)

    @property
    def data(self) -> Any:
        """The stacked instances (read-only), dense or CSR.

        Reads all of them where the bags are a selection that stayed on disk;
        `iter_chunks` does not.
        """
        if isinstance(self._stacked, StoredRows):
            return read_only(self._stacked.read())
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
        """float64, float32, or float16 (for storage only)."""
        return self._stacked.dtype

    @property
    def on_disk(self) -> bool:
        """Whether the instances lie in a memory map."""
        return map_behind(self._stacked) is not None

    @property
    def ids(self) -> npt.NDArray[Any]:
        """Names of the bags."""
        return np.arange(self.n_bags) if self._ids is None else self._ids

    @property
    def feature_names(self) -> npt.NDArray[Any] | None:
        """Names of the columns, or None."""
        return self._feature_names

    @property
    def groups(self) -> npt.NDArray[Any] | None:
        """What the bags belong to, or None."""
        return self._groups

    @property
    def instance_ids(self) -> npt.NDArray[Any] | None:
        """Names of the instances, or None."""
        return self._instance_ids

    @property
    def coords(self) -> npt.NDArray[np.float64] | None:
        """Where each instance lies, shape (n_instances, k), or None."""
        return self._coords

    @property
    def instance_types(self) -> npt.NDArray[Any] | None:
        """Types of the instances, or None."""
        return self._instance_types

    @property
    def bag_rows(self) -> npt.NDArray[Any] | None:
        """One row per bag that describes it without its instances, or None."""
        return self._bag_rows

    @property
    def bag_features(self) -> tuple[str, ...]:
        """Names of columns that describe the bag, repeated for its instances."""
        return self._bag_features

    @property
    def codings(self) -> Codings:
        """What columns that are not numbers stand for, by their position."""
        return MappingProxyType(self._codings)

    def decoded(self) -> npt.NDArray[Any]:
        """Return all instances with the texts and dates that codes stand for.

        Returns
        -------
        ndarray of object of shape (n_instances, n_features)
            The rows; the plain matrix, `data`, if all columns are numbers.
        """
        if not self._codings:
            return self.data
        rows = self.data.astype(object)
        for j, coding in self._codings.items():
            rows[:, j] = coding.decode(self.data[:, j])
        return rows

    def with_data(
        self,
        data: Any,
        *,
        feature_names: Any = None,
        codings: Mapping[int, Coding] | None = None,
    ) -> Self:
        """Return the same bags with another matrix of as many rows.

        Parameters
        ----------
        data : array-like or sparse matrix of shape (n_instances, k)
            The other matrix.
        feature_names : array-like of str of shape (k,), default=None
            Names of its columns.
        codings : dict of int to Coding, default=None
            What columns that are not numbers stand for.

        Returns
        -------
        Bags
            With the ids, groups, names, coordinates and types of these.
        """
        return type(self)(
            data,
            self._offsets,
            ids=self._ids,
            feature_names=feature_names,
            groups=self._groups,
            instance_ids=self._instance_ids,
            coords=self._coords,
            instance_types=self._instance_types,
            codings=codings,
            bag_rows=self._bag_rows,
        )

    def take_columns(self, columns: Sequence[int] | npt.NDArray[np.int64]) -> Self:
        """Return the same bags with some columns, in another order.

        Parameters
        ----------
        columns : sequence of int
            Positions of the columns.

        Returns
        -------
        Bags
            With their names and codings.
        """
        names, known = self._feature_names, self._codings
        return self.with_data(
            self.data[:, columns],
            feature_names=None if names is None else names[columns],
            codings={i: known[j] for i, j in enumerate(columns) if j in known},
        )

    def with_groups(self, groups: npt.ArrayLike | None) -> Self:
        """Return the same bags with other groups.

        Parameters
        ----------
        groups : array-like of shape (n_bags,) or None
            The groups; None removes them.

        Returns
        -------
        Bags
            On the same matrix.
        """
        out = self._rebuild(self._stacked, self._offsets, slice(None), slice(None))
        out._groups = names(groups, self.n_bags, "groups", "bags")
        refuse_missing_group(out._groups)
        return out

    def take_rows(self, rows: npt.NDArray[Any]) -> Any:
        """Return some instances by their row numbers, without reading the others.

        Parameters
        ----------
        rows : ndarray of int
            Row numbers in the stacked matrix.

        Returns
        -------
        ndarray or CSR matrix of shape (len(rows), n_features)
            The instances; half precision becomes float32.
        """
        if not self.on_disk or len(rows) <= _ROWS_AT_ONCE:
            found = self._stacked[rows]
            if sp.issparse(found):
                return found
            found = np.asarray(found)
            return widened(found) if found.dtype == np.float16 else found
        # Scattered rows load whole pages, which are released in between.
        kind = np.float32 if self.dtype == np.float16 else self.dtype
        out = np.empty((len(rows), self.n_features), dtype=kind)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            out[some] = self._stacked[rows[some]]
            forget_pages(self._stacked)
        return out

    def in_memory(self) -> Self:
        """Return the same bags with the instances in memory, at least in float32.

        Returns
        -------
        Bags
            These bags if they are in memory already.
        """
        half = self.dtype == np.float16
        if not (self.on_disk or half):
            return self
        check_memory(
            float(self.n_instances) * self.n_features * (4 if half else 8),
            f"The {self.n_instances} instances of {self.n_bags} bags",
            "Use a method that reads bags in chunks, or SampleInstances before.",
        )
        if half:
            data: Any = widened(np.asarray(self._stacked))
        else:
            data = np.array(self._stacked, dtype=self.dtype)
        out = self._rebuild(data, self._offsets, slice(None), slice(None))
        forget_pages(self._stacked)
        return out

    def to_list(self) -> list[Any]:
        """Return the bags as a list of matrices (views).

        Returns
        -------
        list of ndarray or sparse matrix
            One matrix per bag.
        """
        return list(self)

    def iter_chunks(self, max_instances: int) -> Iterator[Self]:
        """Yield whole bags in chunks of at most `max_instances` instances, as views.

        A bag that is larger than `max_instances` makes a chunk of its own. On a
        memory map, only one chunk at a time needs to be in memory.

        Parameters
        ----------
        max_instances : int
            Maximum number of instances of a chunk.

        Yields
        ------
        Bags
            The chunks, in the order of the bags.
        """
        if max_instances < 1:
            raise ValueError(f"max_instances must be at least 1, got {max_instances}.")
        start = 0
        while start < self.n_bags:
            limit = self._offsets[start] + max_instances
            stop = int(np.searchsorted(self._offsets, limit, side="right")) - 1
            stop = max(stop, start + 1)
            chunk = self[start:stop]
            if isinstance(chunk._stacked, StoredRows):
                chunk._stacked = read_only(chunk._stacked.view_or_read())
            yield chunk
            forget_pages(self._stacked)
            start = stop

    def _rebuild(self, stacked: Any, offsets: Offsets, bags: Any, rows: Any) -> Self:
        out = type(self).__new__(type(self))
        out._stacked = frozen(stacked)
        out._offsets = read_only(offsets)
        out._ids = read_only(self.ids[bags])
        out._feature_names = self._feature_names
        out._groups = part(self._groups, bags)
        out._instance_ids = part(self._instance_ids, rows)
        out._coords = part(self._coords, rows)
        out._instance_types = part(self._instance_types, rows)
        if self._codings:
            out._codings = self._codings
        if self._bag_rows is not None:
            out._bag_rows = part(self._bag_rows, bags)
        if self._bag_features:
            out._bag_features = self._bag_features
        return out

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        """Raise: bags are not a rectangular array."""
        raise TypeError(
            "Bags cannot become one array: bags have different sizes. Use X.data for "
            "the stacked instances, or an estimator made for bags (to use a "
            "scikit-learn transformer on the instances: OnInstances(transformer); in "
            "place of permutation_importance: "
            "bagwise.inspection.bag_permutation_importance)."
        )

    def __repr__(self) -> str:
        """Show the sizes."""
        sparse = ", sparse" if self.is_sparse else ""
        if self._groups is not None:
            sparse += f", {len(set(self._groups.tolist()))} groups"
        return (
            f"Bags(n_bags={self.n_bags}, n_instances={self.n_instances}, "
            f"n_features={self.n_features}, {self._size_summary()}{sparse})"
        )

    def _repr_html_(self) -> str:
        """Return the sizes and the first bags as HTML."""
        from bagwise.bags.notebook import bags_html

        return str(bags_html(self))
