"""Find methods by name, or make entries of estimators given instead of names."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable
from typing import Any

from sklearn.base import BaseEstimator

from bagwise.comparison.catalogue._baselines import BASELINES
from bagwise.comparison.catalogue._boosting import BOOSTING
from bagwise.comparison.catalogue._embeddings import EMBEDDINGS
from bagwise.comparison.catalogue._kernels import KERNELS
from bagwise.comparison.catalogue._least_squares import LEAST_SQUARES
from bagwise.comparison.catalogue._linear import LINEAR
from bagwise.comparison.catalogue._margins import MARGINS
from bagwise.comparison.catalogue._method import Method
from bagwise.comparison.catalogue._networks import NETWORKS
from bagwise.comparison.catalogue._regions import REGIONS
from bagwise.comparison.catalogue._regression import REGRESSION
from bagwise.comparison.catalogue._survival import SURVIVAL
from bagwise.comparison.description import describe_estimator

__all__ = [
    "METHODS",
    "find_method",
    "from_estimator",
    "list_methods",
    "missing_methods",
    "resolve",
]

METHODS: list[Method] = [
    *BASELINES,
    *LEAST_SQUARES,
    *MARGINS,
    *KERNELS,
    *EMBEDDINGS,
    *LINEAR,
    *REGIONS,
    *BOOSTING,
    *NETWORKS,
    *REGRESSION,
    *SURVIVAL,
]


def list_methods() -> list[Method]:
    """Return the methods whose classes are there, in the order of the catalogue.

    Examples
    --------
    >>> "SimpleMI" in [method.name for method in list_methods()]
    True
    """
    return [method for method in METHODS if method.available()]


def missing_methods() -> list[Method]:
    """Return the methods that are not listed because a package is not installed.

    Examples
    --------
    >>> from bagwise.comparison import missing_methods
    >>> all(method.missing for method in missing_methods())
    True
    """
    return [method for method in METHODS if method.missing]


def find_method(name: Any) -> Method:
    """Return a method by name, or wrap an estimator given instead of a name.

    Parameters
    ----------
    name : str, Method or estimator
        A name of the catalogue (spaces, hyphens and, where
        no two names differ by them alone, capitals do not matter), an entry of
        one's own, or an unfitted estimator, which is compared as it is, untuned.

    Returns
    -------
    Method
        The entry.
    """
    if isinstance(name, Method):
        return name
    if isinstance(name, BaseEstimator):
        return from_estimator(name)
    if inspect.isclass(name):
        raise TypeError(f"pass an instance, {name.__name__}(), not the class itself")
    if not isinstance(name, str):
        raise TypeError(
            f"a method is a name, an estimator or a Method, got {type(name).__name__}"
        )
    known = list_methods()
    exact = [m for m in known if m.name == name] or [
        m for m in known if name in m.names()
    ]
    if exact:
        return exact[0]
    table: dict[str, list[Method]] = {}
    for method in known:
        for other in method.names():
            entries = table.setdefault(_fold(other), [])
            if method not in entries:
                entries.append(method)
    found = table.get(_fold(name), [])
    own = [method for method in found if _fold(method.name) == _fold(name)]
    found = own or found  # before those that share the class
    if len(found) == 1:
        return found[0]
    if found:  # "MI-SVM" and "mi-SVM" are two methods
        near = [method.name for method in found]
        raise ValueError(f"{name!r} may be {_either(near)}; capitals matter here")
    for method in missing_methods():
        if _fold(name) in {_fold(other) for other in method.names()}:
            raise ImportError(method.missing)
    close = difflib.get_close_matches(_fold(name), table, n=4, cutoff=0.5)
    near = list(dict.fromkeys(m.name for key in close for m in table[key]))[:5]
    hint = f"did you mean {_either(near)}?" if near else "see `bagwise methods`"
    raise ValueError(f"unknown method {name!r}; {hint}")


def from_estimator(estimator: BaseEstimator, name: str | None = None) -> Method:
    """Make an entry of an unfitted estimator."""
    if not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
        raise TypeError(
            f"{type(estimator).__name__} has no predict; a transformer must be followed"
            " by a classifier in a Pipeline"
        )
    spec = describe_estimator(estimator)
    return Method(
        name or type(estimator).__name__,
        spec["class"],
        spec["params"],
        scale="none",
        kind="own",
    )


def resolve(methods: Iterable[Any]) -> list[Method]:
    """Return the entries of several names; a pair is ``(name, estimator)``."""
    found: list[Method] = []
    for item in methods:
        if isinstance(item, tuple):
            label, estimator = item
            method = from_estimator(estimator, str(label))
        else:
            method = find_method(item)
        if any(method.name == other.name for other in found):
            raise ValueError(
                f"two methods are called {method.name!r}; give them names as pairs"
                " (name, estimator)"
            )
        found.append(method)
    return found


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9+]", "", name.lower())


def _either(names: list[str]) -> str:
    quoted = [repr(name) for name in names]
    if len(quoted) == 1:
        return quoted[0]
    return ", ".join(quoted[:-1]) + " or " + quoted[-1]
