"""Turn what users have into a problem: a file, a name, a bunch, or bags and labels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.bags import Bags, as_bags
from bagwise.comparison._problem import Problem
from bagwise.datasets import available, fetch, load_digit_bags
from bagwise.datasets._drawn import draw, is_drawn
from bagwise.io import read_bags

__all__ = ["as_problem", "as_unlabelled", "join_problems"]


def as_problem(
    data: Any,
    y: Any = None,
    *,
    name: str | None = None,
    bag: str | None = None,
    label: str | None = None,
) -> Problem:
    """Return a problem from any way of giving data.

    Parameters
    ----------
    data : str, path, Bunch, Bags or list of 2-D arrays
        A file, the name of a known data set, what a loader of
        :mod:`bagwise.datasets` returns, or the bags themselves.
    y : array-like of shape (n_bags,), optional
        Labels, when `data` holds bags.
    name : str, optional
        Name in tables.
    bag, label : str, optional
        Columns of a file.
    """
    if isinstance(data, Problem):
        return data
    if isinstance(data, str | os.PathLike):
        return _from_name(data, name, bag, label)
    if isinstance(data, dict) and "X" in data and "y" in data:  # a Bunch is a dict
        return _from_bunch(data, name or str(data.get("name", "data")))
    if y is None:
        raise ValueError("labels are missing: pass y with one label per bag")
    return _checked(Problem(name or "data", as_bags(data), np.asarray(y)))


def _from_name(
    data: str | os.PathLike[str], name: str | None, bag: str | None, label: str | None
) -> Problem:
    path = Path(data)
    if path.exists() and path.is_file():
        options = {"bag": bag, "label": label}
        given: Any = {k: value for k, value in options.items() if value is not None}
        found = read_bags(path, **given)
        if isinstance(found, dict):
            return _from_bunch(found, name or path.stem)
        X, y = found
        if y is None:
            raise ValueError(
                f"{path} gave no labels; name the columns with bag= and label="
                " (--bag and --label)"
            )
        return _checked(Problem(name or path.stem, X, np.asarray(y)))
    known = str(data) in available()  # some names look like files: sci.med
    if not known and (path.suffix or len(path.parts) > 1):
        raise FileNotFoundError(f"no such file: {path}")
    if is_drawn(str(data)):
        drawn = draw(str(data))
        return _from_bunch(drawn, name or drawn.name)
    if str(data) == "digits":
        return _from_bunch(load_digit_bags(), name or "digits")
    return _from_bunch(fetch(str(data)), name or str(data))


def _from_bunch(bunch: Any, name: str) -> Problem:
    instances, images = bunch.get("instance_labels"), bunch.get("images")
    values = getattr(instances, "values", instances)
    if callable(values):  # a dict or frame by mistake
        values = None
    return _checked(
        Problem(
            name,
            as_bags(bunch["X"]),
            np.asarray(bunch["y"]),
            None if values is None else np.asarray(values),
            None if images is None else np.asarray(images),
        )
    )


def _checked(problem: Problem) -> Problem:
    data = problem.X.data.data if problem.X.is_sparse else problem.X.data
    if not np.isfinite(data).all():
        rows = np.flatnonzero(
            ~np.isfinite(np.asarray(data)).reshape(len(data), -1).all(1)
        )
        where = ""
        if not problem.X.is_sparse:
            which = int(problem.X.bag_index[rows[0]])
            where = f" (first in bag {problem.X.ids[which]!r})"
        raise ValueError(
            f"the data of {problem.name!r} hold NaN or infinite values{where};"
            " impute or remove them first"
        )
    if problem.y.dtype.kind == "f" and len(np.unique(problem.y)) > 20:
        raise ValueError(
            "the labels are real numbers with more than 20 values; comparison is of"
            " classifiers: turn them into classes first"
        )
    return problem


def join_problems(train: Problem, test: Problem) -> tuple[Problem, int]:
    """Put the bags of a training and a test file into one problem.

    Returns
    -------
    problem : Problem
        All bags, training ones first.
    n_train : int
        Number of training bags, for the protocol `train_test`.
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
    return Problem(name, X, y, labels, images), len(train.y)


def as_unlabelled(
    data: Any, *, bag: str | None = None, label: str | None = None
) -> Bags:
    """Return the bags of a file, a name, a bunch or a sequence; labels are dropped."""
    if isinstance(data, str | os.PathLike) and Path(data).is_file():
        options = {"bag": bag, "label": label}
        given: Any = {k: value for k, value in options.items() if value is not None}
        found = read_bags(Path(data), **given)
        return found["X"] if isinstance(found, dict) else found[0]
    if isinstance(data, str | os.PathLike | Problem | dict):
        return as_problem(data, bag=bag, label=label).X
    return as_bags(data)
