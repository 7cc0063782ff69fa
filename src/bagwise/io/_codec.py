"""Models to descriptions and arrays, and back.

Decoding runs nothing that a file names: classes come from the registry, and objects are
made without a constructor or any hook.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from bagwise.bags.segmented import Segmented, read_only
from bagwise.io import _sklearn, registry
from bagwise.io._schema import DamagedFile, check_object

MOST_DEPTH = 100
MOST_NODES = 5_000_000
_KEYS = (str, int, float, bool, type(None), np.generic)
_SPARSE = {
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
    "csr_array": sp.csr_array,
    "csc_array": sp.csc_array,
}


class CannotSave(ValueError):
    """The model holds something that a file cannot hold."""


class UntrustedType(ValueError):
    """The file asks for a class that is not registered."""

    def __init__(self, name: Any) -> None:
        super().__init__(str(name)[:200])
        self.name = name


class Encoder:
    """Describes objects as trees of plain values; arrays go to the archive."""

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[Any]] = []
        self.foreign: set[str] = set()
        self._numbers_of: dict[int, int] = {}
        self._objects: dict[int, int] = {}
        self._open: set[int] = set()
        # (ids of objects are unique only while the objects exist)
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
        if id(array) not in self._numbers_of:
            self._kept.append(array)
            plain = np.asarray(array)
            if not (plain.flags.c_contiguous or plain.flags.f_contiguous):
                plain = np.ascontiguousarray(plain)
            self._numbers_of[id(array)] = len(self.arrays)
            self.arrays.append(plain)
        return {"t": "array", "v": self._numbers_of[id(array)]}

    def _named(self, value: Any, place: str) -> Any:
        """Describe what is known by a name: functions, types, objects."""
        kind = registry.type_name(value)
        if kind is not None:
            return {"t": "type", "v": kind}
        function = registry.function_name(value)
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
            raise CannotSave(f"{place} refers to an object that contains it")
        name = registry.name_of(type(value))
        if name is None:
            name = self._foreign_name(value, place)
        else:
            check_object(value)  # rejects what could not be loaded again
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
                f"{place} is {getattr(value, '__qualname__', value)!r}: a model file "
                "contains no code, so functions, lambdas and classes cannot be saved, "
                "except for the kernels of bagwise"
            )
        if not isinstance(value, BaseEstimator):
            raise CannotSave(f"{place} is a {cls.__module__}.{cls.__qualname__}")
        if cls.__module__.split(".")[0] in ("bagwise", "sklearn", "sksurv"):
            raise CannotSave(
                f"{place} is a {cls.__module__}.{cls.__qualname__}, which is not among "
                "the classes that model files may contain"
            )
        if "<locals>" in cls.__qualname__:
            raise CannotSave(
                f"{place} is a {cls.__qualname__}; define the class at the top of a "
                "module"
            )
        name = f"{cls.__module__}:{cls.__qualname__}"
        self.foreign.add(name)
        return name


class Decoder:
    """Builds what a description says, out of registered classes only."""

    def __init__(
        self, read: Callable[[int], npt.NDArray[Any]], trusted: Mapping[str, type]
    ) -> None:
        self.read = read
        self.trusted = trusted
        self.objects: list[Any] = []
        self._arrays: dict[int, Any] = {}
        self._nodes = 0

    def decode(self, node: Any, depth: int = 0) -> Any:
        """Return the value of one node of the description."""
        self._nodes += 1
        if depth > MOST_DEPTH or self._nodes > MOST_NODES:
            raise DamagedFile("its description is nested too deeply or too long")
        if node is None or type(node) in (bool, int, float, str):
            return node
        if type(node) is list:
            return [self.decode(v, depth + 1) for v in node]
        tag = node.get("t")
        build = _BUILDERS.get(tag) if isinstance(tag, str) else None
        if build is None:
            raise DamagedFile(f"there is nothing called {str(tag)[:40]!r}")
        return build(self, node, depth + 1)

    def _list(self, node: Any, depth: int, key: str = "v") -> list[Any]:
        if type(node.get(key)) is not list:
            raise DamagedFile(f"{node['t']} has no list of values")
        return [self.decode(v, depth) for v in node[key]]

    def _big_int(self, node: Any, depth: int) -> int:
        text = node.get("v")
        if not isinstance(text, str) or len(text) > 100:
            raise DamagedFile("a whole number is too long")
        return int(text)

    def _float(self, node: Any, depth: int) -> float:
        if node.get("v") not in ("nan", "inf", "-inf"):
            raise DamagedFile("a number is malformed")
        return float(node["v"])

    def _tuple(self, node: Any, depth: int) -> tuple[Any, ...]:
        return tuple(self._list(node, depth))

    def _set(self, node: Any, depth: int) -> Any:
        values = [self._key(v) for v in self._list(node, depth)]
        return set(values) if node["t"] == "set" else frozenset(values)

    def _dict(self, node: Any, depth: int) -> Any:
        found = {}
        for pair in self._list_of_pairs(node):
            key = self._key(self.decode(pair[0], depth))
            found[key] = self.decode(pair[1], depth)
        return Bunch(**found) if node["t"] == "bunch" else found

    def _list_of_pairs(self, node: Any) -> list[Any]:
        pairs = node.get("v")
        sound = type(pairs) is list and all(
            type(p) is list and len(p) == 2 for p in pairs
        )
        if not sound:
            raise DamagedFile("a dictionary is not a list of pairs")
        if node["t"] == "bunch" and not all(isinstance(p[0], str) for p in pairs):
            raise DamagedFile("the keys of a bunch are not text")
        return pairs

    def _key(self, value: Any) -> Any:
        """Let plain keys pass: looking one up runs no code of an object."""
        inside = value if type(value) in (tuple, frozenset) else (value,)
        if not all(isinstance(v, _KEYS) for v in inside):
            raise DamagedFile(f"a key is a {type(value).__name__}")
        return value

    def _slice(self, node: Any, depth: int) -> slice:
        parts = self._list(node, depth)
        if len(parts) != 3 or not all(p is None or type(p) is int for p in parts):
            raise DamagedFile("a slice is not made of whole numbers")
        return slice(*parts)

    def _array(self, node: Any, depth: int) -> Any:
        array = self._record(node.get("v"))
        if array.dtype.names:
            raise DamagedFile("an array of records was found instead of numbers")
        return array

    def _record(self, number: Any) -> Any:
        if type(number) is not int:
            raise DamagedFile(f"there is no array {str(number)[:40]!r}")
        if number not in self._arrays:
            self._arrays[number] = self.read(number)
        return self._arrays[number]

    def _scalar(self, node: Any, depth: int) -> Any:
        array = self._array(node, depth)
        if array.shape != ():
            raise DamagedFile("a number is an array")
        return array[()]

    def _objects(self, node: Any, depth: int) -> Any:
        values = self._list(node, depth)
        shape = tuple(node.get("shape", ()))
        sizes = all(type(s) is int and s >= 0 for s in shape)
        if not sizes or len(shape) > 4 or np.prod(shape, dtype=object) != len(values):
            raise DamagedFile("an array of objects does not have the shape it declares")
        array = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            array[i] = value
        return array.reshape(shape)

    def _masked(self, node: Any, depth: int) -> Any:
        data = self.decode(node.get("data"), depth)
        mask = self.decode(node.get("mask"), depth)
        if not all(isinstance(a, np.ndarray) for a in (data, mask)):
            raise DamagedFile("a masked array is incomplete")
        if data.shape != mask.shape or mask.dtype != bool:
            raise DamagedFile("a mask does not fit its array")
        return np.ma.MaskedArray(data, mask)

    def _dtype(self, node: Any, depth: int) -> Any:
        text = node.get("v")
        if not isinstance(text, str) or len(text) > 12:
            raise DamagedFile("a data type is malformed")
        dtype = np.dtype(text)
        if dtype.kind not in "biufcSUOMm" or dtype.names or dtype.subdtype:
            raise DamagedFile("a data type is not a plain one")
        return dtype

    def _sparse(self, node: Any, depth: int) -> Any:
        parts = [self.decode(node.get(p), depth) for p in ("data", "indices", "indptr")]
        shape = node.get("shape")
        plain = all(isinstance(a, np.ndarray) and a.ndim == 1 for a in parts)
        sizes = type(shape) is list and len(shape) == 2
        if not plain or not sizes or not all(type(s) is int and s >= 0 for s in shape):
            raise DamagedFile("a sparse matrix is incomplete")
        data, indices, indptr = parts
        rows, columns = shape if node["t"].startswith("csr") else shape[::-1]
        whole = indices.dtype.kind == indptr.dtype.kind == "i"
        if not whole or data.dtype.kind not in "biuf" or len(indptr) != rows + 1:
            raise DamagedFile("the parts of a sparse matrix do not fit together")
        grows = indptr[0] == 0 and (np.diff(indptr) >= 0).all()
        inside = len(indices) == 0 or (indices.min() >= 0 and indices.max() < columns)
        if not grows or not inside or not indptr[-1] == len(indices) == len(data):
            raise DamagedFile("a sparse matrix has an index out of range")
        return _SPARSE[node["t"]]((data, indices, indptr), shape=tuple(shape))

    def _rng(self, node: Any, depth: int) -> Any:
        key, state = self.decode(node.get("key"), depth), self._list(node, depth)
        sound = isinstance(key, np.ndarray) and key.shape == (624,)
        if not sound or key.dtype != np.uint32 or len(state) != 3:
            raise DamagedFile("the state of a random generator is invalid")
        place, has_gauss, gauss = state
        if type(place) is not int or not 0 <= place <= 624:
            raise DamagedFile("the state of a random generator is invalid")
        rng = np.random.RandomState(0)
        rng.set_state(("MT19937", key, place, int(bool(has_gauss)), float(gauss)))
        return rng

    def _type(self, node: Any, depth: int) -> Any:
        found = registry.find_type(node.get("v"))
        if found is None:
            raise UntrustedType(node.get("v"))
        return found

    def _function(self, node: Any, depth: int) -> Any:
        found = registry.find_function(node.get("v"))
        if found is None:
            raise UntrustedType(node.get("v"))
        return found

    def _special(self, node: Any, depth: int) -> Any:
        """Build what scikit-learn keeps in compiled classes, out of checked parts."""
        parts = {}
        for name, part in node.items():
            if name == "t":
                continue
            if isinstance(part, dict) and part.get("t") == "array":
                parts[name] = self._record(part.get("v"))
            else:
                parts[name] = self.decode(part, depth)
        return _sklearn.rebuild(node["t"], parts)

    def _ref(self, node: Any, depth: int) -> Any:
        number = node.get("v")
        if type(number) is not int or not 0 <= number < len(self.objects):
            raise DamagedFile("an object refers to a missing object")
        return self.objects[number]

    def _object(self, node: Any, depth: int) -> Any:
        cls = registry.find_class(node.get("c"), self.trusted)
        if cls is None:
            raise UntrustedType(node.get("c"))
        registry.require_libraries(cls)
        state = node.get("v")
        if type(state) is not dict:
            raise DamagedFile("an object has no state")
        values = {}
        for name, part in state.items():
            if not name.isidentifier() or name.startswith("__"):
                raise DamagedFile(f"an attribute is called {name[:40]!r}")
            records = node["c"].endswith(":TreePredictor") and name == "nodes"
            if records and isinstance(part, dict) and part.get("t") == "array":
                values[name] = self._record(part.get("v"))
            else:
                values[name] = self.decode(part, depth)
        if not _sklearn.is_number_or_none(values.get("memory")):
            raise DamagedFile(
                "a model names a folder for joblib's cache (memory), which contains "
                "pickles: such a folder is not accepted from a file"
            )
        # (neither the constructor nor any hook of the class runs)
        found: Any = object.__new__(cls)
        if issubclass(cls, Segmented):  # bags cannot change
            values = {
                name: read_only(part) if isinstance(part, np.ndarray) else part
                for name, part in values.items()
            }
        found.__dict__.update(values)
        _sklearn.finish(found)
        check_object(found)
        self.objects.append(found)
        return found


_BUILDERS = {
    "int": Decoder._big_int,
    "float": Decoder._float,
    "tuple": Decoder._tuple,
    "set": Decoder._set,
    "frozenset": Decoder._set,
    "dict": Decoder._dict,
    "bunch": Decoder._dict,
    "slice": Decoder._slice,
    "array": Decoder._array,
    "scalar": Decoder._scalar,
    "objects": Decoder._objects,
    "masked": Decoder._masked,
    "dtype": Decoder._dtype,
    "rng": Decoder._rng,
    "type": Decoder._type,
    "function": Decoder._function,
    "ref": Decoder._ref,
    "object": Decoder._object,
    **dict.fromkeys(_SPARSE, Decoder._sparse),
    **dict.fromkeys(_sklearn.TAGS, Decoder._special),
}
