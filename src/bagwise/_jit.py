"""Compiled loops: compiled when first called, from arrays whose sizes are checked.

`numba` takes half as long to import as all of `import bagwise`, hence it is imported
when the first compiled function is called. Measured against plain
``numba.njit(cache=True)`` on every function, on the first fit of `MISVM` in a fresh
installation: 2.8 against 4.2 s, because functions that only compiled code calls need
neither a wrapper for Python nor a cache file of their own.
"""

from __future__ import annotations

import functools
import inspect
import re
import threading
import warnings
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

_lock = threading.RLock()


def njit(**options: Any) -> Callable[[FunctionType], Compiled]:
    """Compile a function on its first call and keep the result on disk.

    Where nothing can be written (a read-only package without a home folder, as in
    many containers) the code is compiled again in every process.

    Parameters
    ----------
    **options
        Options of `numba.njit`; and ``shapes``, a dict from the names of array
        arguments to their shapes. A function that is called from Python needs one for
        every array, because compiled code reads and writes without looking at sizes.

        A shape is a text with one entry per axis: a letter (or ``2k``, ``n+1``), which
        must stand for the same number in all arguments, a number, or ``*``.
        ``"r in n"`` are indices into n entries, ``"b+1 to n"`` offsets into them, of
        which the ends are looked at: `Bags` has checked that they rise. A tuple of
        arrays has a tuple of shapes.

    Examples
    --------
    >>> from bagwise._jit import njit
    >>> @njit(shapes={"values": "n", "offsets": "b+1 to n", "out": "b"})
    ... def first(values, offsets, out):
    ...     for i in range(len(out)):
    ...         out[i] = values[offsets[i]]
    """
    shapes = options.pop("shapes", {})
    return lambda function: Compiled(function, shapes, options)


class Compiled:
    """A function that is compiled when it is called.

    Python calls it as a function. Compiled code finds it by `_numba_type_`, the name
    under which numba looks for the type of any object.
    """

    def __init__(
        self, function: FunctionType, shapes: dict[str, Any], options: dict[str, Any]
    ) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._options = options
        self._check = ShapeCheck(function, shapes)
        self._called: Any = None
        self._included: Any = None

    def __call__(self, *args: Any) -> Any:
        """Check the sizes of the arrays and call the compiled function."""
        self._check(args)
        if self._called is None:
            with _lock:
                self._called = self._called or _compile(self.py_func, self._options)
        return self._called(*args)

    @property
    def _numba_type_(self) -> Any:
        with _lock:
            if self._included is None:
                import numba

                self._included = numba.njit(
                    no_cpython_wrapper=True, no_cfunc_wrapper=True, **self._options
                )(self.py_func)
        return self._included._numba_type_

    @property
    def targetoptions(self) -> dict[str, Any]:
        """What numba asks before it puts one function into another ("inline")."""
        return self._options

    @property
    def signatures(self) -> list[Any]:
        """The types of arguments for which it was called from Python."""
        return [] if self._called is None else self._called.signatures

    def __reduce__(self) -> str:
        return self.py_func.__qualname__


def _compile(function: FunctionType, options: dict[str, Any]) -> Any:
    import numba

    try:
        return numba.njit(cache=True, no_cfunc_wrapper=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        _warn_once()
        return numba.njit(no_cfunc_wrapper=True, **options)(function)


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "compiled code cannot be cached, because neither the package folder nor a "
        "cache folder is writable: every process compiles again. Set NUMBA_CACHE_DIR "
        "to a writable folder.",
        RuntimeWarning,
        stacklevel=2,
    )


# The sizes of arrays ------------------------------------------------------------------

_AXIS = re.compile(r"(\d*)([a-z])(\+\d+)?")


class ArrayShape(NamedTuple):
    """What is declared of one array: its axes, and whether it holds indices."""

    axes: tuple[Any, ...]  # numbers, None for any size, or (factor, letter, offset)
    indices: str | None  # "in" (indices) or "to" (offsets)
    limit: Any  # letters whose sizes add up to the bound of the indices


