"""Plain descriptions of runs: what was done, on what, with which seed.

A run is one method on one fold of one data set. Its description holds nothing but
JSON values, so that it can be hashed, stored, sent to another computer and read by a
person; `build_estimator` turns the estimator part into the object it names.

A description may come from a file, so the names in it are never simply imported. A name
is that of an estimator of bagwise or of one on the list of model files, or it is
*trusted*: this process described an object of that class, or made a `Method` of it.
Workers get the trusted names of a run together with the run.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bagwise._version import __version__
from bagwise.comparison.protocols import Protocol
from bagwise.io.registry import find_described

__all__ = [
    "DataRef",
    "Run",
    "build_estimator",
    "check_names",
    "classes_in",
    "describe_estimator",
    "own_classes",
    "run_key",
    "trust",
]

Spec = dict[str, Any]
"""``{"class": "package.Class", "params": {...}}``, nested where a value is one."""

# Trusted names beyond the list, with their objects; None: to be imported when needed.
_trusted: dict[str, Any] = {}


@dataclass(frozen=True)
class DataRef:
    """Which data a run reads: their name, and the hash of their content."""

    name: str
    hash: str


@dataclass(frozen=True)
class Run:
    """One method on one fold: everything `run_one` needs, in plain values.

    Parameters
    ----------
    method : str
        Name shown in tables.
    estimator : dict
        ``{"class": ..., "params": {...}}`` as made by `describe_estimator`.
    data : DataRef
        The data set.
    protocol : Protocol
        How bags are split: `CrossValidation` and others.
    repeat, fold : int
        Which split of the protocol.
    random_state : int
        Random seed of the splits, the inner splits and the method.
    scale : {"standard", "clipped", "minmax", "l2", "none"}
        Scaler of the instances, fitted on the training fold.
    grid : dict or list of dict
        Parameters to tune; empty for none.
    tuning : dict or None
        ``{"n_splits": 3, "scoring": "accuracy"}`` of the inner cross-validation.
    calibrate : bool
        Whether probabilities are calibrated inside the training fold.
    impute : str or None
        How missing values are filled, inside the training fold.
    permute_features : bool
        Whether features are permuted in the test bags, to see which ones matter.
    """

    method: str
    estimator: Spec
    data: DataRef
    protocol: Protocol
    repeat: int = 0
    fold: int = 0
    random_state: int = 0
    scale: str = "standard"
    grid: Any = field(default_factory=dict)
    tuning: dict[str, Any] | None = None
    calibrate: bool = False
    impute: str | None = None
    permute_features: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the description as nested plain values."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        data, protocol = asdict(self.data), self.protocol.to_dict()
        return {**parts, "data": data, "protocol": protocol}


def run_key(run: Run) -> str:
    """Return the key under which a store keeps a run.

    It is the hash of the description, of the content of the data and of the version of
    bagwise; of classes of the user, the source counts as well. Where the data are, and
    what they are called, does not.
    """
    sources = [_source(cls) for cls in own_classes(run).values()]
    parts = [{**run.to_dict(), "data": run.data.hash}, __version__, sources]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def _source(cls: Any) -> str:
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):  # defined interactively, or compiled
        return ""


def plain(value: Any) -> Any:
    """Turn NumPy scalars and arrays into what JSON knows."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(
        f"{value!r} of type {type(value).__name__} cannot be part of a run description;"
        " use numbers, strings, lists, dicts or scikit-learn estimators"
    )


def to_plain(value: Any) -> Any:
    """Return `value` with estimators described and NumPy values made plain."""
    if isinstance(value, BaseEstimator):
        return describe_estimator(value)
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(v) for v in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    function = inspect.isfunction(value) and "<" not in value.__qualname__
    if isinstance(value, type) or function:
        return {"type": _name_and_trust(value)}
    return plain(value)


