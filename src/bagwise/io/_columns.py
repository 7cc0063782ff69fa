"""A data frame of any library as a table of columns, one row per instance."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.exceptions import DataError
from bagwise.io.table import Column, Table, is_missing


def frame_table(frame: Any, source: str = "") -> Table:
    """Return a frame of any library as a table of columns."""
    import narwhals.stable.v1 as nw

    _refuse_doubled_names(frame, source)
    table = nw.from_native(one_row_per_instance(frame, source), eager_only=True)
    return Table(
        names=list(table.columns),
        n_rows=len(table),
        column=lambda name: _column(table.get_column(name)),
        where=lambda row: f"row {row}",
        source=source,
    )


def _refuse_doubled_names(frame: Any, source: str) -> None:
    """Refuse a frame of which two columns could not be distinguished."""
    named = "column_names" if hasattr(frame, "column_names") else "columns"
    names = getattr(frame, named, ())  # (the columns of pyarrow are arrays)
    doubled = [name for name, n in Counter(map(str, names)).items() if n > 1]
    if doubled:
        place = f"{source}: " if source else ""
        problem = f"{place}two columns are called {doubled[0]!r}. Rename one of them"
        raise DataError(problem, columns=doubled)


def _column(series: Any) -> Column:
    """Return a column in the same form for every library."""
    import narwhals.stable.v1 as nw

    dtype, name = series.dtype, str(series.dtype)
    if dtype == nw.Boolean or dtype.is_numeric():
        if series.is_null().any():
            # (pandas' own nullable numbers would become objects)
            values = series.cast(nw.Float64).fill_null(float("nan")).to_numpy()
            return Column("number", np.asarray(values, dtype=np.float64), name)
        values = np.asarray(series.to_numpy())
        if values.dtype.kind == "O":  # decimals
            values = np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
        return Column("number", values, name)
    if dtype.is_temporal() and dtype not in (nw.Date, nw.Datetime):  # durations
        return Column("other", series.to_numpy(), name)
    if dtype.is_temporal():
        dates = np.asarray(series.to_numpy())
        if dates.dtype.kind == "M":  # (nanoseconds would become numbers)
            dates = dates.astype("datetime64[us]")
        return Column("date", dates.astype(object), name)
    rows = matrix_of_lists(series.to_native())
    if rows is not None:
        return Column("rows", rows, name)
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    if isinstance(dtype, nw.List | nw.Array) or holds_lists(values):
        return _column_of_lists(values, name)
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return Column("text", values, name)
    return _column_of_objects(values, name)


def _column_of_lists(values: npt.NDArray[Any], name: str) -> Column:
    """Make a matrix of lists of numbers of equal length."""
    lengths = {len(v) if v is not None else -1 for v in values.tolist()}
    if len(lengths) == 1 and min(lengths) > 0:
        try:
            rows = np.array([np.asarray(v) for v in values.tolist()])
        except ValueError:
            return Column("other", values, name)
        if rows.ndim == 2 and rows.dtype.kind in "fiub":
            return Column("rows", rows, name)
        return Column("other", values, name)
    told = " and ".join(str(n) for n in sorted(lengths)[:3])
    return Column("other", values, f"lists of different lengths, {told}")


def _column_of_objects(values: npt.NDArray[Any], name: str) -> Column:
    """Find what a column of Python objects holds: numbers, text or something else."""
    kinds = {type(v) for v in values.tolist() if not is_missing(v)}
    if kinds and kinds <= {str}:
        return Column("text", values, "text")
    if kinds and kinds <= {bool, int, float, np.bool_, np.int64, np.float64}:
        numbers = [np.nan if v is None else v for v in values.tolist()]
        whole = all(isinstance(v, bool | np.bool_) for v in numbers)
        return Column("number", np.array(numbers, bool if whole else float), name)
    if any(k.__name__ in ("date", "datetime", "Timestamp", "time") for k in kinds):
        return Column("date", values, "dates")
    if not kinds:
        return Column("number", np.full(len(values), np.nan), name)
    listed = " and ".join(sorted(k.__name__ for k in kinds))
    return Column("text" if str in kinds else "other", values, listed)


# -------------------------------------------------------- cells that hold lists


def one_row_per_instance(frame: Any, source: str = "") -> Any:
    """Unfold rows that hold a whole bag: columns of lists of lists.

    Other columns of lists, of the same lengths, are unfolded as well.
    """
    module = type(frame).__module__.split(".")[0]
    unfold = {
        "pyarrow": _unfold_arrow,
        "polars": _unfold_polars,
        "pandas": _unfold_pandas,
    }.get(module)
    return frame if unfold is None else unfold(frame, source)


def _refuse_empty(sizes: list[int | None], source: str) -> None:
    """Refuse rows without an instance, which would be lost with their labels."""
    empty = [row for row, size in enumerate(sizes) if not size]
    if not empty:
        return
    place = f"{source}: " if source else ""
    more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
    raise DataError(
        f"{place}row {empty[0]}{more} is a bag without instances. Remove it from the "
        "table",
        row=f"row {empty[0]}",
    )


def _unfold_arrow(frame: Any, source: str) -> Any:
    import pyarrow as pa
    import pyarrow.types as pt

    def is_list(kind: Any) -> bool:
        return bool(pt.is_list(kind) or pt.is_large_list(kind))

    nested = [
        f.name
        for f in frame.schema
        if is_list(f.type)
        and (is_list(f.type.value_type) or pt.is_fixed_size_list(f.type.value_type))
    ]
    if not nested:
        return frame
    import pyarrow.compute as pc

    parents = pc.list_parent_indices(frame[nested[0]].combine_chunks())
    sizes = pc.list_value_length(frame[nested[0]]).combine_chunks()
    _refuse_empty(sizes.to_pylist(), source)
    columns = {}
    for f in frame.schema:
        column = frame[f.name].combine_chunks()
        if is_list(f.type) and pc.list_value_length(column).equals(sizes):
            columns[f.name] = pc.list_flatten(column)
        else:
            columns[f.name] = column.take(parents)
    return pa.table(columns)


def _unfold_polars(frame: Any, source: str) -> Any:
    import polars as pl

    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    nested = [n for n in lists if isinstance(frame.schema[n].inner, pl.List | pl.Array)]
    if not nested:
        return frame
    sizes = frame[nested[0]].list.len()
    _refuse_empty(sizes.to_list(), source)
    return frame.explode([n for n in lists if frame[n].list.len().equals(sizes)])


def _unfold_pandas(frame: Any, source: str) -> Any:
    def first(column: Any) -> Any:
        return next((cells[0] for cells in column if len(cells)), None)

    objects = [n for n in frame.columns if frame[n].dtype == object]
    lists = [n for n in objects if len(frame) and holds_lists(frame[n].to_numpy())]
    nested = [n for n in lists if isinstance(first(frame[n]), list | np.ndarray)]
    if not nested:
        return frame
    sizes = frame[nested[0]].map(len).to_numpy()
    _refuse_empty(sizes.tolist(), source)
    out = frame.loc[frame.index.repeat(sizes)].reset_index(drop=True)
    for name in lists:
        if (frame[name].map(len).to_numpy() == sizes).all():
            cells = np.empty(len(out), dtype=object)
            cells[:] = [cell for row in frame[name] for cell in row]
            out[name] = cells
    return out


def holds_lists(values: npt.NDArray[Any]) -> bool:
    """Whether all objects of a column are lists or arrays."""
    kinds = {type(v) for v in values.tolist() if not isinstance(v, str)}
    return bool(kinds) and kinds <= {list, np.ndarray}


def matrix_of_lists(series: Any) -> npt.NDArray[Any] | None:
    """Return lists of equal length as a matrix of their type; None for other columns.

    Converting the numbers one by one would take a thousand times as long.
    """
    module = type(series).__module__.split(".")[0]
    if module == "pyarrow":
        import pyarrow.compute as pc
        import pyarrow.types as pt

        kind = series.type
        if not (
            pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)
        ):
            return None
        if not (pt.is_floating(kind.value_type) or pt.is_integer(kind.value_type)):
            return None
        lengths = pc.unique(pc.list_value_length(series)).to_pylist()
        if len(lengths) != 1 or not lengths[0]:
            return None
        flat = pc.list_flatten(series).combine_chunks()
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, lengths[0])
    if module == "polars":
        import polars as pl

        kind = series.dtype
        if not isinstance(kind, pl.List | pl.Array) or not kind.inner.is_numeric():
            return None
        if series.null_count():
            return None
        if isinstance(kind, pl.List):
            lengths = series.list.len().unique().to_list()
            if len(lengths) != 1 or not lengths[0]:
                return None
            series = series.list.to_array(lengths[0])
        rows = np.asarray(series.to_numpy())
        return rows if rows.ndim == 2 else None
    return None
