"""Columns of a table that are not numbers: dates, categories and texts as codes."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.bags.codings import Coding

__all__ = ["NotADate", "coded", "is_date", "longer_texts"]

Array = npt.NDArray[Any]
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")
_FORMATS = ("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_TIMES = ("", " %H:%M", " %H:%M:%S")
# Minimum mean number of words of a text; shorter values are names or codes.
_WORDS = 5
_EPOCH = datetime.datetime(1970, 1, 1)


class NotADate(ValueError):
    """An entry is not a date, or its day and month cannot be distinguished."""

    def __init__(self, problem: str, row: int) -> None:
        super().__init__(problem)
        self.row = row


def coded(values: Array, kind: str, missing: Array) -> tuple[Array, Coding]:
    """Return a column as numbers, and what the numbers stand for.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Texts, numbers or dates.
    kind : {"category", "text", "date"}
        What the column holds.
    missing : ndarray of bool of shape (n_rows,)
        Which entries are missing: the empty text, or NaN for dates.
    """
    if kind == "date":
        return _seconds(values, missing), Coding("date")
    texts = [
        "" if absent else _text(value)
        for value, absent in zip(values.tolist(), missing, strict=True)
    ]
    coding, codes = Coding.of(texts, kind)
    return codes, coding


def _text(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value).strip()


def is_date(text: str) -> bool:
    """Whether a text is spelled like a date."""
    return _DATE.fullmatch(text.strip()) is not None


def longer_texts(texts: list[str]) -> bool:
    """Whether texts are sentences rather than names of categories."""
    return bool(np.mean([len(text.split()) for text in texts]) >= _WORDS)


# --------------------------------------------------------------------------- dates


def _seconds(values: Array, missing: Array) -> Array:
    """Return dates as seconds since 1970, in UTC where they have a time zone."""
    out = np.full(len(values), np.nan)
    rows = np.flatnonzero(~missing)
    if values.dtype.kind == "M":
        out[rows] = values[rows].astype("datetime64[us]").astype(np.int64) / 1e6
        return out
    known: dict[Any, int] = {}
    for row in rows.tolist():
        known.setdefault(values[row], row)
    read = _reader(known) if any(isinstance(v, str) for v in known) else _plain
    seconds = {}
    for value, row in known.items():
        try:
            seconds[value] = read(value)
        except (AttributeError, TypeError, ValueError, OverflowError):
            raise NotADate(f"{str(value)[:40]!r} is not a date", row) from None
    out[rows] = [seconds[values[row]] for row in rows.tolist()]
    return out


def _plain(value: Any) -> float:
    """Return the seconds of a date, or of a text in ISO format."""
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64) / 1e6)
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value.strip())
    elif hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime(warn=False)
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return float((value - _EPOCH).total_seconds())


def _reader(known: dict[Any, int]) -> Callable[[Any], float]:
    """Return the function that reads all texts of a column as dates."""
    texts = [value for value in known if isinstance(value, str)]
    if _reads_all(_plain, texts):
        return _plain
    found = [read for read in _spelled() if _reads_all(read, texts)]
    differs = [t for t in texts if len({read(t) for read in found}) > 1]
    if differs:
        first = differs[0]
        raise NotADate(
            f"{first!r} is ambiguous, like all dates of the column: day and month "
            "cannot be distinguished. Write dates as 2026-12-31",
            known[first],
        )
    return found[0] if found else _plain


def _spelled() -> Iterator[Callable[[Any], float]]:
    for form in _FORMATS:
        for clock in _TIMES:

            def read(text: Any, spelling: str = form + clock) -> float:
                return _plain(datetime.datetime.strptime(text.strip(), spelling))

            yield read


def _reads_all(read: Callable[[Any], float], texts: list[str]) -> bool:
    try:
        for text in texts:
            read(text)
    except ValueError:
        return False
    return True
