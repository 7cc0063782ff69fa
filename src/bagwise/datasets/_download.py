"""Downloads of the classic archives, and the data sets in them."""

from __future__ import annotations

import io
import lzma
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from bagwise.bags import Bags, segments
from bagwise.bags.validation import group_rows
from bagwise.datasets._registry import DatasetInfo, Source
from bagwise.io.files import fail, plain_values
from bagwise.io.formats import choose_storage, parse_musk, parse_svmlight

# The largest member of the known archives has about 5 MB.
_MEMBER_LIMIT = 2**28
_CLEAR = 256  # the code that empties the table of a .Z file
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError)


def archive_name(source: Source) -> str:
    """Return the file name that the address of a source ends with."""
    return unquote(urlsplit(source.url).path.rsplit("/", 1)[-1])


def download(url: str, path: Path, timeout: float = 60.0) -> None:
    """Write what `url` gives to `path`; any failure is a ConnectionError."""
    import pooch
    import requests

    try:
        pooch.HTTPDownloader(timeout=timeout)(url, str(path), None)
    except requests.RequestException as error:
        raise ConnectionError(f"{url}: {_reason(error)}") from error


def _reason(error: Any) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code} {response.reason}"
    name = type(error).__name__
    if "Timeout" in name:
        return "the server did not answer in time"
    if name in ("ChunkedEncodingError", "ContentDecodingError"):
        return "the download was incomplete"
    return "no connection to the server"


def parse_archive(path: Path, info: DatasetInfo, source: Source) -> tuple[Bags, Any]:
    """Return the bags and labels of one data set in a downloaded file."""
    raw = _member(path, source.member)
    if raw[:2] == b"\x1f\x9d":
        try:
            raw = decompress(raw)
        except ValueError as error:
            fail(path, f"{source.member}: {error}")
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError:
        fail(path, f"{source.member} is not a text file")
    place = path / source.member
    if source.format == "musk":
        X, y = parse_musk(text, place)
        return X, y
    data, bags, labels, _ = parse_svmlight(text, place, info.n_features)
    matrix, offsets, ids, order = group_rows(
        choose_storage(data, None), plain_values(bags)
    )
    # The files label instances; a bag is positive if one of its instances is.
    positive = np.array([float(label) > 0 for label in labels])[order]
    X = Bags(matrix, offsets, ids=ids)
    return X, segments.segment_max(positive.astype(np.float64), offsets).astype(int)


def _member(path: Path, name: str) -> bytes:
    """Return one file of a zip or tar archive, or the file itself."""
    head = path.read_bytes()[:6]
    try:
        if head[:2] == b"PK":
            return _from_zip(path, name)
        if head[:2] == b"\x1f\x8b":
            return _from_tar(path, name)
    except _DAMAGE as error:
        fail(path, f"the archive is damaged or incomplete ({error})")
    except (OSError, RuntimeError, NotImplementedError) as error:
        fail(path, f"the archive cannot be read ({error})")
    if head[:2] == b"\x1f\x9d":
        return path.read_bytes()
    fail(path, "this is no zip, tar or .Z archive")


def _matches(member: str, name: str) -> bool:
    member = member.removesuffix(".Z")
    return member == name or member.endswith("/" + name)


def _from_zip(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if _matches(entry.filename, name) and entry.file_size <= _MEMBER_LIMIT:
                return archive.read(entry)
    fail(path, f"the archive does not contain {name}")


def _from_tar(path: Path, name: str) -> bytes:
    with tarfile.open(path, "r:gz") as archive:
        for entry in archive:
            if entry.isfile() and _matches(entry.name, name):
                if entry.size > _MEMBER_LIMIT:
                    break
                stream = archive.extractfile(entry) or io.BytesIO()
                raw = stream.read()
                if len(raw) != entry.size:
                    raise EOFError("unexpected end of data")
                return raw
    fail(path, f"the archive does not contain {name}")


def decompress(raw: bytes, limit: int = 2**28) -> bytes:
    """Return the content of a file of Unix ``compress`` (.Z).

    UCI offers the Musk data only in this format, which Python's library cannot read.
    Codes are 9 to 16 bits wide, lowest bit first, and come in groups of eight; when
    the width changes, the rest of a group is padding.

    Parameters
    ----------
    raw : bytes
        The file.
    limit : int, default=2**28
        Refuse to produce more bytes than this.

    Raises
    ------
    ValueError
        The data are damaged, too large, or no .Z file.
    """
    if len(raw) < 3 or raw[:2] != b"\x1f\x9d":
        raise ValueError("not a Unix compress (.Z) file")
    max_bits, block_mode = raw[2] & 0x1F, bool(raw[2] & 0x80)
    if not 9 <= max_bits <= 16:
        raise ValueError(f"a .Z file with codes of {max_bits} bits")
    start = [bytes([i]) for i in range(256)] + ([b""] if block_mode else [])
    table = list(start)
    width, previous = 9, b""
    out: list[bytes] = []
    produced, position = 0, 3
    while position < len(raw):
        group = raw[position : position + width]
        position += width
        bits = int.from_bytes(group, "little")
        mask = (1 << width) - 1
        for k in range(len(group) * 8 // width):
            code = (bits >> (k * width)) & mask
            if block_mode and code == _CLEAR:
                table, width, previous = list(start), 9, b""
                break
            entry = _entry(code, table, previous)
            out.append(entry)
            produced += len(entry)
            if previous and len(table) < 1 << max_bits:
                table.append(previous + entry[:1])
            previous = entry
            if len(table) > mask and width < max_bits:
                width += 1
                break
        if produced > limit:
            raise ValueError(f"a .Z file with more than {limit} bytes of content")
    return b"".join(out)


def _entry(code: int, table: list[bytes], previous: bytes) -> bytes:
    if code < len(table):
        return table[code]
    # The only valid code that is not yet in the table.
    if code == len(table) and previous:
        return previous + previous[:1]
    raise ValueError("a damaged .Z file")
