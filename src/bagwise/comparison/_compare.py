"""`compare`, from the data to the written results."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from bagwise._sizes import parse_size
from bagwise.base.survival import require_survival
from bagwise.comparison._progress import LiveProgress
from bagwise.comparison.catalog import Method
from bagwise.comparison.choose import choose_methods, refuse_impossible
from bagwise.comparison.comparison import Comparison
from bagwise.comparison.description import DataRef, Run
from bagwise.comparison.evaluate import METRICS, GroupCounts
from bagwise.comparison.inference import MARGIN, repeats_for
from bagwise.comparison.leaks import find_leaks
from bagwise.comparison.problem import Problem, as_problem, join_problems
from bagwise.comparison.protocols import CrossValidation, Protocol, TrainTest
from bagwise.comparison.record import check_alpha
from bagwise.comparison.run_one import versions
from bagwise.comparison.runner import Listener, run_all
from bagwise.comparison.store import Store
from bagwise.comparison.tasks import Task, task_of
from bagwise.comparison.tuning import IMPUTE
from bagwise.datasets import load_digit_bags
from bagwise.exceptions import DataError, ParameterError
from bagwise.inspection.pictures import as_images

__all__ = ["compare", "demo", "make_runs"]


def compare(
    data: Any,
    y: Any = None,
    *,
    methods: Sequence[Any] | None = None,
    protocol: Protocol | None = None,
    metric: str = "auto",
    margin: float = MARGIN,
    grid: str = "default",
    inner_splits: int = 3,
    random_state: int = 0,
    n_jobs: int = -1,
    scheduler: str | None = None,
    time_limit: float | None = 900.0,
    memory_limit: str | int | None = None,
    time_budget: float | None = None,
    out: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    retry_failed: bool = False,
    progress: bool | Listener = True,
    name: str | None = None,
    bag: str | None = None,
    label: str | None = None,
    groups: Any = None,
    pos_label: Any = None,
    task: str = "auto",
    impute: str | None = None,
    sample_weight: Any = None,
    test: Any = None,
    images: Any = None,
    calibrate: bool = False,
    permute_features: bool = False,
    conformal: float | None = None,
    conformal_per_class: bool = False,
    command: str | None = None,
) -> Comparison:
    """Compare methods on one data set by nested cross-validation.

    Scaling and tuning are done inside each training fold. Every method is evaluated on
    test bags that were not used for its fit. All methods have the same folds.

    Parameters
    ----------
    data : str, path, Bunch, Bags, list of 2-D arrays or Problem
        A file, a known data set, the return value of a loader, or bags (`y` is needed
        then). A problem built by `as_problem` is used unchanged.
    y : array-like of shape (n_bags,) or (n_bags, n_labels), optional
        Labels or values; a table of zeros and ones for several labels per bag, each of
        which has a model of its own.
    methods : sequence, optional
        Names in the catalog, estimators, or pairs ``(name, estimator)``. By default
        those that suit the size and kind of the data; `Comparison.choices` gives the
        reasons, and "default" among other names stands for them. The return value of
        `choose_methods` is used unchanged.
    protocol : Protocol, optional
        `CrossValidation`, `Halves` or `LeaveOneBagOut`; by default 5-fold
        cross-validation, with two repeats below 200 bags.
    metric : str, default="auto"
        The metric of the ranking: a name of `METRICS`. "auto" is accuracy if classes
        are of similar size, average precision if positive bags are rare, AUROC if
        other classes are; R2 for real values.
    margin : float, default=0.02
        Differences up to this do not matter in practice: methods that are known to
        differ by less are equivalent. For errors it is a share of the best figure.
    grid : {"default", "large", "auto", "none"}
        The candidates of each method for tuning. "auto" is the default grid, which is
        extended inside each training fold while the best value is at its end.
    inner_splits : int, default=3
        Folds of the inner cross-validation for tuning.
    random_state : int, default=0
        Random seed of splits and methods.
    n_jobs : int, default=-1
        Worker processes; every run uses one thread. With one, runs are carried out in
        this process, without files.
    scheduler : str, optional
        Address of a dask scheduler, in place of local processes.
    time_limit : float or None, default=900
        Seconds per run; a run that takes longer is recorded as failed. With
        ``n_jobs=1`` it ends as soon as compiled code returns to Python.
    memory_limit : int, str or None
        Bytes (or "4GB") that a run may allocate.
    time_budget : float or None
        Seconds for all runs. Then no further run is started, and those that have not
        ended are stopped. Folds are processed one after the other, each with all
        methods, quick ones first. The same call continues a stopped comparison.
    out : path, optional
        Folder for `results.csv`, the refitted best model and the store. A second call
        with the same folder continues where the first one ended.
    store : path, optional
        SQLite file for the runs; in `out` by default.
    retry_failed : bool, default=False
        Whether failed runs of an earlier call are carried out again.
    progress : bool or callable, default=True
        Live table on the terminal, or a function that is called after each run.
    name, bag, label : str, optional
        Name of the data, and the columns of a file.
    groups : str or array-like of shape (n_bags,), optional
        Bags that belong together (the slides of a patient): a column of a file, or one
        entry per bag. They are never split across folds, including those of tuning;
        results per group are listed next to those per bag. Not needed if the bags have
        groups.
    pos_label : label, optional
        The positive one of two classes. Required if the labels are words.
    task : {"auto", "classification", "regression", "survival"}, default="auto"
        What `y` holds. By default, real numbers with more than 20 different values are
        regression, and a structured array or data frame with the fields `event` and
        `time` is survival (needs ``bagwise[survival]``).
    impute : {"median", "mean", "most_frequent"}, optional
        How missing values are filled, inside each training fold; indicator columns are
        added.
    sample_weight : str or array-like of shape (n_bags,), optional
        Weights of bags in fitting: a column of a file, or one number per bag. Scalers,
        tuning scores and all results give every bag the same weight;
        `Comparison.unweighted` names the methods that do not support weights.
    test : as `data`, or a pair (X, y), optional
        Separate test bags; `protocol` is then one train/test split.
    images : array, path or list of paths, optional
        Images of the instances for reports: an array of shape (n_instances, height,
        width[, 3]), a `.npy` or `.npz` file, a folder with files named by the instance
        ids, or a list of files.
    calibrate : bool, default=False
        Whether every classifier gets probabilities from a sigmoid that is fitted to
        out-of-fold decision values of its training bags (five more fits). Methods with
        probabilities are calibrated as well.
    permute_features : bool, default=False
        Whether to measure the importance of features, by permuting each one over the
        instances of the test bags (three predictions per feature), and their
        contributions to the scores of instances of a few bags.
    conformal : float, optional
        One minus the coverage of the prediction sets of the model, such as 0.1, see
        :func:`bagwise.inspection.prediction_sets`. Stored with the model.
    conformal_per_class : bool, default=False
        Whether the coverage holds for the bags of each class.
    command : str, optional
        The command that the report shows.

    Returns
    -------
    Comparison
        Ranking, rows of all runs, data frames.

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
    _check_options(impute, time_limit=time_limit, time_budget=time_budget)
    check_alpha(conformal)
    if not 0 < margin < 1:
        raise ParameterError("margin", f"must be between 0 and 1, got {margin}")
    limit = None if memory_limit is None else parse_size(memory_limit)
    problem, protocol = _read(
        (data, test),
        y,
        images,
        protocol,
        name=name,
        groups=groups,
        sample_weight=sample_weight,
        bag=bag,
        label=label,
        pos_label=pos_label,
        task=task,
        missing=impute is not None,
    )
    inner = 0 if grid == "none" else inner_splits
    _check_size(problem, protocol, inner, task)
    metric, metric_reason = _metric(metric, task_of(problem))
    choices = choose_methods(problem, methods)
    chosen = [choice.method for choice in choices if choice.chosen]
    folds = protocol.folds(len(problem.y), problem.units)
    train, _ = protocol.split(problem.strata, *folds[0], random_state, problem.units)
    refuse_impossible(chosen, problem.X, int(problem.X.sizes[train].sum()))
    findings = find_leaks(problem)
    findings.warn()
    tuning = _tuning(grid, inner, metric)
    ref = DataRef(problem.name, problem.hash())
    runs = make_runs(
        chosen,
        ref,
        protocol,
        folds,
        grid=grid,
        tuning=tuning,
        random_state=random_state,
        impute=impute,
        calibrate=calibrate,
        permute_features=permute_features,
    )
    with _folder(out) as folder, _listener(progress, runs, metric, n_jobs) as listener:
        with Store(folder / "runs.sqlite" if store is None else store) as db:
            keys = run_all(
                runs,
                {ref.hash: problem},
                db,
                n_jobs=n_jobs,
                scheduler=scheduler,
                time_limit=time_limit,
                memory_limit=limit,
                time_budget=time_budget,
                retry_failed=retry_failed,
                folder=folder / "data",
                on_event=listener,
            )
            rows = db.rows(keys)
            arrays = {row["key"]: db.arrays(row["key"]) for row in rows}
    provenance = {
        "command": command or shlex.join(sys.argv),
        "data": problem.name,
        "data_hash": ref.hash,
        "random_state": random_state,
        "protocol": protocol.describe(),
        "tuning": f"{inner}-fold inside each training fold" if inner else "none",
        "grid": grid,
        "calibration": "sigmoid, out of fold" if calibrate else "none",
        **_tuned_on_part(chosen, grid, tuning, int(problem.X.sizes[train].sum())),
        **_assumptions(problem, chosen, task, impute),
        **findings.describe(),
        **_not_started(len(keys), len(rows), time_budget),
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
        random_state,
        choices,
        provenance,
        metric_reason,
        grid,
        arrays,
        calibrate=calibrate,
        impute=impute,
        conformal=None
        if conformal is None
        else {"alpha": conformal, "per_class": conformal_per_class},
        margin=margin,
    )
    if out is not None:
        result.write(out, Path(out) / "runs.sqlite" if store is None else store)
    return result


