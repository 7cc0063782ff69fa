"""Tables whose cells are lists: a vector an instance, or a whole bag a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.io._errors import TableError


def one_row_an_instance(frame: Any, source: str = "") -> Any:
    """Unfold rows that hold a whole bag: columns of lists of lists.

    The columns of lists beside them, of the same lengths, are unfolded as well.
    """
    module = type(frame).__module__.split(".")[0]
    unfold = {
        "pyarrow": _unfold_arrow,
        "polars": _unfold_polars,
        "pandas": _unfold_pandas,
    }.get(module)
    return frame if unfold is None else unfold(frame, source)


def _refuse_empty(sizes: list[int | None], source: str) -> None:
    """Refuse rows without an instance, which would vanish with their labels."""
    empty = [row for row, size in enumerate(sizes) if not size]
    if not empty:
        return
    place = f"{source}: " if source else ""
    more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
    raise TableError(
        f"{place}row {empty[0]}{more} is a bag without instances. Leave it out of the "
        "table"
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
    """Whether the objects of a column are lists or arrays, all of them."""
    kinds = {type(v) for v in values.tolist() if not isinstance(v, str)}
    return bool(kinds) and kinds <= {list, np.ndarray}


def matrix_of_lists(series: Any) -> npt.NDArray[Any] | None:
    """Return lists of equal length as a matrix of their own type; None for others.

    Number by number would take a thousand times as long.
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
