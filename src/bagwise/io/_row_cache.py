"""Rows of many files as one matrix: in memory, or in a file that is mapped."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bagwise._sizes import check_disk, check_memory, check_unpacked
from bagwise.bags.stored import all_finite
from bagwise.exceptions import DataWarning
from bagwise.io._slides import Sides, SlideFile
from bagwise.io.files import whole_file

# Rows that take less than this share of the memory are kept in it.
_SHARE_OF_MEMORY = 8
_PIECE = 2**24


class Stacked(NamedTuple):
    """Rows of many files, one after the other.

    Attributes
    ----------
    rows : ndarray or memmap of shape (n_rows, n_features)
        The rows of all valid files.
    coords, names : ndarray or None
        Coordinates and names of the rows, if every file has them.
    wrong : dict
        The problem of each invalid file by its name; its rows are left out.
    """

    rows: npt.NDArray[Any]
    coords: npt.NDArray[Any] | None
    names: npt.NDArray[Any] | None
    wrong: dict[str, str]


def stacked_rows(
    files: Sequence[SlideFile],
    folder: str | os.PathLike[str] | None | bool,
    missing: str,
) -> Stacked:
    """Read the rows of all files, or find the copy that was made last time.

    Parameters
    ----------
    files : sequence of SlideFile
        The files, in order.
    folder : path, None or bool
        Folder of the copy; None and True are the user's cache folder, and False keeps
        the rows in memory.
    missing : {"error", "keep"}
        Whether NaN makes a file invalid.
    """
    width = files[0].n_features
    dtype = _common_type(files)
    total = sum(f.n_rows for f in files)
    n_bytes = total * width * dtype.itemsize
    claimed = sum(f.n_rows * width * f.dtype.itemsize for f in files)
    check_unpacked(claimed, sum(f.n_stored for f in files))
    small = n_bytes * _SHARE_OF_MEMORY < _memory()
    if folder is False or (folder is None and small):
        if not small:
            hint = "Omit cache=False to keep the rows in a file."
            check_memory(n_bytes, "the rows in memory", hint)
        return _in_memory(np.empty((total, width), dtype=dtype), files, missing)
    where = _cache_folder() if isinstance(folder, bool | None) else Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    target = where / f"rows-{_fingerprint(files, missing)}.bin"
    notes = target.with_suffix(".npz")
    found = _kept(target, notes, files, dtype)
    if found is None:
        hint = "Name a folder on a larger disk with cache=, or set BAGWISE_CACHE."
        check_disk(n_bytes, where, "the rows of all files", hint)
        _write(target, notes, files, dtype, missing)
        found = _kept(target, notes, files, dtype)
    if found is None:
        raise OSError(f"{target}: the copy of the rows was changed while it was read")
    return found


def _kept(
    target: Path, notes: Path, files: Sequence[SlideFile], dtype: np.dtype[Any]
) -> Stacked | None:
    """Return the rows of an earlier copy, or None if there is no complete one."""
    if not (target.is_file() and notes.is_file()):
        return None
    try:
        with np.load(notes, allow_pickle=False) as told:
            n_rows, wrong = int(told["n_rows"]), json.loads(str(told["wrong"]))
            coords = told["coords"] if "coords" in told else None
            names = told["names"] if "names" in told else None
            checksums = told["checksums"].tolist()
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    width = files[0].n_features
    rows_of = [f.n_rows for f in files if f.name not in wrong]
    n_bytes = [n * width * dtype.itemsize for n in rows_of]
    sizes_agree = sum(rows_of) == n_rows and target.stat().st_size == sum(n_bytes)
    if not sizes_agree or _checksums(target, n_bytes) != checksums:
        text = f"{target}, the copy of the rows, was changed; it is written again"
        warnings.warn(DataWarning(text), stacklevel=6)
        return None
    if not n_rows:
        return Stacked(np.empty((0, width), dtype=dtype), None, None, wrong)
    rows = np.memmap(target, dtype=dtype, mode="r", shape=(n_rows, width))
    return Stacked(rows, coords, names, wrong)


def _checksums(path: Path, n_bytes: Sequence[int]) -> list[int]:
    """Return a checksum for each of the parts of a file, which follow one another."""
    found = []
    with path.open("rb") as stream:
        for left in n_bytes:
            value = 0
            while left > 0 and (piece := stream.read(min(left, _PIECE))):
                value, left = zlib.crc32(piece, value), left - len(piece)
            found.append(value)
    return found


def _in_memory(
    rows: npt.NDArray[Any], files: Sequence[SlideFile], missing: str
) -> Stacked:
    start, sides, wrong = 0, [], {}
    for file in files:
        out = rows[start : start + file.n_rows]
        try:
            for _ in _valid_blocks(file, missing, rows.dtype, out):
                pass
            sides.append(_sides(file))
        except _InvalidFile as problem:
            wrong[file.name] = str(problem)
            continue  # the next file overwrites its rows
        start += file.n_rows
    coords, names = _joined(sides)
    return Stacked(rows[:start], coords, names, wrong)


def _write(
    target: Path,
    notes: Path,
    files: Sequence[SlideFile],
    dtype: np.dtype[Any],
    missing: str,
) -> None:
    """Write the matrix and then the notes, each complete or not at all.

    Writing to a memory map instead would cost a page fault for every page.
    """
    n_rows, row_bytes = 0, files[0].n_features * dtype.itemsize
    sides, checksums, wrong = [], [], {}
    with whole_file(target) as stream:
        _reserve(stream, sum(f.n_rows for f in files) * row_bytes)
        for file in files:
            checksum = 0
            try:
                for block in _valid_blocks(file, missing, dtype):
                    raw = block.view(np.uint8).reshape(-1).data
                    checksum = zlib.crc32(raw, checksum)
                    stream.write(raw)
                sides.append(_sides(file))
            except _InvalidFile as problem:
                wrong[file.name] = str(problem)
                stream.seek(n_rows * row_bytes)  # the next file overwrites its rows
                continue
            n_rows += file.n_rows
            checksums.append(checksum)
        stream.truncate()
    told: dict[str, Any] = {"n_rows": n_rows, "wrong": json.dumps(wrong)}
    told["checksums"] = np.array(checksums, dtype=np.int64)
    for name, joined in zip(("coords", "names"), _joined(sides), strict=True):
        if joined is not None:
            told[name] = joined
    with whole_file(notes) as stream:
        np.savez(stream, **told)


class _InvalidFile(Exception):
    """A file that cannot be read, or rows that are not finite."""


@contextmanager
def _problems_of_the_file() -> Iterator[None]:
    """Turn the errors of a damaged file, which are of many kinds, into one."""
    try:
        yield
    except (_InvalidFile, FileNotFoundError, ImportError, MemoryError):
        raise
    except Exception as error:
        problem = f"cannot be read ({type(error).__name__}: {error})"
        raise _InvalidFile(problem) from error


def _valid_blocks(
    file: SlideFile,
    missing: str,
    dtype: np.dtype[Any],
    out: npt.NDArray[Any] | None = None,
) -> Iterator[npt.NDArray[Any]]:
    """Read the blocks of one file; errors of whoever uses them are not caught."""
    blocks = file.blocks(dtype, out)
    while True:
        with _problems_of_the_file():
            found = next(blocks, None)
        if found is None:
            return
        first, block = found
        problem = _not_finite(block, missing, first)
        if problem is not None:
            raise _InvalidFile(problem)
        yield block


def _sides(file: SlideFile) -> Sides:
    with _problems_of_the_file():
        return file.sides()


def problem_of(file: SlideFile, missing: str) -> str:
    """Read one file to see what is wrong with it; empty if nothing is."""
    dtype = file.dtype if file.dtype.kind == "f" else np.dtype(np.float32)
    try:
        for _ in _valid_blocks(file, missing, dtype):
            pass
        _sides(file)
    except _InvalidFile as problem:
        return str(problem)
    return ""


def _joined(sides: Sequence[Sides]) -> list[npt.NDArray[Any] | None]:
    """Stack coordinates and names if every file has them."""
    joined: list[npt.NDArray[Any] | None] = []
    for k in range(2):
        parts = [side[k] for side in sides]
        there = [part for part in parts if part is not None]
        complete = len(there) == len(parts) > 0
        joined.append(np.concatenate(there) if complete else None)
    return joined


def _memory() -> int:
    """Return the bytes of memory of this computer, or a cautious guess."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 * 2**30


