"""Carry out one run: fit a method on the training bags of a fold and measure it.

Time and memory of a run may be limited. A signal raises an exception inside Python
code. Where a compiled loop does not return to Python, a watchdog of the standard
library (`faulthandler`) writes the stack to a file and ends the process; it does not
need the interpreter lock.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import platform
import re
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from threadpoolctl import threadpool_limits

from bagwise._version import __version__
from bagwise.bags import Ragged
from bagwise.comparison._data_files import load_problem
from bagwise.comparison.description import Run, trust
from bagwise.comparison.evaluate import score_instances
from bagwise.comparison.problem import Problem
from bagwise.comparison.tasks import task_of
from bagwise.comparison.tuning import concordance_score, fit_method, uncalibrated
from bagwise.inspection import (
    bag_permutation_importance,
    faithfulness,
    feature_contributions,
)
from bagwise.inspection.contributions import linear_slope
from bagwise.inspection.scores import predicts_values

__all__ = [
    "Limits",
    "Outcome",
    "PeakMemory",
    "RunTimeLimit",
    "run_from_file",
    "run_one",
    "single_thread",
    "versions",
]

FAITHFUL_BAGS, FAITHFUL_SIZE = 8, 200
FEATURE_REPEATS = 3
PART_ROWS, PART_FEATURES, PART_ORDERS = 200, 200, 4  # limits on sampled parts, per fold
MAX_SLOPE = 500  # maximum number of features for linear scores
MAX_STORED_INSTANCES = 2_000_000
_warm: set[str] = set()
# Environment of workers: runs are parallel, and each of them uses one thread.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)


class RunTimeLimit(BaseException):
    """A run took longer than it may.

    Not an `Exception`, because a grid search catches those and goes on with the next
    candidate.
    """


@dataclass(frozen=True)
class Limits:
    """What one run may use.

    Parameters
    ----------
    seconds : float, optional
        Time.
    n_bytes : int, optional
        Memory that it may allocate. On systems without resource limits (Windows) it is
        not enforced.
    end : float, optional
        When the time budget of all runs ends, by `time.monotonic` of this process.
    """

    seconds: float | None = None
    n_bytes: int | None = None
    end: float | None = None

    def seconds_left(self) -> float | None:
        """Return the seconds that are left of the budget."""
        return None if self.end is None else self.end - time.monotonic()

    def now(self) -> Limits:
        """Return the limits of a run that starts now, to be sent anywhere."""
        left = self.seconds_left()
        if left is None:
            return self
        seconds = max(0.01, left)
        if self.seconds is not None:
            seconds = min(seconds, self.seconds)
        return Limits(seconds, self.n_bytes)

    def stopped(self, outcome: Outcome) -> bool:
        """Return whether a run was stopped because the budget had ended."""
        left = self.seconds_left()
        over = left is not None and left <= 0.0
        return over and outcome.error.startswith(RunTimeLimit.__name__)

    def exceeded(self) -> str:
        """Return the message for a run that took too long."""
        seconds = f"{self.seconds:g} s" if self.seconds else "the time budget"
        return f"RunTimeLimit: took longer than the limit of {seconds}"

    def hold_here(self) -> bool:
        """Return whether the time can be limited in this thread of this process."""
        return (self.seconds is None and self.end is None) or _can_interrupt()

    @contextlib.contextmanager
    def hold(self, trace_file: str | os.PathLike[str] | None = None) -> Iterator[None]:
        """Stop what runs inside with `RunTimeLimit` or `MemoryError`.

        Parameters
        ----------
        trace_file : path, optional
            Given only in a worker process that may be ended: if the code inside does
            not react within a tenth of the limit (one to ten seconds), the stack is
            written to this file and the process ends.
        """
        with _time_limit(self.seconds, trace_file), _memory_limit(self.n_bytes):
            yield


def _can_interrupt() -> bool:
    main = threading.current_thread() is threading.main_thread()
    return main and hasattr(signal, "setitimer")


@contextlib.contextmanager
def _time_limit(
    seconds: float | None, trace_file: str | os.PathLike[str] | None
) -> Iterator[None]:
    def expire(signum: int, frame: FrameType | None) -> None:
        raise RunTimeLimit(f"took longer than the limit of {seconds:g} s")

    with contextlib.ExitStack() as stack:
        if trace_file is not None:
            file = stack.enter_context(open(trace_file, "w", encoding="utf-8"))
        if seconds is None:
            yield
            return
        if trace_file is not None:
            grace = min(max(1.0, 0.1 * seconds), 10.0) if _can_interrupt() else 0.0
            faulthandler.dump_traceback_later(seconds + grace, exit=True, file=file)
            stack.callback(faulthandler.cancel_dump_traceback_later)
        if _can_interrupt():
            previous = signal.signal(signal.SIGALRM, expire)
            stack.callback(signal.signal, signal.SIGALRM, previous)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            stack.callback(signal.setitimer, signal.ITIMER_REAL, 0.0)
        yield


@contextlib.contextmanager
def _memory_limit(n_bytes: int | None) -> Iterator[None]:
    if n_bytes is None or sys.platform == "win32":
        yield
        return
    import resource

    # On Linux the data limit counts private memory only, so that a memory map of the
    # bags is not charged to the run.
    linux = sys.platform == "linux"
    which = resource.RLIMIT_DATA if linux else resource.RLIMIT_AS
    used = _process_status("VmData") if linux else 0
    soft, hard = resource.getrlimit(which)
    wanted = used + int(n_bytes)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(which, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(which, (soft, hard))


def _process_status(name: str) -> int:
    """Return a line of ``/proc/self/status`` in bytes, 0 where it is unknown."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    match = re.search(rf"^{name}:\s+(\d+) kB", text, flags=re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


