"""Long tables with a bag column, in and out, for any data-frame library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bagwise.bags import Bags
from bagwise.io._assemble import bags_from_table
from bagwise.io._lists import holds_lists, matrix_of_lists, one_row_an_instance
from bagwise.io.positive import positive_or_not
from bagwise.io.roles import Roles
from bagwise.io.table import Column, Table, is_missing


def from_frame(
    frame: Any,
    bag: str,
    label: str | None = None,
    *,
    pos_label: Any = None,
    group: str | None = None,
    instance_id: str | None = None,
    weight: str | None = None,
    coords: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    missing: Literal["error", "keep"] = "error",
) -> Any:
    """Turn a long table, one row per instance, into bags.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
        One row per instance. A column may hold lists of one length, the vectors of the
        instances; where its cells are lists of lists, a row is a whole bag.
    bag : str
        The column that says which bag a row belongs to. Rows of a bag need not stand
        together.
    label : str, default=None
        The column with the label of the bag, constant inside every bag. Labels stay
        what they are: numbers, booleans or text.
    pos_label : label, default=None
        The positive one of two labels: `y` is 1 for it and 0 for the other.
    group : str, default=None
        The column that says which bags belong together (a patient, a compound),
        constant inside every bag. Splits made by bagwise never part a group.
    instance_id : str, default=None
        The column with the names of the rows.
    weight : str, default=None
        The column with the weight of the bag, constant inside every bag.
    coords : sequence of str, default=None
        The columns that say where an instance lies, such as ``["x", "y"]``. Lists that
        are called ``coords`` or ``coordinates`` are taken by themselves.
    features : sequence of str, default=None
        The feature columns; by default all that play no other part.
    drop : sequence of str, default=()
        Columns that play no part at all.
    missing : {"error", "keep"}, default="error"
        What happens to missing values in features: they are refused, or become NaN
        for an imputer to fill.

    Returns
    -------
    X : Bags
        The bags in the order of first appearance, with ids and feature names, and
        with groups, names of instances and coordinates where asked for.
    y : ndarray of shape (n_bags,)
        The labels. Only when `label` is given.
    sample_weight : ndarray of shape (n_bags,)
        The weights. Only when `weight` is given.

    Raises
    ------
    TableError
        The table cannot become bags. Columns that are no numbers are listed all at
        once, with the argument that leaves them out.

    Examples
    --------
    >>> import pandas as pd
    >>> import bagwise
    >>> df = pd.DataFrame({"mol": ["a", "a", "b"], "u": [1.0, 2, 3], "y": [1, 1, 0]})
    >>> X, y = bagwise.from_frame(df, bag="mol", label="y")
    >>> X.ids, y
    (array(['a', 'b'], dtype=object), array([1, 0]))
    """
    roles = Roles.of(
        bag=bag,
        label=label,
        group=group,
        instance_id=instance_id,
        weight=weight,
        coords=coords,
        features=features,
        drop=drop,
        missing=missing,
    )
    X, y, sample_weight = bags_from_table(frame_table(frame), roles)
    if pos_label is not None:
        y = positive_or_not(y, pos_label)
    found = (X, *(part for part in (y, sample_weight) if part is not None))
    return found if len(found) > 1 else X


def frame_table(frame: Any, source: str = "") -> Table:
    """Look at a frame of any library as a table of columns."""
    import narwhals.stable.v1 as nw

    table = nw.from_native(one_row_an_instance(frame, source), eager_only=True)
    return Table(
        names=list(table.columns),
        n_rows=len(table),
        column=lambda name: _column(table[name]),
        where=lambda row: f"row {row}",
        source=source,
    )


def _column(series: Any) -> Column:
    """Give a column one form, whichever library it comes from."""
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
    if dtype.is_temporal():
        return Column("date", np.asarray(series.to_numpy()).astype(object), name)
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
    """Tell what a column of Python objects holds: numbers, text or something else."""
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


def to_frame(
    X: Bags,
    y: npt.ArrayLike | None = None,
    *,
    bag: str = "bag",
    label: str = "label",
    group: str = "group",
    instance_id: str = "instance_id",
    coords: Sequence[str] | None = None,
    backend: Literal["pandas", "polars", "pyarrow"] = "pandas",
) -> Any:
    """Turn bags into a long table, one row per instance; undoes `from_frame`.

    Parameters
    ----------
    X : Bags
        The bags; sparse ones become dense columns.
    y : array-like of shape (n_bags,), default=None
        Labels to repeat on every row of their bag.
    bag, label, group, instance_id : str
        Names of the columns of bags and labels and, where the bags have them, of
        groups and of names of instances.
    coords : sequence of str, default=None
        Names of the columns of coordinates, where the bags have them; ``x``, ``y``,
        ``z`` by default.
    backend : {"pandas", "polars", "pyarrow"}, default="pandas"
        The library of the table.

    Returns
    -------
    table : pandas, polars or pyarrow table
        The long table.
    """
    import narwhals.stable.v1 as nw

    names = X.feature_names
    if names is None:
        names = np.array([f"x{j}" for j in range(X.n_features)], dtype=object)
    dense = X.data.toarray() if X.is_sparse else X.data
    columns: dict[str, Any] = {bag: X.ids[X.bag_index].tolist()}
    if y is not None:
        columns[label] = np.asarray(y)[X.bag_index].tolist()
    groups, rows = getattr(X, "groups", None), getattr(X, "instance_ids", None)
    places = getattr(X, "coords", None)
    if groups is not None:
        columns[group] = groups[X.bag_index].tolist()
    if rows is not None:
        columns[instance_id] = rows.tolist()
    if places is not None:
        axes = coords or [*"xyz", *(f"c{k}" for k in range(3, places.shape[1]))]
        for k in range(places.shape[1]):
            columns[axes[k]] = places[:, k]
    for j, name in enumerate(names):
        if str(name) in columns:
            raise ValueError(
                f"a feature is called {name!r} like the column of the bag, the label, "
                "the group, the instance or a coordinate: choose another name for "
                "that column, for instance with bag= or label=."
            )
        columns[str(name)] = dense[:, j]
    return nw.from_dict(columns, backend=backend).to_native()
