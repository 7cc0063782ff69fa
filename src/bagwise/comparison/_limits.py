"""Time, memory and thread limits of one run, and what it used.

Two layers guard the time. A signal raises an exception inside Python code; where the
code is stuck in a compiled loop that never looks, a watchdog of the standard library
(`faulthandler`) writes where it hung and ends the process, without needing the
interpreter lock.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from threadpoolctl import threadpool_limits

__all__ = ["PeakMemory", "RunTimeLimit", "memory_guard", "time_guard"]

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
ONE_THREAD = dict.fromkeys(THREAD_VARIABLES, "1")
"""Environment of workers: parallelism is over runs, never inside one."""


class RunTimeLimit(BaseException):
    """A run took longer than it may.

    Not an `Exception`, because a search swallows those to go on with the next
    candidate.
    """


@contextlib.contextmanager
def time_guard(
    seconds: float | None, trace_file: str | os.PathLike[str] | None = None
) -> Iterator[None]:
    """Stop what runs inside after `seconds`.

    Parameters
    ----------
    seconds : float or None
        Limit; None for none.
    trace_file : path, optional
        Given only in a worker process that may be ended: if Python code does not react
        within a tenth of the limit (one second at least), the stack is written there
        and the process ends.
    """
    if seconds is None:
        yield
        return
    soft = threading.current_thread() is threading.main_thread() and hasattr(
        signal, "setitimer"
    )

    def expire(signum: int, frame: FrameType | None) -> None:
        raise RunTimeLimit(f"took longer than the limit of {seconds:g} s")

    with contextlib.ExitStack() as stack:
        if trace_file is not None:
            handle = stack.enter_context(open(trace_file, "w", encoding="utf-8"))
            grace = max(1.0, 0.1 * seconds) if soft else 0.0
            faulthandler.dump_traceback_later(seconds + grace, exit=True, file=handle)
            stack.callback(faulthandler.cancel_dump_traceback_later)
        if soft:
            previous = signal.signal(signal.SIGALRM, expire)
            stack.callback(signal.signal, signal.SIGALRM, previous)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            stack.callback(signal.setitimer, signal.ITIMER_REAL, 0.0)
        yield


@contextlib.contextmanager
def memory_guard(limit: int | None) -> Iterator[None]:
    """Let what runs inside allocate at most `limit` bytes more than now.

    An allocation beyond it raises `MemoryError`. On systems without resource limits
    (Windows) nothing is enforced.
    """
    if limit is None or sys.platform == "win32":
        yield
        return
    import resource

    # On Linux the data limit counts private memory only, so that a large memory map
    # of the bags themselves is not charged to the run.
    linux = sys.platform == "linux"
    which = resource.RLIMIT_DATA if linux else resource.RLIMIT_AS
    used = _status("VmData") if linux else 0
    soft, hard = resource.getrlimit(which)
    wanted = used + int(limit)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(which, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(which, (soft, hard))


def _status(name: str) -> int:
    """Return a line of ``/proc/self/status`` in bytes, 0 where it is unknown."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    match = re.search(rf"^{name}:\s+(\d+) kB", text, flags=re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


class PeakMemory:
    """Measure how far the resident memory of this process rises above its start.

    Linux lets a process reset its own high-water mark, which catches allocations
    inside compiled code that sampling would miss. Elsewhere the mark cannot be reset
    and the figure is a lower bound.
    """

    bytes: int = 0

    def __enter__(self) -> PeakMemory:
        """Reset the high-water mark."""
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._start = _status("VmRSS") or _ru_maxrss()
        return self

    def __exit__(self, *exc: Any) -> None:
        """Read the high-water mark."""
        top = _status("VmHWM") or _ru_maxrss()
        self.bytes = max(0, top - self._start)


def _ru_maxrss() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def single_thread() -> Any:
    """Limit every loaded thread pool to one thread, as a context."""
    return threadpool_limits(1)
