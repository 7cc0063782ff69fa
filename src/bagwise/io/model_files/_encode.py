"""From a model to a description and arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from bagwise.io.model_files import _registry, _sklearn
from bagwise.io.model_files._archive import Writer
from bagwise.io.model_files._schema import check_object


class CannotSave(ValueError):
    """The model holds something that a file cannot hold."""


class Encoder:
    """Describes objects as trees of plain values; arrays go to the archive."""

    def __init__(self) -> None:
        self.writer = Writer()
        self.foreign: set[str] = set()
        self._arrays: dict[int, int] = {}
        self._objects: dict[int, int] = {}
        self._open: set[int] = set()
        # (identities are only unique while their objects live)
        self._kept: list[Any] = []

    def encode(self, value: Any, place: str) -> Any:
        """Return the description of a value that stands at `place` of the model."""
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int:
            small = -(2**53) < value < 2**53
            return value if small else {"t": "int", "v": str(value)}
        if type(value) is float:
            return value if math.isfinite(value) else {"t": "float", "v": str(value)}
        if type(value) is list:
            return self._items(value, place)
        if type(value) in (tuple, set, frozenset):
            kind = type(value).__name__
            items = value if kind == "tuple" else sorted(value, key=repr)
            return {"t": kind, "v": self._items(items, place)}
        if type(value) in (dict, Bunch):
            return {"t": type(value).__name__.lower(), "v": self._pairs(value, place)}
        if type(value) is slice:
            parts = [value.start, value.stop, value.step]
            return {"t": "slice", "v": self._items(parts, place)}
        special = self._numbers(value, place)
        if special is not None:
            return special
        return self._named(value, place)

    def _items(self, values: Any, place: str) -> list[Any]:
        return [self.encode(v, f"{place}[{i}]") for i, v in enumerate(values)]

    def _pairs(self, values: Any, place: str) -> list[Any]:
        return [
            [self.encode(k, f"a key of {place}"), self.encode(v, f"{place}[{k!r}]")]
            for k, v in values.items()
        ]

    def _numbers(self, value: Any, place: str) -> Any:
        """Describe arrays and their relatives, or return None."""
        if isinstance(value, np.ma.MaskedArray):
            data = self._array(np.asarray(value.data), place)
            mask = self._array(np.ma.getmaskarray(value), place)
            return {"t": "masked", "data": data, "mask": mask}
        if isinstance(value, np.ndarray):
            return self._array(value, place)
        if isinstance(value, np.generic):
            return {"t": "scalar", "v": self._array(np.asarray(value), place)["v"]}
        if isinstance(value, np.dtype):
            return {"t": "dtype", "v": value.str}
        if sp.issparse(value) and value.format in ("csr", "csc"):
            parts = {p: getattr(value, p) for p in ("data", "indices", "indptr")}
            node = {name: self._array(part, place) for name, part in parts.items()}
            kind = value.format + ("_array" if isinstance(value, sp.sparray) else "")
            return {"t": kind, "shape": [int(s) for s in value.shape], **node}
        if type(value) is np.random.RandomState:
            name, key, *rest = value.get_state()
            state = [int(rest[0]), int(rest[1]), float(rest[2])]
            return {"t": "rng", "key": self._array(key, place), "v": state}
        return None

    def _array(self, array: Any, place: str) -> Any:
        if array.dtype.kind == "O":
            items = self._items(array.ravel().tolist(), place)
            return {"t": "objects", "shape": list(array.shape), "v": items}
        if array.dtype.kind not in "biufSU" and not array.dtype.names:
            raise CannotSave(f"{place} is an array of {array.dtype}")
        if id(array) not in self._arrays:
            self._kept.append(array)
            plain = np.asarray(array)
            if not (plain.flags.c_contiguous or plain.flags.f_contiguous):
                plain = np.ascontiguousarray(plain)
            self._arrays[id(array)] = self.writer.add(plain)
        return {"t": "array", "v": self._arrays[id(array)]}

    def _named(self, value: Any, place: str) -> Any:
        """Describe what is known by a name: functions, types, objects."""
        kind = _registry.type_name(value)
        if kind is not None:
            return {"t": "type", "v": kind}
        function = _registry.function_name(value)
        if function is not None:
            return {"t": "function", "v": function}
        special = _sklearn.describe(value)
        if special is not None:
            tag, parts = special
            return {
                "t": tag,
                **{k: self.encode(v, f"{place}.{k}") for k, v in parts.items()},
            }
        return self._object(value, place)

    def _object(self, value: Any, place: str) -> Any:
        if id(value) in self._objects:
            return {"t": "ref", "v": self._objects[id(value)]}
        if id(value) in self._open:
            raise CannotSave(f"{place} points back to an object that holds it")
        name = _registry.name_of(type(value))
        if name is None:
            name = self._foreign_name(value, place)
        else:
            check_object(value)  # what could not be loaded again is not saved
        self._open.add(id(value))
        state = _sklearn.state_of(value) if hasattr(value, "__dict__") else None
        if state is None:
            raise CannotSave(f"{place} is a {type(value).__name__}")
        pairs = {k: self.encode(v, f"{place}.{k}") for k, v in state.items()}
        self._open.discard(id(value))
        self._objects[id(value)] = len(self._objects)
        self._kept.append(value)
        return {"t": "object", "c": name, "v": pairs}

    def _foreign_name(self, value: Any, place: str) -> str:
        """Name a class of the user's own: it can be saved, loading has to be asked."""
        cls = type(value)
        if (
            isinstance(value, type)
            or callable(value)
            and not isinstance(value, BaseEstimator)
        ):
            raise CannotSave(
                f"{place} is {getattr(value, '__qualname__', value)!r}: a file holds "
                "no code, so that functions, lambdas and classes cannot be saved, "
                "except for the kernels of bagwise"
            )
        if not isinstance(value, BaseEstimator):
            hint = ""
            if cls.__module__.split(".")[0] == "sksurv":
                hint = "; keep models of scikit-survival with pickle or joblib"
            raise CannotSave(f"{place} is a {cls.__module__}.{cls.__qualname__}{hint}")
        if cls.__module__.split(".")[0] in ("bagwise", "sklearn"):
            raise CannotSave(
                f"{place} is a {cls.__module__}.{cls.__qualname__}, which is not among "
                "the classes that model files may hold"
            )
        if "<locals>" in cls.__qualname__:
            raise CannotSave(
                f"{place} is a {cls.__qualname__}; define the class at the top of a "
                "module"
            )
        name = f"{cls.__module__}:{cls.__qualname__}"
        self.foreign.add(name)
        return name