def describe_estimator(estimator: BaseEstimator) -> Spec:
    """Describe an unfitted estimator by its class and its parameters.

    Examples
    --------
    >>> from sklearn.svm import LinearSVC
    >>> describe_estimator(LinearSVC(C=2.0))["class"]
    'sklearn.svm._classes.LinearSVC'
    """
    cls = type(estimator)
    if "<locals>" in cls.__qualname__:
        raise ValueError(
            f"class {cls.__name__} is defined inside a function and cannot be found by"
            " its name in another process; define it at the top of a module"
        )
    params = estimator.get_params(deep=False)
    return {
        "class": _name_and_trust(cls),
        "params": {name: to_plain(value) for name, value in sorted(params.items())},
    }


def _name_and_trust(value: Any) -> str:
    """Return the full name of a class or function of this process, and trust it."""
    name = f"{value.__module__}.{value.__qualname__}"
    _trusted[name] = value
    return name


def trust(classes: Mapping[str, Any]) -> None:
    """Allow descriptions to name these classes; None: imported when needed."""
    for name, cls in classes.items():
        if _trusted.get(name) is None:
            _trusted[name] = cls


def own_classes(run: Run) -> dict[str, Any]:
    """Return the classes of a run that only trust allows, for the worker it goes to."""
    names = dict.fromkeys(classes_in([run.estimator, run.grid]))
    return {name: import_name(name) for name in names if find_described(name) is None}


def check_names(value: Any) -> None:
    """Refuse a description with a name that is neither on the list nor trusted."""
    for name in classes_in(value):
        import_name(name)


def classes_in(value: Any) -> Iterator[str]:
    """Yield the classes that a description names, at any depth."""
    if isinstance(value, Mapping):
        for name in ("class", "type"):
            if isinstance(value.get(name), str):
                yield value[name]
        for inner in value.values():
            yield from classes_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from classes_in(inner)


def import_name(path: str) -> Any:
    """Return the object ``package.module.Name``, if descriptions may name it."""
    found = _trusted.get(path)
    if found is None:
        found = _imported(path) if path in _trusted else find_described(path)
    if found is None:
        raise ImportError(
            f"{path!r} is not an estimator of bagwise, nor one of the scikit-learn"
            " classes that a description may name; in Python, pass the estimator itself"
        )
    return found


@cache
def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    if not module:
        raise ImportError(f"{path!r} is not of the form 'package.Class'")
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ImportError(f"module {module!r} has no {name!r}") from None


def build_estimator(spec: Mapping[str, Any], random_state: int | None = None) -> Any:
    """Build the estimator a description names.

    Parameters
    ----------
    spec : dict
        ``{"class": "package.Class", "params": {...}}``.
    random_state : int, optional
        Given to every nested estimator that has this parameter and no value for it.

    Examples
    --------
    >>> build_estimator({"class": "sklearn.svm.SVC", "params": {"C": 2.0}}, 0)
    SVC(C=2.0, random_state=0)
    """
    cls = import_name(spec["class"])
    if not isinstance(cls, type):
        raise TypeError(f"{spec['class']!r} is not a class")
    params = {
        name: build_value(value, random_state)
        for name, value in spec.get("params", {}).items()
    }
    if "steps" in params:  # a Pipeline expects (name, estimator) pairs
        params["steps"] = [tuple(step) for step in params["steps"]]
    if random_state is not None and _takes_random_state(cls):
        if params.get("random_state") is None:
            params["random_state"] = random_state
    return cls(**params)


def build_value(value: Any, random_state: int | None = None) -> Any:
    """Build the estimators inside a parameter value."""
    if isinstance(value, Mapping):
        if "class" in value:
            return build_estimator(value, random_state)
        if set(value) == {"type"}:
            return import_name(value["type"])
        return {k: build_value(v, random_state) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [build_value(v, random_state) for v in value]
    return value


@cache
def _takes_random_state(cls: Any) -> bool:
    return "random_state" in inspect.signature(cls).parameters
