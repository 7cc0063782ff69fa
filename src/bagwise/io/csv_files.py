"""Delimited text with a header, one row per instance: reading and writing.

NumPy's reader reads the rows in one pass; columns that look like numbers in the first
rows are read as numbers. If it fails, the file is read again row by row: either the
rows are valid and NumPy was too strict, or the invalid row is named.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from bagwise.io.files import (
    MISSING_WORDS,
    NO_LABELS,
    boolean_values,
    fail,
    label_values,
    number,
    plain_values,
    read_text,
)
from bagwise.io.roles import Roles
from bagwise.io.table import Column, Table

_DELIMITERS = (",", ";", "\t")
# Rows that decide which columns are numeric; later changes of type cost time.
_SNIFFED = 200
_HEAD = 2**20
# Written for an empty cell: it is read as NaN, and differs from a NaN in the file.
_EMPTY = "nAN"
# How formulas begin, also in the full-width letters that some spreadsheets accept.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
_DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?\s*")


@dataclass(frozen=True)
class _Layout:
    """How the text is read."""

    header: list[str]
    delimiter: str
    decimal: str
    skip: int
    is_number: list[bool]
    missing: frozenset[str]


def csv_header(path: Path) -> list[str]:
    """Return the names of the columns."""
    return _layout(read_text(path), path).header


def read_csv(
    path: Path,
    roles: Roles,
    more: Sequence[str] | None = None,
    *,
    of_bags: bool = False,
) -> Table:
    """Read delimited text as a table; see `read_bags`.

    With `more`, a table about bags is read: only the columns that `roles` and `more`
    name. With `of_bags`, all columns of such a table.
    """
    text = read_text(path)
    layout = _layout(text, path)
    wanted = {*layout.header} - {*roles.drop}
    if roles.features is not None:
        wanted &= {*roles.features, *roles.used()}
    doubtful = roles.dropped_groups(layout.header)
    as_text = {
        name
        for name, part in roles.used().items()
        if part not in ("weight", "coords") and name not in (roles.features or ())
    }
    as_text |= {*roles.encoded, *roles.text}
    # Names that do not exist are rejected before the rows are read.
    if of_bags:
        roles.check_names(layout.header, str(path))
        wanted = {*layout.header}
    elif more is None:
        roles.feature_columns(layout.header, str(path))
        wanted |= {*doubtful}
        as_text |= {*doubtful}
    else:
        roles.check_names(layout.header, str(path))
        wanted &= {*roles.used(), *more}
        as_text |= {*more}
    columns = _fast(path, text, layout, wanted, as_text)
    if columns is None:
        columns = _row_by_row(path, text, layout)
    n_rows = len(next(iter(columns.values())))

    def column(name: str) -> Column:
        values = columns[name]
        if name in as_text:
            return _names(values, roles.used().get(name, "group"))
        return _feature(values, layout.decimal)

    @lru_cache(maxsize=1)
    def lines() -> list[int]:
        return [line for line, _ in _rows(path, text, layout)]

    return Table(
        names=layout.header,
        n_rows=n_rows,
        column=column,
        where=lambda row: f"line {lines()[row]}",
        source=str(path),
        from_text=True,
    )


# ------------------------------------------------------------------------ layout


def _layout(text: str, path: Path) -> _Layout:
    """Read the header and the first rows."""
    body = text.lstrip("\r\n")
    first = re.split(r"[\r\n]", body[:_HEAD], maxsplit=1)[0]
    counts = {d: first.count(d) for d in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda d: counts[d])
    if "tsv" in (part.lstrip(".").lower() for part in path.suffixes):
        delimiter = "\t"
    header, skip, sample = _first_rows(text[:_HEAD], delimiter, path)
    if len(text) > _HEAD and len(sample) < _SNIFFED:
        # Very long lines, or a quoted field that continues beyond the sample.
        header, skip, sample = _first_rows(text, delimiter, path)
    if not sample:
        fail(path, "there is a header, but no data")
    tokens = [[row[j] for row in sample if j < len(row)] for j in range(len(header))]
    decimal = "."
    if delimiter != "," and any(_DECIMAL_COMMA.fullmatch(t) for c in tokens for t in c):
        decimal = ","
    is_number = [_looks_numeric(column, decimal) for column in tokens]
    seen = {token.strip() for column in tokens for token in column}
    missing = frozenset(seen & MISSING_WORDS) | {""}
    return _Layout(header, delimiter, decimal, skip, is_number, missing)


def _first_rows(
    text: str, delimiter: str, path: Path
) -> tuple[list[str], int, list[list[str]]]:
    """Return the header, the line it ends on and the rows that follow."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    skip, sample = 0, []
    try:
        for row in reader:
            if not row or (len(row) == 1 and not row[0].strip()):
                continue
            if not header:
                header, skip = _header(row, path, reader.line_num), reader.line_num
                continue
            sample.append(row)
            if len(sample) == _SNIFFED:
                break
    except csv.Error as error:
        if len(text) < _HEAD:
            fail(path, f"broken quoting or a long field ({error})", reader.line_num)
    return header, skip, sample