def _check_options(impute: str | None, **seconds: float | None) -> None:
    if impute is not None and impute not in IMPUTE:
        raise ValueError(f"unknown impute {impute!r}; known: {', '.join(IMPUTE)}")
    for what, given in seconds.items():
        if given is not None and not given > 0:
            problem = f"must be a positive time in seconds, got {given}"
            raise ParameterError(what, problem)


def _read(
    parts: tuple[Any, Any],
    y: Any,
    images: Any,
    protocol: Protocol | None,
    *,
    name: str | None,
    groups: Any,
    sample_weight: Any,
    missing: bool,
    **columns: Any,
) -> tuple[Problem, Protocol]:
    """Return the data, and test bags of their own behind them, with the protocol."""
    data, test = parts
    options = {"groups": groups, "sample_weight": sample_weight}
    columns["missing"] = missing
    problem = as_problem(data, y, name=name, **options, **columns)
    problem.check_values(missing=missing)
    if images is not None:
        problem = replace(problem, images=as_images(images, problem.X))
    if test is not None:
        # Names refer to columns of both files, arrays to the training bags.
        named: Any = {k: v for k, v in options.items() if isinstance(v, str)}
        held_out = as_problem(test, **named, **columns)
        held_out.check_values(missing=missing)
        problem, n_train = join_problems(problem, held_out)
        protocol = TrainTest(n_train)
        _check_overlap(problem, n_train)
    return problem, protocol or CrossValidation(5, repeats_for(len(problem.y)))


