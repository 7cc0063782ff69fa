"""Data that runs refer to: written once, mapped by every worker.

Runs refer to data by the hash of their content. `freeze` writes a problem as plain
``.npy`` files. Instances that lie in a memory map already are not copied: the file is
referred to, and must stay as it is.
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
from bagwise.comparison.description import DataRef
from bagwise.comparison.problem import CHUNK_ROWS, Problem

__all__ = ["freeze", "load_problem"]


def freeze(problem: Problem, folder: str | os.PathLike[str]) -> DataRef:
    """Write a problem under `folder`, once, and return the reference to it.

    The files appear under their final name only when complete, so that a killed
    process or two processes at once leave no half-written data behind.
    """
    key = problem.hash()
    target = Path(folder).absolute() / key[:16]
    ref = DataRef(problem.name, key, str(target))
    if (target / "meta.json").exists():
        return ref
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".tmp-", dir=target.parent))
    try:
        _write(problem, key, scratch)
        try:
            scratch.rename(target)
        except OSError:
            if not (target / "meta.json").exists():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return ref


def _write(problem: Problem, key: str, folder: Path) -> None:
    X, where = problem.X, None
    arrays: dict[str, Any] = {"offsets": X.offsets, "y": _storable(problem.y)}
    if X.is_sparse:
        matrix = X.data
        arrays |= {"values": matrix.data, "indices": matrix.indices}
        arrays |= {"indptr": matrix.indptr}
    else:
        where = _map_of(X)
        if where is None:
            _write_rows(X, folder / "data.npy")
    if problem.instance_labels is not None:
        arrays["instance_labels"] = np.asarray(problem.instance_labels, dtype=bool)
    if problem.images is not None:
        arrays["images"] = problem.images
    if problem.sample_weight is not None:
        arrays["sample_weight"] = problem.sample_weight
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", np.asarray(array), allow_pickle=False)
    names = X.feature_names
    meta = {
        "name": problem.name,
        "hash": key,
        "shape": [int(X.n_instances), int(X.n_features)],
        "ids": None if X.ids is None else [str(i) for i in X.ids],
        "feature_names": None if names is None else [str(name) for name in names],
        "map": where,
        "groups": None if X.groups is None else [str(g) for g in X.groups],
        "positive": problem.positive,
        "task": problem.task,
    }
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")


def _storable(y: NDArray[Any]) -> NDArray[Any]:
    y = np.asarray(y)
    return y.astype(str) if y.dtype == object else y


@lru_cache(maxsize=3)
def load_problem(path: str) -> Problem:
    """Map a frozen problem into memory (kept per process, arrays are shared)."""
    folder = Path(path)
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"no frozen data at {folder}; on a cluster the output folder must lie on a"
            " file system that every worker sees"
        ) from None

    def read(name: str) -> Any:
        file = folder / f"{name}.npy"
        return np.load(file, mmap_mode="r") if file.exists() else None

    data = read("data") if meta.get("map") is None else _open_map(meta["map"])
    if data is None:
        parts = (read("values"), read("indices"), read("indptr"))
        data = sparse.csr_matrix(parts, shape=tuple(meta["shape"]), copy=False)
    X = Bags(
        data,
        read("offsets"),
        ids=meta["ids"],
        feature_names=meta["feature_names"],
        groups=meta["groups"],
    )
    labels, images, y = read("instance_labels"), read("images"), np.array(read("y"))
    positive = meta["positive"]
    chosen = None if positive is None else np.unique(y)[positive]
    return Problem(
        meta["name"],
        X,
        y,
        labels,
        images,
        chosen,
        meta["task"],
        read("sample_weight"),
    )


def _write_rows(X: Bags, path: Path) -> None:
    """Write the instances, piece by piece where they lie on disk."""
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
    """Say where the instances lie, if they are one piece of a file that has a name."""
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
        raise FileNotFoundError(
            f"the instances lay in {path}, which is gone; runs need the file until they"
            " are done"
        )
    found = path.stat()
    if (found.st_size, found.st_mtime_ns) != (where["bytes"], where["changed"]):
        raise ValueError(f"{path} has changed since the comparison began; start anew")
    shape = tuple(where["shape"])
    return np.memmap(path, where["dtype"], "r", where["offset"], shape)
