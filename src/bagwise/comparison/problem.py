"""The data of an experiment: bags, labels, and what is known about instances."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags, as_bags
from bagwise.bags.codings import plain_codings
from bagwise.bags.validation import (
    check_weights,
    first_missing,
    in_bag_order,
    refuse_masked,
)
from bagwise.base.folds import copied_bags, kept_together
from bagwise.base.survival import check_survival, has_fields
from bagwise.datasets import available, fetch, load_digit_bags
from bagwise.exceptions import DataError, MissingValuesError, ParameterError
from bagwise.io import read_bags
from bagwise.io.roles import same_label

__all__ = ["Problem", "as_problem", "as_unlabeled", "join_problems"]

CHUNK_ROWS = 65_536
TASKS = ("auto", "classification", "regression", "survival")
MANY_VALUES = 20
# Numbers and booleans that a file contains as text.
_PLAIN_PAIRS = (["0", "1"], ["-1", "1"], ["0.0", "1.0"], ["false", "true"])


@dataclass(frozen=True, eq=False)
class Problem:
    """A labeled data set, with instance labels and images if they are known.

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
        Classes, several yes-or-no labels per bag (a column each), real values, or times
        until an event.
    sample_weight : ndarray of shape (n_bags,), optional
        Weight of each bag in fitting; in figures all test bags have the same weight.
    path : str, optional
        The file or folder of the data.
    label_names : sequence of str, optional
        What several labels per bag are called.
    """

    name: str
    X: Bags
    y: NDArray[Any]
    instance_labels: NDArray[Any] | None = None
    images: NDArray[Any] | None = None
    pos_label: Any = None
    task: str = "classification"
    sample_weight: NDArray[np.float64] | None = None
    path: str | None = None
    label_names: Sequence[str] | None = None

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
            held = {"multilabel": "several labels per bag", "survival": "times"}
            raise ParameterError(
                "pos_label",
                f"names one of two classes, {self.pos_label!r}, but the data have "
                f"{held.get(self.task, 'values')}; omit it",
            )
        if len(self.classes) > 2:
            raise ParameterError(
                "pos_label",
                f"names one of two classes, {self.pos_label!r}, but the data have "
                f"{len(self.classes)}, {_list(self.classes)}; omit it, or merge the "
                "other classes into one",
            )
        if self.pos_label not in list(self.classes):
            raise ParameterError(
                "pos_label",
                f"is {self.pos_label!r}, which is not among the labels"
                f" {_list(self.classes)}",
            )

    @property
    def groups(self) -> NDArray[Any] | None:
        """Which bags belong together; None where nothing is known."""
        return self.X.groups

    @cached_property
    def copies(self) -> NDArray[Any] | None:
        """The first bag with the same instances, for every bag; None without copies."""
        return copied_bags(self.X)

    @property
    def n_copies(self) -> int:
        """Number of bags that are copies of an earlier bag."""
        return 0 if self.copies is None else len(self.y) - len(np.unique(self.copies))

    @cached_property
    def units(self) -> NDArray[Any] | None:
        """Which bags no split divides: groups, and copies of a bag; None for all."""
        return self.groups if self.copies is None else kept_together(self.X)

    @property
    def classes(self) -> NDArray[Any]:
        """The sorted labels; numbers of the columns for several labels per bag."""
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
        raise DataError(
            f"the labels are {str(one)!r} and {str(two)!r}, and it is not known which"
            " one is positive",
            "Set {0} or {1}.",
            ("pos_label", str(one)),
            ("pos_label", str(two)),
        )

    def check_values(self, *, missing: bool) -> None:
        """Refuse values that no method can use, with their place and what helps.

        Parameters
        ----------
        missing : bool
            Whether missing values (NaN) are allowed, as an imputer fills them.
        """
        where = _gaps(self.X, missing=missing)
        if where is None:
            return
        row, columns, infinite = where
        names = self.X.feature_names
        shown = [str(c if names is None else names[c]) for c in columns[:6]]
        more = f" and {len(columns) - 6} more" if len(columns) > 6 else ""
        what = "infinite values" if infinite else "missing values (NaN)"
        bag = self.X.ids[int(self.X.bag_index[row])]
        remedy = "Replace them first."
        if not infinite:
            remedy = "Set {0} to fill them inside the folds, or remove them."
        raise MissingValuesError(
            f"the data of {self.name!r} hold {what} in columns {', '.join(shown)}{more}"
            f" (first in bag {bag!s})",
            remedy,
            ("impute", "median"),
            columns=shown,
            bag=bag,
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
            for chunk in X.iter_chunks(CHUNK_ROWS):  # a memory map is read in chunks
                digest.update(np.ascontiguousarray(chunk.data).view(np.uint8).data)
        _digest(digest, X.offsets)
        if X.codings:
            digest.update(json.dumps(plain_codings(X.codings)).encode())
        if X.bag_rows is not None:
            _digest(digest, X.bag_rows)
        rows = self.y.tolist() if self.y.ndim == 2 else self.y
        digest.update(json.dumps([str(label) for label in rows]).encode())
        if self.instance_labels is not None:
            digest.update(np.asarray(self.instance_labels, dtype=bool).tobytes())
        if self.positive == 0 or self.task != "classification":
            digest.update(json.dumps([self.positive, self.task]).encode())
        if self.groups is not None:
            codes = np.unique(self.groups.astype(str), return_inverse=True)[1]
            digest.update(b"groups" + codes.astype(np.int64).tobytes())
        if self.copies is not None:  # stored runs may have split them across folds
            digest.update(b"copies")
        if self.sample_weight is not None:
            digest.update(b"weights" + self.sample_weight.tobytes())
        return digest.hexdigest()


def _gaps(X: Bags, *, missing: bool) -> tuple[int, NDArray[Any], bool] | None:
    """Return first row, all columns, and whether values are infinite; None if sound."""

    def bad(values: Any) -> Any:
        return np.isinf(values) if missing else ~np.isfinite(values)

    if X.is_sparse:
        places = np.flatnonzero(bad(X.data.data))
        if not len(places):
            return None
        row = int(np.searchsorted(X.data.indptr, places[0], side="right")) - 1
        infinite = bool(np.isinf(X.data.data[places]).any())
        return row, np.unique(X.data.indices[places]), infinite
    first, start, infinite = -1, 0, False
    columns = np.zeros(X.n_features, dtype=bool)
    for chunk in X.iter_chunks(CHUNK_ROWS):  # a memory map is read in chunks
        found = bad(chunk.data)
        if found.any():
            if first < 0:
                first = start + int(np.flatnonzero(found.any(axis=1))[0])
            columns |= found.any(axis=0)
            infinite = infinite or bool(np.isinf(chunk.data).any())
        start += chunk.n_instances
    return None if first < 0 else (first, np.flatnonzero(columns), infinite)


def _digest(digest: Any, part: Any) -> None:
    array = np.ascontiguousarray(part)
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    digest.update(array.reshape(-1).view(np.uint8).data if array.size else b"")


def _list(classes: NDArray[Any]) -> str:
    shown = ", ".join(repr(label) for label in classes.tolist()[:6])
    return shown + (", ..." if len(classes) > 6 else "")


def as_problem(
    data: Any,
    y: Any = None,
    *,
    name: str | None = None,
    bag: str | None = None,
    label: str | None = None,
    groups: Any = None,
    pos_label: Any = None,
    task: str = "auto",
    missing: bool = False,
    sample_weight: Any = None,
    **columns: Any,
) -> Problem:
    """Return a problem from any way of giving data.

    Parameters
    ----------
    data : str, path, Bunch, Bags, list of 2-D arrays or pair (X, y)
        A file, the name of a known data set, what a loader of
        :mod:`bagwise.datasets` returns, the bags themselves, or bags and labels.
    y : array-like of shape (n_bags,) or (n_bags, n_labels), optional
        Labels or values, when `data` holds bags; a table of zeros and ones for
        several labels per bag. A Series is put in the order of the ids in its index.
    name : str, optional
        Name in tables.
    bag, label : str, optional
        Columns of a file.
    groups : str or array-like of shape (n_bags,), optional
        Which bags belong together (patients, compounds): a column of a file, or one
        entry per bag. Bags may carry groups themselves.
    pos_label : label, optional
        The positive one of two classes.
    task : {"auto", "classification", "regression", "survival"}, default="auto"
        What `y` holds. By itself, real numbers with more than 20 different values are
        taken for regression, the fields `event` and `time` for survival, all else for
        classes.
    missing : bool, default=False
        Whether missing values (NaN) of a file are kept, for an imputer to fill.
    sample_weight : str or array-like of shape (n_bags,), optional
        How much every bag counts in fitting: a column of a file, or one number per
        bag.
    **columns
        Further options of :func:`bagwise.read_bags` for a file: `drop`, `features`,
        `instance_id` and so on.

    Returns
    -------
    Problem
        Bags, labels and what else is known.
    """
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}; known: {', '.join(TASKS)}")
    parts: dict[str, Any]
    if isinstance(data, Problem):
        asked = (y, name, groups, sample_weight)
        if all(value is None for value in asked) and (
            pos_label in (None, data.pos_label) and task in ("auto", data.task)
        ):
            return data
        parts = {
            "name": name or data.name,
            "X": data.X,
            "y": data.y,
            "instance_labels": data.instance_labels,
            "images": data.images,
            "sample_weight": data.sample_weight,
            "path": data.path,
        }
        pos_label = data.pos_label if pos_label is None else pos_label
        known = data.task in ("regression", "survival")
        task = data.task if task == "auto" and known else task
    elif isinstance(data, str | os.PathLike):
        options = {"bag": bag, "label": label, **columns}
        if isinstance(groups, str):
            options["group"], groups = groups, None
        if isinstance(sample_weight, str):
            options["weight"], sample_weight = sample_weight, None
        if missing:
            options["missing"] = "keep"
        parts = _from_name(data, name, options)
    elif isinstance(data, dict) and "X" in data and "y" in data:  # a Bunch is a dict
        parts = _from_bunch(data, name or str(data.get("name", "data")))
    else:
        if y is None and isinstance(data, tuple) and len(data) == 2:
            data, y = data
        if y is None:
            raise ValueError(
                "labels are missing: pass y with one label per bag, or a pair (X, y) "
                "such as bagwise.from_frame(table, bag=..., label=...) returns"
            )
        refuse_masked(y, "y")
        bags = as_bags(data)
        y = in_bag_order(y, bags)
        y = check_survival(y) if has_fields(y) else np.asarray(y)
        parts = {"name": name or "data", "X": bags, "y": y}
    if groups is not None:
        if isinstance(groups, str):
            raise ValueError(
                f"groups={groups!r} names a column, but the data are not a file; pass "
                "one group per bag"
            )
        X = parts["X"]
        if len(np.asarray(groups)) != len(X):
            raise ValueError(f"groups has {len(groups)} entries for {len(X)} bags")
        parts["X"] = X.with_groups(in_bag_order(groups, X, "groups"))
    if isinstance(sample_weight, str):
        raise ValueError(
            f"sample_weight={sample_weight!r} names a column, but the data are not a "
            "file; pass one number per bag"
        )
    found, kind = _target(parts["y"], task, parts["X"].ids)
    if sample_weight is not None:
        weight = in_bag_order(sample_weight, parts["X"], "sample_weight")
        parts["sample_weight"] = weight
    if parts.get("sample_weight") is not None:
        weight = check_weights(parts["sample_weight"], len(parts["X"]), found, kind)
        parts["sample_weight"] = weight
    if kind == "classification":
        pos_label = same_label(pos_label, np.unique(found))
    return Problem(**{**parts, "y": found, "pos_label": pos_label, "task": kind})


def _from_name(
    data: str | os.PathLike[str], name: str | None, options: dict[str, Any]
) -> dict[str, Any]:
    path = Path(data)
    if path.is_file() or (path.is_dir() and str(data) not in available()):
        given: Any = {k: value for k, value in options.items() if value is not None}
        found = read_bags(path, **given)
        if isinstance(found, dict):
            return _from_bunch(found, name or path.stem)
        X, y = found[:2]
        if y is None:
            raise DataError(f"{path} has no labels", "Give {0}.", ("label", ...))
        weight = found[2] if len(found) > 2 else None
        parts = {"name": name or path.stem, "X": X, "y": np.asarray(y)}
        return {**parts, "sample_weight": weight, "path": str(path)}
    known = str(data) in available()  # some set names look like files: sci.med
    if not known and (path.suffix or len(path.parts) > 1):
        raise FileNotFoundError(f"no such file: {path}")
    if str(data) == "digits":
        return _from_bunch(load_digit_bags(), name or "digits")
    return _from_bunch(fetch(str(data)), name or str(data))


def _from_bunch(bunch: Any, name: str) -> dict[str, Any]:
    refuse_masked(bunch["y"], "y")
    instances, images = bunch.get("instance_labels"), bunch.get("images")
    values = getattr(instances, "values", instances)
    if callable(values):  # a method of a dict or frame
        values = None
    return {
        "name": name,
        "X": as_bags(bunch["X"]),
        "y": np.asarray(bunch["y"]),
        "instance_labels": None if values is None else np.asarray(values),
        "images": None if images is None else np.asarray(images),
    }


def _no_number(y: NDArray[Any], ids: NDArray[Any]) -> str:
    """Return the message about a bag without a number."""
    text = "regression needs one number per bag as y"
    if y.ndim != 1:
        return f"{text}, and y has shape {y.shape}"
    for i, value in enumerate(y.tolist()):
        try:
            if np.isfinite(float(value)):
                continue
        except (TypeError, ValueError):
            pass
        return (
            f"{text}, and bag {ids[i]!s} has {value!r}; text labels are for "
            "classification"
        )
    return f"{text}; turn the text into numbers first"


def _target(y: NDArray[Any], task: str, ids: NDArray[Any]) -> tuple[NDArray[Any], str]:
    """Return the checked labels or values, and what they are."""
    y = np.asarray(y)
    if y.dtype.names is not None or task == "survival":
        if task not in ("auto", "survival"):
            raise ValueError(f"y holds events and times, but the task is {task}")
        return check_survival(y), "survival"
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim > 2:
        raise ValueError(f"y has {y.ndim} dimensions; one label per bag is needed")
    bag = first_missing(y) if y.ndim == 1 and y.dtype.kind in "OmM" else None
    if bag is not None and task != "regression":
        raise ValueError(
            f"the label of bag {ids[bag]!s} is missing; exclude such bags or give them "
            "a label"
        )
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        where = int(np.flatnonzero(~np.isfinite(y.reshape(len(y), -1)).all(axis=1))[0])
        raise ValueError(
            f"y is missing or infinite for bag {where} (of {len(y)}); exclude such bags"
            " or give them a value"
        )
    if task == "auto":
        real = y.ndim == 1 and y.dtype.kind == "f" and np.any(y != np.round(y))
        many = len(np.unique(y)) > MANY_VALUES
        task = "regression" if real and many else "classification"
    if task == "regression":
        if y.dtype.kind not in "biuf" or y.ndim != 1:
            raise ValueError(_no_number(y, ids))
        if len(np.unique(y)) < 2:
            raise ValueError(f"all bags have the value {y[0]!s}: nothing to predict")
        return y.astype(np.float64), "regression"
    if y.ndim == 2:
        return _label_table(y), "multilabel"
    return y, "classification"


def _label_table(y: NDArray[Any]) -> NDArray[np.int64]:
    """Check a table of yes-or-no labels: every column needs both."""
    if not np.isin(y, [0, 1]).all():
        raise ValueError(
            "y is a table, so each column is one binary label per bag: it may contain "
            "only zeros and ones"
        )
    table = y.astype(np.int64)
    for k, column in enumerate(table.T):
        if len(np.unique(column)) < 2:
            raise ValueError(
                f"label {k} (column {k} of y) is {column[0]} for all bags: exclude it"
            )
    return table


def join_problems(train: Problem, test: Problem) -> tuple[Problem, int]:
    """Put the bags of a training and a test file into one problem.

    Returns
    -------
    problem : Problem
        All bags, training ones first.
    n_train : int
        Number of training bags, for the protocol `TrainTest`.
    """
    if train.X.n_features != test.X.n_features:
        raise ValueError(
            f"{train.name!r} has {train.X.n_features} features, {test.name!r} has"
            f" {test.X.n_features}"
        )

    def both(what: str) -> Any:
        one, two = getattr(train, what), getattr(test, what)
        if one is None or two is None:
            return None
        return np.concatenate([one, two])

    X = Bags.concatenate([train.X, test.X])
    y = np.concatenate([train.y, test.y])
    labels, images = both("instance_labels"), both("images")
    name = f"{train.name} / {test.name}"
    weight = None
    if train.sample_weight is not None:  # weights of test bags are not used
        weight = np.concatenate([train.sample_weight, np.ones(len(test.y))])
    joined = Problem(name, X, y, labels, images, train.pos_label, train.task, weight)
    return joined, len(train.y)


def as_unlabeled(
    data: Any, *, bag: str | None = None, label: str | None = None, **columns: Any
) -> Bags:
    """Return the bags of a file, a name, a bunch or a sequence; labels are dropped."""
    if isinstance(data, str | os.PathLike) and Path(data).exists():
        options = {"bag": bag, "label": label, **columns}
        given: Any = {k: value for k, value in options.items() if value is not None}
        found = read_bags(Path(data), **given)
        return found["X"] if isinstance(found, dict) else found[0]
    if isinstance(data, str | os.PathLike | Problem | dict):
        return as_problem(data, bag=bag, label=label).X
    return as_bags(data)
