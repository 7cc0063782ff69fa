"""The main job: find which method works on given data, and how well, honestly."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from bagwise._sizes import parse_size
from bagwise.comparison._as_problem import as_problem, join_problems
from bagwise.comparison._choose import Choice, choose_methods, choose_metric
from bagwise.comparison._comparison import Comparison
from bagwise.comparison._description import DataRef, Run
from bagwise.comparison._evaluate import METRICS, SCORING
from bagwise.comparison._many_runs import Listener, run_all
from bagwise.comparison._one_run import versions
from bagwise.comparison._problem import Problem, freeze
from bagwise.comparison._progress import LiveProgress
from bagwise.comparison._protocols import KFold, Protocol, TrainTest
from bagwise.comparison._store import Store
from bagwise.comparison.catalogue._lookup import resolve
from bagwise.comparison.catalogue._method import Method
from bagwise.inspection import as_images

__all__ = ["compare", "make_runs"]


def compare(
    data: Any,
    y: Any = None,
    *,
    methods: Sequence[Any] | None = None,
    protocol: Protocol | None = None,
    metric: str = "auto",
    grid: str = "default",
    inner_splits: int = 3,
    seed: int = 0,
    n_jobs: int = -1,
    scheduler: str | None = None,
    time_limit: float | None = 900.0,
    memory_limit: str | int | None = None,
    out: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    retry_failed: bool = False,
    progress: bool | Listener = True,
    name: str | None = None,
    bag: str | None = None,
    label: str | None = None,
    test: Any = None,
    images: Any = None,
    calibrate: bool = False,
    command: str | None = None,
) -> Comparison:
    """Compare methods on one data set by nested cross-validation.

    Every method is scaled and tuned inside each training fold and measured on bags it
    has never seen. All methods see the same folds.

    Parameters
    ----------
    data : str, path, Bunch, Bags or list of 2-D arrays
        A file, a known data set, what a loader returns, or bags (then `y` is needed).
    y : array-like of shape (n_bags,), optional
        Labels.
    methods : sequence, optional
        Names of the catalogue, estimators, or pairs ``(name, estimator)``. By default
        those that suit the size and kind of the data; `Comparison.choices` says why.
    protocol : Protocol, optional
        `KFold`, `Halves`, `LeaveOneBagOut` or `TwoWay`; ``KFold(5)`` by default.
    metric : str, default="auto"
        What ranks: accuracy, auroc, balanced_accuracy, log_loss or key_success.
        "auto" takes accuracy, or AUROC when classes are of very different size.
    grid : {"default", "large", "none"}
        Which candidates each method is tuned over.
    inner_splits : int, default=3
        Folds of the inner cross-validation that tunes.
    seed : int, default=0
        Fixes splits and methods.
    n_jobs : int, default=-1
        Worker processes; every run uses one thread.
    scheduler : str, optional
        Address of a dask scheduler, instead of local processes.
    time_limit : float or None, default=900
        Seconds one run may take; over it, the run is recorded as failed.
    memory_limit : int, str or None
        Bytes (or "4GB") one run may allocate.
    out : path, optional
        Folder for `results.csv`, the refitted best model and the store. A second call
        with the same folder continues where the first ended.
    store : path, optional
        SQLite file for the runs; in `out` by default.
    retry_failed : bool, default=False
        Whether failed runs of an earlier call are tried again.
    progress : bool or callable, default=True
        Live table on the terminal, or a function called after each run.
    name, bag, label : str, optional
        Name of the data, and the columns of a file.
    test : as `data`, optional
        Test bags in a file of their own; `protocol` is then one train/test split.
    images : array, path or list of paths, optional
        Pictures of the instances for reports: an array of shape (n_instances, height,
        width[, 3]), a `.npy` or `.npz` file, a folder with files named after the
        instance ids, or a list of files.
    calibrate : bool, default=False
        Whether every classifier gets probabilities by a sigmoid that is fitted to
        out-of-fold decision values of its training bags (five folds more). Methods
        with probabilities of their own are calibrated as well.
    command : str, optional
        What to note as the command in the report.

    Returns
    -------
    Comparison
        Ranking, data frames, plots.

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> X, y = make_bags(random_state=0)
    >>> result = compare(X, y, methods=["SimpleMI", "WrapperMI"], grid="none", n_jobs=1,
    ...                  time_limit=None)
    >>> len(result.ranking)
    2
    """
    started = time.time()
    problem = as_problem(data, y, name=name, bag=bag, label=label)
    if images is not None:
        problem = replace(problem, images=as_images(images, problem.X))
    if test is not None:
        held_out = as_problem(test, bag=bag, label=label)
        problem, n_train = join_problems(problem, held_out)
        protocol = TrainTest(n_train)
    if protocol is None:
        protocol = KFold(5)
    inner = 0 if grid == "none" else inner_splits
    protocol.check(problem.y, inner)
    metric, metric_reason = _metric(metric, problem)
    choices = _choices(methods, problem)
    chosen = [choice.method for choice in choices if choice.chosen]
    tuning = {"n_splits": inner, "scoring": SCORING[metric]} if inner else None
    limit = None if memory_limit is None else parse_size(memory_limit)
    with _folder(out) as folder:
        ref = freeze(problem, folder / "data")
        runs = make_runs(
            chosen,
            ref,
            protocol,
            len(problem.y),
            grid=grid,
            tuning=tuning,
            seed=seed,
            calibrate=calibrate,
        )
        n_folds = len(protocol.folds(len(problem.y)))
        names = [method.name for method in chosen]
        listener = _listener(progress, names, n_folds, metric, n_jobs)
        path = folder / "runs.sqlite" if store is None else Path(store)
        with Store(path) as db, listener as on_event:
            keys = run_all(
                runs,
                db,
                n_jobs=_jobs(chosen, n_jobs),
                scheduler=scheduler,
                time_limit=time_limit,
                memory_limit=limit,
                retry_failed=retry_failed,
                on_event=on_event,
            )
            rows = db.rows(keys)
            arrays = {row["key"]: db.arrays(row["key"]) for row in rows}
    provenance = {
        "command": command or " ".join(sys.argv),
        "data": problem.name,
        "data_hash": ref.hash,
        "seed": seed,
        "protocol": protocol.describe(),
        "tuning": f"{inner}-fold inside each training fold" if inner else "none",
        "grid": grid,
        "calibration": "sigmoid, out of fold" if calibrate else "none",
        "started": time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(started)),
        "seconds": round(time.time() - started, 1),
        **versions(),
    }
    result = Comparison(
        problem,
        chosen,
        rows,
        metric,
        protocol,
        tuning,
        seed,
        choices,
        provenance,
        metric_reason,
        grid,
        arrays,
        calibrate=calibrate,
    )
    if out is not None:
        write_outputs(result, Path(out))
    return result


def make_runs(
    methods: Sequence[Method],
    data: DataRef,
    protocol: Protocol,
    n_bags: int,
    *,
    grid: str = "default",
    tuning: dict[str, Any] | None = None,
    seed: int = 0,
    calibrate: bool = False,
) -> list[Run]:
    """Return the runs of a comparison: every method on every fold.

    Folds come first, so that all methods have early results and a live ranking means
    something.
    """
    return [
        Run(
            method.name,
            method.spec(),
            data,
            protocol,
            repeat,
            fold,
            seed,
            method.scale,
            method.grid_of(grid),
            tuning if method.grid_of(grid) else None,
            calibrate,
        )
        for repeat, fold in protocol.folds(n_bags)
        for method in methods
    ]


def write_outputs(result: Comparison, out: Path) -> None:
    """Write the table and the refitted best model into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    result.paths["results"] = result.write_csv(out / "results.csv")
    if result.ranking and result.ranking[0].n_folds:
        from bagwise.io._models import save

        fitted = result.fit_best()
        model = out / "model.bagwise"
        save(fitted.model, model)
        result.paths["model"] = model
        result.provenance["best_params"] = fitted.params


