"""Carry out runs: in this process, in worker processes, or on a dask cluster.

The three differ in the pool alone. Every run ends as an outcome, whatever happens to
it, and only the process that calls `run_all` writes to the store.
"""

from __future__ import annotations

import contextlib
import os
import platform
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any

import joblib

from bagwise._signals import exit_on_signals, hold_signals
from bagwise._version import __version__
from bagwise.comparison._data_files import DataFileError, write_problem
from bagwise.comparison.description import Run, own_classes, run_key
from bagwise.comparison.problem import Problem
from bagwise.comparison.run_one import (
    ONE_THREAD,
    Limits,
    Outcome,
    one_line,
    run_from_file,
    run_one,
    single_thread,
)
from bagwise.comparison.store import Store
from bagwise.solvers.pace import no_pace

__all__ = ["Event", "Listener", "run_all"]

Problems = Mapping[str, Problem]
Task = tuple[str, Run]
MAX_LOST_WORKERS = 5
WORKER_SECONDS = 8.0  # before a cluster without workers is rejected
PATIENCE = 12.0  # seconds to wait for runs that exceed the budget
WORKER_DIED = (
    "WorkerDied: the worker process died during this run, twice",
    "Killed because memory ran out, or crashed in compiled code.\n",
)


@dataclass(frozen=True)
class Event:
    """One run has ended; `compare` passes this to the function given as `progress`.

    Parameters
    ----------
    run : Run
        Its description: `run.method`, `run.repeat`, `run.fold` and so on.
    row : dict
        Its row in the store.
    cached : bool
        Whether the row was in the store already.
    n_done, n_total : int
        Number of runs that have ended, and of all runs.
    """

    run: Run
    row: Mapping[str, Any]
    cached: bool
    n_done: int
    n_total: int


Listener = Callable[[Event], None]


def run_all(
    runs: Iterable[Run],
    problems: Problems,
    store: Store,
    *,
    n_jobs: int = 1,
    scheduler: str | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    time_budget: float | None = None,
    retry_failed: bool = False,
    folder: str | os.PathLike[str] | None = None,
    on_event: Listener | None = None,
) -> list[str]:
    """Carry out the runs that the store does not have, and return the keys of all.

    Parameters
    ----------
    runs : iterable of Run
        Descriptions.
    problems : mapping of str to Problem
        The data of the runs, by their hash.
    store : Store
        Where results are looked up and written, one row per run, as they come.
    n_jobs : int, default=1
        Number of worker processes, as in joblib (-1: one per core). With one, the runs
        are carried out in this process and read the data from memory. Every run uses
        one thread.
    scheduler : str, optional
        Address of a dask.distributed scheduler; its workers then carry out the runs.
    time_limit : float, optional
        Seconds per run. A run that takes longer is recorded as failed.
    memory_limit : int, optional
        Bytes that a run may allocate. A run that needs more is recorded as failed.
    time_budget : float, optional
        Seconds for all runs together: after them no further run is started, and those
        that have not ended are stopped and not recorded.
    retry_failed : bool, default=False
        Whether runs that the store has as failed are carried out again.
    folder : path, optional
        Where data for workers are written; a temporary folder by default.
    on_event : callable, optional
        Called with an `Event` after each run.

    Notes
    -----
    Several processes may write to one store at the same time. They do not divide the
    work (`n_jobs` and `scheduler` do): of a run that was carried out twice, the first
    result is kept.

    In this process, a run over its time limit is stopped as soon as compiled code
    returns to Python. A worker process is ended if that takes too long. Outside the
    main thread nothing can be stopped, so that one worker process is used if there is
    a time limit. A run during which a worker process dies (no memory, a crash in
    compiled code) is tried once more, alone, and then recorded as failed.
    """
    table = {run_key(run): run for run in runs}
    accepted = ("ok",) if retry_failed else ("ok", "failed")
    found = store.status()
    todo = [key for key in table if found.get(key) not in accepted]
    end = None if time_budget is None else time.monotonic() + time_budget
    n_done = 0

    def report(row: Mapping[str, Any], *, cached: bool) -> None:
        nonlocal n_done
        n_done += 1
        if on_event is not None:
            on_event(Event(table[row["key"]], row, cached, n_done, len(table)))

    def tasks() -> Iterator[Task]:
        for key in todo:
            if end is not None and time.monotonic() > end:
                return
            if store.status(key).get(key) in accepted:  # finished by another process
                report(store.rows([key])[0], cached=True)
            else:
                yield key, table[key]

    for row in store.rows(key for key in table if found.get(key) in accepted):
        report(row, cached=True)
    if todo:
        limits = Limits(time_limit, memory_limit, end)
        with (
            exit_on_signals(),
            _open_pool(n_jobs, scheduler, limits, problems, folder) as pool,
        ):
            for key, outcome in _outcomes(tasks(), pool):
                if not limits.stopped(outcome):
                    report(store.put(key, table[key], outcome), cached=False)
    return list(table)


