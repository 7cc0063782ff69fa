"""Multi-instance learning with scikit-learn's API.

An example is a bag of instances and only bags carry labels. `Bags` holds them, the
estimators of the subpackages learn from them, and `compare` shows which one works best
on your data.
"""

from importlib import import_module
from typing import Any

from bagwise._config import config_context
from bagwise._version import __version__ as __version__
from bagwise.bags import Bags, Ragged, as_bags

# Imported on first use, so that `import bagwise` is fast.
_LAZY = {
    "BagClassifier": "bagwise.ensemble",
    "BagRegressor": "bagwise.ensemble",
    "compare": "bagwise.comparison",
    "evaluate": "bagwise.comparison.validation",
    "from_frame": "bagwise.io",
    "load": "bagwise.io",
    "read_bags": "bagwise.io",
    "save": "bagwise.io",
    "to_frame": "bagwise.io",
}

__all__ = [
    "BagClassifier",
    "BagRegressor",
    "Bags",
    "Ragged",
    "as_bags",
    "compare",
    "config_context",
    "evaluate",
    "from_frame",
    "load",
    "read_bags",
    "save",
    "to_frame",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'bagwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
