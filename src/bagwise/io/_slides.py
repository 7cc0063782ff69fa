"""One file of features: its sizes, and its rows, in any of the formats of a folder.

Sizes are read without the rows. h5, zarr and npz files hold named arrays; npy files
hold one array, and files of torch one tensor or several named ones. A leading axis of
length one, which some tools write, is ignored.
"""

from __future__ import annotations

import math
import os
import pickle
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bagwise._sizes import check_memory, check_unpacked
from bagwise.io._zarr import check_store

SUFFIXES = (".h5", ".hdf5", ".pt", ".pth", ".npz", ".npy", ".zarr")
FEATURES = ("features", "feats", "patch_embeddings", "embeddings", "X")
COORDS = ("coords", "coordinates")
NAMES = ("instance_ids", "patch_ids", "names")
BLOCK_BYTES = 2 * 2**20
_INSTALL = {
    "h5py": 'pip install "bagwise[h5]"',
    "zarr": 'pip install "bagwise[h5]"',
    "torch": 'pip install "bagwise[torch]"',
    "anndata": 'pip install "bagwise[anndata]"',
    "rdkit": 'pip install "bagwise[chem]"',
}


class Sides(NamedTuple):
    """Coordinates and names of the rows of a file, if it has them."""

    coords: npt.NDArray[Any] | None
    names: npt.NDArray[Any] | None


