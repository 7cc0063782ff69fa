"""The one door to the compiler.

Compiled loops stand in `solvers`, in modules called `_loops` and in folders called
`loops`, and take `njit` from here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numba


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function on its first call and keep the machine code on disk.

    Where nothing can be written (a read-only package without a home folder, as in
    many containers) the code is compiled anew in every process.
    """

    def compile_later(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            _warn_once()
            return numba.njit(**options)(function)

    return compile_later


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
