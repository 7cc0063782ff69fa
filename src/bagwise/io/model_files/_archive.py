"""The container: a zip archive with one description and plain arrays.

Sizes are checked from the directory of the archive before anything is unpacked, and
every array against the size of its member before it is made.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.io.files import whole_file

DESCRIPTION = "model.json"
# Archives of real models shrink to a third or so; zeros would shrink a thousandfold.
MOST_PACKED = 100
FREE_BYTES = 16 * 2**20
MOST_MEMBERS = 100_000
MOST_DESCRIPTION = 256 * 2**20
# Kinds of entries that are numbers or text; objects would be pickles.
_KINDS = "biufSU"


class DamagedFile(ValueError):
    """The file is no model file, or not a sound one."""


class Writer:
    """Collects arrays and writes the archive, whole or not at all."""

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[Any]] = []

    def add(self, array: npt.NDArray[Any]) -> int:
        """Keep an array and return its number."""
        self.arrays.append(array)
        return len(self.arrays) - 1

    def write(self, description: Any, path: Path) -> None:
        """Write the description and the arrays."""
        text = json.dumps(description, allow_nan=False).encode()
        with whole_file(path) as stream, zipfile.ZipFile(stream, "w") as out:
            _put(out, DESCRIPTION, text)
            for number, array in enumerate(self.arrays):
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, array, allow_pickle=False)
                _put(out, _member(number), buffer.getvalue())


def _put(out: zipfile.ZipFile, name: str, raw: bytes) -> None:
    # What shrinks too well would look like a bomb to the reader: store it plain.
    packed = len(zlib.compress(raw, 1))
    plain = len(raw) > 2**16 and len(raw) > MOST_PACKED * packed // 2
    method = zipfile.ZIP_STORED if plain else zipfile.ZIP_DEFLATED
    out.writestr(name, raw, method, compresslevel=1)


def _member(number: int) -> str:
    return f"arrays/{number}.npy"


class Reader:
    """Gives the description and the arrays of an archive, within limits."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        size = path.stat().st_size
        if size == 0:
            raise DamagedFile("the file is empty")
        if size > max_bytes:
            raise DamagedFile(f"the file has {size:,} bytes, more than {max_bytes:,}")
        self.archive = zipfile.ZipFile(path)
        entries = self.archive.infolist()
        self.entries = {entry.filename: entry for entry in entries}
        full = sum(entry.file_size for entry in entries)
        packed = sum(entry.compress_size for entry in entries)
        if len(entries) > MOST_MEMBERS or len(self.entries) != len(entries):
            raise DamagedFile("too many members, or two of one name")
        if packed > size:
            raise DamagedFile("members of the archive lie on top of each other")
        if full > max_bytes or full > FREE_BYTES + MOST_PACKED * size:
            raise DamagedFile(
                f"{size:,} bytes claim to hold {full:,}, more than is reasonable"
            )

    def close(self) -> None:
        """Close the file."""
        self.archive.close()

    def description(self) -> Any:
        """Return the description, parsed."""
        entry = self.entries.get(DESCRIPTION)
        if entry is None:
            raise DamagedFile("there is no description in it")
        if entry.file_size > MOST_DESCRIPTION:
            raise DamagedFile(f"its description has {entry.file_size:,} bytes")
        try:
            return json.loads(self._read(entry), parse_constant=_refuse_constant)
        except RecursionError:
            raise DamagedFile("its description is nested too deeply") from None

    def array(self, number: Any) -> npt.NDArray[Any]:
        """Return one array, of plain entries or a record."""
        if type(number) is not int or _member(number) not in self.entries:
            raise DamagedFile(f"there is no array {number!r}")
        raw = self._read(self.entries[_member(number)])
        stream = io.BytesIO(raw)
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise DamagedFile(f"array {number} has the version {version}")
        header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = header(stream)
        _refuse_dtype(dtype)
        start = stream.tell()
        count = 1
        for length in shape:
            if type(length) is not int or length < 0:
                raise DamagedFile(f"array {number} has the shape {shape}")
            count *= length
        if len(shape) > 8 or count * dtype.itemsize != len(raw) - start:
            raise DamagedFile(f"array {number} is cut off, or longer than it says")
        # (a copy in memory of its own, so that it is writeable and lies as usual)
        entries = np.empty(count, dtype=dtype)
        entries[:] = np.frombuffer(raw, dtype=dtype, count=count, offset=start)
        return entries.reshape(shape, order="F" if fortran else "C")

    def _read(self, entry: zipfile.ZipInfo) -> bytes:
        with self.archive.open(entry) as stream:
            raw = stream.read(entry.file_size + 1)
        if len(raw) != entry.file_size:
            raise DamagedFile(f"{entry.filename} has not the size that it says")
        return raw


def _refuse_constant(name: str) -> Any:
    raise DamagedFile(f"its description holds {name}")


def _refuse_dtype(dtype: np.dtype[Any]) -> None:
    kinds = [dtype] if dtype.names is None else [dtype[name] for name in dtype.names]
    if dtype.itemsize == 0 and dtype.kind not in "SU":
        raise DamagedFile(f"an array has the type {dtype}")
    for kind in kinds:
        if kind.kind not in _KINDS or kind.subdtype is not None or kind.names:
            raise DamagedFile(f"an array has the type {dtype}")
