"""What Ctrl-C, SIGTERM and SIGHUP end, and what they must not interrupt."""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


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


@contextlib.contextmanager
def hold_signals() -> Iterator[None]:
    """Let what runs inside finish before a signal ends the work.

    A worker process whose start is interrupted is known to nobody: it is not ended,
    the process waits for it forever, and what they share leaks.
    """
    held: list[Callable[[], Any]] = []

    def hold(signum: int, frame: FrameType | None) -> None:
        held.append(functools.partial(handlers[signum], signum, frame))

    def act() -> None:
        for handler in held[:1]:
            handler()

    handlers: dict[int, Callable[..., Any]] = {}
    here = threading.current_thread() is threading.main_thread()
    with contextlib.ExitStack() as stack:
        stack.callback(act)
        for name in ("SIGINT", "SIGTERM", "SIGHUP") if here else ():
            signum = getattr(signal, name, None)
            handler = None if signum is None else signal.getsignal(signum)
            if callable(handler):
                handlers[signum] = handler
                stack.callback(signal.signal, signum, signal.signal(signum, hold))
        yield
