"""Long tables with a bag column, in and out, for any data-frame library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bagwise.bags._bags import Bags
from bagwise.bags._stack import group_rows


def from_frame(
    frame: Any,
    bag: str,
    label: str | None = None,
    *,
    features: Sequence[str] | None = None,
) -> Any:
    """Turn a long table, one row per instance, into bags.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
        One row per instance.
    bag : str
        The column that says which bag a row belongs to. Rows of a bag need not stand
        together.
    label : str, default=None
        The column with the label of the bag, constant inside every bag.
    features : sequence of str, default=None
        The feature columns; all others by default.

    Returns
    -------
    X : Bags
        The bags in the order of first appearance, with ids and feature names.
    y : ndarray of shape (n_bags,)
        The labels. Only when `label` is given.

    Examples
    --------
    >>> import pandas as pd
    >>> import bagwise
    >>> df = pd.DataFrame({"mol": ["a", "a", "b"], "u": [1.0, 2, 3], "y": [1, 1, 0]})
    >>> X, y = bagwise.from_frame(df, bag="mol", label="y")
    >>> X.ids, y
    (array(['a', 'b'], dtype=object), array([1, 0]))
    """
    import narwhals.stable.v1 as nw

    table = nw.from_native(frame, eager_only=True)
    _require_columns(table.columns, [bag] if label is None else [bag, label])
    if features is None:
        names = [c for c in table.columns if c not in (bag, label)]
    else:
        names = list(features)
        _require_columns(table.columns, names)
    if not names:
        raise ValueError("The table has no feature column besides the bag and label.")
    columns = [_numeric_column(table[c], c) for c in names]
    data, offsets, ids, order = group_rows(
        np.column_stack(columns), _plain(table[bag].to_numpy())
    )
    X = Bags(data, offsets, ids=ids, feature_names=np.array(names, dtype=object))
    if label is None:
        return X
    return X, _constant_labels(_plain(table[label].to_numpy())[order], X, label)


def to_frame(
    X: Bags,
    y: npt.ArrayLike | None = None,
    *,
    bag: str = "bag",
    label: str = "label",
    backend: Literal["pandas", "polars", "pyarrow"] = "pandas",
) -> Any:
    """Turn bags into a long table, one row per instance; undoes `from_frame`.

    Parameters
    ----------
    X : Bags
        The bags; sparse ones become dense columns.
    y : array-like of shape (n_bags,), default=None
        Labels to repeat on every row of their bag.
    bag, label : str
        Names of the bag and the label column.
    backend : {"pandas", "polars", "pyarrow"}, default="pandas"
        The library of the table.
    """
    import narwhals.stable.v1 as nw

    names = X.feature_names
    if names is None:
        names = np.array([f"x{j}" for j in range(X.n_features)], dtype=object)
    dense = X.data.toarray() if X.is_sparse else X.data
    columns: dict[str, Any] = {bag: X.ids[X.bag_index].tolist()}
    if y is not None:
        columns[label] = np.asarray(y)[X.bag_index].tolist()
    for j, name in enumerate(names):
        if str(name) in columns:
            raise ValueError(
                f"a feature is called {name!r} like the bag or label column: choose "
                "another name with bag= or label=."
            )
        columns[str(name)] = dense[:, j]
    return nw.from_dict(columns, backend=backend).to_native()


def _require_columns(known: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in known:
            listed = ", ".join(map(repr, known[:20]))
            raise ValueError(f"there is no column {name!r}; the table has {listed}.")


def _numeric_column(series: Any, name: str) -> npt.NDArray[Any]:
    if not (series.dtype.is_numeric() or str(series.dtype) == "Boolean"):
        raise TypeError(
            f"column {name!r} is not numeric ({series.dtype}). Encode it first, or "
            "list the columns to use in features=[...]."
        )
    return np.asarray(series.to_numpy())


def _plain(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Give strings one form, whichever library they come from."""
    return values if values.dtype.kind in "biuf" else values.astype(object)


def _constant_labels(labels: npt.NDArray[Any], X: Bags, name: str) -> npt.NDArray[Any]:
    first = labels[X.offsets[:-1]]
    changed = np.flatnonzero(labels != first[X.bag_index])
    if changed.size:
        i = int(X.bag_index[changed[0]])
        values = sorted({str(v) for v in labels[X.offsets[i] : X.offsets[i + 1]]})
        raise ValueError(
            f"the label {name!r} is not constant inside bag {X.ids[i]!r}: it holds "
            f"{', '.join(values)}. A bag has one label."
        )
    if first.dtype.kind == "O" and all(isinstance(v, str) for v in first):
        return first.astype(str)
    return first
