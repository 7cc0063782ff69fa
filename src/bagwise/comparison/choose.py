"""Choose methods: by name, or those that suit the data.

Nothing is built or imported for it, unless a tag of a class is needed: whether it takes
sparse data, more than two classes, or bags on disk.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from bagwise._sizes import memory_budget
from bagwise.bags import Bags
from bagwise.comparison.catalog import Method
from bagwise.comparison.catalog._classification import CLASSIFIERS, CLASSIFY_BAG_ROWS
from bagwise.comparison.catalog._regression import (
    PREDICT_FROM_BAG_ROWS,
    REGRESSORS,
    SURVIVAL,
)
from bagwise.comparison.description import describe_estimator
from bagwise.comparison.problem import Problem
from bagwise.exceptions import ParameterError

__all__ = [
    "METHODS",
    "Choice",
    "choose_methods",
    "excluded",
    "find_method",
    "judge",
    "list_methods",
    "missing_methods",
    "refuse_impossible",
    "refuse_other_task",
    "resolve",
    "time_note",
    "wanted_task",
]

# Methods that take more than this multiple of the median time are named.
_SLOW = 5.0
METHODS: list[Method] = [*CLASSIFIERS, *REGRESSORS, *SURVIVAL]
# Available by name; chosen only for bags with `bag_rows` (molecules).
_OF_BAG_ROWS = [CLASSIFY_BAG_ROWS, PREDICT_FROM_BAG_ROWS]


@dataclass(frozen=True)
class Choice:
    """A method, whether it takes part, and why.

    Parameters
    ----------
    method : Method
        The entry.
    chosen : bool
        Whether it takes part.
    reason : str
        Why, or why not.
    """

    method: Method
    chosen: bool
    reason: str


def choose_methods(
    problem: Problem, methods: Sequence[Any] | None = None
) -> list[Choice]:
    """Choose the methods to compare on given data.

    `compare` takes the list as its `methods`, so that a front end can show the choice
    before the work starts without choosing twice.

    Parameters
    ----------
    problem : Problem
        The data.
    methods : sequence, optional
        Names in the catalog, estimators, pairs ``(name, estimator)`` or entries, all of
        which take part. By default the methods of the catalog that suit the size and
        the kind of the data; the name "default" among others stands for these. A list
        of choices is returned as it is.

    Returns
    -------
    list of Choice
        One for every method considered, with the reason why it takes part or not.
    """
    if methods is None:
        own = [] if problem.X.bag_rows is None else _OF_BAG_ROWS
        choices = judge([*own, *list_methods()], problem)
        if not any(choice.chosen for choice in choices):
            raise ValueError("no method of the catalog suits these data; pass methods=")
        return choices
    methods = [methods] if isinstance(methods, str) else list(methods)
    if methods and all(isinstance(item, Choice) for item in methods):
        return methods
    more = [item for item in methods if not _is_default(item)]
    if len(more) < len(methods):
        wanted = {one.method.name: one for one in choose_methods(problem, more)}
        others = judge(list_methods(), problem)
        kept = [one for one in others if one.method.name not in wanted]
        return [*kept, *wanted.values()]
    asked = resolve(methods)
    for method in asked:
        refuse_other_task(method, problem)
    return [Choice(method, True, "as asked") for method in asked]


def _is_default(item: Any) -> bool:
    return isinstance(item, str) and item.lower() == "default"


def judge(methods: Iterable[Method], problem: Problem) -> list[Choice]:
    """Return for every method whether it suits the data, and why."""
    pool = list(methods)
    choices = [_judge(method, problem) for method in pool]
    places = {method.name: k for k, method in enumerate(pool)}
    for k, choice in enumerate(choices):
        larger = places.get(choice.method.larger)
        if larger is None or not choice.method.default:
            continue
        too_large = _too_large(choice.method, problem)
        if not too_large:
            continue
        stand_in = _judge(replace(pool[larger], default=True), problem)
        if stand_in.chosen:
            reason = f"in place of {choice.method.name}, as {too_large}"
            choices[larger] = Choice(pool[larger], True, reason)
            text = f"{choice.reason}; {pool[larger].name} is used instead"
            choices[k] = Choice(choice.method, False, text)
    return choices


def _too_large(method: Method, problem: Problem) -> str:
    """Return why the data are too large for a method; empty if they are not."""
    X = problem.X
    width = 4 if X.dtype == np.float16 else X.dtype.itemsize
    n_bytes, budget = float(width) * X.n_instances * X.n_features, memory_budget()
    if X.on_disk and n_bytes > budget and not method.chunked:
        return (
            f"the instances are on disk and would take {n_bytes / 1e9:.1f} GB of the"
            f" {budget / 1e9:.1f} GB of memory; it does not read them in chunks"
        )
    for what, size, limit in (
        ("bags", X.n_bags, method.max_bags),
        ("instances", X.n_instances, method.max_instances),
    ):
        if limit is not None and size > limit:
            grows = f" (its time grows with the square of the number of {method.cost})"
            grows = "" if method.cost == "linear" else grows
            return f"{size:,} {what} are more than {limit:,}{grows}"
    return ""


def refuse_impossible(methods: Iterable[Method], X: Bags, n_instances: int) -> None:
    """Refuse methods that cannot be fitted to the data, before any run.

    These are methods whose kernel matrix does not fit into memory, and those that do
    not take sparse data.

    Parameters
    ----------
    methods : iterable of Method
        The methods to compare.
    X : Bags
        The bags.
    n_instances : int
        Training instances.
    """
    budget, told = memory_budget(), []
    for method in methods:
        if X.is_sparse and method.kind != "own" and not method.sparse:
            text = f"{method.name} does not take sparse data; reduce the columns first "
            told.append(text + "(OnInstances(TruncatedSVD(100)) in a pipeline)")
            continue
        n_bytes = method.kernel_bytes * float(n_instances) ** 2
        reduced = {"n_components", "kernel"} & {*method.params}
        if n_bytes <= budget or reduced:
            continue
        text = f"{method.name} needs a kernel matrix of {n_instances:,} instances ("
        text += f"{n_bytes / 1e9:.1f} GB of the {budget / 1e9:.1f} GB that may be used)"
        if method.larger:
            text += f"; for data of this size use {method.larger!r}"
        else:
            text += "; for data of this size set its n_components, such as 300"
        told.append(text)
    if told:
        raise ParameterError("methods", f"cannot be compared: {'. '.join(told)}")


def wanted_task(problem: Problem) -> str:
    """Return the task of suitable methods; several labels are that many tasks."""
    return "classification" if problem.task == "multilabel" else problem.task


def refuse_other_task(method: Method, problem: Problem) -> None:
    """Refuse a method for classes where values are to be predicted, and so on."""
    wanted = wanted_task(problem)
    if method.task != wanted:
        raise ParameterError(
            "task",
            f"is {wanted}, and {method.name} is for {method.task}",
        )


def _judge(method: Method, problem: Problem) -> Choice:
    X = problem.X
    if method.task != wanted_task(problem):
        return Choice(method, False, f"it is for {method.task}")
    if not method.default:
        return Choice(method, False, f"only on request: {method.note}")
    if X.is_sparse and not method.sparse:
        return Choice(method, False, "it does not support sparse data")
    if method.only_sparse and not X.is_sparse:
        return Choice(method, False, "by default it is used for sparse data only")
    several = problem.task == "classification" and len(problem.classes) > 2
    if several and not method.multiclass:
        return Choice(method, False, "it supports two classes only")
    too_large = _too_large(method, problem)
    if too_large:
        return Choice(method, False, too_large)
    return Choice(method, True, method.note or f"suits {X.n_bags:,} bags")


def excluded(choices: Iterable[Choice], problem: Problem) -> list[Choice]:
    """Return the methods for this task that the data exclude from the default ones."""
    return [
        one
        for one in choices
        if not one.chosen
        and one.method.default
        and one.method.task == wanted_task(problem)
    ]


def list_methods() -> list[Method]:
    """Return the methods that can be used, in the order of the catalog.

    Returns
    -------
    list of Method
        The entries.

    Examples
    --------
    >>> "SimpleMI" in [method.name for method in list_methods()]
    True
    """
    return [method for method in METHODS if not method.missing]


def missing_methods() -> list[Method]:
    """Return the methods that cannot be used because a package is not installed.

    Examples
    --------
    >>> from bagwise.comparison.choose import missing_methods
    >>> all(method.missing for method in missing_methods())
    True
    """
    return [method for method in METHODS if method.missing]


def find_method(name: Any) -> Method:
    """Return a method by name, or wrap an estimator given instead of a name.

    Parameters
    ----------
    name : str, Method or estimator
        A name in the catalog (spaces and hyphens do not matter, and capitals only
        where two names differ by nothing else), an entry, or an unfitted estimator,
        which is used as it is, without tuning.

    Returns
    -------
    Method
        The entry.
    """
    if isinstance(name, Method):
        return name
    if isinstance(name, BaseEstimator):
        return from_estimator(name)
    if inspect.isclass(name):
        raise TypeError(f"pass an instance, {name.__name__}(), not the class itself")
    if not isinstance(name, str):
        raise TypeError(
            f"a method is a name, an estimator or a Method, got {type(name).__name__}"
        )
    known = [*list_methods(), *_OF_BAG_ROWS]
    exact = [m for m in known if m.name == name] or [
        m for m in known if name in m.names()
    ]
    if exact:
        return exact[0]
    table: dict[str, list[Method]] = {}
    for method in known:
        for other in method.names():
            entries = table.setdefault(_fold(other), [])
            if method not in entries:
                entries.append(method)
    found = table.get(_fold(name), [])
    own = [method for method in found if _fold(method.name) == _fold(name)]
    found = own or found  # preferred to others of the same class
    if len(found) == 1:
        return found[0]
    if found:  # "MI-SVM" and "mi-SVM" are two methods
        near = [method.name for method in found]
        raise ValueError(
            f"{name!r} is ambiguous: {_either(near)}; names are case-sensitive here"
        )
    for method in missing_methods():
        if _fold(name) in {_fold(other) for other in method.names()}:
            raise ImportError(method.missing)
    close = difflib.get_close_matches(_fold(name), table, n=4, cutoff=0.5)
    near = list(dict.fromkeys(m.name for key in close for m in table[key]))[:5]
    hint = f"did you mean {_either(near)}?" if near else "see `bagwise methods`"
    raise ValueError(f"unknown method {name!r}; {hint}")


def from_estimator(estimator: BaseEstimator, name: str | None = None) -> Method:
    """Make an entry of an unfitted estimator."""
    if not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
        raise TypeError(
            f"{type(estimator).__name__} has no predict; a transformer must be followed"
            " by a classifier in a Pipeline"
        )
    spec, kind = describe_estimator(estimator), get_tags(estimator).estimator_type
    return Method(
        name or type(estimator).__name__,
        spec["class"],
        spec["params"],
        scale="none",
        kind="own",
        task={"regressor": "regression", "survival": "survival"}.get(
            str(kind), "classification"
        ),
    )


def resolve(methods: Iterable[Any]) -> list[Method]:
    """Return the entries of several names; a pair is ``(name, estimator)``."""
    found: list[Method] = []
    for item in methods:
        if isinstance(item, tuple):
            label, estimator = item
            method = from_estimator(estimator, str(label))
        else:
            method = find_method(item)
        if any(method.name == other.name for other in found):
            raise ValueError(
                f"two methods are called {method.name!r}; give them names as pairs"
                " (name, estimator)"
            )
        found.append(method)
    return found


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9+]", "", name.lower())


def _either(names: list[str]) -> str:
    quoted = [repr(name) for name in names]
    if len(quoted) == 1:
        return quoted[0]
    return ", ".join(quoted[:-1]) + " or " + quoted[-1]


def time_note(rows: Sequence[Any]) -> str:
    """Name the methods that take more than 5 times the median time of all.

    Parameters
    ----------
    rows : sequence of RankRow
        The ranking.

    Returns
    -------
    str
        One sentence or, with fewer than three methods or no such method, nothing.
    """
    known = [row for row in rows if np.isfinite(row.fit_time)]
    if len(known) < 3:
        return ""
    total = np.array([row.fit_time + np.nan_to_num(row.tune_time) for row in known])
    median = float(np.median(total))
    slow = [k for k in np.argsort(-total) if total[k] > _SLOW * median]
    if not slow:
        return ""
    named = ", ".join(f"{known[k].method} ({total[k]:.2g} s)" for k in slow)
    return (
        "Tuning and fit take more than 5 times the median of all methods"
        f" ({median:.2g} s per fold) for {named}; name the other methods to leave them"
        " out."
    )