def _parse(shape: str | None) -> ArrayShape | None:
    if shape is None:
        return None
    axes, *rest = re.split(" (in|to) ", shape)
    indices, limit = rest or (None, "")
    return ArrayShape(tuple(map(_parse_axis, axes.split())), indices, limit.split("+"))


def _parse_axis(axis: str) -> Any:
    if axis == "*":
        return None
    if axis.isdigit():
        return int(axis)
    match = _AXIS.fullmatch(axis)
    if match is None:
        raise ValueError(f"{axis!r} is not the size of an axis.")
    return int(match[1] or 1), match[2], int(match[3] or 0)


class ShapeCheck:
    """Refuses arrays whose sizes do not fit together, or whose indices lie outside.

    Sizes are compared where they differ from those of the last call: loops are called
    again and again for the same data.
    """

    def __init__(self, function: FunctionType, shapes: dict[str, Any]) -> None:
        names = inspect.signature(function).parameters
        if unknown := set(shapes) - set(names):
            raise TypeError(f"{function.__name__}() has no arguments {unknown}.")
        self._tuples = {
            place: len(shapes[name])
            for place, name in enumerate(names)
            if isinstance(shapes.get(name), tuple)
        }
        self._names = self._flat(names, lambda name, length: [name] * length)
        declared = self._flat([shapes.get(name) for name in names])
        self._shapes = [_parse(shape) for shape in declared]
        self._last: tuple[Any, Any] = None, None

    def _flat(self, values: Any, open_up: Any = lambda value, length: value) -> Any:
        """Return arguments with the members of tuples in their places."""
        flat: list[Any] = []
        for place, value in enumerate(values):
            length = self._tuples.get(place)
            if length is None:
                flat.append(value)
            else:
                flat += [None] * length if value is None else open_up(value, length)
        return flat

    def __call__(self, arguments: Sequence[Any]) -> None:
        """Raise if the arguments of a call do not fit."""
        flat = self._flat(arguments) if self._tuples else arguments
        found = [getattr(value, "shape", None) for value in flat]
        shapes, limits = self._last
        if found != shapes:
            limits = self._compare(flat)
            self._last = found, limits
        for place, indices, limit in limits:
            array = flat[place]
            if indices == "to":  # `item` is faster than array[0]
                inside = not array.size or (
                    array.item(0) >= 0 and array.item(-1) <= limit
                )
            else:
                inside = not array.size or (array.min() >= 0 and array.max() < limit)
            if not inside:
                raise IndexError(
                    f"{self._names[place]} points outside of {limit} entries."
                )

    def _compare(self, flat: Sequence[Any]) -> list[tuple[int, str, int]]:
        """Compare sizes; return the places of indices, their kinds and limits."""
        sizes: dict[str, int] = {}
        for name, shape, array in zip(self._names, self._shapes, flat, strict=True):
            if not isinstance(array, np.ndarray):
                continue
            if shape is None:
                raise TypeError(f"no shape is declared for the array {name}.")
            if not _fits(shape.axes, array.shape, sizes):
                raise ValueError(
                    f"{name} has shape {array.shape}, which does not fit the other "
                    f"arrays (sizes {sizes})."
                )
        return [
            (place, shape.indices, sum(sizes[letter] for letter in shape.limit))
            for place, (shape, array) in enumerate(zip(self._shapes, flat, strict=True))
            if shape is not None and shape.indices and array is not None
        ]


def _fits(axes: Sequence[Any], shape: Sequence[int], sizes: dict[str, int]) -> bool:
    if len(axes) != len(shape):
        return False
    for axis, length in zip(axes, shape, strict=True):
        if axis is None:
            continue
        if isinstance(axis, int):
            expected = axis
        else:
            factor, letter, more = axis
            size = sizes.setdefault(letter, (length - more) // factor)
            expected = factor * size + more
        if length != expected:
            return False
    return True
