"""Which methods fit the data, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bagwise.comparison._problem import Problem
from bagwise.comparison.catalogue import Method, list_methods

__all__ = ["Choice", "choose_methods", "choose_metric"]


@dataclass(frozen=True)
class Choice:
    """A method of the catalogue, whether it takes part, and why."""

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
    if not method.default:
        return Choice(method, False, f"only on request: {method.note}")
    if X.is_sparse and not method.sparse:
        return Choice(method, False, "the data are sparse, and it needs dense ones")
    if len(problem.classes) > 2 and not method.multiclass:
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


def choose_metric(problem: Problem) -> tuple[str, str]:
    """Return the metric to rank by, and why."""
    _, counts = np.unique(problem.y, return_counts=True)
    share = counts.min() / counts.sum() * len(counts) / 2
    if share >= 0.3:
        return "accuracy", "as the classes are of similar size"
    percent = 100 * counts.min() / counts.sum()
    return "auroc", f"as the rarest class has only {percent:.0f}% of the bags"