class PeakMemory:
    """Measure how far the resident memory of this process rises above its start.

    Linux lets a process reset its own maximum, so that allocations inside compiled code
    count, which sampling would miss. Elsewhere it cannot be reset, and the result is a
    lower bound.
    """

    n_bytes: int = 0

    def __enter__(self) -> PeakMemory:
        """Reset the maximum."""
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._start = _process_status("VmRSS") or _ru_maxrss()
        return self

    def __exit__(self, *exc: Any) -> None:
        """Read the maximum."""
        top = _process_status("VmHWM") or _ru_maxrss()
        self.n_bytes = max(0, top - self._start)


def _ru_maxrss() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def single_thread() -> Any:
    """Limit every loaded thread pool to one thread, as a context."""
    return threadpool_limits(1)


NO_LIMITS = Limits()


@dataclass
class Outcome:
    """The outcome of a run.

    Parameters
    ----------
    status : {"ok", "failed"}
        Whether there is a result.
    metrics : dict
        Figures on the test bags, see `METRICS`; None = undefined.
    times : dict
        ``fit``, ``tune`` and ``predict`` in seconds of wall time on one core.
    peak_memory : int
        Bytes above the level before the run.
    params : dict
        Parameters chosen by the inner cross-validation.
    grid_ends : dict
        "lower" or "upper" for those of them that are at an end of their grid.
    arrays : dict of ndarray
        Test bags, their scores, predicted labels, probabilities, instance scores.
    notes : list of str
        Warnings raised while fitting, each once.
    error, traceback : str
        Message and traceback of the error.
    """

    status: str
    metrics: dict[str, float | None] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    peak_memory: int = 0
    params: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    error: str = ""
    traceback: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    grid_ends: dict[str, str] = field(default_factory=dict)

    @classmethod
    def failure(cls, error: str, trace: str = "") -> Outcome:
        """Return the outcome of a run without a result."""
        return cls("failed", error=error, traceback=trace, versions=versions())


def run_one(run: Run, problem: Problem, limits: Limits = NO_LIMITS) -> Outcome:
    """Fit and measure one method on one fold.

    A pure function of its arguments: it writes nothing and gives the same result
    wherever it runs. What a method raises becomes a failed outcome with its traceback.

    Parameters
    ----------
    run : Run
        The description.
    problem : Problem
        Its data.
    limits : Limits
        What it may use.

    Returns
    -------
    Outcome
        Metrics, times, chosen parameters and the scores of the test bags.
    """
    return _run_limited(run, problem, limits, None)


def run_from_file(
    run: Run,
    path: str,
    classes: Mapping[str, Any],
    limits: Limits,
    trace_file: str,
) -> Outcome:
    """Carry out a run in a worker process, which may be ended.

    Parameters
    ----------
    run : Run
        The description.
    path : str
        Where `write_problem` has written the data.
    classes : dict of str to type
        Classes in the description that are neither of bagwise nor of scikit-learn.
    limits : Limits
        What the run may use.
    trace_file : str
        File for the stack when the process has to be ended.
    """
    trust(classes)
    return _run_limited(run, load_problem(path), limits, trace_file)