def _header(row: list[str], path: Path, line: int) -> list[str]:
    # A column without a name gets the name that pandas would give it.
    names = [name.strip() or f"Unnamed: {j}" for j, name in enumerate(row)]
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        fail(path, f"two columns are called {doubled[0]!r}", line)
    return names


def _looks_numeric(tokens: list[str], decimal: str) -> bool:
    present = [t for t in tokens if t.strip() not in MISSING_WORDS]
    return all(number(t, decimal) is not None for t in present)


# --------------------------------------------------------------------- fast path


def _fast(
    path: Path, text: str, layout: _Layout, wanted: set[str], as_text: set[str]
) -> dict[str, npt.NDArray[Any]] | None:
    """Read all rows with NumPy, or return None if that is not certain to be right."""
    if '"' in text and not _quoting_is_sound(text, layout.delimiter):
        return None
    kinds = []
    for name, is_number in zip(layout.header, layout.is_number, strict=True):
        if name not in wanted:
            kinds.append("U1")  # only the width of rows is checked
        else:
            kinds.append("f8" if is_number and name not in as_text else "O")
    dtype = np.dtype([(f"c{j}", kind) for j, kind in enumerate(kinds)])
    plain = path.suffix != ".gz" and layout.decimal == "."
    table = _loadtxt(path if plain else _lines(text, layout), layout, dtype)
    if table is None and '"' not in text:
        filled = _fill_empty(text, layout)
        table = _loadtxt(_lines(filled, layout), layout, dtype)
    if table is None:
        return None
    columns = {name: table[f"c{j}"] for j, name in enumerate(layout.header)}
    if layout.decimal == ",":
        # All commas were replaced by periods: text is read again with its commas.
        places = [j for j, kind in enumerate(kinds) if kind == "O"]
        if places:
            part = np.dtype([(f"c{j}", "O") for j in places])
            again = _loadtxt(_lines(text, layout, "."), layout, part, places)
            if again is None:
                return None
            columns |= {layout.header[j]: again[f"c{j}"] for j in places}
    return {name: values for name, values in columns.items() if name in wanted}


def _lines(text: str, layout: _Layout, decimal: str | None = None) -> list[str]:
    if (decimal or layout.decimal) == ",":
        text = text.replace(",", ".")
    return re.split(r"\r\n|\n|\r", text) if "\r" in text else text.split("\n")


def _loadtxt(
    source: Any, layout: _Layout, dtype: Any, usecols: Any = None
) -> npt.NDArray[Any] | None:
    if isinstance(source, list):
        source = source[layout.skip :]
    try:
        return np.loadtxt(
            source,
            dtype=dtype,
            delimiter=layout.delimiter,
            skiprows=0 if isinstance(source, list) else layout.skip,
            comments=None,
            quotechar='"',
            usecols=usecols,
            encoding="utf-8-sig",
            ndmin=1,
        )
    except ValueError:
        return None


def _quoting_is_sound(text: str, delimiter: str) -> bool:
    """Whether every quoted field begins and ends where a field does."""
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    places = np.flatnonzero(raw == ord('"'))
    if places.size % 2:
        return False
    ends = np.array([ord(delimiter), ord("\n"), ord("\r")], dtype=np.uint8)
    opening, closing = places[::2], places[1::2]
    # Two quotes in a row inside a field close it and open it again.
    reopened = np.zeros(len(opening), dtype=bool)
    reopened[1:] = opening[1:] == closing[:-1] + 1
    before = raw[np.maximum(opening - 1, 0)]
    after = raw[np.minimum(closing + 1, len(raw) - 1)]
    begins = np.isin(before, ends) | (opening == 0) | reopened
    closes = np.isin(after, ends) | (closing == len(raw) - 1)
    closes[:-1] |= reopened[1:]
    return bool(begins.all() and closes.all())


