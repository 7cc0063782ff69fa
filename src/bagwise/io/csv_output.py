"""CSV files that a spreadsheet opens without running anything."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import Any, TextIO

__all__ = ["write_csv"]

# How formulas begin, also in the full-width letters that some spreadsheets accept.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


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
    if _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return value
