"""Carry out many runs: in this process, in worker processes, or on a cluster.

The three ways differ in the executor alone. Results are written by the process that
calls `run_all`, as they come in, so that workers need no access to the store.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib

from bagwise.comparison._description import Run, run_key
from bagwise.comparison._limits import (
    ONE_THREAD,
    RunTimeLimit,
    memory_guard,
    single_thread,
    time_guard,
)
from bagwise.comparison._one_run import Outcome, library_version, one_line, run_one
from bagwise.comparison._store import Store

__all__ = ["Event", "run_all"]

BEAT_SECONDS = 5.0
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Event:
    """One run has ended, or was found in the store (`cached`)."""

    key: str
    run: Run
    outcome: Outcome | None
    cached: bool
    n_done: int
    n_total: int


Listener = Callable[[Event], None]


def run_all(
    runs: Iterable[Run],
    store: Store,
    *,
    n_jobs: int = 1,
    scheduler: str | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    retry_failed: bool = False,
    on_event: Listener | None = None,
) -> list[str]:
    """Carry out the runs that the store does not have, and return all their keys.

    Parameters
    ----------
    runs : iterable of Run
        Descriptions.
    store : Store
        Where results are looked up and written, one row a run, as they come.
    n_jobs : int, default=1
        Worker processes, as in joblib (-1: one per core). Every run uses one thread.
    scheduler : str, optional
        Address of a dask.distributed scheduler; the runs then go to its workers.
    time_limit : float, optional
        Seconds a run may take. A run over it is recorded as failed.
    memory_limit : int, optional
        Bytes a run may allocate. A run over it is recorded as failed.
    retry_failed : bool, default=False
        Whether runs that the store has as failed are tried again.
    on_event : callable, optional
        Called with an `Event` after each run.

    Notes
    -----
    Limits need a process that can be ended, so that with a limit even one job has a
    worker process of its own. A run during which its worker died (killed, crashed)
    is tried once more, alone; if that worker dies too, the run is recorded as failed.
    """
    version = library_version()
    table = {run_key(run, version): run for run in runs}
    known = store.status()
    finished = {
        key
        for key in table
        if key in known and not (retry_failed and known[key] == "failed")
    }
    session = _Session(store, table, on_event, retry_failed)
    for key in finished:
        session.report(key, None)
    limits = {"time_limit": time_limit, "memory_limit": memory_limit}
    todo = [key for key in table if key not in finished]
    if todo:
        with _open_pool(n_jobs, scheduler, limits) as pool:
            session.work(todo, pool)
    return list(table)


class _Session:
    """The state of one call of `run_all`."""

    def __init__(
        self,
        store: Store,
        table: dict[str, Run],
        on_event: Listener | None,
        retry_failed: bool,
    ) -> None:
        self.store, self.table, self.on_event = store, table, on_event
        self.retry_failed = retry_failed
        self.n_done = 0
        self.last_beat = time.monotonic()

    def report(self, key: str, outcome: Outcome | None) -> None:
        self.n_done += 1
        if self.on_event is not None:
            run, total = self.table[key], len(self.table)
            cached = outcome is None
            self.on_event(Event(key, run, outcome, cached, self.n_done, total))

    def finish(self, key: str, outcome: Outcome) -> None:
        self.store.put(key, self.table[key], outcome)
        self.report(key, outcome)

    def work(self, todo: Sequence[str], pool: _Pool) -> None:
        queue, elsewhere = deque(todo), deque[str]()
        busy: dict[Future[Outcome], str] = {}
        try:
            while queue or busy or elsewhere:
                while queue and len(busy) < pool.width():
                    key = queue.popleft()
                    state = self.store.claim(key, retry_failed=self.retry_failed)
                    if state == "mine":
                        busy[pool.submit(key, self.table[key])] = key
                    elif state == "done":
                        self.report(key, None)
                    else:
                        elsewhere.append(key)
                if busy:
                    done, _ = wait(busy, BEAT_SECONDS, FIRST_COMPLETED)
                    self._collect(done, busy, queue, pool)
                elif elsewhere:
                    time.sleep(POLL_SECONDS)
                    self._look_elsewhere(elsewhere, queue)
                if time.monotonic() - self.last_beat > BEAT_SECONDS:
                    self.store.beat()
                    self.last_beat = time.monotonic()
        finally:
            for future in busy:
                future.cancel()
            with contextlib.suppress(Exception):
                self.store.release()

    def _collect(
        self,
        done: set[Future[Outcome]],
        busy: dict[Future[Outcome], str],
        queue: deque[str],
        pool: _Pool,
    ) -> None:
        broken = False
        for future in done:
            key = busy[future]
            try:
                outcome = future.result()
            except BrokenProcessPool:
                broken = True
                continue
            except Exception as error:  # a dask worker died too often, for instance
                outcome = Outcome.failure(one_line(error), repr(error))
            del busy[future]
            self.finish(key, outcome)
        if broken:
            lost = list(busy.values())
            busy.clear()
            for key, verdict in pool.recover(lost):
                if verdict is None:
                    queue.appendleft(key)
                else:
                    self.finish(key, verdict)

    def _look_elsewhere(self, elsewhere: deque[str], queue: deque[str]) -> None:
        """See what became of the runs another runner had claimed."""
        for key in list(elsewhere):
            state = self.store.claim(key, retry_failed=self.retry_failed)
            if state == "done":
                elsewhere.remove(key)
                self.report(key, None)
            elif state == "mine":  # released, or its runner is gone
                elsewhere.remove(key)
                queue.append(key)


def guarded(
    key: str,
    run: Run,
    marks: str | None,
    time_limit: float | None,
    memory_limit: int | None,
) -> Outcome:
    """Carry out a run inside its limits (this is what workers call).

    Parameters
    ----------
    key, run : str, Run
        The run.
    marks : str or None
        Folder where the worker notes what it is busy with and, when the watchdog has
        to end the process, where it hung. None: the process must not be ended.
    time_limit, memory_limit : float, int or None
        See `run_all`.
    """
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


def leave_with_parent() -> None:
    """End this worker when the process that started it is gone.

    A runner killed without a chance to clean up must not leave workers behind that go
    on with a run nobody waits for.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Pool:
    """Executor with its limits: in this process."""

    def __init__(self, executor: Any, limits: dict[str, Any]) -> None:
        self.executor, self.limits = executor, limits

    def width(self) -> int:
        return 1

    def submit(self, key: str, run: Run) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_result(guarded(key, run, None, **self.limits))
        return future

    def recover(self, lost: list[str]) -> Iterator[tuple[str, Outcome | None]]:
        raise AssertionError("a run in this process cannot lose its worker")


