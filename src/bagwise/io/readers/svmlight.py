"""The svmlight files with bag ids of Andrews, Tsochantaridis and Hofmann.

A line is ``instance:bag:label index:value index:value ...`` with indices from 1;
a line that begins with ``#`` is a comment.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise._sizes import check_memory
from bagwise.io.readers.common import (
    assemble,
    fail,
    number,
    numbered_lines,
    read_text,
)

# A matrix is kept sparse when it is both mostly zero and large as an array.
_DENSE_BYTES = 64 * 2**20
_SPARSE_SHARE = 0.2
_INDEX = re.compile(r"[1-9][0-9]{0,8}")


def read_svmlight(
    path: Path, n_features: int | None = None, sparse: bool | None = None
) -> Any:
    """Read a file with bag ids; see `read_bags`."""
    data, bags, labels, lines = parse_svmlight(read_text(path), path, n_features)
    return assemble(choose_storage(data, sparse), bags, labels, lines, path)


def choose_storage(data: sp.csr_array, sparse: bool | None) -> Any:
    """Return the matrix sparse or dense, as asked or as is sensible."""
    if sparse is None:
        n_rows, n_columns = data.shape
        large = 8 * n_rows * n_columns > _DENSE_BYTES
        sparse = large and data.nnz < _SPARSE_SHARE * n_rows * n_columns
    if not sparse:
        n_bytes = 8.0 * data.shape[0] * data.shape[1]
        check_memory(n_bytes, "the matrix", "Leave out sparse=False to keep it sparse.")
    return data if sparse else data.toarray()


def parse_svmlight(
    text: str, path: Path, n_features: int | None = None
) -> tuple[sp.csr_array, list[str], list[str], list[int]]:
    """Parse the text into a matrix with a bag and a label per row."""
    values: list[float] = []
    indices: list[int] = []
    indptr = [0]
    bags: list[str] = []
    labels: list[str] = []
    lines: list[int] = []
    for line, content in numbered_lines(text, comment="#"):
        head, *pairs = content.split()
        _, bag, label = _head(head, path, line)
        last = 0
        for pair in pairs:
            index, value = _pair(pair, path, line)
            if index <= last:
                fail(path, f"index {index} comes after {last}; they must grow", line)
            if n_features is not None and index > n_features:
                fail(path, f"index {index} exceeds the {n_features} features", line)
            indices.append(index - 1)
            values.append(value)
            last = index
        indptr.append(len(indices))
        bags.append(bag)
        labels.append(label)
        lines.append(line)
    if not bags:
        fail(path, "there are only comments, no data")
    width = n_features or (max(indices) + 1 if indices else 0)
    if width == 0:
        fail(path, "no line has a feature")
    parts = (np.array(values), np.array(indices, dtype=np.int32), np.array(indptr))
    return sp.csr_array(parts, shape=(len(bags), width)), bags, labels, lines


def _head(token: str, path: Path, line: int) -> tuple[str, str, str]:
    fields = token.split(":")
    if len(fields) != 3 or not all(fields):
        fail(path, f"a line begins with instance:bag:label, got {token[:40]!r}", line)
    value = number(fields[2])
    if value is None:
        fail(path, f"the label {fields[2][:40]!r} is not a number", line)
    # "+1", "1" and "1.0" are one label.
    label = str(int(value)) if value == int(value) else repr(value)
    return fields[0], fields[1], label


def _pair(token: str, path: Path, line: int) -> tuple[int, float]:
    index, colon, value = token.partition(":")
    parsed = number(value) if colon else None
    if parsed is None or not _INDEX.fullmatch(index):
        fail(
            path,
            f"expected index:value with an index from 1, got {token[:40]!r}; is the "
            "file cut off?",
            line,
        )
    return int(index), parsed
