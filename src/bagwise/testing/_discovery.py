"""Find every estimator the package exports."""

import importlib
import importlib.util
import inspect
import pkgutil

from sklearn.base import BaseEstimator

import bagwise

# Not places where estimators live.
_LEFT_OUT = {
    "bags",
    "base",
    "cli",
    "datasets",
    "comparison",
    "io",
    "inspection",
    "report",
    "testing",
}

# Subpackages whose estimators work only where another package is installed.
_NEEDS = {"neural": "torch"}

# Estimators whose target is neither labels nor values: batteries have no such data.
_OTHER_TARGETS = {"EmbeddedSurvival"}


def all_estimators():
    """Return (name, class) of every exported estimator, sorted by name.

    An estimator is exported when it stands in the `__all__` of a public subpackage.
    That is all it takes to be tested by the common batteries. Networks are found only
    where torch is installed; models of survival have tests of their own.
    """
    found = {}
    for module in pkgutil.iter_modules(bagwise.__path__):
        if module.name.startswith("_") or module.name in _LEFT_OUT:
            continue
        needed = _NEEDS.get(module.name)
        if needed is not None and importlib.util.find_spec(needed) is None:
            continue
        package = importlib.import_module(f"bagwise.{module.name}")
        for name in getattr(package, "__all__", ()):
            item = getattr(package, name)
            if name in _OTHER_TARGETS:
                continue
            if inspect.isclass(item) and issubclass(item, BaseEstimator):
                found[name] = item
    return sorted(found.items())
