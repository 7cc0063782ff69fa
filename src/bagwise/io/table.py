"""Columns with a place, and how their rows fall into bags."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from bagwise.io._errors import TableError, TableWarning

Kind = Literal["number", "rows", "text", "date", "other"]
Array = npt.NDArray[Any]


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


@dataclass(frozen=True)
class Grouping:
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


def missing_entries(values: Array) -> npt.NDArray[np.bool_]:
    """Tell where a column stands for nothing."""
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
