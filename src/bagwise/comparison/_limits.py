"""Time, memory and thread limits of one run, and the memory it used.

Two mechanisms limit the time. A signal raises an exception inside Python code. Where a
compiled loop does not return to Python, a watchdog of the standard library
(`faulthandler`) writes the stack to a file and ends the process; it does not need the
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
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from threadpoolctl import threadpool_limits

__all__ = ["Limits", "PeakMemory", "RunTimeLimit", "single_thread"]

# Environment of workers: runs are carried out in parallel, and nothing inside one is.
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
    """

    seconds: float | None = None
    n_bytes: int | None = None

    def exceeded(self) -> str:
        """Return the message for a run that took too long."""
        return f"RunTimeLimit: took longer than the limit of {self.seconds:g} s"

    def hold_here(self) -> bool:
        """Tell whether the time can be limited in this thread of this process."""
        return self.seconds is None or _can_interrupt()

    @contextlib.contextmanager
    def hold(self, trace_file: str | os.PathLike[str] | None = None) -> Iterator[None]:
        """Stop what runs inside with `RunTimeLimit` or `MemoryError`.

        Parameters
        ----------
        trace_file : path, optional
            Given only in a worker process that may be ended: if the code inside does
            not react within a tenth of the limit (at least one second), the stack is
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
            grace = max(1.0, 0.1 * seconds) if _can_interrupt() else 0.0
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
