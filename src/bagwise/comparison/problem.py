"""The data of an experiment: bags, labels, and what is known about instances."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags

__all__ = ["Problem"]

CHUNK_ROWS = 65_536


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
        One label, or one value, per bag; a table for several labels; the fields `event`
        and `time` for times until an event.
    instance_labels : ndarray of shape (n_instances,), optional
        Non-zero (or True) where an instance makes its bag positive. Used only to score
        key instances, never for fitting.
    images : ndarray of shape (n_instances, height, width[, 3]), optional
        A picture of every instance, 8 bits or floats; shown in reports.
    pos_label : label, optional
        Which of two classes is the positive one; the larger label by default.
    task : {"classification", "multilabel", "regression", "survival"}
        Classes, several yes-or-no labels a bag (a column each), real values, or times
        until an event.
    sample_weight : ndarray of shape (n_bags,), optional
        How much every bag counts in fitting; figures count all test bags alike.
    """

    name: str
    X: Bags
    y: NDArray[Any]
    instance_labels: NDArray[Any] | None = None
    images: NDArray[Any] | None = None
    pos_label: Any = None
    task: str = "classification"
    sample_weight: NDArray[np.float64] | None = None

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
        if self.pos_label is None:
            return
        if self.task != "classification":
            held = {"multilabel": "several labels a bag", "survival": "times"}
            raise ValueError(
                f"pos_label={self.pos_label!r} names one of two classes, but y holds"
                f" {held.get(self.task, 'values')}; leave it out"
            )
        if len(self.classes) > 2:
            raise ValueError(
                f"pos_label={self.pos_label!r} names one of two classes, but y holds"
                f" {len(self.classes)}, {_list(self.classes)}; leave it out, or make"
                " one class of the others"
            )
        if self.pos_label not in list(self.classes):
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
        if self.task in ("regression", "survival"):
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
        if self.task == "survival":
            return np.asarray(self.y)
        codes = np.searchsorted(self.classes, self.y)
        return 1 - codes if self.positive == 0 else codes

    @property
    def strata(self) -> NDArray[Any]:
        """What folds keep the share of: the targets, or whether events were seen."""
        if self.task == "survival":
            return self.y["event"].astype(np.int64)
        return self.targets

    def toward_positive(
        self, arrays: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Turn stored predictions (towards the second class) to the positive class.

        The same function turns them back.

        Parameters
        ----------
        arrays : dict of ndarray
            `label`, `score` and, where there are some, `probability`.

        Returns
        -------
        dict of ndarray
            The same arrays, turned where the positive class is the first one.
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
        X = self.X
        if X.is_sparse:
            for part in (X.data.data, X.data.indices, X.data.indptr):
                _digest(digest, part)
        else:
            shape = (X.n_instances, X.n_features)
            digest.update(f"{X.dtype.str}{shape}".encode())
            for chunk in X.iter_chunks(CHUNK_ROWS):  # a map is read piece by piece
                digest.update(np.ascontiguousarray(chunk.data).view(np.uint8).data)
        _digest(digest, X.offsets)
        rows = self.y.tolist() if self.y.ndim == 2 else self.y
        digest.update(json.dumps([str(label) for label in rows]).encode())
        if self.instance_labels is not None:
            digest.update(np.asarray(self.instance_labels, dtype=bool).tobytes())
        if self.positive == 0 or self.task != "classification":
            digest.update(json.dumps([self.positive, self.task]).encode())
        if self.groups is not None:
            codes = np.unique(self.groups.astype(str), return_inverse=True)[1]
            digest.update(b"groups" + codes.astype(np.int64).tobytes())
        if self.sample_weight is not None:
            digest.update(b"weights" + self.sample_weight.tobytes())
        return digest.hexdigest()


def _digest(digest: Any, part: Any) -> None:
    array = np.ascontiguousarray(part)
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    digest.update(array.reshape(-1).view(np.uint8).data if array.size else b"")


def _list(classes: NDArray[Any]) -> str:
    shown = ", ".join(repr(label) for label in classes.tolist()[:6])
    return shown + (", ..." if len(classes) > 6 else "")
