"""Which columns are features, and what is wrong with those that are none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bagwise.io.roles import Roles, sounds_like_a_group
from bagwise.io.table import Array, Column, Grouping, Table, is_missing

_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?|\d{1,2}:\d{2}(:\d{2})?.*")
_INDEX_NAME = re.compile(r"(Unnamed: \d+|__index_level_\d+__|)")
_ID_NAME = re.compile(r"(^|[ _.-])(id|idx|index|nr|no|number|key|uid|uuid)$", re.I)
# In fewer rows than this, different whole numbers prove nothing.
_ENOUGH_ROWS = 30
# With fewer groups than this there are no folds that keep them together.
_ENOUGH_GROUPS = 5
_LISTED = 12
PLACES = ("coords", "coordinates")


def feature_values(
    table: Table, names: Sequence[Any], roles: Roles, grouping: Grouping
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
    table: Table, column: Column, grouping: Grouping
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
    name: Any, values: Array, grouping: Grouping, roles: Roles
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
    least = 2 if named or sounds_like_a_group(name) else _ENOUGH_GROUPS
    if roles.group is None and least <= different and _is_shared(values, grouping):
        return "whole numbers shared by all rows of several bags", "group"
    return None


def _is_shared(values: Array, grouping: Grouping) -> bool:
    """Whether a column has one value in every bag, and several bags share it.

    Where most bags are single rows, every column has one value in every bag.
    """
    several_rows = 2 * np.sum(np.diff(grouping.offsets) > 1) >= len(grouping.ids)
    fewer = 1 < len(set(values.tolist())) < len(grouping.ids)
    return bool(several_rows and fewer and not grouping.changes(values).size)


def warn_of_dropped_groups(table: Table, roles: Roles, grouping: Grouping) -> None:
    """Say which column that is left out may tell what belongs together."""
    for name in roles.dropped_groups(table.names):
        column = table.column(name)
        if column.kind in ("number", "text") and _is_shared(column.values, grouping):
            table.warn(
                f"{name!r} is left out, but it is the same within every bag and shared "
                "by several: bags of one value may stand on both sides of a split",
                "Keep them together with {0}.",
                ("group", name),
            )


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
