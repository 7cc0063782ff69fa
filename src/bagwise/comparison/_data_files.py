"""Files from which worker processes read the data of their runs.

Bags and labels are plain ``.npy`` files, which workers map into memory and share.
Instances that are in a memory map already are not copied: workers map the same file,
which must not change until the runs are done.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bagwise.bags import Bags
from bagwise.bags.codings import codings_of, plain_codings
from bagwise.comparison.problem import CHUNK_ROWS, Problem

__all__ = ["DataFileError", "load_problem", "write_problem"]


class DataFileError(RuntimeError):
    """A worker cannot read the data of a run, which is no failure of the run."""


def write_problem(problem: Problem, folder: Path) -> None:
    """Write a problem into a folder.

    Files of an earlier call are never trusted: they are written again. Each is replaced
    when the new one is complete, as other processes may still have the old one mapped.
    """
    folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".tmp-", dir=folder))
    try:
        _write(problem, scratch)
        for file in scratch.iterdir():
            os.replace(file, folder / file.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write(problem: Problem, folder: Path) -> None:
    X, mapped = problem.X, None
    y = np.asarray(problem.y)
    arrays = {
        "offsets": X.offsets,
        "y": y.astype(str) if y.dtype == object else y,
        "instance_labels": problem.instance_labels,
        "sample_weight": problem.sample_weight,
        "bag_rows": X.bag_rows,
    }
    if X.is_sparse:
        matrix = X.data
        arrays |= {"values": matrix.data, "indices": matrix.indices}
        arrays |= {"indptr": matrix.indptr}
    else:
        mapped = _map_of(X)
        if mapped is None:
            _write_rows(X, folder / "data.npy")
    arrays = {name: array for name, array in arrays.items() if array is not None}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", np.asarray(array), allow_pickle=False)
    names = X.feature_names
    meta = {
        "name": problem.name,
        "arrays": list(arrays),
        "shape": [int(X.n_instances), int(X.n_features)],
        "ids": [i if isinstance(i, int) else str(i) for i in X.ids.tolist()],
        "feature_names": None if names is None else [str(name) for name in names],
        "map": mapped,
        "groups": None if X.groups is None else [str(g) for g in X.groups],
        "codings": plain_codings(X.codings),
        "positive": problem.positive,
        "task": problem.task,
    }
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")


@lru_cache(maxsize=3)
def load_problem(path: str) -> Problem:
    """Map the files of a problem into memory; kept per process."""
    folder = Path(path)

    def read(name: str) -> Any:
        return np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)

    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        arrays = {name: read(name) for name in meta["arrays"]}
        data = read("data") if "values" not in arrays and meta["map"] is None else None
    except FileNotFoundError as error:
        raise DataFileError(
            f"a worker does not find {error.filename}; on a cluster the output folder"
            " must be on a file system that every worker sees"
        ) from None
    except (OSError, ValueError) as error:
        raise DataFileError(f"the data in {folder} are damaged: {error}") from None
    if "values" in arrays:
        parts = tuple(arrays[name] for name in ("values", "indices", "indptr"))
        data = sparse.csr_matrix(parts, shape=tuple(meta["shape"]), copy=False)
    elif data is None:
        data = _open_map(meta["map"])
    X = Bags(
        data,
        arrays["offsets"],
        ids=meta["ids"],
        feature_names=meta["feature_names"],
        groups=meta["groups"],
        codings=codings_of(meta["codings"]),
        bag_rows=arrays.get("bag_rows"),
    )
    y, positive = np.array(arrays["y"]), meta["positive"]
    return Problem(
        meta["name"],
        X,
        y,
        instance_labels=arrays.get("instance_labels"),
        pos_label=None if positive is None else np.unique(y)[positive],
        task=meta["task"],
        sample_weight=arrays.get("sample_weight"),
    )


def _write_rows(X: Bags, path: Path) -> None:
    """Write the instances, in chunks if they are on disk."""
    if not X.on_disk:
        np.save(path, np.asarray(X.data), allow_pickle=False)
        return
    shape = (X.n_instances, X.n_features)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=X.dtype, shape=shape)
    row = 0
    for chunk in X.iter_chunks(CHUNK_ROWS):
        out[row : row + chunk.n_instances] = chunk.data
        row += chunk.n_instances
    out.flush()


def _map_of(X: Bags) -> dict[str, Any] | None:
    """Describe where the instances are, if they are one part of a mapped file."""
    if not X.on_disk or not isinstance(X._stacked, np.ndarray):
        return None
    array: Any = X._stacked
    while not isinstance(array, np.memmap) or isinstance(array.base, np.memmap):
        if not isinstance(array, np.ndarray):
            return None
        array = array.base
    name = getattr(array, "filename", None)
    if name is None or not Path(name).is_file():
        return None
    first = X._stacked.__array_interface__["data"][0]
    start = first - array.__array_interface__["data"][0] + array.offset
    found = Path(name).stat()
    return {
        "file": str(Path(name).absolute()),
        "offset": int(start),
        "dtype": X.dtype.str,
        "shape": [X.n_instances, X.n_features],
        "bytes": found.st_size,
        "changed": found.st_mtime_ns,
    }


def _open_map(where: dict[str, Any]) -> NDArray[Any]:
    """Map the file that holds the instances; refuse one that has changed since."""
    path = Path(where["file"])
    if not path.is_file():
        raise DataFileError(
            f"{path}, the file of the instances, was deleted; workers need it until all"
            " runs have ended"
        )
    found = path.stat()
    if (found.st_size, found.st_mtime_ns) != (where["bytes"], where["changed"]):
        raise DataFileError(
            f"{path} has changed since the comparison began; start a new comparison"
        )
    shape = tuple(where["shape"])
    return np.memmap(path, where["dtype"], "r", where["offset"], shape)
