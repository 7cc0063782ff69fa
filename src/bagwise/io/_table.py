"""The one way from columns to bags, whatever file or library they come from."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from bagwise.bags import Bags
from bagwise.bags._stack import group_rows
from bagwise.io._errors import TableError, TableWarning
from bagwise.io._roles import Roles

Kind = Literal["number", "rows", "text", "date", "other"]
Array = npt.NDArray[Any]

_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?|\d{1,2}:\d{2}(:\d{2})?.*")
_INDEX_NAME = re.compile(r"(Unnamed: \d+|__index_level_\d+__|)")
_ID_NAME = re.compile(r"(^|[ _.-])(id|idx|index|nr|no|number|key|uid|uuid)$", re.I)
_GROUP_NAME = re.compile(r"patient|subject|case|donor|compound|family|group|site", re.I)
# In fewer rows than this, different whole numbers prove nothing.
_ENOUGH_ROWS = 30
_LISTED = 12
_PLACES = ("coords", "coordinates")


@dataclass(frozen=True)
class Column:
    """One column: numbers (NaN where missing), or objects (None where missing).

    A column of lists of equal length is a matrix, of the kind "rows".
    """

    kind: Kind
    values: Array
    dtype: str = ""


@dataclass(frozen=True)
class Table:
    """Columns with a place: where the table comes from and how to name a row."""

    names: Sequence[Any]
    n_rows: int
    column: Callable[[Any], Column]
    where: Callable[[int], str]
    source: str = ""
    # Whether entries were text and got their types from how they are spelt.
    from_text: bool = False

    def fail(
        self, problem: str, remedy: str = "", *arguments: Any, row: int | None = None
    ) -> NoReturn:
        """Raise the error, with the name of the table and the row in front."""
        place = self.source
        if row is not None:
            place = ", ".join(part for part in (self.source, self.where(row)) if part)
        raise TableError(_after(place, problem), remedy, *arguments)

    def warn(self, problem: str, remedy: str, *arguments: Any) -> None:
        """Warn, with the name of the table in front."""
        advice = TableWarning(_after(self.source, problem), remedy, *arguments)
        warnings.warn(advice, stacklevel=7)


def _after(place: str, problem: str) -> str:
    return f"{place}: {problem}" if place else problem


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
    grouping = _Grouping(table, ids, offsets, order, of_bag)

    names, columns = _feature_values(table, names, roles, grouping)
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


@dataclass(frozen=True)
class _Grouping:
    """How the rows of a table fall into bags."""

    table: Table
    ids: Array
    offsets: npt.NDArray[np.int64]
    order: npt.NDArray[np.int64]
    of_bag: npt.NDArray[np.int64]

    def changes(self, values: Array) -> npt.NDArray[np.int64]:
        """Return the sorted rows whose value differs from that of their bag."""
        ordered = values[self.order]
        first = ordered[self.offsets[:-1]]
        return np.flatnonzero(ordered != first[self.of_bag])

    def constant(self, values: Array, name: Any, what: str) -> Array:
        """Return one value per bag, or say where a bag has two."""
        changed = self.changes(values)
        ordered = values[self.order]
        first = ordered[self.offsets[:-1]]
        if changed.size:
            row = int(changed[0])
            i = int(self.of_bag[row])
            kind = "label" if what == "label" else f"{what} {name!r}"
            self.table.fail(
                f"bag {self.ids[i]} has the {kind} {ordered[row]} here and {first[i]} "
                f"before; a bag has one {what}",
                row=int(self.order[row]),
            )
        return first


def _name_values(table: Table, name: Any, what: str) -> Array:
    """Return a column of names: whole numbers, or objects."""
    column = table.column(name)
    values = column.values
    if column.kind == "date":
        values = values.astype(str).astype(object)
    missing = _missing(values)
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


def _labels(table: Table, name: Any, grouping: _Grouping) -> Array:
    column = table.column(name)
    values = column.values
    if column.kind == "date":
        table.fail(f"the label {name!r} holds dates; turn them into classes or numbers")
    missing = _missing(values)
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


def _weights(table: Table, name: Any, grouping: _Grouping) -> Array:
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
    lists = [n for n in names if n in _PLACES and table.column(n).kind == "rows"]
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


def _missing(values: Array) -> npt.NDArray[np.bool_]:
    if values.dtype.kind in "fc":
        return np.isnan(values)
    if values.dtype.kind in "Mm":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    # (NaN, NaT and their like are unequal to themselves or have no truth value)
    return np.fromiter((is_missing(v) for v in values.tolist()), bool, len(values))


def is_missing(value: Any) -> bool:
    """Whether an entry of a column of objects stands for nothing."""
    if value is None:
        return True
    if isinstance(value, str):
        return value == ""
    same = value == value
    return not (isinstance(same, bool | np.bool_) and bool(same))


# ---------------------------------------------------------------- feature columns


def _feature_values(
    table: Table, names: Sequence[Any], roles: Roles, grouping: _Grouping
) -> tuple[list[Any], list[Array]]:
    """Return names and values of the features; say all that is wrong at once."""
    chosen = roles.features is not None
    kept: list[Any] = []
    columns: list[Array] = []
    refused: list[tuple[Any, str, str]] = []
    suspects: list[tuple[Any, str, str]] = []
    for name in names:
        column = table.column(name)
        if column.kind == "rows":
            kept += [f"{name}_{j}" for j in range(column.values.shape[1])]
            columns.append(column.values)
            continue
        if column.kind != "number" or column.values.dtype.kind not in "fiub":
            refused.append((name, *_why_not_a_number(table, column, grouping)))
            continue
        if not chosen and _counts_rows(name, column.values):
            table.warn(
                f"column {str(name)!r} has no name of its own and counts the rows: it "
                "is left out",
                "Silence this with {0}.",
                ("drop", [name]),
            )
            continue
        if not chosen:
            reason = _suspicious(name, column.values, grouping, roles)
            if reason is not None:
                suspects.append((name, *reason))
        kept.append(name)
        columns.append(column.values)
    if refused:
        _refuse_columns(table, refused, suspects)
    if not kept:
        table.fail("there is no feature column besides the bag and the label")
    _refuse_not_finite(table, columns, kept, roles.missing)
    if suspects:
        _warn_of_suspects(table, suspects)
    return kept, columns


def _why_not_a_number(
    table: Table, column: Column, grouping: _Grouping
) -> tuple[str, str]:
    """Describe a column that is no feature, and name the argument that fits it."""
    values = column.values
    if column.kind == "date":
        return f"dates, {_example(table, values)}", "drop"
    if column.kind == "other" or values.dtype.kind != "O":
        return f"{column.dtype}", "drop"
    present = [v for v in values.tolist() if not is_missing(v)]
    texts = [v for v in present if isinstance(v, str)]
    if len(texts) < len(present) or not texts:
        return f"{column.dtype or 'no numbers'}, {_example(table, values)}", "drop"
    spelt = [_NUMBER.fullmatch(t) is not None for t in texts]
    if sum(spelt) >= 0.5 * len(texts):
        if all(spelt):
            return "numbers stored as text", "drop"
        rows = [i for i, v in enumerate(values.tolist()) if not is_missing(v)]
        wrong = [r for r, fine in zip(rows, spelt, strict=True) if not fine]
        return (
            f"{len(wrong)} of {len(texts)} values are no numbers: "
            f"{values[wrong[0]][:40]!r} in {table.where(wrong[0])}"
        ), "drop"
    if _DATE.fullmatch(texts[0].strip()):
        return f"dates, {_example(table, values)}", "drop"
    different = len(set(texts))
    if different == len(values) and len(values) > len(grouping.ids):
        return f"a name for every row, {_example(table, values)}", "instance_id"
    shared = 1 < different < len(grouping.ids)
    if len(present) == len(values) and shared and not grouping.changes(values).size:
        return (
            f"text, the same within every bag and shared by several, "
            f"{_example(table, values)}"
        ), "group"
    return f"text, {_example(table, values)}", "drop"


def _example(table: Table, values: Array) -> str:
    row = next((i for i, v in enumerate(values.tolist()) if not is_missing(v)), 0)
    return f"{str(values[row])[:40]!r} in {table.where(row)}"


def _counts_rows(name: Any, values: Array) -> bool:
    """Whether this is the index that a library wrote beside the data."""
    if not _INDEX_NAME.fullmatch(str(name)) or len(values) < 2:
        return False
    return bool(values[0] in (0, 1) and (np.diff(values.astype(float)) == 1).all())


def _suspicious(
    name: Any, values: Array, grouping: _Grouping, roles: Roles
) -> tuple[str, str] | None:
    """Say why a column of numbers looks like an id or a group, or None."""
    if len(values) < _ENOUGH_ROWS or values.dtype.kind == "b":
        return None
    if not np.isfinite(values).all() or (values != np.floor(values)).any():
        return None
    different = len(np.unique(values))
    dense = float(values.max()) - float(values.min()) < 2 * len(values)
    named = _ID_NAME.search(str(name)) is not None
    if different == len(values) and (dense or named):
        return "a different whole number in every row", "instance_id"
    grouped = 1 < different < len(grouping.ids) and not grouping.changes(values).size
    if roles.group is None and grouped and (named or _GROUP_NAME.search(str(name))):
        return "whole numbers shared by all rows of several bags", "group"
    return None


def _refuse_columns(
    table: Table,
    refused: list[tuple[Any, str, str]],
    suspects: list[tuple[Any, str, str]],
) -> None:
    told = [f"{name!r} ({why})" for name, why, _ in refused[:_LISTED]]
    if len(refused) > _LISTED:
        told.append(f"and {len(refused) - _LISTED} more")
    problem = (
        f"{_columns(len(refused))} not numeric and cannot be features: "
        + ", ".join(told)
    )
    if suspects:
        problem += "; numbers that look like names or groups: " + ", ".join(
            f"{name!r} ({why})" for name, why, _ in suspects
        )
    listed = [name for name, _, _ in (*refused, *suspects)]
    remedy = "Leave them out with {0}, or list what to use with {1}, or encode them"
    arguments: list[Any] = [("drop", listed), ("features", ...)]
    remedy = _add_parts((*refused, *suspects), remedy, arguments)
    table.fail(problem, remedy, *arguments)


def _columns(count: int) -> str:
    return "1 column is" if count == 1 else f"{count} columns are"


def _refuse_not_finite(
    table: Table, columns: Sequence[Array], names: Sequence[Any], missing: str
) -> None:
    told = []
    place = 0
    for values in columns:
        width = 1 if values.ndim == 1 else values.shape[1]
        here, place = names[place : place + width], place + width
        if values.dtype.kind != "f" or np.isfinite(values).all():
            continue
        for name, column in zip(here, values.reshape(len(values), -1).T, strict=True):
            infinite = np.isinf(column)
            if infinite.any():
                table.fail(
                    f"column {name!r} holds infinity, or a number too large to be "
                    "finite",
                    row=int(np.flatnonzero(infinite)[0]),
                )
            rows = np.flatnonzero(np.isnan(column))
            if missing == "error" and rows.size:
                told.append(
                    f"{name!r} ({rows.size} of {len(column)}, first in "
                    f"{table.where(int(rows[0]))})"
                )
    if told:
        shown = told[:_LISTED]
        if len(told) > _LISTED:
            shown.append(f"and {len(told) - _LISTED} more columns")
        table.fail(
            f"there are missing values (NaN) in {', '.join(shown)}",
            "Let them through with {0} and fill them in a pipeline, for instance "
            "with OnInstances(SimpleImputer()), or remove them.",
            ("missing", "keep"),
        )


def _warn_of_suspects(table: Table, suspects: list[tuple[Any, str, str]]) -> None:
    told = ", ".join(f"{name!r} ({why})" for name, why, _ in suspects)
    remedy = "Leave them out with {0}, or list what to use with {1}"
    arguments: list[Any] = [("drop", [n for n, _, _ in suspects]), ("features", ...)]
    table.warn(
        f"taken as features, but they look like names or groups: {told}",
        _add_parts(suspects, remedy, arguments),
        *arguments,
    )


def _add_parts(
    columns: Sequence[tuple[Any, str, str]], remedy: str, arguments: list[Any]
) -> str:
    """Add the parts that some columns could play to the advice."""
    for part, meaning in (("instance_id", "names of rows"), ("group", "a group")):
        fits = [name for name, _, option in columns if option == part]
        if fits:
            remedy += f"; {meaning}: {{{len(arguments)}}}"
            arguments.append((part, fits[0]))
    return remedy + "."
