"""Rows of many files as one matrix: in memory, or in a file that is mapped."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bagwise._sizes import check_disk, check_memory, check_unpacked
from bagwise.bags.half_precision import all_finite
from bagwise.io.readers._slides import Sides, SlideFile

# Rows that take less than this share of the memory are simply kept in it.
_SHARE_OF_MEMORY = 8


class Stacked(NamedTuple):
    """Rows of many files, one after the other, and what is said about them.

    Attributes
    ----------
    rows : ndarray or memmap of shape (n_rows, n_features)
        The rows of all sound files.
    coords, names : ndarray or None
        Where the rows lie and what they are called, if every file says so.
    wrong : dict
        What is wrong, by the name of the file; its rows are left out.
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
    """Read the rows of all files, or find them where they were kept last time.

    Parameters
    ----------
    files : sequence of SlideFile
        The files, in order.
    folder : path, None or False
        Where the matrix is kept for next time; None is the user's cache folder, and
        False keeps it in memory.
    missing : {"error", "keep"}
        Whether NaN makes a file unsound.
    """
    width = files[0].n_features
    dtype = _common_type(files)
    total = sum(f.n_rows for f in files)
    small = total * width * dtype.itemsize * _SHARE_OF_MEMORY < _memory()
    claimed = sum(f.n_rows * width * f.dtype.itemsize for f in files)
    check_unpacked(claimed, sum(f.n_stored for f in files))
    if folder is False or (folder is None and small):
        if not small:
            hint = "Leave out cache=False to keep the rows in a file."
            check_memory(total * width * dtype.itemsize, "the rows in memory", hint)
        rows = np.empty((total, width), dtype=dtype)
        return _in_memory(rows, files, missing)
    where = _cache_folder() if isinstance(folder, bool | None) else Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    target = where / f"rows-{_fingerprint(files, missing)}.bin"
    note = target.with_suffix(".npz")
    if not (target.is_file() and note.is_file()):
        _write(target, note, files, dtype, missing)
    with np.load(note, allow_pickle=False) as told:
        n_rows, wrong = int(told["n_rows"]), json.loads(str(told["wrong"]))
        coords = told["coords"] if "coords" in told else None
        names = told["names"] if "names" in told else None
    if not n_rows:
        return Stacked(np.empty((0, width), dtype=dtype), None, None, wrong)
    rows = np.memmap(target, dtype=dtype, mode="r", shape=(n_rows, width))
    return Stacked(rows, coords, names, wrong)


def _in_memory(
    rows: npt.NDArray[Any], files: Sequence[SlideFile], missing: str
) -> Stacked:
    start, sides, wrong = 0, [], {}
    for file in files:
        taken = start

        def room(n: int) -> npt.NDArray[Any]:
            nonlocal taken
            taken += n
            return rows[taken - n : taken]

        side, trouble = _read(file, room, lambda part: None, rows.dtype, missing)
        if side is None:
            wrong[file.name] = trouble
            continue
        sides.append(side)
        start = taken
    coords, names = _joined(sides)
    return Stacked(rows[:start], coords, names, wrong)


def _write(
    target: Path,
    note: Path,
    files: Sequence[SlideFile],
    dtype: np.dtype[Any],
    missing: str,
) -> None:
    """Write the matrix and then the note, each whole or not at all.

    Not through a memory map, which would cost a page fault for every page.
    """
    n_rows, n_bytes = 0, files[0].n_features * dtype.itemsize
    sides, wrong = [], {}
    hint = "Name a folder on a larger disk with cache=, or set BAGWISE_CACHE."
    n_total = sum(f.n_rows for f in files) * n_bytes
    check_disk(n_total, target.parent, "the rows of all files", hint)
    handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb", buffering=0) as stream:
            _reserve(stream, n_total)
            for file in files:
                write = partial(_write_all, stream)
                side, trouble = _read(file, None, write, dtype, missing)
                if side is None:
                    wrong[file.name] = trouble
                    stream.seek(n_rows * n_bytes)  # the next one takes its place
                    continue
                sides.append(side)
                n_rows += file.n_rows
            stream.truncate()
        os.replace(temporary, target)
        told: dict[str, Any] = {"n_rows": n_rows, "wrong": json.dumps(wrong)}
        for name, joined in zip(("coords", "names"), _joined(sides), strict=True):
            if joined is not None:
                told[name] = joined
        draft = note.with_name(note.name + ".part")
        with draft.open("wb") as stream_of_note:
            np.savez(stream_of_note, **told)
        os.replace(draft, note)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _write_all(stream: Any, part: npt.NDArray[Any]) -> None:
    raw: Any = memoryview(part.view(np.uint8).reshape(-1))  # type: ignore[arg-type]
    while raw.nbytes:
        raw = raw[stream.write(raw) :]


