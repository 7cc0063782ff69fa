"""From a table of columns to bags, whatever file or library the table comes from."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from bagwise.bags import Bags
from bagwise.bags.codings import Coding
from bagwise.bags.validation import group_rows
from bagwise.exceptions import (
    DataError,
    DataWarning,
    DroppedGroupWarning,
    MissingValuesError,
    NotNumericError,
)
from bagwise.io.encoded import NotADate, coded, is_date, longer_texts
from bagwise.io.roles import Roles, join_targets, sounds_like_a_group

Kind = Literal["number", "rows", "text", "date", "other"]
Array = npt.NDArray[Any]

# Lists with these names are coordinates unless they are given another role.
_COORDS = ("coords", "coordinates")
_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?|\d{1,2}:\d{2}(:\d{2})?.*")
_INDEX_NAME = re.compile(r"(Unnamed: \d+|__index_level_\d+__|)")
_ID_NAME = re.compile(r"(^|[ _.-])(id|idx|index|nr|no|number|key|uid|uuid)$", re.I)
# In fewer rows than this, unique whole numbers do not indicate an id.
_ENOUGH_ROWS = 30
# With fewer groups than this, no folds can keep them together.
_ENOUGH_GROUPS = 5
_LISTED = 12


@dataclass(frozen=True)
class Column:
    """One column: numbers (NaN if missing), or objects (None if missing).

    A column of lists of equal length is a matrix, of the kind "rows".
    """

    kind: Kind
    values: Array
    dtype: str = ""


@dataclass(frozen=True)
class Table:
    """Columns, the source of the table, and how its rows are called in messages."""

    names: Sequence[Any]
    n_rows: int
    column: Callable[[Any], Column]
    where: Callable[[int], str]
    source: str = ""
    # Whether entries were text, so that types were inferred.
    from_text: bool = False
    # Columns of a second table with one row per bag.
    bag_features: Sequence[str] = ()

    def fail(
        self,
        problem: str,
        remedy: str = "",
        *settings: tuple[str, Any],
        row: int | None = None,
        columns: Sequence[Any] = (),
        bag: Any = None,
        kind: type[DataError] = DataError,
    ) -> NoReturn:
        """Raise the error, with the source of the table and the row in front."""
        told = None if row is None else self.where(row)
        place = ", ".join(part for part in (self.source, told) if part)
        text = f"{place}: {problem}" if place else problem
        raise kind(text, remedy, *settings, columns=columns, row=told, bag=bag)

    def warn(
        self,
        problem: str,
        remedy: str,
        *settings: tuple[str, Any],
        columns: Sequence[Any] = (),
        kind: type[DataWarning] = DataWarning,
    ) -> None:
        """Warn, with the source of the table in front."""
        text = f"{self.source}: {problem}" if self.source else problem
        warning = kind(text, remedy, *settings, columns=columns)
        warnings.warn(warning, stacklevel=7)


@dataclass(frozen=True)
class Grouping:
    """Which rows of a table belong to which bag."""

    table: Table
    ids: Array
    offsets: npt.NDArray[np.int64]
    order: npt.NDArray[np.int64]
    of_bag: npt.NDArray[np.int64]

    def changes(self, values: Array) -> npt.NDArray[np.int64]:
        """Return the sorted rows whose value differs from the first of their bag."""
        ordered = values[self.order]
        first = ordered[self.offsets[:-1]]
        return np.flatnonzero(ordered != first[self.of_bag])

    def constant(self, values: Array, name: Any, what: str) -> Array:
        """Return one value per bag, or report a bag with two."""
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
                columns=[name],
                bag=self.ids[i],
            )
        return first


def missing_entries(values: Array) -> npt.NDArray[np.bool_]:
    """Return which entries of a column are missing."""
    if values.dtype.kind in "fc":
        return np.isnan(values)
    if values.dtype.kind in "Mm":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.fromiter((is_missing(v) for v in values.tolist()), bool, len(values))


def is_missing(value: Any) -> bool:
    """Whether an entry of a column of objects is missing."""
    if value is None:
        return True
    if isinstance(value, str):
        return value == ""
    # NaN and NaT differ from themselves; comparing pandas' NA gives no truth value.
    same = value == value
    return not (isinstance(same, bool | np.bool_) and bool(same))


# ------------------------------------------------------------------- table to bags


def bags_from_table(
    table: Table, roles: Roles
) -> tuple[Bags, Array | None, Array | None]:
    """Return the bags, their labels and their weights (None if not asked for).

    Every column is checked before anything is built, and the problems of several
    columns are reported together.
    """
    names = roles.feature_columns(table.names, table.source)
    names, roles = _with_coords(table, names, roles)
    grouping = group_table(table, roles)
    names, columns, codings = _features(table, names, roles, grouping)
    _warn_of_dropped_groups(table, roles, grouping)
    data = np.column_stack(columns)
    if (np.diff(grouping.order) != 1).any():
        data = data[grouping.order]
    feature_names = np.array([str(n) for n in names], dtype=object)
    return annotated_bags(grouping, roles, data, feature_names, codings)


def group_table(table: Table, roles: Roles) -> Grouping:
    """Find out which rows belong to which bag."""
    if table.n_rows == 0:
        table.fail("the table has no rows")
    bags = _names_in(table, roles.bag, "bag")
    rows, offsets, ids, _ = group_rows(np.arange(table.n_rows)[:, None], bags)
    order = rows[:, 0]
    of_bag = np.repeat(np.arange(len(ids)), np.diff(offsets))
    return Grouping(table, ids, offsets, order, of_bag)


def annotated_bags(
    grouping: Grouping,
    roles: Roles,
    data: Any,
    feature_names: Any,
    codings: dict[int, Coding] | None = None,
) -> tuple[Bags, Array | None, Array | None]:
    """Return the bags of a matrix in the order of the grouping, labels and weights.

    Groups, labels, weights and annotations of instances are columns of the table.
    """
    table, order = grouping.table, grouping.order
    more: dict[str, Any] = {}
    if roles.group is not None:
        groups = _names_in(table, roles.group, "group")
        more["groups"] = grouping.constant(groups, roles.group, "group")
    if roles.instance_id is not None:
        names_of_rows = _names_in(table, roles.instance_id, "instance_id")
        more["instance_ids"] = names_of_rows[order]
    if roles.instance_type is not None:
        types = _names_in(table, roles.instance_type, "instance_type")
        more["instance_types"] = types[order]
    if roles.coords:
        places = [_numbers(table, name, "coords", lists=True) for name in roles.coords]
        more["coords"] = np.column_stack(places)[order]
    X = Bags(
        data,
        grouping.offsets,
        ids=grouping.ids,
        feature_names=feature_names,
        codings=codings,
        bag_features=[n for n in table.bag_features if n in {*feature_names}],
        **more,
    )
    y = join_targets(
        {
            part: _labels(table, name, part.split(" ")[0], grouping)
            for part, name in roles.targets.items()
        },
        table.source,
    )
    weight = None
    if roles.weight is not None:
        weight = _weights(table, roles.weight, grouping)
    return X, y, weight


def _names_in(table: Table, name: Any, what: str) -> Array:
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
        problem = f"column {name!r}, the {what}, is empty{more}"
        table.fail(problem, row=row, columns=[name])
    if values.dtype.kind == "f" and (values == np.floor(values)).all():
        # A column of whole numbers that a library had to store as floats.
        if np.abs(values).max(initial=0) < 2**53:
            return values.astype(np.int64)
    return values


def _labels(table: Table, name: Any, what: str, grouping: Grouping) -> Array:
    column = table.column(name)
    values = column.values
    if column.kind == "date":
        problem = f"the {what} {name!r} holds dates; turn them into classes or numbers"
        table.fail(problem, columns=[name])
    missing = missing_entries(values)
    if missing.any():
        table.fail(
            f"column {name!r}, the {what}, is empty or a word for a missing value "
            f"({int(missing.sum())} of {table.n_rows} rows). Remove these bags, or "
            f"give them a {what}",
            row=int(np.flatnonzero(missing)[0]),
            columns=[name],
        )
    if values.dtype.kind == "c" or column.kind == "other":
        problem = f"the {what} {name!r} is neither text nor a number ({column.dtype})"
        table.fail(problem, columns=[name])
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        table.fail(f"the {what} {name!r} is infinite", row=row, columns=[name])
    first = grouping.constant(values, name, what)
    if first.dtype.kind == "O":
        if all(isinstance(v, str) for v in first):
            return first.astype(str)
        kinds = sorted({type(v).__name__ for v in first})
        if len(kinds) > 1:
            problem = f"the {what} {name!r} mixes {' and '.join(kinds)}"
            table.fail(problem, columns=[name])
    return first


def _weights(table: Table, name: Any, grouping: Grouping) -> Array:
    values = _numbers(table, name, "weight").astype(np.float64)
    if (values < 0).any():
        row = int(np.flatnonzero(values < 0)[0])
        table.fail(f"the weight {values[row]:g} is negative", row=row, columns=[name])
    return grouping.constant(values, name, "weight")


def _with_coords(
    table: Table, names: list[Any], roles: Roles
) -> tuple[list[Any], Roles]:
    """Use lists that are named coordinates as such, if there are other features."""
    if roles.coords or roles.features is not None or len(names) < 2:
        return names, roles
    lists = [n for n in names if n in _COORDS and table.column(n).kind == "rows"]
    found = replace(roles, coords=tuple(lists[:1]))
    return [n for n in names if n not in found.coords], found


def _numbers(table: Table, name: Any, what: str, *, lists: bool = False) -> Array:
    column = table.column(name)
    kinds = ("number", "rows") if lists else ("number",)
    if column.kind not in kinds or column.values.dtype.kind not in "fiub":
        problem = f"column {name!r}, the {what}, is not numeric ({column.dtype})"
        table.fail(problem, columns=[name])
    values = column.values
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        kind = "a missing value" if np.isnan(values[row]).any() else "infinity"
        problem = f"column {name!r}, the {what}, holds {kind}"
        table.fail(problem, row=row, columns=[name])
    return values


# ------------------------------------------------------------------------ features


@dataclass(frozen=True)
class _Doubt:
    """A column that should perhaps not be a feature, and the role that fits it."""

    name: Any
    reason: str
    role: str = "drop"
    # Unambiguous encoding of the column: a category, a text or a date.
    kind: str = ""


def _features(
    table: Table, names: Sequence[Any], roles: Roles, grouping: Grouping
) -> tuple[list[Any], list[Array], dict[int, Coding]]:
    """Return names and values of the features; report all problems together.

    Columns that are not numbers, and are to be encoded, become codes.
    """
    chosen = roles.features is not None
    kept: list[Any] = []
    columns: list[Array] = []
    codings: dict[int, Coding] = {}
    refused: list[_Doubt] = []
    suspects: list[_Doubt] = []
    for name in names:
        column = table.column(name)
        if column.kind == "rows":
            kept += [f"{name}_{j}" for j in range(column.values.shape[1])]
            columns.append(column.values)
            continue
        doubt = None
        if column.kind != "number" or column.values.dtype.kind not in "fiub":
            doubt = _why_not_a_number(table, name, column, grouping)
        kind = roles.encoding_of(name, doubt.kind if doubt else None)
        if kind is not None:
            values, codings[len(kept)] = _coded(table, name, column, kind)
            kept.append(name)
            columns.append(values)
            continue
        if doubt is not None:
            refused.append(doubt)
            continue
        if not chosen and _counts_rows(name, column.values):
            table.warn(
                f"column {str(name)!r} has no name and counts the rows: it is excluded",
                "Avoid this warning with {0}.",
                ("drop", [name]),
                columns=[name],
            )
            continue
        if not chosen:
            of_bags = str(name) in table.bag_features
            doubt = _suspicious(name, column.values, grouping, roles, of_bags)
            suspects += [] if doubt is None else [doubt]
        kept.append(name)
        columns.append(column.values)
    if refused:
        _refuse_columns(table, refused, suspects)
    if not kept:
        table.fail("there is no feature column besides the bag and the label")
    _refuse_not_finite(table, columns, kept, roles.missing)
    if suspects:
        _warn_of_suspects(table, suspects)
    return kept, columns, codings


def _coded(table: Table, name: Any, column: Column, kind: str) -> tuple[Array, Coding]:
    try:
        return coded(column.values, kind, missing_entries(column.values))
    except NotADate as error:
        table.fail(f"column {name!r}: {error}", row=error.row, columns=[name])


def _why_not_a_number(
    table: Table, name: Any, column: Column, grouping: Grouping
) -> _Doubt:
    """Describe a column that is not a feature, and name the role that fits it."""
    values = column.values
    example = _example(table, values)
    if column.kind == "date":
        return _Doubt(name, f"dates, {example}", kind="date")
    if column.kind == "other" or values.dtype.kind != "O":
        return _Doubt(name, f"{column.dtype}")
    present = [v for v in values.tolist() if not is_missing(v)]
    texts = [v for v in present if isinstance(v, str)]
    if len(texts) < len(present) or not texts:
        return _Doubt(name, f"{column.dtype or 'no numbers'}, {example}")
    numeric = [_NUMBER.fullmatch(t) is not None for t in texts]
    if all(numeric):
        return _Doubt(name, "numbers stored as text")
    if sum(numeric) >= 0.5 * len(texts):
        rows = [i for i, v in enumerate(values.tolist()) if not is_missing(v)]
        wrong = [r for r, fine in zip(rows, numeric, strict=True) if not fine]
        return _Doubt(
            name,
            f"{len(wrong)} of {len(texts)} values are not numbers: "
            f"{values[wrong[0]][:40]!r} in {table.where(wrong[0])}",
        )
    if _DATE.fullmatch(texts[0].strip()):
        kind = "date" if all(map(is_date, texts)) else ""
        return _Doubt(name, f"dates, {example}", kind=kind)
    different = len(set(texts))
    kind = "text" if longer_texts(texts) else "category"
    if different == len(values) and len(values) > len(grouping.ids):
        reason = f"a different name in every row, {example}"
        return _Doubt(name, reason, "instance_id", kind if kind == "text" else "")
    shared = 1 < different < len(grouping.ids)
    if len(present) == len(values) and shared and not grouping.changes(values).size:
        reason = (
            "text that is constant within every bag and shared by several "
            f"bags, {example}"
        )
        return _Doubt(name, reason, "group", kind)
    return _Doubt(name, f"text, {example}", kind=kind)


def _example(table: Table, values: Array) -> str:
    row = next((i for i, v in enumerate(values.tolist()) if not is_missing(v)), 0)
    return f"{str(values[row])[:40]!r} in {table.where(row)}"


def _counts_rows(name: Any, values: Array) -> bool:
    """Whether this is the index that a library wrote next to the data."""
    if not _INDEX_NAME.fullmatch(str(name)) or len(values) < 2:
        return False
    return bool(values[0] in (0, 1) and (np.diff(values.astype(float)) == 1).all())


def _suspicious(
    name: Any, values: Array, grouping: Grouping, roles: Roles, of_bags: bool
) -> _Doubt | None:
    """Return why a column of numbers looks like an id or a group, or None.

    Columns of a table of bags (`of_bags`) are shared by all rows anyway.
    """
    if len(values) < _ENOUGH_ROWS or values.dtype.kind == "b":
        return None
    if not np.isfinite(values).all() or (values != np.floor(values)).any():
        return None
    different = len(np.unique(values))
    dense = float(values.max()) - float(values.min()) < 2 * len(values)
    named = _ID_NAME.search(str(name)) is not None
    if different == len(values) and (dense or named):
        return _Doubt(name, "a different whole number in every row", "instance_id")
    named = named or sounds_like_a_group(name)
    if of_bags and not named:
        return None
    least = 2 if named else _ENOUGH_GROUPS
    if roles.group is None and least <= different and _is_shared(values, grouping):
        return _Doubt(name, "whole numbers shared by all rows of several bags", "group")
    return None


def _is_shared(values: Array, grouping: Grouping) -> bool:
    """Whether a column has one value in every bag, and several bags share it.

    If most bags are single rows, every column has one value in every bag.
    """
    several_rows = 2 * np.sum(np.diff(grouping.offsets) > 1) >= len(grouping.ids)
    fewer = 1 < len(set(values.tolist())) < len(grouping.ids)
    return bool(several_rows and fewer and not grouping.changes(values).size)


def _warn_of_dropped_groups(table: Table, roles: Roles, grouping: Grouping) -> None:
    """Warn of a dropped column that may say which bags belong together."""
    for name in roles.dropped_groups(table.names):
        column = table.column(name)
        if column.kind in ("number", "text") and _is_shared(column.values, grouping):
            table.warn(
                f"{name!r} is excluded, but it is constant within every bag and shared"
                " by several bags: bags with the same value may be split across folds",
                "Keep them together with {0}.",
                ("group", name),
                columns=[name],
                kind=DroppedGroupWarning,
            )


def _refuse_columns(
    table: Table, refused: list[_Doubt], suspects: list[_Doubt]
) -> NoReturn:
    told = [f"{doubt.name!r} ({doubt.reason})" for doubt in refused[:_LISTED]]
    if len(refused) > _LISTED:
        told.append(f"and {len(refused) - _LISTED} more")
    count = "1 column is" if len(refused) == 1 else f"{len(refused)} columns are"
    problem = f"{count} not numeric and cannot be features: {', '.join(told)}"
    if suspects:
        problem += "; numbers that look like names or groups: " + ", ".join(
            f"{doubt.name!r} ({doubt.reason})" for doubt in suspects
        )
    doubts = [*refused, *suspects]
    names = [doubt.name for doubt in refused]
    remedy, settings = _remedy(doubts)
    settings.append(("encode", "auto" if all(d.kind for d in refused) else names))
    remedy += f", or encode them with {{{len(settings) - 1}}}"
    smiles = [name for name in names if "smiles" in str(name).lower()]
    if smiles and table.source:
        settings.append(("smiles", smiles[0]))
        remedy += f", or read the rows as molecules with {{{len(settings) - 1}}}"
    table.fail(
        problem,
        f"{remedy}.",
        *settings,
        columns=[doubt.name for doubt in doubts],
        kind=NotNumericError,
    )


def _warn_of_suspects(table: Table, suspects: list[_Doubt]) -> None:
    told = ", ".join(f"{doubt.name!r} ({doubt.reason})" for doubt in suspects)
    remedy, settings = _remedy(suspects)
    table.warn(
        f"used as features, although they look like names or groups: {told}",
        f"{remedy}.",
        *settings,
        columns=[doubt.name for doubt in suspects],
    )


def _remedy(doubts: Sequence[_Doubt]) -> tuple[str, list[tuple[str, Any]]]:
    """Advise what to do with columns, and name the roles that fit some of them."""
    remedy = "Exclude them with {0}, or list the features with {1}"
    settings: list[tuple[str, Any]] = [
        ("drop", [doubt.name for doubt in doubts]),
        ("features", ...),
    ]
    for role, meaning in (("instance_id", "names of rows"), ("group", "a group")):
        fits = [doubt.name for doubt in doubts if doubt.role == role]
        if fits:
            remedy += f", or give {meaning} with {{{len(settings)}}}"
            settings.append((role, fits[0]))
    return remedy, settings


def _refuse_not_finite(
    table: Table, columns: Sequence[Array], names: Sequence[Any], missing: str
) -> None:
    told, with_gaps = [], []
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
                    f"column {name!r} holds infinity, or a number that is too large",
                    row=int(np.flatnonzero(infinite)[0]),
                    columns=[name],
                )
            rows = np.flatnonzero(np.isnan(column))
            if missing == "error" and rows.size:
                with_gaps.append(name)
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
            "Set {0} so that an imputer can fill them in, or remove them.",
            ("missing", "keep"),
            columns=with_gaps,
            kind=MissingValuesError,
        )