def _fill_empty(text: str, layout: _Layout) -> str:
    """Write a word that reads as NaN into cells that hold nothing."""
    text = text.replace("\r\n", "\n").replace("\r", "\n") + "\n"
    between, end = layout.delimiter, "\n"
    for word in layout.missing:
        # The first pair twice, as adjacent fields share a delimiter.
        for left, right in (
            (between, between),
            (between, between),
            (between, end),
            (end, between),
        ):
            text = text.replace(left + word + right, left + _EMPTY + right)
    return text[:-1]


# -------------------------------------------------------------------- row by row


def _rows(path: Path, text: str, layout: _Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines on which the rows of data begin, with the rows."""
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=layout.delimiter, strict=True
    )
    # A quoted field may span lines: a row begins after the last line of the previous.
    start = 1
    try:
        for row in reader:
            line, start = start, reader.line_num + 1
            if line <= layout.skip or not row:
                continue
            if len(row) == 1 and not row[0].strip():
                continue
            yield line, row
    except csv.Error as error:
        fail(path, f"broken quoting or a long field ({error})", reader.line_num)


def _row_by_row(path: Path, text: str, layout: _Layout) -> dict[str, npt.NDArray[Any]]:
    rows = []
    for line, row in _rows(path, text, layout):
        if len(row) != len(layout.header):
            fail(
                path,
                f"the row has {len(row)} fields, the header has "
                f"{len(layout.header)}; is the file truncated?",
                line,
            )
        rows.append(row)
    table = np.empty((len(rows), len(layout.header)), dtype=object)
    if rows:
        table[:] = rows
    return {name: table[:, j] for j, name in enumerate(layout.header)}


# ----------------------------------------------------------------------- columns


def _names(values: npt.NDArray[Any], part: str) -> Column:
    """Read names or labels: as numbers if all of them are, otherwise as text."""
    if values.dtype.kind == "f":
        return Column("number", values)
    tokens = ["" if t == _EMPTY else t.strip() for t in values.tolist()]
    if part in ("label", "time", "event"):
        found = label_values(["" if t in NO_LABELS else t for t in tokens])
    else:
        found = plain_values(tokens)
    return Column("number" if found.dtype.kind != "O" else "text", found, "text")


def _feature(values: npt.NDArray[Any], decimal: str) -> Column:
    """Read tokens as numbers or booleans if all of them are, otherwise as text."""
    if values.dtype.kind == "f":
        return Column("number", values, "numbers")
    tokens = [t.strip() for t in values.tolist()]
    missing = [t == _EMPTY or t in MISSING_WORDS for t in tokens]
    numbers = [
        np.nan if absent else number(t, decimal, finite=False)
        for t, absent in zip(tokens, missing, strict=True)
    ]
    if all(v is not None for v in numbers):
        return Column("number", np.array(numbers, dtype=np.float64), "numbers")
    present = [t for t, absent in zip(tokens, missing, strict=True) if not absent]
    truths = boolean_values(present)
    if truths is not None:
        column = np.full(len(tokens), np.nan)
        column[~np.array(missing)] = truths
        return Column("number", column, "booleans")
    found = np.empty(len(tokens), dtype=object)
    found[:] = [
        None if absent else t for t, absent in zip(tokens, missing, strict=True)
    ]
    return Column("text", found, "text")


# -------------------------------------------------------------------------- writing


def write_csv(
    file: TextIO,
    header: Iterable[str],
    rows: Iterable[Iterable[Any]],
    *,
    escape: bool = True,
) -> None:
    """Write a header and rows as CSV.

    Parameters
    ----------
    file : text file
        Open for writing, with ``newline=""``.
    header : iterable of str
        Names of the columns.
    rows : iterable of iterables
        The cells.
    escape : bool, default=True
        Whether text that a spreadsheet would take for a formula (it begins with ``=``,
        ``+``, ``-`` or ``@``) gets an apostrophe in front. Numbers are never changed,
        nor is text that spells a number.
    """
    cell = _escaped if escape else (lambda value: value)
    writer = csv.writer(file)
    writer.writerow([cell(name) for name in header])
    writer.writerows([cell(value) for value in row] for row in rows)


def _escaped(value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = str(value)
    if _FORMULA.match(text) and number(text) is None:
        return f"'{text}"
    return value
