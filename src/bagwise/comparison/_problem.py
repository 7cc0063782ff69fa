"""The data of an experiment: bags, labels, and what is known about instances.

Runs refer to data by the hash of their content. `freeze` writes a problem once as
plain ``.npy`` files, which every worker maps into memory instead of copying.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bagwise.bags import Bags
from bagwise.comparison._description import DataRef

__all__ = ["Problem", "freeze", "load_problem"]


# Numbers and truth values that a file gave as text.
_PLAIN_PAIRS = (["0", "1"], ["-1", "1"], ["0.0", "1.0"], ["false", "true"])


@dataclass(frozen=True, eq=False)
class Problem:
    """A labelled data set, with instance labels and images where they are known.

    Parameters
    ----------
    name : str
        Name shown in tables.
    X : Bags
        The bags.
    y : ndarray of shape (n_bags,) or (n_bags, n_labels)
        One label, or one value, per bag; a table for several labels.
    instance_labels : ndarray of shape (n_instances,), optional
        Non-zero (or True) where an instance makes its bag positive. Used only to score
        key instances, never for fitting.
    images : ndarray of shape (n_instances, height, width[, 3]), optional
        A picture of every instance, 8 bits or floats; shown in reports.
    pos_label : label, optional
        Which of two classes is the positive one; the larger label by default.
    task : {"classification", "multilabel", "regression"}
        Classes, several yes-or-no labels a bag (a column each), or real values.
    """

    name: str
    X: Bags
    y: NDArray[Any]
    instance_labels: NDArray[Any] | None = None
    images: NDArray[Any] | None = None
    pos_label: Any = None
    task: str = "classification"

    def __post_init__(self) -> None:
        """Check that all parts belong together."""
        n_bags, n_instances = len(self.X), self.X.n_instances
        if len(self.y) != n_bags:
            raise ValueError(f"y has {len(self.y)} labels for {n_bags} bags")
        for what in ("instance_labels", "images"):
            value = getattr(self, what)
            if value is not None and len(value) != n_instances:
                raise ValueError(
                    f"{what} has {len(value)} entries for {n_instances} instances"
                )

        if self.pos_label is not None and self.pos_label not in list(self.classes):
            raise ValueError(
                f"pos_label={self.pos_label!r} is not among the labels"
                f" {_list(self.classes)}"
            )

    @property
    def groups(self) -> NDArray[Any] | None:
        """Which bags belong together; None where nothing is known."""
        return self.X.groups

    @property
    def classes(self) -> NDArray[Any]:
        """The sorted labels; numbers of the columns for several labels a bag."""
        if self.task == "regression":
            return np.empty(0)
        if self.task == "multilabel":
            return np.arange(self.y.shape[1])
        return np.unique(self.y)

    @property
    def positive(self) -> int | None:
        """Index of the positive class among two; None otherwise."""
        classes = self.classes
        if self.task != "classification" or len(classes) != 2:
            return None
        return 1 if self.pos_label is None else list(classes).index(self.pos_label)

    @property
    def targets(self) -> NDArray[Any]:
        """What methods learn: class indices (1 is the positive of two), or values.

        The same whatever the classes are called and however they sort.
        """
        if self.task == "regression":
            return np.asarray(self.y, dtype=np.float64)
        if self.task == "multilabel":
            return np.asarray(self.y, dtype=np.int64)
        codes = np.searchsorted(self.classes, self.y)
        return 1 - codes if self.positive == 0 else codes

    def toward_positive(
        self, arrays: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Turn stored predictions (towards the second class) to the positive class.

        The same function turns them back.
        """
        found = dict(arrays)
        if self.positive == 0:
            for name in ("label", "probability"):
                if name in found:
                    found[name] = 1 - found[name]
            found["score"] = -found["score"]
        return found

    def check_positive(self) -> None:
        """Refuse two words as labels when nobody said which is the positive one."""
        if self.positive is None or self.pos_label is not None:
            return
        labels = [str(label).strip().lower() for label in self.classes]
        if self.y.dtype.kind in "biuf" or labels in _PLAIN_PAIRS:
            return
        one, two = self.classes
        raise ValueError(
            f"the labels are {str(one)!r} and {str(two)!r}: say which one is positive,"
            f" with pos_label={str(one)!r} or pos_label={str(two)!r}"
        )

    def hash(self) -> str:
        """Return the hash of everything that can change a result."""
        digest = hashlib.sha256()
        data = self.X.data
        parts = [data.data, data.indices, data.indptr] if self.X.is_sparse else [data]
        for part in [*parts, self.X.offsets]:
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
        rows = self.y.tolist() if self.y.ndim == 2 else self.y
        digest.update(json.dumps([str(label) for label in rows]).encode())
        if self.instance_labels is not None:
            digest.update(np.asarray(self.instance_labels, dtype=bool).tobytes())
        if self.positive == 0 or self.task != "classification":
            digest.update(json.dumps([self.positive, self.task]).encode())
        if self.groups is not None:
            codes = np.unique(self.groups.astype(str), return_inverse=True)[1]
            digest.update(b"groups" + codes.astype(np.int64).tobytes())
        return digest.hexdigest()


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
    X = problem.X
    arrays: dict[str, Any] = {"offsets": X.offsets, "y": _storable(problem.y)}
    if X.is_sparse:
        matrix = X.data
        arrays |= {"values": matrix.data, "indices": matrix.indices}
        arrays |= {"indptr": matrix.indptr}
    else:
        arrays["data"] = X.data
    if problem.instance_labels is not None:
        arrays["instance_labels"] = np.asarray(problem.instance_labels, dtype=bool)
    if problem.images is not None:
        arrays["images"] = problem.images
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", np.asarray(array), allow_pickle=False)
    names = X.feature_names
    meta = {
        "name": problem.name,
        "hash": key,
        "shape": [int(X.n_instances), int(X.n_features)],
        "ids": None if X.ids is None else [str(i) for i in X.ids],
        "feature_names": None if names is None else [str(name) for name in names],
        "groups": None if X.groups is None else [str(g) for g in X.groups],
        "positive": problem.positive,
        "task": problem.task,
    }
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")


def _list(classes: NDArray[Any]) -> str:
    shown = ", ".join(repr(label) for label in classes.tolist()[:6])
    return shown + (", ..." if len(classes) > 6 else "")


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

    data = read("data")
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
    return Problem(meta["name"], X, y, labels, images, chosen, meta["task"])
