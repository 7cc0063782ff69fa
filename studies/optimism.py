"""Accuracy that a grid reaches if its values are chosen on the reported test folds.

Many published figures were found so. Every candidate of the grid is fitted on the
training bags of each fold and scored on its test bags; the best mean over the folds is
the optimistic figure. It is no estimate: it shows how much of a published figure the
choice of parameters on the test bags can explain.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray
from sklearn.model_selection import ParameterGrid

from bagwise import __version__
from bagwise.comparison.description import Run, own_classes, plain, trust
from bagwise.comparison.evaluate import auroc, predictions
from bagwise.comparison.problem import Problem
from bagwise.comparison.tuning import fit_method

__all__ = ["OptimisticScores", "best_on_reported_folds"]

Scores = NDArray[np.float64]


class OptimisticScores:
    """Scores of all candidates on the test bags, kept in a file of JSON lines.

    Parameters
    ----------
    path : Path
        The file; a run that is in it is not carried out again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self.known[row["key"]] = row

    def get(self, run: Run, scoring: str) -> Scores | None:
        """Return the score of every candidate; None where the run has not finished."""
        row = self.known.get(_key(run, scoring), {})
        return np.array(row["scores"], dtype=np.float64) if "scores" in row else None

    def run(
        self,
        runs: Sequence[tuple[Run, str]],
        problems: Mapping[str, Problem],
        *,
        n_jobs: int = 1,
        on_done: Callable[[Run, int, int], None] | None = None,
    ) -> None:
        """Carry out the runs that the file does not have, and append their scores.

        Parameters
        ----------
        runs : sequence of (Run, str)
            Runs of the table, and the name of the score.
        problems : mapping of str to Problem
            The data of the runs, by their hash.
        n_jobs : int
            Worker processes.
        on_done : callable, optional
            Called with the run, and with how many of how many are done.
        """
        todo = {_key(*one): one for one in runs if _key(*one) not in self.known}
        with parallel_config("loky", inner_max_num_threads=1):
            rows = Parallel(n_jobs, return_as="generator_unordered")(
                delayed(_row)(
                    key, run, problems[run.data.hash], scoring, own_classes(run)
                )
                for key, (run, scoring) in todo.items()
            )
            with self.path.open("a", encoding="utf-8") as file:
                for n_done, row in enumerate(rows, 1):
                    self.known[row["key"]] = row
                    file.write(json.dumps(row) + "\n")
                    file.flush()
                    if on_done is not None:
                        on_done(todo[row["key"]][0], n_done, len(todo))


def _key(run: Run, scoring: str) -> str:
    """Return the hash of a description, the version and the content of the data."""
    parts = [{**run.to_dict(), "data": run.data.hash}, scoring, __version__]
    text = json.dumps(parts, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _row(
    key: str, run: Run, problem: Problem, scoring: str, classes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the file keeps of a run; a failure is kept with its message."""
    trust(classes)
    started = time.process_time()
    row = {"key": key, "method": run.method, "dataset": run.data.name}
    try:
        row["scores"] = scores_on_test(run, problem, scoring).tolist()
    except Exception as error:  # the other methods continue
        row["error"] = f"{type(error).__name__}: {error}"
    return {**row, "cpu_seconds": time.process_time() - started}


def scores_on_test(run: Run, problem: Problem, scoring: str) -> Scores:
    """Return the score of every candidate of a run's grid on its test bags.

    Parameters
    ----------
    run : Run
        One fold; its inner cross-validation is not carried out.
    problem : Problem
        Its data.
    scoring : {"accuracy", "roc_auc"}
        What is scored.

    Returns
    -------
    ndarray of shape (n_candidates,)
        NaN for a candidate that cannot be fitted.
    """
    X, y = problem.X, problem.targets
    train, test = run.protocol.split(
        problem.strata, run.repeat, run.fold, run.random_state, problem.groups
    )
    seed = (1_000_003 * run.random_state + 1_009 * run.repeat + run.fold) % 2**31
    scores = []
    for candidate in ParameterGrid(run.grid):
        try:
            fitted = fit_method(
                run.estimator,
                X[train],
                y[train],
                scale=run.scale,
                impute=run.impute,
                grid={name: [value] for name, value in candidate.items()},
                random_state=seed,
            )
        except ValueError:
            scores.append(np.nan)
            continue
        scores.append(_score(fitted.model, X[test], y[test], scoring))
    return np.array(scores, dtype=np.float64)


def _score(model: Any, X: Any, y: NDArray[Any], scoring: str) -> float:
    if scoring == "accuracy":
        return float(np.mean(model.predict(X) == y))
    found = predictions(model, X, np.asarray(model.classes_))
    return float(auroc(np.searchsorted(model.classes_, y), found["score"]))


def best_on_reported_folds(scores: Sequence[Scores]) -> float:
    """Return the best mean over folds that one candidate reaches, NaN without any.

    Parameters
    ----------
    scores : sequence of ndarray of shape (n_candidates,)
        Scores of all candidates, one array per fold.
    """
    if not len(scores):
        return float("nan")
    means = np.mean(scores, axis=0)
    return float(np.nanmax(means)) if np.isfinite(means).any() else float("nan")
