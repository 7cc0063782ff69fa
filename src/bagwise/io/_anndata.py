"""Single cells as AnnData: the cells of a donor become a bag.

Of a file, only what was asked for is read: a few columns of ``obs``, the names of the
cells and genes, and one matrix. Sparse matrices stay sparse.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bagwise._sizes import check_memory
from bagwise.exceptions import (
    DataError,
    DataWarning,
    ParameterError,
    UnknownColumnError,
)
from bagwise.io._columns import frame_table
from bagwise.io._slides import BLOCK_BYTES, check_storage, own_object, require
from bagwise.io.files import fail
from bagwise.io.formats import stacked_matrix
from bagwise.io.problems import Problems, check_on_missing
from bagwise.io.roles import Roles
from bagwise.io.table import annotated_bags, group_table, missing_entries

_PLACES = ("obsm", "layers")
_SHOWN = 20


@dataclass(frozen=True)
class _Cells:
    """The parts of an AnnData object that become bags.

    Attributes
    ----------
    columns : sequence of str
        Names of the columns of ``obs``.
    names : ndarray of str
        Names of the cells.
    column : callable
        Gives a column by its name.
    matrix : object
        Rows of all cells: an array, a sparse matrix, or a dataset of an h5 file.
    features : ndarray of str
        Names of the columns of the matrix.
    source : str
        The file, for messages.
    """

    columns: Sequence[str]
    names: npt.NDArray[Any]
    column: Any
    matrix: Any
    features: npt.NDArray[Any]
    source: str


def bags_of_anndata(adata: Any, roles: Roles, on_missing: str = "error") -> Any:
    """Return bags, labels and weights of an AnnData object; see `from_frame`."""
    place, key = matrix_name(roles.features)
    if place == "X":
        matrix, names = adata.X, adata.var_names
    else:
        known = list(getattr(adata, place).keys())
        if key not in known:
            _refuse_matrix(place, key, {place: known}, "the AnnData object")
        matrix = getattr(adata, place)[key]
        names = adata.var_names if place == "layers" else _numbered(key, matrix)
    if matrix is None:
        raise DataError("the AnnData object has no X", "Set {0}.", ("features", ...))
    if hasattr(matrix, "to_memory"):  # sparse rows of a file
        matrix = matrix.to_memory()
    if hasattr(matrix, "to_numpy"):
        matrix = matrix.to_numpy()
    cells = _Cells(
        list(adata.obs.columns),
        np.asarray(adata.obs_names, dtype=object),
        lambda name: adata.obs[name],
        matrix,
        np.asarray(names, dtype=object),
        "",
    )
    return _bags_of_cells(cells, roles, on_missing)


def read_h5ad(path: Path, roles: Roles, on_missing: str = "error") -> Any:
    """Read a file of AnnData; see `read_bags`."""
    check_on_missing(on_missing)
    place, key = matrix_name(roles.features)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    h5py = require("h5py", path)
    require("anndata", path)
    try:
        with h5py.File(path, "r") as file:
            cells = _cells_of_file(file, path, place, key)
            return _bags_of_cells(cells, roles, on_missing)
    except (DataError, DataWarning, ParameterError, ImportError, MemoryError):
        raise
    # Damaged files and metadata raise errors of many kinds.
    except Exception as error:
        fail(path, f"not a readable h5ad file, or truncated ({str(error)[:300]})")


def matrix_name(features: Any) -> tuple[str, str]:
    """Split the name of a matrix: "X", "obsm:X_pca" or "layers:counts"."""
    given = [features] if isinstance(features, str) else list(features or ["X"])
    place, _, key = str(given[0]).partition(":")
    if len(given) == 1 and (given == ["X"] or (place in _PLACES and key)):
        return place, key
    problem = f"is 'X', 'obsm:NAME' or 'layers:NAME' for AnnData, got {given!r}"
    raise ParameterError("features", problem)


# ------------------------------------------------------------------------- of a file


def _cells_of_file(file: Any, path: Path, place: str, key: str) -> _Cells:
    h5py = require("h5py", path)
    stored = path.stat().st_size
    for part in ("obs", "var"):
        if part not in file:
            fail(path, f"there is no {part!r} in it: it is not a file of AnnData")
        if not isinstance(own_object(file, part), h5py.Group):
            fail(
                path,
                "it was written by an old version of anndata: read it and "
                "write it again",
            )
    names = _elem(file, _index_name(file, "obs"), stored)
    width = len(_elem(file, _index_name(file, "var"), stored))
    known = {p: list(own_object(file, p)) for p in _PLACES if p in file}
    if place == "X" and "X" not in file:
        fail(path, "there is no X in it; give features such as 'obsm:X_pca'")
    if place != "X" and key not in known.get(place, ()):
        _refuse_matrix(place, key, known, str(path))
    name = place if place == "X" else f"{place}/{key}"
    matrix = _matrix(file, name, stored)
    n_columns = matrix.shape[1] if place == "obsm" else width
    if matrix.shape != (len(names), n_columns):
        fail(
            path,
            f"{name} has the shape {matrix.shape} for {len(names)} cells and {width} "
            "genes",
        )
    if place == "obsm":
        features = _numbered(key, matrix)
    else:
        features = _elem(file, _index_name(file, "var"), stored)
    index = _index_name(file, "obs").rpartition("/")[2]
    columns = [c for c in own_object(file, "obs") if c not in (index, "__categories")]

    def column(name: str) -> Any:
        found = _elem(file, f"obs/{name}", stored)
        if len(found) != len(names):
            raise ValueError(f"obs/{name} has {len(found)} of {len(names)} entries")
        return found

    return _Cells(columns, _text(names), column, matrix, _text(features), str(path))


def _index_name(file: Any, part: str) -> str:
    name = file[part].attrs.get("_index", "_index")
    return f"{part}/{name}"


def _elem(file: Any, name: str, stored: int) -> Any:
    """Read a column or an index through anndata, after its sizes are checked."""
    found = own_object(file, name)
    n_bytes = 0
    for dataset in _datasets(file, name, found):
        check_storage(dataset, stored)
        n_bytes += dataset.size * max(8, dataset.dtype.itemsize)
    check_memory(n_bytes, name, "Exclude this column.")
    return _read(found)


def _read(found: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about files of old versions
        from anndata.io import read_elem

        return read_elem(found)


def _datasets(file: Any, name: str, found: Any) -> list[Any]:
    """Return a dataset, or those of a group, all of which are in the file itself."""
    if hasattr(found, "chunks"):
        return [found]
    inside = [own_object(file, f"{name}/{child}") for child in found]
    if not all(hasattr(child, "chunks") for child in inside):
        raise ValueError(f"{name} is neither a column nor a matrix")
    return inside


def _matrix(file: Any, name: str, stored: int) -> Any:
    """Return a sparse matrix in memory, or the dataset of a dense one."""
    found = own_object(file, name)
    parts = _datasets(file, name, found)
    for dataset in parts:
        check_storage(dataset, stored)
        if dataset.dtype.kind not in "fiub":
            raise ValueError(f"{name} is {dataset.dtype}, not numbers")
    hint = "Use features such as 'obsm:X_pca'."
    check_memory(sum(2.0 * d.size * d.dtype.itemsize for d in parts), name, hint)
    if hasattr(found, "chunks"):
        return found
    shape = found.attrs.get("shape", found.attrs.get("h5sparse_shape"))
    kind = found.attrs.get("encoding-type", found.attrs.get("h5sparse_format"))
    if str(kind) not in ("csr_matrix", "csc_matrix", "csr", "csc") or len(shape) != 2:
        raise ValueError(f"{name} is {kind!r}, not a matrix")
    if math.prod(int(n) for n in shape) >= 2**62:
        raise ValueError(f"{name} has the shape {tuple(shape)}")
    matrix = _read(found)
    matrix.check_format(full_check=True)  # compiled code relies on it
    return matrix


# -------------------------------------------------------------------------- to bags


def _bags_of_cells(cells: _Cells, roles: Roles, on_missing: str) -> Any:
    import pandas as pd

    wanted = roles.used()
    given = {name: part for name, part in wanted.items() if name is not None}
    if roles.bag is None or not set(given) <= set(cells.columns):
        _refuse_columns(roles, given, cells)
    frame = {name: pd.Series(cells.column(name)) for name in given}
    cell = "cell"
    while cell in frame:
        cell += "_"
    table = pd.DataFrame({n: values.to_numpy() for n, values in frame.items()})
    if roles.instance_id is None:
        table[cell] = cells.names
        roles = replace(roles, instance_id=cell)
    kept = _complete(table, roles, cells, on_missing)
    names = cells.names[kept]
    rows = replace(
        frame_table(table[kept].reset_index(drop=True), cells.source),
        where=lambda row: f"cell {names[row]!r}",
    )
    grouping = group_table(rows, roles)
    order = np.flatnonzero(kept)[grouping.order]
    matrix = _in_order(cells.matrix, order)
    where = Path(cells.source or "the AnnData object")
    matrix = stacked_matrix({"X": matrix}, where, missing=roles.missing)
    return annotated_bags(grouping, roles, matrix, cells.features)


def _complete(
    table: Any, roles: Roles, cells: _Cells, on_missing: str
) -> npt.NDArray[np.bool_]:
    """Return which cells have a donor, a label and so on; report the others."""
    kept = np.ones(len(table), dtype=bool)
    problems = Problems(cells.source or "the AnnData object")
    for name in dict.fromkeys(roles.used()):
        if name in roles.coords:
            continue
        missing = missing_entries(np.asarray(table[name]))
        kept &= ~missing
        for row in np.flatnonzero(missing):
            problems.add(f"no {name!r} for the cell", repr(cells.names[row]))
    problems.report(on_missing)
    if not kept.any():
        raise DataError(f"{problems.source}: no cell is left")
    return kept


def _in_order(matrix: Any, order: npt.NDArray[np.int64]) -> Any:
    """Return rows in the order of the bags; those of a file are read once, in blocks.

    A copy of the whole matrix in the order of the file is never made.
    """
    if sp.issparse(matrix):
        matrix = sp.csr_array(matrix)
        full = len(order) == matrix.shape[0] and (np.diff(order) == 1).all()
        return matrix if full else matrix[order]
    if isinstance(matrix, np.ndarray):
        return matrix[order]
    target = np.full(matrix.shape[0], -1, dtype=np.int64)
    target[order] = np.arange(len(order))
    dtype = matrix.dtype if matrix.dtype.kind == "f" else np.dtype(np.float32)
    if dtype == np.float16:
        dtype = np.dtype(np.float32)
    out = np.empty((len(order), matrix.shape[1]), dtype=dtype)
    step = max(1, 8 * BLOCK_BYTES // max(1, matrix.shape[1] * matrix.dtype.itemsize))
    for first in range(0, matrix.shape[0], step):
        block, places = matrix[first : first + step], target[first : first + step]
        out[places[places >= 0]] = block[places >= 0]
    return out


def _refuse_columns(roles: Roles, given: dict[str, str], cells: _Cells) -> None:
    place = f"{cells.source}: " if cells.source else ""
    shown = ", ".join(map(repr, cells.columns[:_SHOWN]))
    if roles.bag is None:
        raise DataError(
            f"{place}the column of obs with the donor of each cell is not given; obs "
            f"has {shown}",
            "Name it with {0}.",
            ("bag", ...),
        )
    unknown = [name for name in given if name not in cells.columns]
    told = ", ".join(f"{name!r} (the {given[name]})" for name in unknown)
    raise UnknownColumnError(
        f"{place}there is no column {told} in obs; it has {shown}", columns=unknown
    )


def _refuse_matrix(
    place: str, key: str, known: dict[str, list[str]], source: str
) -> None:
    shown = "; ".join(
        f"{name}: {', '.join(keys) or 'nothing'}" for name, keys in known.items()
    )
    raise ParameterError(
        "features", f"is {f'{place}:{key}'!r}, which is not in {source} ({shown})"
    )


def _numbered(key: str, matrix: Any) -> npt.NDArray[Any]:
    names = getattr(matrix, "columns", range(matrix.shape[1]))
    return np.array([f"{key}_{name}" for name in names], dtype=object)


def _text(values: Any) -> npt.NDArray[Any]:
    found = np.asarray(values, dtype=object)
    return np.array([v if isinstance(v, str) else str(v) for v in found], dtype=object)
