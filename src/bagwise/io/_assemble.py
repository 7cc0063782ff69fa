"""The one way from columns to bags, whatever file or library they come from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.stack import group_rows
from bagwise.io._features import PLACES, feature_values, warn_of_dropped_groups
from bagwise.io.roles import Roles
from bagwise.io.table import Array, Grouping, Table, missing_entries


def bags_from_table(
    table: Table, roles: Roles
) -> tuple[Bags, Array | None, Array | None]:
    """Return the bags, their labels and their weights (None where not asked for).

    Every column is checked before anything is built, and what is wrong with several
    of them is said at once.
    """
    names = roles.feature_columns(table.names, table.source)
    names, roles = _with_places(table, names, roles)
    if table.n_rows == 0:
        table.fail("the table has no row")
    bags = _name_values(table, roles.bag, "bag")
    ids_order = group_rows(np.arange(table.n_rows)[:, None], bags)
    rows, offsets, ids, _ = ids_order
    order = rows[:, 0]
    of_bag = np.repeat(np.arange(len(ids)), np.diff(offsets))
    grouping = Grouping(table, ids, offsets, order, of_bag)

    names, columns = feature_values(table, names, roles, grouping)
    warn_of_dropped_groups(table, roles, grouping)
    data = np.column_stack(columns)
    if (np.diff(order) != 1).any():
        data = data[order]
    more: dict[str, Any] = {}
    if roles.group is not None:
        groups = _name_values(table, roles.group, "group")
        more["groups"] = grouping.constant(groups, roles.group, "group")
    if roles.instance_id is not None:
        names_of_rows = _name_values(table, roles.instance_id, "instance_id")
        more["instance_ids"] = names_of_rows[order]
    if roles.coords:
        places = [_numbers(table, name, "coords", lists=True) for name in roles.coords]
        more["coords"] = np.column_stack(places)[order]
    feature_names = np.array([str(n) for n in names], dtype=object)
    X = Bags(data, offsets, ids=ids, feature_names=feature_names, **more)
    y = weight = None
    if roles.label is not None:
        y = _labels(table, roles.label, grouping)
    if roles.weight is not None:
        weight = _weights(table, roles.weight, grouping)
    return X, y, weight


def _name_values(table: Table, name: Any, what: str) -> Array:
    """Return a column of names: whole numbers, or objects."""
    column = table.column(name)
    values = column.values
    if column.kind == "date":
        values = values.astype(str).astype(object)
    missing = missing_entries(values)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        count = int(missing.sum())
        more = f" ({count} rows in all)" if count > 1 else ""
        table.fail(f"column {name!r}, the {what}, is empty{more}", row=row)
    if values.dtype.kind == "f" and (values == np.floor(values)).all():
        # A column of whole numbers that some library had to store as floats.
        if np.abs(values).max(initial=0) < 2**53:
            return values.astype(np.int64)
    return values


def _labels(table: Table, name: Any, grouping: Grouping) -> Array:
    column = table.column(name)
    values = column.values
    if column.kind == "date":
        table.fail(f"the label {name!r} holds dates; turn them into classes or numbers")
    missing = missing_entries(values)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        table.fail(
            f"column {name!r}, the label, is empty or a word for a missing value "
            f"({int(missing.sum())} of {table.n_rows} rows); leave these bags out, or "
            "give them a label",
            row=row,
        )
    if values.dtype.kind == "c" or column.kind == "other":
        table.fail(f"the label {name!r} is neither text nor a number ({column.dtype})")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        table.fail(f"the label {name!r} is infinite", row=row)
    first = grouping.constant(values, name, "label")
    if first.dtype.kind == "O":
        if all(isinstance(v, str) for v in first):
            return first.astype(str)
        kinds = sorted({type(v).__name__ for v in first})
        if len(kinds) > 1:
            table.fail(f"the label {name!r} mixes {' and '.join(kinds)}")
    return first


def _weights(table: Table, name: Any, grouping: Grouping) -> Array:
    values = _numbers(table, name, "weight").astype(np.float64)
    if (values < 0).any():
        row = int(np.flatnonzero(values < 0)[0])
        table.fail(f"the weight {values[row]:g} is negative", row=row)
    return grouping.constant(values, name, "weight")


def _with_places(
    table: Table, names: list[Any], roles: Roles
) -> tuple[list[Any], Roles]:
    """Take lists that are called coordinates for what they are, beside features."""
    if roles.coords or roles.features is not None or len(names) < 2:
        return names, roles
    lists = [n for n in names if n in PLACES and table.column(n).kind == "rows"]
    found = replace(roles, coords=tuple(lists[:1]))
    return [n for n in names if n not in found.coords], found


def _numbers(table: Table, name: Any, what: str, *, lists: bool = False) -> Array:
    column = table.column(name)
    kinds = ("number", "rows") if lists else ("number",)
    if column.kind not in kinds or column.values.dtype.kind not in "fiub":
        table.fail(f"column {name!r}, the {what}, is not numeric ({column.dtype})")
    values = column.values
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        kind = "a missing value" if np.isnan(values[row]).any() else "infinity"
        table.fail(f"column {name!r}, the {what}, holds {kind}", row=row)
    return values