def _outcomes(
    tasks: Iterator[Task], pool: _InProcess, *, again: bool = True
) -> Iterator[tuple[str, Outcome]]:
    """Keep the pool busy, and yield outcomes as they come.

    It ends with the time budget: runs that do not stop are left to the pool.
    """
    busy: dict[Future[Outcome], Task] = {}
    ended: list[tuple[str, Outcome]] = []
    lost: list[Task] = []
    while True:
        for task in islice(tasks, pool.room(len(busy))):
            busy[pool.submit(*task)] = task
        yield from ended
        if not busy:
            break
        left = pool.limits.seconds_left()
        patience = None if left is None else max(0.0, left) + PATIENCE
        done, _ = wait(busy, timeout=patience, return_when=FIRST_COMPLETED)
        if not done:
            return
        ended = []
        for future in done:
            task = busy.pop(future)
            outcome = pool.result(task[0], future)
            if outcome is None and again:
                lost.append(task)
            else:
                ended.append((task[0], outcome or Outcome.failure(*WORKER_DIED)))
    for task in lost:  # one at a time, so that no other run uses memory
        yield from _outcomes(iter([task]), pool, again=False)


class _InProcess:
    """Carry out one run at a time, in this process."""

    def __init__(self, limits: Limits, problems: Problems) -> None:
        self.limits, self.problems = limits, problems

    def room(self, n_busy: int) -> int:
        """Return how many more runs to submit."""
        return 1 - n_busy

    def submit(self, key: str, run: Run) -> Future[Outcome]:
        """Start a run."""
        future: Future[Outcome] = Future()
        future.set_result(run_one(run, self.problems[run.data.hash], self.limits.now()))
        return future

    def result(self, key: str, future: Future[Outcome]) -> Outcome | None:
        """Return the outcome of a run; None if its worker died."""
        return future.result()


class _FromFiles(_InProcess):
    """Base of the pools that read data from files."""

    def __init__(self, limits: Limits, problems: Problems, folder: Path) -> None:
        super().__init__(limits, problems)
        self.folder, self.written = folder.absolute(), set[str]()

    def path(self, run: Run) -> str:
        """Return where the data of a run are; they are written when first needed."""
        name = run.data.hash
        folder = self.folder / name[:16]
        if name not in self.written:
            write_problem(self.problems[name], folder)
            self.written.add(name)
        return str(folder)


class _Processes(_FromFiles):
    """Worker processes of joblib, each with one run at a time.

    A worker has an executor of its own: if it dies, it is known during which run, and
    the others go on.
    """

    @hold_signals()
    def __init__(
        self, n_workers: int, limits: Limits, problems: Problems, folder: Path
    ) -> None:
        super().__init__(limits, problems, folder)
        self.traces = tempfile.TemporaryDirectory(prefix="bagwise-")
        self.idle = [_new_worker() for _ in range(n_workers)]
        self.busy: dict[Future[Outcome], Any] = {}
        self.n_lost = 0

    def _trace(self, key: str) -> Path:
        return Path(self.traces.name, key)

    def room(self, n_busy: int) -> int:
        return len(self.idle)

    def submit(self, key: str, run: Run) -> Future[Outcome]:
        path, trace = self.path(run), str(self._trace(key))
        with hold_signals():
            worker = self.idle.pop()
            try:
                future = worker.submit(
                    run_from_file, run, path, own_classes(run), self.limits.now(), trace
                )
            except BrokenProcessPool as error:  # the worker died while idle
                future = Future()
                future.set_exception(error)
            self.busy[future] = worker
        return future

    @hold_signals()
    def result(self, key: str, future: Future[Outcome]) -> Outcome | None:
        worker, trace = self.busy.pop(future), self._trace(key)
        self.idle.append(worker)
        try:
            outcome = future.result()
        except BrokenProcessPool:
            worker.shutdown(wait=False, kill_workers=True)
            self.idle[-1] = _new_worker()
            return self._of_lost(trace)
        except DataFileError:
            raise
        except Exception as error:  # the outcome could not be sent
            outcome = Outcome.failure(one_line(error), repr(error))
        self.n_lost = 0
        trace.unlink(missing_ok=True)
        return outcome

    def _of_lost(self, trace: Path) -> Outcome | None:
        """Return the outcome of a run that the watchdog ended; None if it did not.

        The file exists as soon as a run begins.
        """
        if not trace.exists():
            self.n_lost += 1
            if self.n_lost > MAX_LOST_WORKERS:
                raise RuntimeError("worker processes die as soon as they start")
            return None
        text = trace.read_text("utf-8")
        trace.unlink()
        return Outcome.failure(self.limits.exceeded(), text) if text else None

    @hold_signals()
    def close(self, *, kill: bool) -> None:
        """End the workers, at once or when they are done."""
        for worker in [*self.idle, *self.busy.values()]:
            worker.shutdown(wait=not kill, kill_workers=kill)
        self.traces.cleanup()


