"""Carry out many runs, and write results as they come.

Only the process that calls `run_all` touches the store.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from bagwise.comparison._pool import Pool, open_pool
from bagwise.comparison.description import (
    Run,
)
from bagwise.comparison.keys import run_key
from bagwise.comparison.one_run import Outcome, library_version, one_line
from bagwise.comparison.store import Store

__all__ = ["Event", "run_all"]

BEAT_SECONDS = 5.0
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Event:
    """One run has ended; `compare` passes this to the function given as `progress`.

    Parameters
    ----------
    key : str
        The run's key in the store.
    run : Run
        Its description: `run.method`, `run.repeat`, `run.fold` and so on.
    outcome : Outcome or None
        What came of it; None where it was found in the store.
    stored : dict or None
        The row of the store where it was found there.
    cached : bool
        Whether it was found in the store.
    n_done, n_total : int
        Runs that have ended, and all of them.
    """

    key: str
    run: Run
    outcome: Outcome | None
    cached: bool
    n_done: int
    n_total: int
    stored: Mapping[str, Any] | None = None


Listener = Callable[[Event], None]


def run_all(
    runs: Iterable[Run],
    store: Store,
    *,
    n_jobs: int = 1,
    scheduler: str | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    time_budget: float | None = None,
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
    time_budget : float, optional
        Seconds for all runs together: after them no further run is begun, and what is
        not in the store then is left for another call. Runs under way end.
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
    session = _Session(store, table, on_event, retry_failed, time_budget)
    rows = {row["key"]: row for row in store.rows(sorted(finished))}
    for key in table:
        if key in finished:
            session.report(key, None, rows.get(key))
    limits = {"time_limit": time_limit, "memory_limit": memory_limit}
    todo = [key for key in table if key not in finished]
    if todo:
        with open_pool(n_jobs, scheduler, limits) as pool:
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
        time_budget: float | None,
    ) -> None:
        self.store, self.table, self.on_event = store, table, on_event
        self.retry_failed = retry_failed
        self.n_done = 0
        self.last_beat = time.monotonic()
        self.end = None if time_budget is None else self.last_beat + time_budget

    def is_over(self) -> bool:
        return self.end is not None and time.monotonic() > self.end

    def report(
        self,
        key: str,
        outcome: Outcome | None,
        stored: Mapping[str, Any] | None = None,
    ) -> None:
        self.n_done += 1
        if self.on_event is not None:
            run, total = self.table[key], len(self.table)
            cached = outcome is None
            done = self.n_done
            self.on_event(Event(key, run, outcome, cached, done, total, stored))

    def finish(self, key: str, outcome: Outcome) -> None:
        self.store.put(key, self.table[key], outcome)
        self.report(key, outcome)

    def work(self, todo: Sequence[str], pool: Pool) -> None:
        queue, elsewhere = deque(todo), deque[str]()
        busy: dict[Future[Outcome], str] = {}
        try:
            while queue or busy or elsewhere:
                if self.is_over():
                    queue.clear()
                    elsewhere.clear()
                while queue and len(busy) < pool.width() and not self.is_over():
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
        pool: Pool,
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
                pool.check(error)
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
