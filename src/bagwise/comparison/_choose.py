"""Which methods fit the data, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bagwise.comparison._problem import Problem
from bagwise.comparison.catalogue import Method, list_methods

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
    problem: Problem, methods: Iterable[Method] | None = None
) -> list[Choice]:
    """Choose the methods that suit the size and the kind of the data.

    Parameters
    ----------
    problem : Problem
        The data.
    methods : iterable of Method, optional
        Those to choose from; the whole catalogue by default.

    Returns
    -------
    list of Choice
        One for every method, chosen or not, with the reason.
    """
    pool = list_methods() if methods is None else list(methods)
    return [_judge(method, problem) for method in pool]


def _judge(method: Method, problem: Problem) -> Choice:
    X = problem.X
    wanted = "regression" if problem.task == "regression" else "classification"
    if method.task != wanted:
        return Choice(method, False, f"it is for {method.task}")
    if not method.default:
        return Choice(method, False, f"only on request: {method.note}")
    if X.is_sparse and not method.sparse:
        return Choice(method, False, "the data are sparse, and it needs dense ones")
    several = problem.task == "classification" and len(problem.classes) > 2
    if several and not method.multiclass:
        return Choice(method, False, f"{len(problem.classes)} classes; it takes two")
    for what, size, limit in (
        ("bags", X.n_bags, method.max_bags),
        ("instances", X.n_instances, method.max_instances),
    ):
        if limit is not None and size > limit:
            growth = {
                "bags": " (its cost grows with the square of the bags)",
                "instances": " (its cost grows with the square of the instances)",
            }.get(method.cost, "")
            text = f"{size:,} {what} are more than {limit:,}{growth}"
            return Choice(method, False, text)
    return Choice(method, True, method.note or f"suits {X.n_bags:,} bags")
