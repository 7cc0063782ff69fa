"""What readers and writers share: whole files, text, numbers, ids and labels."""

from __future__ import annotations

import glob
import gzip
import math
import os
import re
import secrets
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import numpy.typing as npt

from bagwise._sizes import check_memory, check_unpacked
from bagwise.exceptions import DataError

# Only the canonical spelling of an integer is a number: "01" and "1" remain different.
_INTEGER = re.compile(r"-?[1-9][0-9]{0,17}|0")
_PLAIN_ROW = re.compile(r"[0-9eE+. -]*")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.I)
# The words that pandas reads as missing by default, and the question mark.
MISSING_WORDS = frozenset(
    ("", "?", "nan", "NaN", "-nan", "-NaN", "NA", "na", "N/A", "n/a", "<NA>")
    + ("#NA", "#N/A", "#N/A N/A", "NULL", "null", "None", "none")
)
# "none" and "?" may be names of classes.
NO_LABELS = MISSING_WORDS - {"?", "none"}
_TRUTHS = {"True": 1, "TRUE": 1, "true": 1, "False": 0, "FALSE": 0, "false": 0}
_PIECE = 2**22
# A temporary file of this age was left by a process that was killed.
_OLD_SECONDS = 3600


def fail(path: Path, message: str, line: int | None = None) -> NoReturn:
    """Raise the error for damaged files, with the file and the line."""
    row = None if line is None else f"line {line}"
    place = ", ".join(part for part in (str(path), row) if part)
    raise DataError(f"{place}: {message}", row=row)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears under its name whole or not at all.

    It is written under another name in the same folder first. Such drafts of the same
    file that a killed process left behind are removed.
    """
    for old in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        if time.time() - old.stat().st_mtime > _OLD_SECONDS:
            old.unlink(missing_ok=True)
    draft = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    try:
        with draft.open("xb") as stream:
            yield stream
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


# ---------------------------------------------------------------------------- text


def read_bytes(path: Path) -> bytes:
    """Return the content of a text file, unpacked, if it fits into memory."""
    size = path.stat().st_size
    _check_text(size, path)
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            file.seek(0)
            return file.read()
    pieces, n_bytes = [], 0
    try:
        with gzip.open(path) as unpacked:
            while piece := unpacked.read(_PIECE):
                n_bytes += len(piece)
                try:
                    check_unpacked(n_bytes, size)
                except ValueError as error:
                    fail(path, str(error))
                _check_text(n_bytes, path)
                pieces.append(piece)
    except (OSError, EOFError, zlib.error) as error:
        fail(path, f"the gzip file is damaged or truncated ({error})")
    return b"".join(pieces)


def _check_text(n_bytes: int, path: Path) -> None:
    # Factor 3: the bytes, the text, and its numbers.
    hint = "Split the file, or save the table as Parquet or npz."
    check_memory(3.0 * n_bytes, f"{path}: reading the text", hint)


def read_text(path: Path) -> str:
    """Return the whole text of a file, or report why it is not text."""
    raw = read_bytes(path)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fail(
            path,
            "the file is not text in UTF-8. Save it as UTF-8 (spreadsheets call it "
            "CSV UTF-8), or is it another format?",
            raw.count(b"\n", 0, error.start) + 1,
        )
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        fail(path, "the file holds a NUL character; is it another format?", line)
    if not text.strip():
        fail(path, "the file is empty")
    return text


def numbered_lines(text: str, comment: str | None = None) -> Iterator[tuple[int, str]]:
    """Return the lines that are neither blank nor a comment, with their numbers."""
    for line_number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        stripped = line.strip()
        if stripped and not (comment and stripped.startswith(comment)):
            yield line_number, stripped


# ------------------------------------------------------------------------- numbers


def number(token: str, decimal: str = ".", finite: bool = True) -> float | None:
    """Return the number that `token` spells, or None.

    Stricter than `float`, which also reads "1_000", "nan" and digits of other scripts.
    """
    text = token.strip()
    if decimal != ".":
        text = text.replace(decimal, ".")
    if not _NUMBER.fullmatch(text):
        if not finite and _INFINITE.fullmatch(text):
            return float(text)
        return None
    value = float(text)
    return value if math.isfinite(value) or not finite else None


def numbers(
    tokens: Sequence[str], path: Path, line: int, names: Sequence[str] | None = None
) -> list[float]:
    """Return the numbers of one row, or name the column that does not hold one."""
    # For tokens of these characters, `float` accepts nothing that `number` rejects.
    if _PLAIN_ROW.fullmatch("".join(tokens)):
        try:
            row = [float(token) for token in tokens]
        except ValueError:
            row = [math.inf]
        if all(map(math.isfinite, row)):
            return row
    values = []
    for j, token in enumerate(tokens):
        value = number(token)
        if value is None:
            column = f"column {names[j]!r}" if names else f"value {j + 1}"
            fail(path, f"{column} holds {_shown(token)}", line)
        values.append(value)
    return values


def _shown(token: str) -> str:
    text = token.strip()
    if text == "" or text == "?" or text.lower() in ("nan", "na", "null", "none"):
        return f"{text!r}, a missing value. Fill it in or remove it first"
    try:
        float(text.replace("_", "x"))
    except ValueError:
        return f"{text[:40]!r}, which is not a number"
    return f"{text[:40]!r}, which is not a finite number"


# ----------------------------------------------------------------- ids and labels


def boolean_values(tokens: Sequence[str]) -> npt.NDArray[np.bool_] | None:
    """Return booleans if every token spells one, otherwise None."""
    if not tokens or not all(t in _TRUTHS for t in tokens):
        return None
    return np.array([_TRUTHS[t] for t in tokens], dtype=bool)


def plain_values(tokens: Sequence[str]) -> npt.NDArray[Any]:
    """Return ids as int64 if every token is written as Python would, else objects."""
    if all(_INTEGER.fullmatch(t) for t in dict.fromkeys(tokens)):
        return np.array([int(t) for t in tokens], dtype=np.int64)
    result = np.empty(len(tokens), dtype=object)
    result[:] = list(tokens)
    return result


def label_values(tokens: Sequence[str]) -> npt.NDArray[Any]:
    """Return labels as int64, float64, bool or objects, the first that fits them all.

    An empty token is a missing label; it stays empty.
    """
    values = plain_values(tokens)
    if values.dtype != object:
        return values
    truths = boolean_values(tokens)
    if truths is not None:
        return truths
    floats = {t: number(t) for t in dict.fromkeys(tokens)}
    if all(f is not None for f in floats.values()):
        return np.array([floats[t] for t in tokens], dtype=np.float64)
    return values


def file_names(ids: Sequence[Any]) -> list[str]:
    """Return a distinct name of a file, without suffix, for each id.

    Ids come from data: letters, digits, ``.``, ``_`` and ``-`` stay, and what follows
    is never hidden, a path, or a name of another id in other letter case.

    Parameters
    ----------
    ids : sequence of object
        Such as the ids of bags.

    Examples
    --------
    >>> file_names(["slide 1", "../slide_1", "a.svs", "A.svs"])
    ['slide_1', 'slide_1-2', 'a.svs', 'A.svs-2']
    """
    names: list[str] = []
    used: set[str] = set()
    for one in ids:
        plain = re.sub(r"[^\w.-]+", "_", str(one))[:80].strip("._- ") or "bag"
        name, k = plain, 1
        while name.casefold() in used:
            k += 1
            name = f"{plain}-{k}"
        used.add(name.casefold())
        names.append(name)
    return names
