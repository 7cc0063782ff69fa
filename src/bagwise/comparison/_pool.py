"""Where runs are carried out: in this process, in workers, or on a cluster.

The three ways differ in the executor alone. Whatever becomes of a run, its outcome
comes back; workers need no access to the store.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import joblib

from bagwise.comparison._limits import (
    ONE_THREAD,
    RunTimeLimit,
    memory_guard,
    single_thread,
    time_guard,
)
from bagwise.comparison.description import Run, trust, trusted_names
from bagwise.comparison.one_run import Outcome, one_line, run_one

__all__ = ["Pool", "guarded", "open_pool"]


def guarded(
    key: str,
    run: Run,
    trusted: tuple[str, ...],
    marks: str | None,
    time_limit: float | None,
    memory_limit: int | None,
) -> Outcome:
    """Carry out a run inside its limits (this is what workers call).

    Parameters
    ----------
    key, run : str, Run
        The run.
    trusted : tuple of str
        Names in it that are on no list, but those of classes of the user.
    marks : str or None
        Folder where the worker notes what it is busy with and, when the watchdog has
        to end the process, where it hung. None: the process must not be ended.
    time_limit, memory_limit : float, int or None
        See `run_all`.
    """
    trust(trusted)
    trace = mark = None
    if marks is not None:
        mark = Path(marks, f"{key}.busy")
        mark.touch()
        trace = mark.with_suffix(".trace")
    try:
        with time_guard(time_limit, trace), memory_guard(memory_limit):
            outcome = run_one(run)
    except (RunTimeLimit, MemoryError) as error:
        outcome = Outcome.failure(one_line(error), traceback.format_exc())
    if outcome.error.startswith("MemoryError") and memory_limit is not None:
        outcome.error = f"{outcome.error} (limit: {memory_limit / 1e6:.0f} MB)"
    if mark is not None:
        mark.unlink(missing_ok=True)
    return outcome


def leave_with_parent(parent: int) -> None:
    """End this worker when the process that started it is gone.

    A runner killed without a chance to clean up must not leave workers behind that go
    on with a run nobody waits for. The runner's number is given, as it may be gone
    before the worker can ask.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Pool:
    """Executor with its limits: in this process."""

    def __init__(self, executor: Any, limits: dict[str, Any]) -> None:
        self.executor, self.limits = executor, limits

    def width(self) -> int:
        return 1

    def submit(self, key: str, run: Run) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_result(guarded(key, run, (), None, **self.limits))
        return future

    def recover(self, lost: list[str]) -> Iterator[tuple[str, Outcome | None]]:
        raise AssertionError("a run in this process cannot lose its worker")

    def check(self, error: Exception) -> None:
        """Raise if an error says nothing about the run, but that the pool is gone."""