def _metric(metric: str, problem: Problem) -> tuple[str, str]:
    if metric == "auto":
        return choose_metric(problem)
    if metric not in METRICS:
        raise ValueError(
            f"unknown metric {metric!r}; known: auto, {', '.join(METRICS)}"
        )
    if metric == "key_success" and problem.instance_labels is None:
        raise ValueError("key_success needs instance labels, which the data lack")
    return metric, "as asked"


def _choices(methods: Sequence[Any] | None, problem: Problem) -> list[Choice]:
    if methods is not None:
        if isinstance(methods, str):
            methods = [methods]
        return [Choice(method, True, "as asked") for method in resolve(methods)]
    choices = choose_methods(problem)
    if not any(choice.chosen for choice in choices):
        raise ValueError("no method of the catalogue suits these data; name some")
    return choices


def _jobs(methods: Sequence[Method], n_jobs: int) -> int:
    # A class typed into a session exists in this process alone.
    if any(method.path.startswith("__main__.") for method in methods):
        return 1
    return n_jobs


@contextlib.contextmanager
def _folder(out: str | os.PathLike[str] | None) -> Iterator[Path]:
    if out is not None:
        try:
            Path(out).mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(f"{out} is a file, not a folder") from None
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="bagwise-") as scratch:
        yield Path(scratch)


def _listener(
    progress: bool | Listener,
    names: Sequence[str],
    n_folds: int,
    metric: str,
    n_jobs: int,
) -> contextlib.AbstractContextManager[Listener | None]:
    if callable(progress):
        return contextlib.nullcontext(progress)
    if not progress:
        return contextlib.nullcontext(None)
    workers = int(np.maximum(1, joblib.effective_n_jobs(n_jobs)))
    return LiveProgress(names, n_folds, metric, n_workers=workers)