def _check_overlap(problem: Problem, n_train: int) -> None:
    """Refuse groups, and warn about bags, that are in both parts of the data."""
    if problem.groups is not None:
        both = np.intersect1d(problem.groups[:n_train], problem.groups[n_train:])
        if len(both):
            raise ValueError(
                f"group {both[0]!s} has bags in the training and in the test file;"
                " move them to one of the two"
            )
    if problem.copies is not None:
        n_seen, n_test = int((problem.copies[n_train:] < n_train).sum()), len(problem.y)
        if n_seen:
            text = f"{n_seen} of {n_test - n_train} test bags are copies of training"
            text += (
                " bags: results are too optimistic. Remove them from one of the two."
            )
            warnings.warn(text, UserWarning, stacklevel=4)


def _check_size(problem: Problem, protocol: Protocol, inner: int, task: str) -> None:
    """Refuse labels that are ambiguous, and data with too few bags."""
    problem.check_positive()
    names = problem.classes.tolist() if problem.task == "classification" else None
    if problem.task == "survival":
        require_survival("a comparison of survival models")
        names = ["without event", "with event"]
    try:
        copies = {"copies": True} if problem.units is not problem.groups else {}
        protocol.check(problem.strata, inner, names, problem.units, **copies)
    except ValueError as error:
        if not _numbers_for_classes(problem, task):
            raise
        raise DataError(
            f"{getattr(error, 'problem', error)}; {len(problem.classes)} different"
            " numbers are treated as classes",
            "Set {0} to predict them as values.",
            ("task", "regression"),
        ) from None


def _tuning(grid: str, inner: int, metric: str) -> dict[str, Any] | None:
    if not inner:
        return None
    tuning = {"n_splits": inner, "scoring": METRICS[metric].scoring}
    return {**tuning, "extend": True} if grid == "auto" else tuning


def make_runs(
    methods: Sequence[Method],
    data: DataRef,
    protocol: Protocol,
    folds: Sequence[tuple[int, int]],
    *,
    grid: str = "default",
    tuning: dict[str, Any] | None = None,
    random_state: int = 0,
    impute: str | None = None,
    calibrate: bool = False,
    permute_features: bool = False,
) -> list[Run]:
    """Return the runs of a comparison: every method on every fold.

    All methods run on the first fold, then on the second, and so on: a live ranking
    compares them on the same folds. In each, slow methods run last: a time budget ends
    with as many results as possible.
    """
    quick_first = sorted(methods, key=lambda method: method.slow)
    return [
        Run(
            method.name,
            method.spec(),
            data,
            protocol,
            repeat,
            fold,
            random_state,
            method.scale,
            method.grid_of(grid),
            method.tuning_of(grid, tuning),
            calibrate,
            impute,
            permute_features,
        )
        for repeat, fold in folds
        for method in quick_first
    ]


