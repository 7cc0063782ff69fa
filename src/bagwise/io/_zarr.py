"""Which zarr stores are opened: those whose metadata names nothing but numbers.

A zarr store says itself how its chunks are decoded, and some codecs run what they
decode (``pickle``) or call what is installed. The metadata are therefore read here,
before zarr sees them, and every codec, data type and key has to be on a list.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from bagwise._sizes import check_memory

# Codecs from bytes to bytes. Pickle, JSON and object codecs are excluded.
_BYTES = frozenset(
    ("blosc", "zlib", "gzip", "bz2", "lz4", "zstd", "shuffle")
    + ("crc32", "crc32c", "adler32", "fletcher32")
)
# Names of these codecs in zarr 3, and its steps between an array and bytes.
_V3 = _BYTES | {"bytes", "vlen-utf8", "transpose"}
_V2_DTYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f[248]|[SU][0-9]{1,5})")
_V3_DTYPE = re.compile(r"bool|u?int(?:8|16|32|64)|float(?:16|32|64)|string")
_KEYS = {
    ".zgroup": {"zarr_format"},
    ".zarray": {"zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value"}
    | {"order", "filters", "dimension_separator"},
    ".zmetadata": {"zarr_consolidated_format", "metadata"},
    "group": {"zarr_format", "node_type", "attributes", "consolidated_metadata"},
    "array": {"zarr_format", "node_type", "shape", "data_type", "chunk_grid"}
    | {"chunk_key_encoding", "fill_value", "codecs", "attributes"}
    | {"storage_transformers", "dimension_names"},
}
_METADATA = (".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json")
_LARGEST = 2**24


def check_store(folder: Path) -> None:
    """Refuse a store that could run code, or read what lies outside of it.

    Parameters
    ----------
    folder : Path
        The folder of the store.

    Raises
    ------
    ValueError
        What is wrong with the store, and in which of its files.
    """
    if not folder.is_dir():
        raise ValueError("a zarr store is a folder, but this is a file")
    found = 0
    for path in _own_files(folder, folder):
        if path.name.lower() not in _METADATA:
            continue
        where = path.relative_to(folder).as_posix()
        if path.stat().st_size > _LARGEST:
            _refuse(where, "is too large for metadata")
        try:
            document = json.loads(path.read_bytes().decode(), object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            _refuse(where, f"is not a JSON object with unique keys ({error})")
        _check(document, path.name.lower(), where)
        found += 1
    if not found:
        raise ValueError("it has no metadata of zarr; is it truncated?")


def _own_files(folder: Path, root: Path) -> Iterator[Path]:
    """Give the files of a store, which has no links."""
    with os.scandir(folder) as entries:
        for entry in entries:
            path = Path(entry.path)
            if entry.is_symlink():
                where = path.relative_to(root).as_posix()
                _refuse(where, "is a link to somewhere else")
            if entry.is_dir(follow_symlinks=False):
                yield from _own_files(path, root)
            else:
                yield path


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _check(document: Any, name: str, where: str) -> None:
    """Check one document by the name of its file."""
    if name == ".zattrs":
        return  # free text, not used for reading
    if name == "zarr.json":
        kind = document.get("node_type") if isinstance(document, dict) else None
        name = kind if kind in ("group", "array") else ".zgroup"
    if not isinstance(document, dict) or not document.keys() <= _KEYS[name]:
        more = sorted({*document} - _KEYS[name])[:3] if document else []
        _refuse(where, f"is not laid out as a zarr file {more or ''}".rstrip())
    if name == ".zarray":
        _check_array_2(document, where)
    elif name == "array":
        _check_array_3(document, where)
    elif name == ".zmetadata":
        _check_consolidated(document.get("metadata"), where, split=True)
    elif name == "group" and document.get("consolidated_metadata") is not None:
        inner = document["consolidated_metadata"]
        if not isinstance(inner, dict):
            _refuse(where, "has consolidated metadata that are not an object")
        _check_consolidated(inner.get("metadata"), where, split=False)


def _check_consolidated(found: Any, where: str, split: bool) -> None:
    if not isinstance(found, dict):
        _refuse(where, "has consolidated metadata that are not an object")
    for key, document in found.items():
        steps = key.split("/")
        if "\\" in key or ":" in key or {".", ".."} & {*steps} or "" in steps[:-1]:
            _refuse(where, f"names {key[:40]!r}, a path outside of the store")
        name = steps[-1].lower() if split else "zarr.json"
        if name not in _METADATA[:3] and split:
            _refuse(where, f"names {key[:40]!r}, which is not a metadata file")
        _check(document, name, f"{where} ({key[:40]})")


def _check_array_2(document: dict[str, Any], where: str) -> None:
    dtype = document.get("dtype")
    if not isinstance(dtype, str) or not _V2_DTYPE.fullmatch(dtype):
        _refuse_dtype(dtype, where)
    filters = document.get("filters")
    if filters is not None and not isinstance(filters, list):
        _refuse(where, "has filters that are not a list")
    for codec in [document.get("compressor"), *(filters or [])]:
        if codec is None:
            continue
        name = codec.get("id") if isinstance(codec, dict) else codec
        if not isinstance(name, str) or name not in _BYTES:
            _refuse_codec(name, where)
    if dtype[1] in "SU":
        size = int(dtype[2:]) * (4 if dtype[1] == "U" else 1)
    else:
        size = int(dtype[2:])
    _check_sizes(document.get("shape"), document.get("chunks"), size, where)


def _check_array_3(document: dict[str, Any], where: str) -> None:
    dtype = document.get("data_type")
    fixed = isinstance(dtype, dict) and dtype.get("name") == "fixed_length_utf32"
    if not fixed and not (isinstance(dtype, str) and _V3_DTYPE.fullmatch(dtype)):
        _refuse_dtype(dtype, where)
    _check_codecs(document.get("codecs"), where)
    if document.get("storage_transformers"):
        _refuse(where, "has storage transformers, which are not supported")
    grid = document.get("chunk_grid")
    keys = document.get("chunk_key_encoding")
    if not isinstance(grid, dict) or grid.get("name") != "regular":
        _refuse(where, "has chunks of irregular shape")
    if not isinstance(keys, dict) or keys.get("name") not in ("default", "v2"):
        _refuse(where, "names its chunks in a way that is not supported")
    inner = grid.get("configuration")
    chunks = inner.get("chunk_shape") if isinstance(inner, dict) else None
    _check_sizes(document.get("shape"), chunks, 8, where)


def _check_codecs(codecs: Any, where: str) -> None:
    if not isinstance(codecs, list):
        _refuse(where, "has codecs that are not a list")
    for codec in codecs:
        name = codec.get("name") if isinstance(codec, dict) else codec
        if name == "sharding_indexed" and isinstance(codec, dict):
            inner = codec.get("configuration")
            if not isinstance(inner, dict):
                _refuse(where, "has shards without a storage format")
            for part in ("codecs", "index_codecs"):
                if part in inner:
                    _check_codecs(inner[part], where)
        elif not isinstance(name, str) or name not in _V3:
            _refuse_codec(name, where)


def _check_sizes(shape: Any, chunks: Any, itemsize: int, where: str) -> None:
    for what, sizes in (("shape", shape), ("shape of chunks", chunks)):
        whole = isinstance(sizes, list) and len(sizes) <= 8
        if not whole or not all(type(n) is int and 0 <= n < 2**62 for n in sizes):
            _refuse(where, f"has a {what} that is not a list of integers")
    hint = "Save the array again with smaller chunks."
    check_memory(math.prod(chunks) * itemsize, f"a chunk of {where}", hint)


def _refuse(where: str, problem: str) -> NoReturn:
    raise ValueError(f"{where} {problem}; such a store is not opened")


def _refuse_codec(name: Any, where: str) -> NoReturn:
    raise ValueError(
        f"{where} names the codec {str(name)[:40]!r}, which is not opened because "
        "codecs can run code; save the array again with one of "
        f"{', '.join(sorted(_BYTES))}"
    )


def _refuse_dtype(dtype: Any, where: str) -> NoReturn:
    raise ValueError(
        f"{where} has the data type {str(dtype)[:40]!r}, which is not opened because "
        "objects can run code; save the array again as numbers or text of fixed length"
    )
