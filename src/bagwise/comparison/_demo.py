"""The demonstration: digit bags, nothing to download."""

from __future__ import annotations

import os
from typing import Any

from bagwise.comparison._compare import compare
from bagwise.comparison.choose import choose_methods
from bagwise.comparison.comparison import Comparison
from bagwise.comparison.problem import as_problem

__all__ = ["demo"]

METHODS = (
    "Mean + logistic",
    "BagClassifier",
    "SimpleMI",
    "WrapperMI (logistic)",
    "WrapperMI (forest)",
    "MI-SVM",
    "miFV",
    "MILES",
    "EMD + SVC",
    "SAFE",
    "MI-ODM",
    "PC-SVM",
    "MIDR + MILR",
    "Box kernel SVC",
    "MILR",
    "EM-DD",
)
"""The baseline, the stack, those of the five papers, and the classics next to them;
absent ones are skipped."""


def demo(
    out: str | os.PathLike[str] = "bagwise-demo",
    *,
    n_bags: int = 120,
    n_jobs: int = -1,
    random_state: int = 0,
    progress: Any = True,
) -> Comparison:
    """Compare methods on bags of digits.

    A bag holds 6 to 14 small images of digits and is positive if it holds a nine. No
    method is told which image that is.

    Parameters
    ----------
    out : path, default="bagwise-demo"
        Folder of the results.
    n_bags : int, default=120
        Number of bags.
    n_jobs : int, default=-1
        Worker processes.
    random_state : int, default=0
        Random seed of data, splits and methods.
    progress : bool or callable, default=True
        Live table on the terminal.

    Returns
    -------
    Comparison
        What was measured; ``bagwise.report.write_report`` makes a page of it.
    """
    from bagwise.datasets import load_digit_bags

    problem = as_problem(
        load_digit_bags(n_bags, random_state=random_state), name="digit bags"
    )
    known = {choice.method.name for choice in choose_methods(problem)}
    methods = [name for name in METHODS if name in known]
    return compare(
        problem,
        methods=methods,
        n_jobs=n_jobs,
        random_state=random_state,
        out=out,
        progress=progress,
        command="bagwise demo",
    )