def _new_worker() -> Any:
    # Not the reusable executor of loky: that one belongs to joblib.Parallel, which
    # expects more of it than loky itself sets up.
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(
        1,
        timeout=300,
        env=ONE_THREAD,
        initializer=exit_with_parent,
        initargs=(os.getpid(),),
    )


def exit_with_parent(parent: int) -> None:
    """End this worker when the process that started it has ended.

    A process that is killed cannot end its workers, and nobody would wait for the runs
    they are busy with. The number of the parent is given, as it may be gone before the
    worker can ask for it.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Cluster(_FromFiles):
    """Workers of a dask.distributed cluster."""

    def __init__(
        self, client: Any, limits: Limits, problems: Problems, folder: Path
    ) -> None:
        super().__init__(limits, problems, folder)
        self.client, self.address = client, client.scheduler.address
        self.executor = client.get_executor(pure=False)

    def room(self, n_busy: int) -> int:
        # Workers may join and leave: queue a few more runs than they can take.
        try:
            n_threads = sum(self.client.nthreads().values())
        except Exception as error:
            self._check(error)
            raise
        return max(0, 2 * max(1, n_threads) - n_busy)

    def submit(self, key: str, run: Run) -> Future[Outcome]:
        return self.executor.submit(
            run_on_cluster, run, self.path(run), own_classes(run), self.limits.now()
        )

    def result(self, key: str, future: Future[Outcome]) -> Outcome | None:
        try:
            return future.result()
        except DataFileError:
            raise
        except Exception as error:  # e.g. a worker died too often
            self._check(error)
            return Outcome.failure(one_line(error), repr(error))

    def _check(self, error: Exception) -> None:
        """Raise if the scheduler is lost: no run caused this, and none is recorded.

        Nobody cancels runs that are waited for; those of a lost scheduler are canceled.
        """
        lost = isinstance(error, CancelledError | OSError | TimeoutError)
        if lost or self.client.status != "running":
            raise ConnectionError(
                f"the dask scheduler at {self.address} is no longer available; finished"
                " runs are kept, and the same call continues"
            ) from error


def run_on_cluster(
    run: Run, path: str, classes: Mapping[str, Any], limits: Limits
) -> Outcome:
    """Carry out a run on a dask worker, on one thread."""
    with tempfile.TemporaryDirectory() as folder, single_thread():
        return run_from_file(run, path, classes, limits, os.path.join(folder, "trace"))


@contextlib.contextmanager
def _open_pool(
    n_jobs: int,
    scheduler: str | None,
    limits: Limits,
    problems: Problems,
    folder: str | os.PathLike[str] | None,
) -> Iterator[_InProcess]:
    n_workers = joblib.effective_n_jobs(n_jobs)
    if scheduler is None and n_workers == 1 and limits.hold_here():
        with single_thread(), no_pace():
            yield _InProcess(limits, problems)
        return
    with contextlib.ExitStack() as stack:
        if folder is None:
            scratch = tempfile.TemporaryDirectory(prefix="bagwise-")
            folder = stack.enter_context(scratch)
        if scheduler is not None:
            client = stack.enter_context(_dask_client(scheduler))
            yield _Cluster(client, limits, problems, Path(folder))
            return
        # A worker that uses too much memory is replaced between two runs, without loss.
        stack.enter_context(warnings.catch_warnings())
        text = "A worker stopped while some jobs were given to the executor"
        warnings.filterwarnings("ignore", message=text, category=UserWarning)
        pool = _Processes(n_workers, limits, problems, Path(folder))
        try:
            yield pool
        except BaseException:  # results of busy workers are no longer needed
            pool.close(kill=True)
            raise
        pool.close(kill=bool(pool.busy))


@contextlib.contextmanager
def _dask_client(address: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(
            "running on a cluster needs dask.distributed: pip install 'bagwise[dask]'"
        ) from None
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise ConnectionError(
            f"no dask scheduler answers at {address}: {error}"
        ) from error
    try:
        _check_workers(client, address)
        yield client
    finally:
        client.close()


def _check_workers(client: Any, address: str) -> None:
    """Refuse a cluster without workers, or with workers of other versions."""
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise ConnectionError(
            f"the dask scheduler at {address} has no workers; start one on each"
            f" computer: dask worker {address}"
        ) from None
    own = worker_versions() | {"bagwise": __version__}
    for worker, found in client.run(worker_versions, on_error="return").items():
        if isinstance(found, Exception):
            raise ConnectionError(
                f"the dask worker {worker} cannot run bagwise {__version__}:"
                f" {one_line(found)}"
            )
        for name, version in found.items():
            if version != own[name]:
                raise ConnectionError(
                    f"the dask worker {worker} has {name} {version}, this process"
                    f" {own[name]}; install the same version on both"
                )


def worker_versions() -> dict[str, str]:
    """Return the versions that have to agree for a run to be sent."""
    major, minor, _ = platform.python_version_tuple()
    return {"bagwise": metadata.version("bagwise"), "python": f"{major}.{minor}"}
