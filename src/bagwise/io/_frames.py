"""Data frames to bags and back, for any data-frame library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bagwise.bags import Bags
from bagwise.exceptions import DataError, ParameterError
from bagwise.io._columns import frame_table
from bagwise.io.roles import Roles, leave_out, positive_or_not
from bagwise.io.table import bags_from_table


def from_frame(
    frame: Any,
    bag: str,
    label: str | Sequence[str] | None = None,
    *,
    exclude_label: str | Sequence[str] | None = None,
    time: str | None = None,
    event: str | None = None,
    pos_label: Any = None,
    group: str | None = None,
    instance_id: str | None = None,
    instance_type: str | None = None,
    weight: str | None = None,
    coords: Sequence[str] | None = None,
    features: Sequence[str] | str | None = None,
    drop: Sequence[str] = (),
    missing: Literal["error", "keep"] = "error",
    encode: Literal["auto"] | Sequence[str] | None = None,
    text: str | Sequence[str] | None = None,
    bag_features: Any = None,
) -> Any:
    """Convert a long table with one row per instance to bags.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table, or AnnData
        One row per instance. A column may hold lists of equal length, the vectors of
        the instances. If its cells are lists of lists, each row is a whole bag. Of an
        AnnData object, the columns are those of ``obs``.
    bag : str
        The column with the id of the bag of each row. Rows of a bag need not be next
        to each other.
    label : str or sequence of str, default=None
        The column with the label of the bag, constant inside every bag. The type of the
        labels is kept: numbers, booleans or text. Several columns of zeros and ones
        give several labels per bag, a column of `y` each.
    exclude_label : str or sequence of str, default=None
        Labels such as "unknown", whose bags are excluded.
    time, event : str, default=None
        For survival, in place of `label`: the column of times until the event or until
        the end of observation, and the column that is true, or 1, if the event was
        observed. Both are constant inside every bag.
    pos_label : label, default=None
        The positive one of two labels: `y` is 1 for it and 0 for the other.
    group : str, default=None
        The column that says which bags belong together (a patient, a compound),
        constant inside every bag. Splits made by bagwise keep a group together.
    instance_id : str, default=None
        The column with the names of the rows.
    instance_type : str, default=None
        The column with the type of each row, such as a type of cells. Reports and
        explanations summarize scores per type.
    weight : str, default=None
        The column with the weight of the bag, constant inside every bag.
    coords : sequence of str, default=None
        The columns with the coordinates of an instance, such as ``["x", "y"]``. Columns
        of lists named ``coords`` or ``coordinates`` are recognized without it.
    features : sequence of str, default=None
        The feature columns; by default all columns without another role. For AnnData
        the name of a matrix: ``"X"``, ``"obsm:X_pca"`` or ``"layers:counts"``.
    drop : sequence of str, default=()
        Columns that are not used.
    missing : {"error", "keep"}, default="error"
        Whether missing values in features are an error, or become NaN for an imputer
        to fill in.
    encode : "auto" or sequence of str, default=None
        Columns that are not numbers and are kept: categories, dates and texts, as
        `Bags.codings`. `bagwise.compose.EncodeColumns` turns them into numbers inside
        the training folds; `compare` and `BagClassifier` do so automatically. "auto"
        keeps all such columns except names of rows, and numbers mixed with text. Named
        columns of numbers become categories.
    text : str or sequence of str, default=None
        Columns with texts, which are encoded by their words.
    bag_features : table, default=None
        A second table with one row per bag and the same column `bag`. Its columns are
        repeated for every instance of the bag. The label and the group may be among
        them.

    Returns
    -------
    X : Bags
        The bags in the order of first appearance, with ids and feature names, and
        with groups, names of instances and coordinates if they are given.
    y : ndarray of shape (n_bags,) or (n_bags, n_labels)
        The labels, or a structured array with the fields `event` and `time`. Only if
        `label`, or `time` and `event`, are given.
    sample_weight : ndarray of shape (n_bags,)
        The weights. Only if `weight` is given.

    Raises
    ------
    DataError
        The table cannot become bags. Columns that are not numeric are listed together,
        with the argument that excludes them.

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
        exclude_label=exclude_label,
        time=time,
        event=event,
        group=group,
        instance_id=instance_id,
        instance_type=instance_type,
        weight=weight,
        coords=coords,
        features=features,
        drop=drop,
        missing=missing,
        encode=encode,
        text=text,
    )
    if type(frame).__module__.split(".")[0] == "anndata":
        if bag_features is not None:
            raise ParameterError("bag_features", "is for tables, not for AnnData")
        from bagwise.io._anndata import bags_of_anndata

        X, y, sample_weight = bags_of_anndata(frame, roles)
    else:
        rows = table = frame_table(frame)
        if bag_features is not None:
            from bagwise.io._bag_table import with_bag_features

            table = with_bag_features(lambda _: rows, bag_features, roles, "error")
        X, y, sample_weight = bags_from_table(table, roles)
    if roles.exclude_label:
        found = (X, y, sample_weight)
        X, y, sample_weight = leave_out(found, roles.exclude_label, "", False)
    if pos_label is not None:
        y = positive_or_not(y, pos_label)
    found = (X, *(part for part in (y, sample_weight) if part is not None))
    return found if len(found) > 1 else X


def to_frame(
    X: Bags,
    y: npt.ArrayLike | None = None,
    *,
    bag: str = "bag",
    label: str = "label",
    group: str = "group",
    instance_id: str = "instance_id",
    instance_type: str = "instance_type",
    coords: Sequence[str] | None = None,
    backend: Literal["pandas", "polars", "pyarrow"] = "pandas",
) -> Any:
    """Convert bags to a long table, one row per instance; the inverse of `from_frame`.

    Parameters
    ----------
    X : Bags
        The bags; sparse bags become dense columns.
    y : array-like of shape (n_bags,), default=None
        Labels to repeat on every row of their bag.
    bag, label, group, instance_id, instance_type : str
        Names of the columns of bags and labels and, if the bags have them, of groups
        and names and types of instances.
    coords : sequence of str, default=None
        Names of the columns of coordinates, if the bags have them; ``x``, ``y``, ``z``
        by default.
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
    decoded = {j: coding.decode(dense[:, j]) for j, coding in X.codings.items()}
    columns: dict[str, Any] = {bag: X.ids[X.bag_index].tolist()}
    if y is not None:
        columns[label] = np.asarray(y)[X.bag_index].tolist()
    groups, rows = getattr(X, "groups", None), getattr(X, "instance_ids", None)
    places, types = getattr(X, "coords", None), getattr(X, "instance_types", None)
    if groups is not None:
        columns[group] = groups[X.bag_index].tolist()
    if rows is not None:
        columns[instance_id] = rows.tolist()
    if types is not None:
        columns[instance_type] = types.tolist()
    if places is not None:
        axes = coords or [*"xyz", *(f"c{k}" for k in range(3, places.shape[1]))]
        for k in range(places.shape[1]):
            columns[axes[k]] = places[:, k]
    for j, name in enumerate(names):
        if str(name) in columns:
            raise DataError(
                f"a feature is called {name!r} like the column of the bag, the label, "
                "the group, the instance or a coordinate. Choose another name for "
                "that column, for instance with bag= or label=",
                columns=[name],
            )
        columns[str(name)] = decoded.get(j, dense[:, j])
    return nw.from_dict(columns, backend=backend).to_native()