class _ProcessPool(_Pool):
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
        values = (self.limits["time_limit"], self.limits["memory_limit"])
        try:
            future = self.executor.submit(guarded, key, run, str(self.marks), *values)
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


class _DaskPool(_Pool):
    """Workers of a dask.distributed cluster."""

    def __init__(self, client: Any, limits: dict[str, Any]) -> None:
        super().__init__(client.get_executor(pure=False), limits)
        self.client = client

    def width(self) -> int:
        # Workers come and go: always keep a little more than they can do.
        return int(2 * max(1, sum(self.client.nthreads().values())))

    def submit(self, key: str, run: Run) -> Future[Outcome]:
        assert self.executor is not None
        return self.executor.submit(dask_guarded, key, run, **self.limits)


def dask_guarded(
    key: str, run: Run, time_limit: float | None, memory_limit: int | None
) -> Outcome:
    """Carry out a run on a dask worker, on one thread."""
    with tempfile.TemporaryDirectory() as marks, single_thread():
        return guarded(key, run, marks, time_limit, memory_limit)


@contextlib.contextmanager
def _open_pool(
    n_jobs: int, scheduler: str | None, limits: dict[str, Any]
) -> Iterator[_Pool]:
    if scheduler is not None:
        with _dask_client(scheduler) as client:
            yield _DaskPool(client, limits)
        return
    n_workers = joblib.effective_n_jobs(n_jobs)
    if n_workers == 1 and not any(value is not None for value in limits.values()):
        with single_thread():
            yield _Pool(None, limits)
        return
    marks = Path(tempfile.mkdtemp(prefix="bagwise-"))
    pool = _ProcessPool(n_workers, limits, marks)
    try:
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
