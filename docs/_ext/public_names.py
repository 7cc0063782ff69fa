"""What is public: the names in ``__all__`` of bagwise and of its subpackages."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from typing import Any, NamedTuple

import bagwise

# Modules without public names for users. The command line has a page in the guide.
NOT_LISTED = {"bagwise.solvers", "bagwise.cli"}


class Public(NamedTuple):
    """A public name and the first module that exports it."""

    home: str  # module
    name: str
    value: Any

    @property
    def path(self) -> str:
        """Module and name."""
        return f"{self.home}.{self.name}"

    @property
    def summary(self) -> str:
        """First line of the docstring, or the type of a constant."""
        if not callable(self.value) and not inspect.ismodule(self.value):
            return f"{type(self.value).__name__} of {len(self.value)} entries."
        lines = inspect.getdoc(self.value) or ""
        return lines.split("\n\n")[0].replace("\n", " ")


@cache
def modules() -> tuple[str, ...]:
    """Return the public modules, the top-level one first."""
    found = (info.name for info in pkgutil.iter_modules(bagwise.__path__))
    names = ("bagwise." + name for name in sorted(found) if not name.startswith("_"))
    return ("bagwise", *(name for name in names if name not in NOT_LISTED))


@cache
def names() -> dict[str, Public]:
    """Return the public names by path; an object has one entry per path."""
    homes: dict[int, Public] = {}
    found = {}
    for module in modules():
        imported = importlib.import_module(module)
        for name in imported.__all__:
            value = getattr(imported, name)
            first = homes.setdefault(id(value), Public(module, name, value))
            found[f"{module}.{name}"] = first
    return found


def documented() -> list[Public]:
    """Return one entry for each object."""
    return [public for path, public in names().items() if path == public.path]


def own_methods(cls: type) -> tuple[list[str], list[str], list[str]]:
    """Return methods and properties defined by bagwise, and inherited ones."""
    methods, properties, rest = [], [], []
    for name in sorted(dir(cls)):
        if name.startswith("_"):
            continue
        owner = next((k for k in cls.__mro__ if name in vars(k)), None)
        value = inspect.getattr_static(cls, name)
        ours = owner is not None and owner.__module__.startswith("bagwise")
        routed = name.startswith("set_") and name.endswith("_request")
        if isinstance(value, property):
            (properties if ours and value.__doc__ else rest).append(name)
        elif callable(getattr(cls, name, None)) and not routed:
            (methods if ours and inspect.getdoc(getattr(cls, name)) else rest).append(
                name
            )
    return methods, properties, rest
