"""Which methods fit the data, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bagwise._sizes import memory_budget
from bagwise.comparison.catalogue import Method, list_methods
from bagwise.comparison.catalogue._lookup import resolve
from bagwise.comparison.problem import Problem

__all__ = ["Choice", "choose_methods"]


@dataclass(frozen=True)
class Choice:
    """A method of the catalogue, whether it takes part, and why.

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
        Names of the catalogue, estimators, pairs ``(name, estimator)`` or entries, all
        of which take part. By default the methods of the catalogue that suit the size
        and the kind of the data. A list of choices is returned as it is.

    Returns
    -------
    list of Choice
        One for every method considered, with the reason why it takes part or not.
    """
    if methods is None:
        choices = judge(list_methods(), problem)
        if not any(choice.chosen for choice in choices):
            raise ValueError("no method of the catalogue suits these data; name some")
        return choices
    methods = [methods] if isinstance(methods, str) else list(methods)
    if methods and all(isinstance(item, Choice) for item in methods):
        return methods
    asked = resolve(methods)
    for method in asked:
        refuse_other_task(method, problem)
    return [Choice(method, True, "as asked") for method in asked]


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
            text = f"{choice.reason}; {pool[larger].name} takes its place"
            choices[k] = Choice(choice.method, False, text)
    return choices


def _too_large(method: Method, problem: Problem) -> str:
    """Say by what the data are too large for a method; empty if they are not."""
    X = problem.X
    width = 4 if X.dtype == np.float16 else X.dtype.itemsize
    n_bytes, budget = float(width) * X.n_instances * X.n_features, memory_budget()
    if X.on_disk and n_bytes > budget and not method.chunked:
        return (
            f"the instances lie on disk and would take {n_bytes / 1e9:.1f} GB of the"
            f" {budget / 1e9:.1f} GB of memory; it does not read them in pieces"
        )
    for what, size, limit in (
        ("bags", X.n_bags, method.max_bags),
        ("instances", X.n_instances, method.max_instances),
    ):
        if limit is not None and size > limit:
            return f"{size:,} {what} are more than {limit:,}"
    return ""


def wanted_task(problem: Problem) -> str:
    """Return the task that a method must be for; several labels are many of one."""
    return "classification" if problem.task == "multilabel" else problem.task


def refuse_other_task(method: Method, problem: Problem) -> None:
    """Refuse a method for classes where values are to be predicted, and so on."""
    wanted = wanted_task(problem)
    if method.task != wanted:
        raise ValueError(
            f"{method.name} is for {method.task}, and the task is {wanted}; task= says"
            " what y holds"
        )


def _judge(method: Method, problem: Problem) -> Choice:
    X = problem.X
    if method.task != wanted_task(problem):
        return Choice(method, False, f"it is for {method.task}")
    if not method.default:
        return Choice(method, False, f"only on request: {method.note}")
    if X.is_sparse and not method.sparse:
        return Choice(method, False, "the data are sparse, and it needs dense ones")
    several = problem.task == "classification" and len(problem.classes) > 2
    if several and not method.multiclass:
        return Choice(method, False, f"{len(problem.classes)} classes; it takes two")
    too_large = _too_large(method, problem)
    if too_large:
        growth = {
            "bags": " (its cost grows with the square of the bags)",
            "instances": " (its cost grows with the square of the instances)",
        }.get(method.cost, "")
        growth = "" if "on disk" in too_large else growth
        return Choice(method, False, too_large + growth)
    return Choice(method, True, method.note or f"suits {X.n_bags:,} bags")
