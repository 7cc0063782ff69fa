"""Which code made a figure: a hash of the sources that a method uses.

The sources of a class are its module and, from there, every module of this library that
is imported on the way. Comments on lines of their own, blank lines and docstrings do
not count: they change no figure.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from bagwise.comparison.description import classes_in, import_name

__all__ = ["fingerprint", "used_modules"]

LIBRARY = "bagwise"
# What every run goes through, whatever its method.
RUNNER = (
    "bagwise.comparison._tuning",
    "bagwise.comparison.tasks",
    "bagwise.comparison.protocols",
)


def fingerprint(estimator: Mapping[str, Any]) -> str:
    """Return the hash of the sources behind the description of an estimator.

    Parameters
    ----------
    estimator : dict
        ``{"class": ..., "params": {...}}``, nested where a parameter is an estimator.

    Returns
    -------
    str
        Sixteen hexadecimal digits; those of the runner alone for a class that cannot
        be found.
    """
    owners = set(RUNNER)
    for path in classes_in(estimator):
        try:
            owners.add(import_name(path).__module__)
        except (ImportError, ValueError):  # the run will say so
            continue
    return _hash_of(tuple(sorted(owners)))


@cache
def _hash_of(owners: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for name in used_modules(owners):
        digest.update(f"{name}\n{_code(name)}".encode())
    return digest.hexdigest()[:16]


def used_modules(owners: tuple[str, ...]) -> list[str]:
    """Return the modules that the sources of some modules lead to, sorted.

    Of other libraries only modules among `owners` count: a class of one's own.
    """
    seen: set[str] = set()
    todo = [name for name in owners if _is_own(name)]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [n for n in _imported(name) if n.split(".")[0] == LIBRARY]
    return sorted(seen)


def _is_own(name: str) -> bool:
    """Tell modules whose code is ours or the user's from installed libraries."""
    if name.split(".")[0] == LIBRARY:
        return True
    path = _path(name)
    return path is not None and "site-packages" not in path.parts


@cache
def _imported(name: str) -> tuple[str, ...]:
    """Return the modules a module imports, by where the names were defined."""
    path = _path(name)
    if path is None:
        return ()
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            if node.module.split(".")[0] == LIBRARY:
                try:
                    module = importlib.import_module(node.module)
                except ImportError:  # it needs a library that is not here
                    found.append(node.module)
                    continue
                found += [_home(module, alias.name) for alias in node.names]
    return tuple(dict.fromkeys(found))


def _home(module: ModuleType, name: str) -> str:
    """Return the module in which something that `module` offers was defined."""
    value = getattr(module, name, None)
    if inspect.ismodule(value):
        return value.__name__
    owner = getattr(value, "__module__", None)
    known = isinstance(owner, str) and owner.split(".")[0] == LIBRARY
    return owner if known and isinstance(owner, str) else module.__name__


@cache
def _path(name: str) -> Path | None:
    """Return the source of a module, also of one that cannot be imported here."""
    try:
        file = getattr(importlib.import_module(name), "__file__", None)
    except ImportError:
        try:
            spec = importlib.util.find_spec(name)
        except ImportError:
            return None
        file = None if spec is None else spec.origin
    return None if file is None or not file.endswith(".py") else Path(file)


@cache
def _code(name: str) -> str:
    """Return the lines of a module that can change a figure."""
    path = _path(name)
    if path is None:
        return ""
    text = path.read_text(encoding="utf-8")
    words: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            words.update(range(body[0].lineno, (body[0].end_lineno or 0) + 1))
    lines = [
        line.rstrip()
        for number, line in enumerate(text.splitlines(), 1)
        if number not in words and line.strip() and not line.strip().startswith("#")
    ]
    return "\n".join(lines)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
