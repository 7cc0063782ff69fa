"""The one door to the compiler.

Compiled loops stand in `solvers`, in modules called `_loops` and in folders called
`loops`, and take `njit` from here. The compiler itself is imported when the first of
them is called: half of the time that `import bagwise` took went into it.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from types import FunctionType, ModuleType
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

    Compiled functions find each other by the names in their modules, and the compiler
    does not know this class: `dispatcher` puts what it made under those names first.
    """

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._dispatcher: Any = None

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function."""
        dispatcher = self._dispatcher
        return (self.dispatcher() if dispatcher is None else dispatcher)(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher(), name)

    def __reduce__(self) -> str:
        return str(self._function.__qualname__)

    def dispatcher(self) -> Any:
        """Return the compiler's own object."""
        with _lock:
            if self._dispatcher is None:
                self._dispatcher = _compile(self._function, self._options)
                _open_up(self._function.__globals__)
        return self._dispatcher


def _open_up(names: dict[str, Any]) -> None:
    """Replace what is compiled later by what the compiler knows."""
    for name, value in list(names.items()):
        if isinstance(value, Compiled):
            names[name] = value.dispatcher()
        elif isinstance(value, ModuleType) and value.__name__.startswith("bagwise."):
            used = vars(value)
            if any(isinstance(entry, Compiled) for entry in used.values()):
                _open_up(used)


def _compile(function: FunctionType, options: dict[str, Any]) -> Any:
    import numba

    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        _warn_once()
        return numba.njit(**options)(function)


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
