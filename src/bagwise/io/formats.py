"""Small formats: npz, svmlight and Musk with bags, Parquet."""

from __future__ import annotations

import os
import re
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bagwise._sizes import check_memory, check_unpacked
from bagwise.bags import Bags, Ragged
from bagwise.bags.validation import group_rows
from bagwise.exceptions import DataWarning, MissingValuesError, UnknownColumnError
from bagwise.io._columns import frame_table
from bagwise.io.files import (
    NO_LABELS,
    fail,
    label_values,
    number,
    numbered_lines,
    numbers,
    plain_values,
    read_text,
    whole_file,
)
from bagwise.io.roles import Roles, join_targets
from bagwise.io.table import Table

_CSR = ("data", "indices", "indptr", "shape")
# A matrix is kept sparse if it is mostly zero and would be large as an array.
_DENSE_BYTES = 64 * 2**20
_SPARSE_SHARE = 0.2
_INDEX = re.compile(r"[1-9][0-9]{0,8}")
# Rows of Parquet read at a time.
_BATCH = 2**14

# ----------------------------------------------------------------------------- npz


def load_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return all arrays of an archive, or report that it is damaged."""
    _check_unpacked_size(path)
    try:
        opened = np.load(path, allow_pickle=False)
        if isinstance(opened, np.ndarray):
            raise ValueError("it holds a single array")
        with opened as archive:
            return {name: archive[name] for name in archive.files}
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    # A damaged file raises zip, zlib, struct, header or memory errors.
    except Exception as error:
        fail(path, f"not a readable npz archive, or truncated ({error})")


def _check_unpacked_size(path: Path) -> None:
    """Refuse an archive that would fill the memory."""
    try:
        with zipfile.ZipFile(path) as archive:
            full = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return  # NumPy reports what is wrong with it
    try:
        check_unpacked(full, path.stat().st_size)
        check_memory(full, "the archive", "Split it.")
    except ValueError as error:
        fail(path, str(error))


def stacked_matrix(
    arrays: dict[str, Any], path: Path, prefix: str = "X", missing: str = "error"
) -> Any:
    """Return the instances of an archive, dense or CSR."""
    if prefix in arrays:
        matrix = arrays[prefix]
    elif all(part in arrays for part in _CSR):
        matrix = _csr(arrays, path)
    else:
        fail(path, f"there is neither {prefix!r} nor the CSR parts {', '.join(_CSR)}")
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        fail(path, f"the instances must be a matrix of numbers, got {matrix.dtype}")
    values = matrix.data if sp.issparse(matrix) else matrix
    if np.isinf(values).any():
        fail(path, "the instances hold infinity")
    if missing == "error" and np.isnan(values).any():
        raise MissingValuesError(
            f"{path}: the instances have missing values (NaN)",
            "Set {0} so that an imputer can fill them in, or remove them.",
            ("missing", "keep"),
        )
    return matrix


def _csr(arrays: dict[str, Any], path: Path) -> sp.csr_array:
    data, indices, indptr, shape = (arrays[part] for part in _CSR)
    integers = all(a.dtype.kind in "iu" for a in (indices, indptr, shape))
    if not integers or data.dtype.kind not in "fiub" or shape.shape != (2,):
        fail(path, "the CSR parts have wrong types")
    try:
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        fail(path, f"the CSR parts do not fit together ({error})")
    return matrix


def bag_offsets(bag: Any, n_rows: int, path: Path) -> npt.NDArray[np.int64]:
    """Return the offsets that a sorted bag index 0..n-1 describes."""
    bag = np.asarray(bag)
    if bag.shape != (n_rows,) or bag.dtype.kind not in "iu":
        fail(path, f"the bag index must be {n_rows} integers, one per instance")
    if n_rows == 0:
        fail(path, "there is no instance")
    steps = np.diff(bag.astype(np.int64))
    if bag[0] != 0 or not np.isin(steps, (0, 1)).all():
        fail(path, "the bag index must run 0, 0, ..., 1, 1, ... without gaps")
    counts = np.bincount(bag.astype(np.int64))
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def read_npz(path: Path, roles: Roles) -> Any:
    """Read an archive; see `read_bags`."""
    arrays = load_arrays(path)
    shown = ", ".join(sorted(arrays))
    named = (roles.bag, *roles.targets.values(), roles.group, roles.instance_id)
    named += (roles.instance_type,)
    for name in named:
        if name is not None and name not in arrays:
            problem = f"{path}: there is no array {name!r}; the file has {shown}"
            raise UnknownColumnError(problem, columns=[name])
    offsets = None
    cube = "X" in arrays and arrays["X"].ndim == 3
    if cube and roles.bag is None and "bag" not in arrays:
        n_bags, size, width = arrays["X"].shape
        if n_bags * size == 0:
            fail(path, "there is no instance")
        arrays["X"] = arrays["X"].reshape(n_bags * size, width)
        offsets = np.arange(0, (n_bags + 1) * size, size)
    matrix = stacked_matrix(arrays, path, missing=roles.missing)
    if offsets is None:
        bag = roles.bag or "bag"
        if bag not in arrays:
            fail(path, f"there is no array {bag!r}; the file has {shown}")
        offsets = bag_offsets(arrays[bag], matrix.shape[0], path)
    more = {"groups": roles.group, "instance_ids": roles.instance_id, "coords": None}
    more |= {"instance_types": roles.instance_type}
    given = {name: arrays.get(wanted or name) for name, wanted in more.items()}
    extra: dict[str, Any] = {
        name: _text(values) for name, values in given.items() if values is not None
    }
    ids, names = arrays.get("ids"), arrays.get("feature_names")
    try:
        X = Bags(matrix, offsets, ids=_text(ids), feature_names=_text(names), **extra)
    except (ValueError, TypeError) as error:
        fail(path, str(error))
    wanted = roles.targets or ({"label": "y"} if "y" in arrays else {})
    for name in wanted.values():
        _check_labels(arrays[name], name, X, path)
    found = {part: arrays[name] for part, name in wanted.items()}
    return X, join_targets(found, str(path))


def _check_labels(y: npt.NDArray[Any], name: str, X: Bags, path: Path) -> None:
    if y.shape[:1] != (X.n_bags,) or y.ndim > 2:
        fail(path, f"{name!r} must have one entry for each of the {X.n_bags} bags")
    if y.dtype.kind not in "fiubU":
        fail(path, f"{name!r} must be numbers or text, got {y.dtype}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        fail(path, f"{name!r} holds NaN or infinity")
    if y.dtype.kind == "U" and np.isin(y, list(NO_LABELS)).any():
        i = int(np.flatnonzero(np.isin(y, list(NO_LABELS)))[0])
        word = str(y[i])
        fail(
            path,
            f"{name!r} is {word!r} for bag {X.ids[i]}, which stands for a "
            "missing label",
        )


def _text(values: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
    if values is not None and values.dtype.kind == "U":
        return values.astype(object)
    return values


def write_npz(
    path: str | os.PathLike[str],
    X: Bags,
    y: npt.ArrayLike | None = None,
    *,
    instance_labels: Ragged | None = None,
    **more: npt.ArrayLike,
) -> None:
    """Write bags to a NumPy archive that `read_bags` and `fetch` read.

    Parameters
    ----------
    path : str or path
        The file. It is written completely or not at all.
    X : Bags
        The bags, dense or sparse.
    y : array-like of shape (n_bags,), default=None
        The labels.
    instance_labels : Ragged, default=None
        Labels of the instances.
    **more : array-like
        Further arrays, stored by name.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.io import read_bags, write_npz
    >>> X, y = make_bags(4, random_state=0)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "toy.npz"
    >>> write_npz(path, X, y)
    >>> read_bags(path)[0].n_bags
    4
    """
    arrays: dict[str, Any] = {"bag": X.bag_index}
    if X.is_sparse:
        parts = (X.data.data, X.data.indices, X.data.indptr, np.array(X.data.shape))
        arrays.update(zip(_CSR, parts, strict=True))
    else:
        arrays["X"] = X.data
    if not np.array_equal(X.ids, np.arange(X.n_bags)):
        arrays["ids"] = _plain(X.ids)
    if X.feature_names is not None:
        arrays["feature_names"] = _plain(X.feature_names)
    for name in ("groups", "instance_ids", "coords", "instance_types"):
        if getattr(X, name, None) is not None:
            arrays[name] = _plain(getattr(X, name))
    if y is not None:
        arrays["y"] = _plain(np.asarray(y))
    if instance_labels is not None:
        arrays["inst_y"] = instance_labels.values
    arrays.update({name: _plain(np.asarray(value)) for name, value in more.items()})
    with whole_file(Path(path)) as stream:
        np.savez_compressed(stream, **arrays)


def _plain(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return objects as text, which can be stored without pickle."""
    return values.astype(str) if values.dtype.kind == "O" else values


