"""End like after Ctrl-C when the process is asked to terminate."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def exit_on_signals(
    error: Callable[[int], BaseException] = SystemExit,
) -> Iterator[None]:
    """End what runs inside as Ctrl-C does when the process is asked to terminate.

    By default SIGTERM and SIGHUP end a process at once, and what workers share leaks.
    A signal that is ignored (``nohup``) or has a handler is left alone.

    Parameters
    ----------
    error : callable
        Returns what is raised, from the exit status.
    """

    def leave(signum: int, frame: FrameType | None) -> None:
        raise error(128 + signum)

    with contextlib.ExitStack() as stack:
        here = threading.current_thread() is threading.main_thread()
        for name in ("SIGTERM", "SIGHUP") if here else ():
            signum = getattr(signal, name, None)
            if signum is not None and signal.getsignal(signum) == signal.SIG_DFL:
                stack.callback(signal.signal, signum, signal.signal(signum, leave))
        yield
