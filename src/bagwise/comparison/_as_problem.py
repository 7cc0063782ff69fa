"""Turn what users have into a problem: a file, a name, a bunch, or bags and labels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags, as_bags
from bagwise.bags.annotations import first_missing, refuse_masked
from bagwise.base import check_survival
from bagwise.comparison._weights import check_weights
from bagwise.comparison.problem import CHUNK_ROWS, Problem
from bagwise.datasets import available, fetch, load_digit_bags
from bagwise.datasets.simulated import draw, is_drawn
from bagwise.io import read_bags
from bagwise.io.positive import same_label

__all__ = ["as_problem", "as_unlabelled", "join_problems"]

TASKS = ("auto", "classification", "regression", "survival")
MANY_VALUES = 20


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
    data : str, path, Bunch, Bags or list of 2-D arrays
        A file, the name of a known data set, what a loader of
        :mod:`bagwise.datasets` returns, or the bags themselves.
    y : array-like of shape (n_bags,) or (n_bags, n_labels), optional
        Labels or values, when `data` holds bags; a table of zeros and ones for
        several labels a bag.
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
        Whether missing values (NaN) may stay, for an imputer to fill.
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
        parts = {
            "name": name or data.name,
            "X": data.X,
            "y": data.y,
            "instance_labels": data.instance_labels,
            "images": data.images,
            "sample_weight": data.sample_weight,
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
    elif y is None:
        raise ValueError("labels are missing: pass y with one label per bag")
    else:
        refuse_masked(y, "y")
        y = check_survival(y) if _has_fields(y) else np.asarray(y)
        parts = {"name": name or "data", "X": as_bags(data), "y": y}
    if groups is not None:
        if isinstance(groups, str):
            raise ValueError(
                f"groups={groups!r} names a column, but the data are no file; pass one"
                " group per bag"
            )
        X = parts["X"]
        if len(np.asarray(groups)) != len(X):
            raise ValueError(f"groups has {len(groups)} entries for {len(X)} bags")
        parts["X"] = X.with_groups(groups)
    if isinstance(sample_weight, str):
        raise ValueError(
            f"sample_weight={sample_weight!r} names a column, but the data are no file;"
            " pass one number per bag"
        )
    found, kind = _target(parts["y"], task, parts["X"].ids)
    if sample_weight is not None:
        parts["sample_weight"] = sample_weight
    if parts.get("sample_weight") is not None:
        weight = check_weights(parts["sample_weight"], len(parts["X"]), found, kind)
        parts["sample_weight"] = weight
    if kind == "classification":
        pos_label = same_label(pos_label, np.unique(found))
    _check_features(parts["X"], parts["name"], missing=missing)
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
            raise ValueError(
                f"{path} gave no labels; name the columns with bag= and label="
            )
        weight = found[2] if len(found) > 2 else None
        parts = {"name": name or path.stem, "X": X, "y": np.asarray(y)}
        return {**parts, "sample_weight": weight}
    known = str(data) in available()  # some names look like files: sci.med
    if not known and (path.suffix or len(path.parts) > 1):
        raise FileNotFoundError(f"no such file: {path}")
    if is_drawn(str(data)):
        drawn = draw(str(data))
        return _from_bunch(drawn, name or drawn.name)
    if str(data) == "digits":
        return _from_bunch(load_digit_bags(), name or "digits")
    return _from_bunch(fetch(str(data)), name or str(data))


def _from_bunch(bunch: Any, name: str) -> dict[str, Any]:
    refuse_masked(bunch["y"], "y")
    instances, images = bunch.get("instance_labels"), bunch.get("images")
    values = getattr(instances, "values", instances)
    if callable(values):  # a dict or frame by mistake
        values = None
    return {
        "name": name,
        "X": as_bags(bunch["X"]),
        "y": np.asarray(bunch["y"]),
        "instance_labels": None if values is None else np.asarray(values),
        "images": None if images is None else np.asarray(images),
    }


def _has_fields(y: Any) -> bool:
    """Tell times with events from labels: a structured array, or such a frame."""
    if getattr(getattr(y, "dtype", None), "names", None) is not None:
        return True
    return {"event", "time"} == {str(name) for name in getattr(y, "columns", ())}


def _no_number(y: NDArray[Any], ids: NDArray[Any]) -> str:
    """Say which bag has no number."""
    text = "regression needs one number per bag as y"
    if y.ndim != 1:
        return f"{text}, and y has shape {y.shape}"
    for i, value in enumerate(y.tolist()):
        try:
            if np.isfinite(float(value)):
                continue
        except (TypeError, ValueError):
            pass
        return f"{text}, and bag {ids[i]!s} has {value!r}; words are for classes"
    return f"{text}; turn the text into numbers first"


def _target(y: NDArray[Any], task: str, ids: NDArray[Any]) -> tuple[NDArray[Any], str]:
    """Return the checked labels or values, and what they are."""
    y = np.asarray(y)
    if y.dtype.names is not None or task == "survival":
        if task not in ("auto", "survival"):
            raise ValueError(f"y holds events and times, and the task is {task}")
        return check_survival(y), "survival"
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim > 2:
        raise ValueError(f"y has {y.ndim} dimensions; one label per bag is needed")
    bag = first_missing(y) if y.ndim == 1 and y.dtype.kind in "OmM" else None
    if bag is not None and task != "regression":
        raise ValueError(
            f"the label of bag {ids[bag]!s} is missing; leave such bags out or give"
            " them a label"
        )
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        where = int(np.flatnonzero(~np.isfinite(y.reshape(len(y), -1)).all(axis=1))[0])
        raise ValueError(
            f"y is missing or infinite for bag {where} (of {len(y)}); leave such bags"
            " out or give them a value"
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
            "y is a table, which stands for several yes-or-no labels a bag: it may hold"
            " zeros and ones only"
        )
    table = y.astype(np.int64)
    for k, column in enumerate(table.T):
        if len(np.unique(column)) < 2:
            raise ValueError(
                f"label {k} (column {k} of y) is {column[0]} for all bags: leave it out"
            )
    return table


def _check_features(X: Bags, name: str, *, missing: bool) -> None:
    """Refuse values that no method can use; say which columns and what helps."""
    where = _gaps(X, missing=missing)
    if where is None:
        return
    row, columns, infinite = where
    names = X.feature_names
    shown = [str(c if names is None else names[c]) for c in columns[:6]]
    more = f" and {len(columns) - 6} more" if len(columns) > 6 else ""
    what = "infinite values" if infinite else "missing values (NaN)"
    bag = X.ids[int(X.bag_index[row])]
    help_ = "replace them first"
    if not infinite:
        help_ = "fill them inside the folds with impute='median', or leave them out"
    raise ValueError(
        f"the data of {name!r} hold {what} in columns {', '.join(shown)}{more} (first"
        f" in bag {bag!s}); {help_}"
    )


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
    for chunk in X.iter_chunks(CHUNK_ROWS):  # a map is read piece by piece
        found = bad(chunk.data)
        if found.any():
            if first < 0:
                first = start + int(np.flatnonzero(found.any(axis=1))[0])
            columns |= found.any(axis=0)
            infinite = infinite or bool(np.isinf(chunk.data).any())
        start += chunk.n_instances
    return None if first < 0 else (first, np.flatnonzero(columns), infinite)


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
    if train.sample_weight is not None:  # of the test bags none is used
        weight = np.concatenate([train.sample_weight, np.ones(len(test.y))])
    joined = Problem(name, X, y, labels, images, train.pos_label, train.task, weight)
    return joined, len(train.y)


def as_unlabelled(
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