# ------------------------------------------------------------------------- svmlight


def read_svmlight(
    path: Path, n_features: int | None = None, sparse: bool | None = None
) -> Any:
    """Read a file with bag ids; see `read_bags`.

    The format is that of Andrews, Tsochantaridis and Hofmann: a line is
    ``instance:bag:label index:value index:value ...`` with indices from 1; a line that
    begins with ``#`` is a comment.
    """
    data, bags, labels, lines = parse_svmlight(read_text(path), path, n_features)
    return assemble(choose_storage(data, sparse), bags, labels, lines, path)


def choose_storage(data: sp.csr_array, sparse: bool | None) -> Any:
    """Return the matrix sparse or dense, as asked or by its size."""
    if sparse is None:
        n_rows, n_columns = data.shape
        large = 8 * n_rows * n_columns > _DENSE_BYTES
        sparse = large and data.nnz < _SPARSE_SHARE * n_rows * n_columns
    if not sparse:
        n_bytes = 8.0 * data.shape[0] * data.shape[1]
        check_memory(n_bytes, "the matrix", "Omit sparse=False to keep it sparse.")
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
                problem = f"index {index} comes after {last}; they must increase"
                fail(path, problem, line)
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
            "file truncated?",
            line,
        )
    return int(index), parsed


# ----------------------------------------------------------------------------- Musk