class _Unsound(Exception):
    """Rows that are no numbers."""


def _read(
    file: SlideFile,
    room: Callable[[int], npt.NDArray[Any]] | None,
    then: Callable[[npt.NDArray[Any]], None],
    dtype: np.dtype[Any],
    missing: str,
) -> tuple[Sides | None, str]:
    """Read one file; return what stands beside its rows, or what is wrong with it."""

    def check(part: npt.NDArray[Any], first: int) -> None:
        trouble = _not_finite(part, missing, first)
        if trouble is not None:
            raise _Unsound(trouble)
        try:
            then(part)
        except OSError as error:  # of the disk that is written to
            raise _Full(error) from error

    try:
        return file.stream(room, check, dtype), ""
    except _Unsound as trouble:
        return None, str(trouble)
    except _Full as full:
        raise full.args[0] from None
    except (FileNotFoundError, ImportError, MemoryError):
        raise
    # Damage inside a file shows in the library that reads it, in many ways.
    except Exception as error:
        return None, f"cannot be read ({type(error).__name__}: {error})"


def trouble_with(file: SlideFile, missing: str) -> str:
    """Read the rows of one file only to see what is wrong with them; often nothing."""
    kind = file.dtype if file.dtype.kind == "f" else np.dtype(np.float32)
    return _read(file, None, lambda part: None, kind, missing)[1]


class _Full(Exception):
    """What went wrong is not the file that is read."""


def _joined(sides: Sequence[Sides]) -> list[npt.NDArray[Any] | None]:
    """Stack coordinates and names where every file has them."""
    joined: list[npt.NDArray[Any] | None] = []
    for k in range(2):
        parts = [side[k] for side in sides]
        there = [part for part in parts if part is not None]
        whole = len(there) == len(parts) > 0
        joined.append(np.concatenate(there) if whole else None)
    return joined


def _memory() -> int:
    """Return the bytes of memory of this machine, or a cautious guess."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 * 2**30


def _reserve(stream: Any, n_bytes: int) -> None:
    """Ask for the room at once: cheaper, and a full disk shows before any work."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(stream.fileno(), 0, n_bytes)


def _not_finite(part: npt.NDArray[Any], missing: str, first: int) -> str | None:
    if part.dtype == np.float16:
        sound = all_finite(part)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            sound = bool(np.isfinite(part.sum()) or np.isfinite(part).all())
    if sound or (missing == "keep" and not np.isinf(part).any()):
        return None
    bad = np.argwhere(~np.isfinite(part))
    kind = "NaN" if np.isnan(part[tuple(bad[0])]) else "infinity"
    return f"holds {kind} (row {first + bad[0][0]}, feature {bad[0][1]})"


def _common_type(files: Sequence[SlideFile]) -> np.dtype[Any]:
    kinds = {f.dtype if f.dtype.kind == "f" else np.dtype(np.float32) for f in files}
    found = np.result_type(*kinds)
    return found if found.itemsize <= 8 else np.dtype(np.float64)


def _fingerprint(files: Sequence[SlideFile], missing: str) -> str:
    """Tell one state of the files from another by names, sizes and times."""
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