@dataclass(frozen=True)
class SlideFile:
    """A file whose sizes are known: its name, and where its arrays are."""

    name: str
    path: Path
    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    dataset: str | None
    coords: str | None
    names: str | None
    n_coords: int = 0
    n_stored: int = 0

    def blocks(
        self, dtype: np.dtype[Any], out: npt.NDArray[Any] | None = None
    ) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """Read the rows in blocks that fit into the cache of the processor.

        Parameters
        ----------
        dtype : dtype
            The type in which the rows are wanted.
        out : ndarray of shape (n_rows, n_features), default=None
            Array for all rows. Without it a block is overwritten by the next one.

        Yields
        ------
        first : int
            Position of the first row of the block in the file.
        rows : ndarray
            The rows of the block.
        """
        with _opened(self.path) as arrays:
            found = arrays[self.dataset]
            step = self._rows_at_once(found)
            if not hasattr(found, "read_direct") and not isinstance(found, np.ndarray):
                found = _plain(found).reshape(self.n_rows, self.n_features)
            direct = found.dtype == dtype and hasattr(found, "read_direct")
            buffer = np.empty((min(step, self.n_rows), self.n_features), dtype=dtype)
            for first in range(0, self.n_rows, step):
                last = min(first + step, self.n_rows)
                rows = np.s_[first:last] if found.ndim == 2 else np.s_[0, first:last]
                part = buffer[: last - first] if out is None else out[first:last]
                if direct:
                    found.read_direct(part, rows)  # without a copy
                else:
                    part[:] = found[rows]
                yield first, part

    def sides(self) -> Sides:
        """Read coordinates and names of the rows; the file is not kept open."""
        try:
            if self.coords is None and self.names is None:
                return Sides(None, None)
            with _opened(self.path) as arrays:
                return Sides(
                    self._side(arrays, self.coords, 2),
                    self._side(arrays, self.names, 1),
                )
        finally:
            # h5py closes a file without references; `close` would check all open files.
            (_kept_open.get() or {}).pop(self.path, None)

    def _rows_at_once(self, found: Any) -> int:
        """Return how many rows to read: about a block, and whole chunks of the file."""
        row = max(1, self.n_features * self.dtype.itemsize)
        chunks = getattr(found, "chunks", None)
        chunk = int(chunks[-2]) if chunks else 1
        return max(1, BLOCK_BYTES // (row * chunk)) * chunk

    def _side(self, arrays: Any, key: str | None, axes: int) -> Any:
        if key is None:
            return None
        check_storage(arrays[key], self.n_stored)
        found = _plain(arrays[key])
        found = found[0] if found.ndim > axes else found
        if found.ndim != axes or len(found) != self.n_rows:
            raise ValueError(
                f"{key!r} has the shape {found.shape} for {self.n_rows} rows"
            )
        if axes == 2 and not (found.dtype.kind in "fiu" and np.isfinite(found).all()):
            raise ValueError(f"{key!r} holds values that are not finite numbers")
        if axes == 1 and found.dtype.kind in "SO":
            text = [v.decode() if isinstance(v, bytes) else v for v in found.tolist()]
            found = np.array(text, dtype=str)
        return found


def look_at(path: Path, name: str, dataset: str | None = None) -> SlideFile:
    """Read the sizes of one file; any problem with it is a ValueError."""
    with _opened(path) as arrays:
        keys = list(arrays.keys())
        if None in keys:
            feature_key = None
        elif dataset is not None:
            feature_key = dataset
            if dataset.strip("/").split("/")[0] not in keys:
                raise ValueError(f"it has {_listed(keys)}, not {dataset!r}")
        else:
            feature_key = next((k for k in FEATURES if k in keys), None)
            if feature_key is None:
                raise ValueError(
                    f"it has {_listed(keys)}, none of {', '.join(FEATURES)}"
                )
        shape, dtype = _shape(arrays[feature_key])
        if len(shape) == 3 and shape[0] == 1:
            shape = shape[1:]
        if len(shape) != 2:
            raise ValueError(f"its features have the shape {shape}")
        if dtype.kind not in "fiu":
            raise ValueError(f"its features are {dtype}, not numbers")
        coords = next((k for k in COORDS if k in keys), None)
        places = () if coords is None else _shape(arrays[coords])[0]
        stored = _stored(path)
        check_storage(arrays[feature_key], stored)
        return SlideFile(
            name,
            path,
            int(shape[0]),
            int(shape[1]),
            dtype,
            feature_key,
            coords,
            next((k for k in NAMES if k in keys), None),
            places[-1] if places else 0,
            stored,
        )


def _stored(path: Path) -> int:
    """Return the bytes that a file, or a folder of a zarr store, takes on disk."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum(p.stat().st_size for p in files)


def check_storage(found: Any, stored: int) -> None:
    """Refuse an array of which the file holds but a small part."""
    shape, dtype = _shape(found)
    n_bytes = math.prod(shape) * dtype.itemsize
    if hasattr(found, "untyped_storage"):
        held = found.untyped_storage().nbytes()
        if held < found.numel() * found.element_size():
            raise ValueError(
                f"its tensor declares {n_bytes:,} bytes and contains {held:,}; save "
                "tensor.contiguous()"
            )
    check_unpacked(n_bytes, stored)
    if getattr(found, "chunks", None):  # a chunk is read as a whole
        check_unpacked(math.prod(found.chunks) * dtype.itemsize, stored)


def _listed(keys: Any) -> str:
    return ", ".join(repr(k) for k in list(keys)[:10]) or "nothing"


_kept_open: ContextVar[dict[Path, _OwnDatasets] | None] = ContextVar(
    "kept_open", default=None
)


@contextmanager
def files_kept_open() -> Iterator[None]:
    """Keep h5 files open until `SlideFile.sides` has read the last of them.

    Opening a small file takes as long as reading it.
    """
    kept: dict[Path, _OwnDatasets] = {}
    token = _kept_open.set(kept)
    try:
        yield
    finally:
        _kept_open.reset(token)
        for datasets in kept.values():
            datasets.file.close()


def _most_open() -> int:
    """Return how many files may be open: a quarter of what the system allows."""
    try:
        import resource
    except ImportError:  # Windows
        return 128
    return max(0, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4, 256))


@contextmanager
def _opened_h5(path: Path) -> Iterator[_OwnDatasets]:
    h5py, kept = require("h5py", path), _kept_open.get()
    if kept is None or (path not in kept and len(kept) >= _most_open()):
        with h5py.File(path, "r") as file:
            yield _OwnDatasets(file)
        return
    if path not in kept:
        kept[path] = _OwnDatasets(h5py.File(path, "r"))
    yield kept[path]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file as a mapping from names to arrays, which are read later."""
    kind = path.suffix.lower()
    if kind in (".h5", ".hdf5"):
        with _opened_h5(path) as datasets:
            yield datasets
    elif kind == ".npy":
        yield {None: np.load(path, mmap_mode="r", allow_pickle=False)}
    elif kind == ".npz":
        with zipfile.ZipFile(path) as archive:
            yield _Members(archive)
    elif kind == ".zarr":
        check_store(path)
        zarr = require("zarr", path)
        # An absolute path, so that the name cannot be taken for an address.
        store = zarr.open(os.fspath(path.resolve()), mode="r")
        yield {None: store} if hasattr(store, "shape") else _Group(store)
    else:
        yield _tensors(path)


def own_object(file: Any, key: Any) -> Any:
    """Return a group or dataset that is stored in the h5 file itself.

    Links to other files and external datasets would read files that nobody named.
    """
    import h5py

    steps = str(key).strip("/").split("/")
    for i in range(len(steps)):
        link = file.get("/".join(steps[: i + 1]), getlink=True)
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"{key!r} is a link to another place")
    found = file[key]
    if isinstance(found, h5py.Dataset) and (found.external or found.is_virtual):
        raise ValueError(f"{key!r} is stored in another file")
    return found


