"""Packages that are slow to import, found when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["sparse"]


class Later:
    """Stand for a module; its names are looked up in the module itself."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(import_module(self._module), name)
        setattr(self, name, value)
        return value


sparse: Any = Later("scipy.sparse")
