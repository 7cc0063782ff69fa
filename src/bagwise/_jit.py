"""The one door to the compiler.

Compiled loops stand in `solvers`, in modules called `_loops` and in folders called
`loops`, and take `njit` from here. The compiler itself is imported when the first of
them is called: half of the time that `import bagwise` took went into it.
"""

from __future__ import annotations

import functools
import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

_lock = threading.RLock()


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function on its first call and keep the machine code on disk.

    Where nothing can be written (a read-only package without a home folder, as in
    many containers) the code is compiled anew in every process.
    """

    def compile_later(function: FunctionType) -> Compiled:
        return Compiled(function, options)

    return compile_later


class Compiled:
    """A function that is handed to the compiler when it is called.

    The compiler does not know this class. It is given a copy of the function whose
    names of other compiled functions stand for the compiler's own objects. Those that
    are reached in this way need no door to Python and no file of their own, which saves
    a third of the time to compile.
    """

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = self._function = function
        self._options = options
        self._dispatchers: dict[bool, Any] = {}

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function."""
        dispatcher = self._dispatchers.get(True)
        if dispatcher is not None:
            return dispatcher(*args)
        with _no_collection():
            return self.dispatcher()(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher(), name)

    def __reduce__(self) -> str:
        return str(self._function.__qualname__)

    def dispatcher(self, from_python: bool = True) -> Any:
        """Return the compiler's object, for calls from Python or from compiled code."""
        with _lock:
            if from_python not in self._dispatchers:
                names = dict(self._function.__globals__)
                made = _compile(
                    _copy(self._function, names), self._options, from_python
                )
                self._dispatchers[from_python] = made
                for name in self._function.__code__.co_names:
                    other = names.get(name)
                    if other is self:  # it calls itself
                        names[name] = made
                    elif isinstance(other, Compiled):
                        names[name] = other.dispatcher(from_python=False)
        return self._dispatchers[from_python]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the search for cyclic garbage, a tenth of the time to compile."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _copy(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    """Return the function with other globals."""
    copy = FunctionType(
        function.__code__,
        names,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    return functools.update_wrapper(copy, function)


def _compile(function: FunctionType, options: dict[str, Any], from_python: bool) -> Any:
    import numba

    if not from_python:
        return numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(
            function
        )
    try:
        return numba.njit(cache=True, no_cfunc_wrapper=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        _warn_once()
        return numba.njit(no_cfunc_wrapper=True, **options)(function)


_warned = False


def _warn_once() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "compiled code cannot be kept: neither the package nor a cache folder is"
            " writable, so that every process compiles anew. Set NUMBA_CACHE_DIR to a"
            " writable folder to avoid it.",
            RuntimeWarning,
            stacklevel=2,
        )