def _metric(metric: str, task: Task) -> tuple[str, str]:
    if metric == "auto":
        return task.default_metric()
    known, problem = task.metrics(), task.problem
    if metric not in known:
        raise ValueError(f"unknown metric {metric!r}; known: auto, {', '.join(known)}")
    if metric == "key_success" and problem.instance_labels is None:
        raise ValueError("key_success needs instance labels, but the data have none")
    if metric.startswith("group_") and problem.groups is None:
        raise ValueError(f"{metric} needs groups, but the data have none")
    if metric.startswith("group_") and problem.groups is not None:
        truth = np.searchsorted(problem.classes, problem.y)
        counts = GroupCounts.of(truth, problem.groups, len(problem.classes))
        if not counts.enough:
            raise ValueError(
                f"{metric} needs at least 10 groups and half of all groups with bags of"
                f" one class, and 3 groups of each class: {counts.counted} of"
                f" {counts.n} groups have bags of one class"
            )
    return metric, "as asked"


def _not_started(n_runs: int, n_done: int, budget: float | None) -> dict[str, str]:
    """Describe the runs that a time budget has left out."""
    if budget is None or n_done == n_runs:
        return {}
    text = f"{n_runs - n_done} of {n_runs} runs did not end within {budget:g} s;"
    return {"time budget": f"{text} the same call continues"}


def _tuned_on_part(
    methods: Sequence[Method], grid: str, tuning: dict[str, Any] | None, n: int
) -> dict[str, str]:
    """Name the methods whose tuning sees a part of so many training instances."""
    limits: dict[int, list[str]] = {}
    for method in methods:
        how = method.tuning_of(grid, tuning) or {}
        if (limit := how.get("max_instances", n)) < n / 1.5:
            limits.setdefault(limit, []).append(method.name)
    told = [
        f"about {limit:,} instances for {', '.join(names)}"
        for limit, names in sorted(limits.items())
    ]
    text = "; ".join([*told, "grid='large' takes all training bags"])
    return {"tuned on a part of the training bags": text} if told else {}


def _assumptions(
    problem: Problem, methods: Sequence[Method], task: str, impute: str | None
) -> dict[str, Any]:
    """Describe what was assumed about the data, and which option changes it."""
    found: dict[str, Any] = {"task": problem.task}
    n_values = len(np.unique(problem.y))
    if task == "auto" and problem.task == "regression":
        found["task"] += f" (y has {n_values} real values)"
    elif _numbers_for_classes(problem, task):
        found["task"] += f" ({n_values} numbers treated as classes)"
    if problem.task == "survival":
        found["scikit-survival"] = metadata.version("scikit-survival")
    if problem.positive is not None:
        found["positive class"] = str(problem.classes[problem.positive])
    if problem.groups is not None:
        n_groups = len(np.unique(problem.groups.astype(str)))
        found["groups"] = f"{n_groups}, never split"
    if problem.n_copies:
        found["copies"] = f"{problem.n_copies} bags are copies of others, never split"
    if impute is not None:
        found["impute"] = f"{impute}, inside each training fold"
    if problem.sample_weight is not None:
        without = [method.name for method in methods if not method.weights]
        found["weights"] = (
            "used in fitting; in figures all test bags have the same weight"
        )
        if without:
            found["weights"] += f"; not supported by {', '.join(without)}"
    return found


def _numbers_for_classes(problem: Problem, task: str) -> bool:
    """Return whether many numbers are taken for classes by default."""
    classes = task == "auto" and problem.task == "classification"
    return classes and problem.y.dtype.kind in "iuf" and len(problem.classes) > 10


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
    progress: bool | Listener, runs: Sequence[Run], metric: str, n_jobs: int
) -> contextlib.AbstractContextManager[Listener | None]:
    if callable(progress):
        return contextlib.nullcontext(progress)
    if not progress:
        return contextlib.nullcontext(None)
    names = list(dict.fromkeys(run.method for run in runs))
    workers = int(np.maximum(1, joblib.effective_n_jobs(n_jobs)))
    n_folds = len(runs) // max(1, len(names))
    return LiveProgress(names, n_folds, metric, n_workers=workers)


# The baseline, the stack, the methods of the five papers, and well-known ones.
DEMO_METHODS = (
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
    method gets the labels of single images.

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
        The results; ``bagwise.report.write_report`` makes a page of them.
    """
    problem = as_problem(
        load_digit_bags(n_bags, random_state=random_state), name="digit bags"
    )
    return compare(
        problem,
        methods=DEMO_METHODS,
        n_jobs=n_jobs,
        random_state=random_state,
        out=out,
        progress=progress,
        command="bagwise demo",
    )