class _ProcessPool(Pool):
    """Joblib's worker processes, one thread each."""

    def __init__(self, n_workers: int, limits: dict[str, Any], marks: Path) -> None:
        super().__init__(None, limits)
        self.n_workers, self.marks = n_workers, marks
        self.suspects: list[str] = []
        self.n_broken = 0
        self._open()

    def _open(self) -> None:
        # Not loky's reusable executor: that one belongs to joblib.Parallel, which
        # expects more of it than loky itself sets up.
        from joblib.externals.loky import ProcessPoolExecutor

        self.close(kill=True)
        self.executor = ProcessPoolExecutor(
            self.n_workers,
            timeout=300,
            env=ONE_THREAD,
            initializer=leave_with_parent,
            initargs=(os.getpid(),),
        )

    def close(self, kill: bool = False) -> None:
        """End the workers, at once or when they are done."""
        if self.executor is not None:
            self.executor.shutdown(wait=not kill, kill_workers=kill)

    def width(self) -> int:
        # One run waiting per worker hides the way back; suspects run alone.
        return 1 if self.suspects else 2 * self.n_workers

    def submit(self, key: str, run: Run) -> Future[Outcome]:
        assert self.executor is not None
        names, marks = trusted_names(run), str(self.marks)
        try:
            future = self.executor.submit(
                guarded, key, run, names, marks, **self.limits
            )
        except BrokenProcessPool as error:
            future = Future()
            future.set_exception(error)
        future.add_done_callback(lambda done: self._note(key, done))
        return future

    def _note(self, key: str, done: Future[Outcome]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        self.n_broken = 0
        if key in self.suspects:
            self.suspects.remove(key)

    def recover(self, lost: list[str]) -> Iterator[tuple[str, Outcome | None]]:
        """Sort out the runs that were under way when a worker died."""
        self.n_broken += 1
        if self.n_broken > 2 * len(lost) + 5:
            raise RuntimeError("worker processes die as soon as they start; giving up")
        self._open()
        for key in reversed(lost):
            mark, trace = self.marks / f"{key}.busy", self.marks / f"{key}.trace"
            text = trace.read_text("utf-8") if trace.exists() else ""
            busy = mark.exists()
            mark.unlink(missing_ok=True)
            trace.unlink(missing_ok=True)
            if busy and text:  # the watchdog ended it, and says where it hung
                limit = self.limits["time_limit"]
                line = f"RunTimeLimit: took longer than the limit of {limit:g} s"
                yield key, Outcome.failure(line, text)
            elif busy and key in self.suspects:
                self.suspects.remove(key)
                line = "WorkerDied: the worker process died during this run, twice"
                hint = "Killed for lack of memory, or crashed in compiled code.\n"
                yield key, Outcome.failure(line, hint)
            else:
                if busy:
                    self.suspects.append(key)
                yield key, None


class _DaskPool(Pool):
    """Workers of a dask.distributed cluster."""

    def __init__(self, client: Any, limits: dict[str, Any]) -> None:
        super().__init__(client.get_executor(pure=False), limits)
        self.client, self.address = client, client.scheduler.address

    def width(self) -> int:
        # Workers come and go: always keep a little more than they can do.
        try:
            threads = self.client.nthreads()
        except Exception as error:
            self.check(error)
            raise
        return int(2 * max(1, sum(threads.values())))

    def check(self, error: Exception) -> None:
        """Raise if the scheduler is gone: runs are not to blame and not recorded.

        Nobody cancels runs that are waited for; those of a lost scheduler are.
        """
        lost = isinstance(error, CancelledError | OSError | TimeoutError)
        if lost or self.client.status != "running":
            raise ConnectionError(
                f"the dask scheduler at {self.address} is gone; what was finished is"
                " kept, the same call continues"
            ) from error

    def submit(self, key: str, run: Run) -> Future[Outcome]:
        assert self.executor is not None
        return self.executor.submit(
            dask_guarded, key, run, trusted_names(run), **self.limits
        )


def dask_guarded(
    key: str,
    run: Run,
    trusted: tuple[str, ...],
    time_limit: float | None,
    memory_limit: int | None,
) -> Outcome:
    """Carry out a run on a dask worker, on one thread."""
    with tempfile.TemporaryDirectory() as marks, single_thread():
        return guarded(key, run, trusted, marks, time_limit, memory_limit)


@contextlib.contextmanager
def open_pool(
    n_jobs: int, scheduler: str | None, limits: dict[str, Any]
) -> Iterator[Pool]:
    if scheduler is not None:
        with _dask_client(scheduler) as client:
            yield _DaskPool(client, limits)
        return
    n_workers = joblib.effective_n_jobs(n_jobs)
    if n_workers == 1 and not any(value is not None for value in limits.values()):
        with single_thread():
            yield Pool(None, limits)
        return
    marks = Path(tempfile.mkdtemp(prefix="bagwise-"))
    pool = _ProcessPool(n_workers, limits, marks)
    try:
        with warnings.catch_warnings():
            # A worker that has grown is replaced between two runs, which loses nothing.
            text = "A worker stopped while some jobs were given to the executor"
            warnings.filterwarnings("ignore", message=text, category=UserWarning)
            yield pool
            pool.close()
    except BaseException:  # do not leave workers busy with what nobody waits for
        pool.close(kill=True)
        raise
    finally:
        shutil.rmtree(marks, ignore_errors=True)


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
        yield client
    finally:
        client.close()
