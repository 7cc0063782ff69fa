"""Delimited text with a header: one row per instance."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.io.readers._common import assemble, fail, numbers, read_text

_DELIMITERS = (",", ";", "\t")


def read_csv(
    path: Path, bag: str | None, label: str | None, drop: Sequence[str] = ()
) -> Any:
    """Read delimited text; see `read_bags`."""
    text = read_text(path)
    first = text.lstrip("\r\n").splitlines()[0]
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=_delimiter(first, path), strict=True
    )
    rows: list[list[float]] = []
    bags: list[str] = []
    labels: list[str] = []
    lines: list[int] = []
    header: list[str] | None = None
    # A quoted field may span lines: a row begins after the line the last one ended.
    start = 1
    try:
        for row in reader:
            line, start = start, reader.line_num + 1
            if not row or (len(row) == 1 and not row[0].strip()):
                continue
            if header is None:
                header = [name.strip() for name in row]
                keep = _columns(header, bag, label, drop, path, line)
                names = [header[j] for j in keep]
                continue
            if len(row) != len(header):
                fail(
                    path,
                    f"the row has {len(row)} fields, the header has {len(header)}; is "
                    "the file cut off?",
                    line,
                )
            rows.append(numbers([row[j] for j in keep], path, line, names))
            bags.append(_cell(row, header, bag, path, line))
            if label is not None:
                labels.append(_cell(row, header, label, path, line))
            lines.append(line)
    except csv.Error as error:
        fail(path, f"broken quoting or an over-long field ({error})", reader.line_num)
    if not rows:
        fail(path, "there is a header but no row of data")
    return assemble(
        np.array(rows), bags, None if label is None else labels, lines, path, names
    )


def _delimiter(header: str, path: Path) -> str:
    if path.suffix.lower() == ".tsv":
        return "\t"
    counts = {d: header.count(d) for d in _DELIMITERS}
    return max(_DELIMITERS, key=lambda d: counts[d])


def _columns(
    header: list[str],
    bag: str | None,
    label: str | None,
    drop: Sequence[str],
    path: Path,
    line: int,
) -> list[int]:
    """Return the indices of the feature columns."""
    shown = ", ".join(repr(name) for name in header[:20])
    doubled = [name for name in header if header.count(name) > 1]
    if doubled:
        fail(path, f"two columns are called {doubled[0]!r}", line)
    if bag is None:
        fail(path, f"say which column tells the bag: bag=..., one of {shown}")
    if bag == label:
        fail(path, f"the bag and the label column are the same, {bag!r}")
    for name in (bag, label, *drop):
        if name is not None and name not in header:
            fail(path, f"there is no column {name!r}; the header has {shown}", line)
    left_out = {bag, label, *drop}
    keep = [j for j, name in enumerate(header) if name not in left_out]
    if not keep:
        fail(path, "there is no feature column besides the bag and the label", line)
    return keep


def _cell(
    row: list[str], header: list[str], name: str | None, path: Path, line: int
) -> str:
    assert name is not None
    value = row[header.index(name)].strip()
    if not value:
        fail(path, f"column {name!r} is empty", line)
    return value
