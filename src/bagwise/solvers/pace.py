"""Estimate how long a loop will take, if that is more than a minute."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
# Seconds until the first line, between lines, and up to which a loop prints no line.
_FIRST, _EVERY, _LONG = 3.0, 30.0, 60.0

_quiet: ContextVar[bool] = ContextVar("bagwise_quiet", default=False)


@contextmanager
def no_pace() -> Iterator[None]:
    """Print no lines inside, where somebody else reports progress."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def paced(items: Collection[Item], who: str, what: str) -> Iterator[Item]:
    """Yield the items of a loop; estimate on standard error when a long one ends.

    The estimate comes from the second item on, as loops may be compiled during the
    first one, at least three seconds after the start. It is an upper bound if the loop
    may end early. Worker processes and threads print nothing.

    Parameters
    ----------
    items : collection
        What the loop is about.
    who : str
        What takes long, such as the name of an estimator.
    what : str
        The items in words, such as "rounds".
    """
    begun = time.monotonic()
    first = told = None
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if first is None:
            first = now
            continue
        left = (now - first) / (done - 1) * (len(items) - done)
        long = told is not None or now - begun + left > _LONG
        due = now - (begun if told is None else told) >= (
            _FIRST if told is None else _EVERY
        )
        if long and due and done < len(items) and _is_shown():
            told = now
            text = f"{done:,} of at most {len(items):,} {what}"
            print(
                f"{who}: {text} in {_duration(now - begun)}, at most {_duration(left)} "
                "left",
                file=sys.stderr,
                flush=True,
            )


def _is_shown() -> bool:
    main = threading.current_thread() is threading.main_thread()
    here = multiprocessing.current_process().name == "MainProcess"
    return main and here and not _quiet.get()


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