def read_musk(path: Path) -> Any:
    """Read molecules as bags of conformations; see `read_bags`.

    The files are those of UCI (clean1.data, clean2.data). A line is one conformation:
    molecule, conformation, features, class; there is no header. Numbers are written
    with a trailing period.
    """
    return parse_musk(read_text(path), path)


def parse_musk(text: str, path: Path) -> Any:
    """Parse the text of a Musk file."""
    rows, molecules, labels, lines = [], [], [], []
    width: int | None = None
    for line, content in numbered_lines(text):
        fields = [f.strip() for f in content.split(",")]
        if width is None:
            width = len(fields)
            if width < 4:
                fail(
                    path,
                    "a line of this format is molecule,conformation,f1,...,class; "
                    f"this one has {width} field(s)",
                    line,
                )
        if len(fields) != width:
            fail(
                path,
                f"the line has {len(fields)} fields, the first has {width}; is the "
                "file truncated?",
                line,
            )
        if not fields[0]:
            fail(path, "the molecule has no name", line)
        names = [f"f{j + 1}" for j in range(width - 3)]
        rows.append(numbers(fields[2:-1], path, line, names))
        molecules.append(fields[0])
        value = number(fields[-1])
        if value not in (0.0, 1.0):
            fail(path, f"the class must be 0 or 1, got {fields[-1]!r}", line)
        labels.append(str(int(value)))
        lines.append(line)
    return assemble(np.array(rows), molecules, labels, lines, path, names)


def assemble(
    data: Any,
    bag_tokens: Sequence[str],
    label_tokens: Sequence[str] | None,
    lines: Sequence[int],
    path: Path,
    feature_names: Sequence[str] | None = None,
) -> tuple[Bags, npt.NDArray[Any] | None]:
    """Group rows into bags and find the label of every bag."""
    matrix, offsets, ids, order = group_rows(data, plain_values(bag_tokens))
    names = None
    if feature_names is not None:
        names = np.array(feature_names, dtype=object)
    X = Bags(matrix, offsets, ids=ids, feature_names=names)
    if label_tokens is None:
        return X, None
    labels = label_values(label_tokens)[order]
    if labels.dtype == object:
        labels = labels.astype(str)
    first = labels[offsets[:-1]]
    changed = np.flatnonzero(labels != first[X.bag_index])
    if changed.size:
        row = int(changed[0])
        i = int(X.bag_index[row])
        line = int(np.asarray(lines)[order][row])
        fail(
            path,
            f"bag {ids[i]} has the label {labels[row]} here and {first[i]} before; "
            "a bag has one label",
            line,
        )
    return X, first


