"""What the fits of one search have in common, computed once."""

from __future__ import annotations

import contextlib
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import joblib

_SIZE = 9
_results: ContextVar[OrderedDict[str, Any] | None] = ContextVar("results", default=None)


@contextlib.contextmanager
def reusing() -> Iterator[None]:
    """Keep the last results of `reused` functions while what is inside runs."""
    token = _results.set(OrderedDict())
    try:
        yield
    finally:
        _results.reset(token)


def reused(
    function: Callable[..., Any],
    *args: Any,
    ignore: Sequence[str] = (),
    **options: Any,
) -> Any:
    """Call a function, or inside `reusing` return what an equal call has returned.

    Parameters
    ----------
    function : callable
        Its result depends on its arguments alone, and is not changed by anyone.
    *args, **options
        Its arguments.
    ignore : sequence of str
        Names of arguments that do not change the result.
    """
    results = _results.get()
    if results is None:
        return function(*args, **options)
    given = inspect.signature(function).bind(*args, **options).arguments
    told = [(name, _plain(given[name])) for name in given if name not in ignore]
    key = joblib.hash((function.__module__, function.__qualname__, told))
    if key not in results:
        results[key] = function(*args, **options)
        if len(results) > _SIZE:
            results.popitem(last=False)
    results.move_to_end(key)
    return results[key]


def _plain(value: Any) -> Any:
    """Return what of a value counts: of bags the instances and the sizes."""
    return (value.data, value.offsets) if hasattr(value, "n_bags") else value
