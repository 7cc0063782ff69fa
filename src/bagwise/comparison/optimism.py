"""What a grid gives when its values are chosen on the very folds that are reported.

Many published figures were found so. A run of this kind fits every candidate of the
grid on the training bags and scores it on the test bags; the best mean over all folds
is the optimistic figure. It estimates nothing: it says how much of a published figure
optimism can explain.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.comparison._search import resolved, score_candidates
from bagwise.comparison._tuning import Preparation, scorer
from bagwise.comparison.description import Run, build_estimator
from bagwise.comparison.grid_ends import expand
from bagwise.comparison.problem import Problem

__all__ = ["best_on_reported_folds", "is_optimistic", "on_reported_folds"]


def on_reported_folds(run: Run, scoring: str) -> Run:
    """Return the run that scores every candidate on the test bags."""
    return replace(run, tuning={"on": "test", "scoring": scoring})


def is_optimistic(run: Run) -> bool:
    """Tell whether a run looks at its test bags."""
    return run.tuning is not None and run.tuning.get("on") == "test"


def score_on_test(run: Run, problem: Problem, seed: int) -> dict[str, NDArray[Any]]:
    """Return the score of every candidate on the test bags of a run.

    Scaler and widths come from the training bags, as in an honest run. A kernel matrix
    that candidates share is one of all bags, so that what a kernel learns without
    labels comes from the test bags, too.
    """
    X, y = problem.X, problem.targets
    train, test = run.protocol.split(
        problem.strata, run.repeat, run.fold, run.seed, problem.groups
    )
    cpu = time.process_time()
    steps, first = Preparation(run.scale, run.impute).fit(X[train])
    second = X[test]
    for _, step in steps:
        if not isinstance(step, str):
            second = step.transform(second)
    params = [resolved(one, first, seed) for one in expand(run.grid)]
    assert run.tuning is not None
    n = len(train)
    scores = score_candidates(
        build_estimator(run.estimator, seed),
        params,
        Bags.concatenate([first, second]),
        np.concatenate([y[train], y[test]]),
        [(np.arange(n), np.arange(n, n + len(test)))],
        scorer(run.tuning["scoring"]),
    )
    spent = np.array([time.process_time() - cpu])
    return {"candidate_scores": scores, "test": test, "cpu_seconds": spent}


def best_on_reported_folds(scores: list[NDArray[Any]]) -> float:
    """Return the best mean over folds that one candidate reaches, NaN without any.

    Parameters
    ----------
    scores : list of ndarray of shape (n_candidates,)
        Scores of all candidates, an array for each fold.
    """
    if not scores:
        return float("nan")
    means = np.mean(scores, axis=0)
    return float(np.nanmax(means)) if np.isfinite(means).any() else float("nan")