# ------------------------------------------------------------ spreadsheets, Parquet


def read_xlsx(path: Path) -> Table:
    """Read the first sheet of a spreadsheet as a table; see `read_bags`."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    if find_spec("pandas") is None or find_spec("openpyxl") is None:
        raise ImportError(
            f"{path}: reading spreadsheets needs pandas and openpyxl; install them with"
            ' pip install "bagwise[excel]", or save the sheet as CSV.'
        )
    import pandas as pd

    _check_unpacked_size(path)
    missing = sorted(NO_LABELS)
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            sheets = book.sheet_names
            _check_sheet(book.book.worksheets[0], path)
            frame = book.parse(keep_default_na=False, na_values=missing)
    except _TooLarge as error:
        fail(path, str(error))
    # A damaged file raises zip, XML or key errors.
    except Exception as error:
        fail(path, f"not a readable xlsx file, or truncated ({str(error)[:300]})")
    if len(sheets) > 1:
        text = f"{path}: of {len(sheets)} sheets only the first, {sheets[0]!r}, is read"
        warnings.warn(DataWarning(text), stacklevel=5)
    frame.columns = [str(name) for name in frame.columns]
    frame = frame.dropna(how="all")
    lines = frame.index.to_numpy() + 2  # the header is the first line
    table = frame_table(frame.reset_index(drop=True), str(path))
    return replace(table, where=lambda row: f"row {lines[row]}")


def _check_sheet(sheet: Any, path: Path) -> None:
    """Refuse a few cells that are far apart: all cells between them take memory."""
    sheet.reset_dimensions()  # the stored dimensions may be wrong
    n_rows = width = 0
    for n_rows, row in enumerate(sheet.rows, 1):  # noqa: B007 (counts the rows)
        width = max(width, len(row))
    _check_size(8 * n_rows * width, path)


def read_parquet(path: Path) -> Table:
    """Read a Parquet file as a table; see `read_bags`."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    return frame_table(load_parquet(path), str(path))


def load_parquet(path: Path) -> Any:
    """Return the table of the library that is installed."""
    if find_spec("pyarrow") is not None:
        try:
            return _with_pyarrow(path)
        except _TooLarge as error:
            fail(path, str(error))
        except Exception as error:
            fail(path, f"not a readable Parquet file, or truncated ({error})")
    if find_spec("polars") is not None:
        import polars as pl

        try:
            n_rows = pl.scan_parquet(path).select(pl.len()).collect().item()
            n_bytes = 8 * n_rows * len(pl.read_parquet_schema(path))
            _check_size(n_bytes, path)
            return pl.read_parquet(path)
        except _TooLarge as error:
            fail(path, str(error))
        except Exception as error:
            fail(path, f"not a readable Parquet file, or truncated ({error})")
    raise ImportError(
        f"{path}: reading Parquet needs pyarrow or polars; install one of them with "
        'pip install "bagwise[arrow]", or save the table as CSV.'
    )


class _TooLarge(Exception):
    """The content of a file does not fit into memory."""


def _with_pyarrow(path: Path) -> Any:
    """Read in batches, as repeated values take hardly any space in the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        _check_size(_claimed(file.metadata), path)
        batches, n_bytes = [], 0
        for batch in file.iter_batches(_BATCH):
            n_bytes += batch.nbytes
            _check_size(n_bytes, path)
            batches.append(batch)
        return pa.Table.from_batches(batches, file.schema_arrow)


def _claimed(metadata: Any) -> int:
    """Return a lower bound of the bytes that all values take in memory."""
    widths = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
    n_bytes = 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        for j in range(group.num_columns):
            column = group.column(j)
            n_bytes += column.num_values * widths.get(column.physical_type, 8)
    return n_bytes


def _check_size(n_bytes: int, path: Path) -> None:
    try:
        check_unpacked(n_bytes, path.stat().st_size)
        check_memory(2.0 * n_bytes, "the table", "Split the file.")
    except ValueError as error:
        raise _TooLarge(str(error)) from None