def _run_limited(
    run: Run, problem: Problem, limits: Limits, trace_file: str | None
) -> Outcome:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with limits.hold(trace_file):
                outcome = _measure(run, problem)
        except (Exception, RunTimeLimit) as error:
            outcome = Outcome.failure(one_line(error), traceback.format_exc())
    if outcome.error.startswith("MemoryError") and limits.n_bytes is not None:
        outcome.error += f" (limit: {limits.n_bytes / 1e6:.0f} MB)"
    notes = dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in caught)
    told = [note.splitlines()[0][:300] for note in notes]
    outcome.notes = [*told, *outcome.notes][:5]
    return outcome


def one_line(error: BaseException) -> str:
    """Return the kind and the first line of an error."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _measure(run: Run, problem: Problem) -> Outcome:
    X, y, task = problem.X, problem.targets, task_of(problem)
    weight = problem.sample_weight
    train, test = run.protocol.split(
        problem.strata, run.repeat, run.fold, run.random_state, problem.units
    )
    state = (1_000_003 * run.random_state + 1_009 * run.repeat + run.fold) % 2**31
    _warm_up(run, problem)
    cpu = time.process_time()
    with PeakMemory() as peak:
        fitted = fit_method(
            run.estimator,
            X[train],
            y[train],
            scale=run.scale,
            impute=run.impute,
            grid=run.grid,
            tuning=run.tuning,
            random_state=state,
            calibrate=run.calibrate,
            sample_weight=None if weight is None else np.array(weight[train]),
        )
        held_out = X[test]
        started = time.perf_counter()
        found = task.predict(fitted.model, held_out)
        predict_time = time.perf_counter() - started
        instances = score_instances(fitted.model, held_out)
    for what in ("score", "probability", "prediction"):
        if what in found and not np.isfinite(found[what]).all():
            raise FloatingPointError(f"the {what} of a test bag is NaN or infinite")
    measured = task.measured(found, test)
    metrics = task.figures(measured) | task.more_figures(measured, test, instances)
    arrays: dict[str, NDArray[Any]] = {
        **found,
        "test": test.astype(np.int32),
        "cpu_seconds": np.array([time.process_time() - cpu]),
    }
    if "label" in arrays:
        arrays["label"] = arrays["label"].astype(np.int16)
    # Out-of-fold instance scores of one repeat are what the report shows.
    if instances is not None and run.repeat == 0:
        arrays |= _stored_scores(instances, held_out, X.n_instances)
        arrays["faithfulness"] = _faithfulness(fitted.model, held_out, instances)
        if X.n_features <= MAX_SLOPE:
            slope = linear_slope(fitted.model, held_out)
            if slope is not None:
                arrays["feature_slope"] = slope.astype(np.float32)
    if run.permute_features and run.repeat == 0:
        arrays["feature_falls"] = _feature_falls(fitted.model, held_out, y[test], state)
        if instances is not None and "feature_slope" not in arrays:
            arrays |= _feature_parts(fitted.model, held_out, state)
    last = uncalibrated(getattr(fitted.model, "steps", [("", None)])[-1][1])
    if hasattr(last, "_fit_arrays"):
        arrays.update(last._fit_arrays())
    times = {"fit": fitted.fit_time, "tune": fitted.tune_time, "predict": predict_time}
    return Outcome(
        "ok",
        metrics,
        times,
        peak.n_bytes,
        fitted.params,
        arrays,
        notes=fitted.notes,
        grid_ends=fitted.grid_ends,
        versions=versions(),
    )


def _stored_scores(
    instances: NDArray[Any], X: Any, n_total: int
) -> dict[str, NDArray[Any]]:
    """Return the scores to keep; of large data, those of an even sample of the bags.

    `instance_bags` then says which of the test bags they belong to. All folds together
    keep no more than `MAX_STORED_INSTANCES` numbers.
    """
    share = MAX_STORED_INSTANCES * X.n_instances // n_total
    if instances.size <= share:
        return {"instances": instances.astype(np.float32)}
    n_kept = int(X.n_bags * share / instances.size)
    kept = np.unique(np.linspace(0, X.n_bags - 1, max(1, n_kept)).astype(int))
    scores = Ragged(instances, X.offsets)[kept].values
    return {
        "instances": np.asarray(scores, dtype=np.float32),
        "instance_bags": kept.astype(np.int32),
    }


def _faithfulness(model: Any, X: Any, instances: NDArray[Any]) -> NDArray[Any]:
    """Return how much longer the score of a bag holds without its least instances.

    One value for each of a few test bags, see `bagwise.inspection.faithfulness`; few,
    since every one costs a dozen predictions of bags of its size.
    """
    fit = np.flatnonzero((X.sizes > 1) & (X.sizes <= FAITHFUL_SIZE))
    scores = hasattr(model, "decision_function") or hasattr(model, "predict_proba")
    if not fit.size or not (scores or predicts_values(model)):
        return np.empty(0)
    places = np.linspace(0, len(fit) - 1, min(FAITHFUL_BAGS, len(fit)))
    few = fit[np.unique(places.astype(int))]
    importance = Ragged(instances, X.offsets)[few]
    found = faithfulness(model, X[few], importance, n_points=5, n_random=1)
    return found.areas["least"] - found.areas["most"]


def _feature_falls(
    model: Any, X: Any, y: NDArray[Any], state: int
) -> NDArray[np.float64]:
    """Return what is lost of the default score when a feature is permuted.

    For several labels per bag, each with a model of its own, the mean loss.
    """
    if y.ndim == 2:
        each = zip(model.estimators_, y.T, strict=True)
        return np.mean(
            [_feature_falls(one, X, own, state) for one, own in each], axis=0
        )
    classes = getattr(model, "classes_", None)
    both = classes is not None and len(np.unique(y)) == 2 == len(classes)
    scoring: Any = "roc_auc" if both else "r2" if is_regressor(model) else "accuracy"
    if y.dtype.names is not None:
        scoring = concordance_score
    found = bag_permutation_importance(
        model,
        X,
        y,
        scoring=scoring,
        n_repeats=FEATURE_REPEATS,
        random_state=state,
    )
    return np.asarray(found.importances_mean)


def _feature_parts(model: Any, X: Any, state: int) -> dict[str, NDArray[Any]]:
    """Return what features add to instance scores that are not linear, of a few bags.

    "feature_parts" has the rows of the bags "part_bags", which are places among the
    test bags. Of one class or value only: several would need a chart each.
    """
    classes = getattr(model, "classes_", ())
    several = isinstance(classes, list) or len(classes) > 2  # lists: several labels
    fit = np.flatnonzero(X.sizes <= PART_ROWS)
    if several or X.is_sparse or X.n_features > PART_FEATURES or not fit.size:
        return {}
    n_bags = max(1, int(PART_ROWS / X.sizes[fit].mean()))
    places = np.linspace(0, len(fit) - 1, min(n_bags, len(fit)))
    few = fit[np.unique(places.astype(int))]
    found = feature_contributions(
        model, X[few], n_permutations=PART_ORDERS, random_state=state
    )
    return {
        "part_bags": few.astype(np.int32),
        "feature_parts": found.values.astype(np.float32),
    }


def _warm_up(run: Run, problem: Problem) -> None:
    """Fit once on a few bags so that compilation is not timed.

    Compiled loops are loaded or built at their first call in a process, which would be
    charged to whichever fold happens to run first. Once per class and process.
    """
    name = run.estimator["class"] + str(sorted(run.estimator.get("params", {})))
    if name in _warm:
        return
    _warm.add(name)
    X, y = problem.X, problem.targets
    if problem.task == "classification":
        groups = [np.flatnonzero(y == label)[:6] for label in np.unique(y)]
    else:
        groups = [np.arange(min(12, len(y)))]
    few = np.sort(np.concatenate(groups))
    if X.sizes[few].sum() > 2_000:
        few = np.sort(np.concatenate([group[:2] for group in groups]))
    # An error occurs again in the run itself, which records it.
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        fitted = fit_method(
            run.estimator, X[few], y[few], scale=run.scale, impute=run.impute
        )
        task_of(problem).predict(fitted.model, X[few])


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    names = ("bagwise", "numpy", "scipy", "scikit-learn", "numba", "joblib")
    found = [("python", platform.python_version())]
    for name in names:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            found.append((name, __version__ if name == "bagwise" else "absent"))
    found.append(("platform", platform.platform()))
    return tuple(found)


def versions() -> dict[str, str]:
    """Return the versions a result depends on."""
    return dict(_versions())