def _reserve(stream: Any, n_bytes: int) -> None:
    """Reserve the space at once: faster, and a full disk is noticed before any work."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(stream.fileno(), 0, n_bytes)


def _not_finite(part: npt.NDArray[Any], missing: str, first: int) -> str | None:
    if part.dtype == np.float16:
        finite = all_finite(part)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            finite = bool(np.isfinite(part.sum()) or np.isfinite(part).all())
    if finite or (missing == "keep" and not np.isinf(part).any()):
        return None
    bad = np.argwhere(~np.isfinite(part))
    kind = "NaN" if np.isnan(part[tuple(bad[0])]) else "infinity"
    return f"holds {kind} (row {first + bad[0][0]}, feature {bad[0][1]})"


def _common_type(files: Sequence[SlideFile]) -> np.dtype[Any]:
    kinds = {f.dtype if f.dtype.kind == "f" else np.dtype(np.float32) for f in files}
    found = np.result_type(*kinds)
    return found if found.itemsize <= 8 else np.dtype(np.float64)


def _fingerprint(files: Sequence[SlideFile], missing: str) -> str:
    """Identify the state of the files by their names, sizes and times."""
    text = [missing]
    for file in files:
        status = file.path.stat()
        place = str(file.path.resolve())
        text.append(f"{place}|{file.dataset}|{status.st_size}|{status.st_mtime_ns}")
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:32]


def _cache_folder() -> Path:
    chosen = os.environ.get("BAGWISE_CACHE")
    if chosen:
        return Path(chosen).expanduser() / "folders"
    import pooch

    return Path(pooch.os_cache("bagwise")) / "folders"