class _OwnDatasets:
    """Datasets of an h5 file that are stored in the file itself."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.known: dict[Any, Any] = {}

    def keys(self) -> list[str]:
        return list(self.file.keys())

    def __getitem__(self, key: Any) -> Any:
        if key not in self.known:
            found = own_object(self.file, key)
            if not hasattr(found, "chunks"):
                raise ValueError(f"{key!r} is not a dataset")
            self.known[key] = found
        return self.known[key]


class _Group(dict[Any, Any]):
    """Arrays of a zarr group by name."""

    def __init__(self, group: Any) -> None:
        super().__init__({name: array for name, array in group.arrays()})


class _Members:
    """Arrays of an npz archive; sizes come from their headers."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive

    def keys(self) -> list[str]:
        return [n.removesuffix(".npy") for n in self.archive.namelist()]

    def __getitem__(self, key: Any) -> _Member:
        return _Member(self.archive, f"{key}.npy")


@dataclass(frozen=True)
class _Member:
    archive: zipfile.ZipFile
    name: str

    def header(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        with self.archive.open(self.name) as stream:
            version = np.lib.format.read_magic(stream)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = read(stream)
            start = stream.tell()
        size = self.archive.getinfo(self.name).file_size
        if start + math.prod(shape) * dtype.itemsize != size or dtype.hasobject:
            raise ValueError(f"{self.name} does not have the size it declares")
        return shape, dtype

    def read(self) -> npt.NDArray[Any]:
        shape, dtype = self.header()
        check_memory(math.prod(shape) * dtype.itemsize, self.name, "Split the file.")
        with self.archive.open(self.name) as stream:
            found = np.lib.format.read_array(stream, allow_pickle=False)
        return np.asarray(found)


def _tensors(path: Path) -> dict[Any, Any]:
    torch = require("torch", path)
    # With weights_only torch refuses anything but tensors and plain containers. Files
    # of old versions are not archives and cannot be mapped.
    mapped = zipfile.is_zipfile(path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except (pickle.UnpicklingError, EOFError):
        raise ValueError(
            "it is damaged, or holds objects besides tensors, which could run code"
        ) from None
    if isinstance(found, torch.Tensor):
        found = {None: found}
    if not isinstance(found, dict):
        raise ValueError(f"it holds a {type(found).__name__}, not a tensor")
    found = {k: v for k, v in found.items() if isinstance(v, torch.Tensor)}
    for tensor in found.values():
        if tensor.layout != torch.strided:
            raise ValueError(f"a tensor in it is {tensor.layout}; save it as dense")
    return found


def _shape(found: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if isinstance(found, _Member):
        return found.header()
    shape = tuple(int(s) for s in found.shape)
    known = found.dtype if isinstance(found.dtype, np.dtype) else None
    return shape, known if known is not None else _plain(found[:0]).dtype


def _plain(found: Any) -> npt.NDArray[Any]:
    """Read an array of any of the libraries."""
    if isinstance(found, _Member):
        return found.read()
    if hasattr(found, "detach"):  # a tensor; NumPy knows no bfloat16
        tensor = found.detach()
        if str(tensor.dtype) == "torch.bfloat16":
            tensor = tensor.float()
        return np.asarray(tensor.numpy())
    return np.asarray(found[:] if hasattr(found, "shape") else found)


def require(module: str, path: Path) -> Any:
    """Import a module of an extra, or raise an error that names the extra."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(
            f"{path}: reading {path.suffix} files needs {module}: {_INSTALL[module]}."
        ) from None
