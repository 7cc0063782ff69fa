"""What a model file says of the training of its model, besides the model.

A `ModelRecord` holds plain values and a few arrays: cross-validated figures, held-out
predictions of training bags, statistics of the training bags, versions. `compare` and
`fit` make it and attach it to the model as `training_record_`; `save` and `load` keep
it. Operating points, prediction sets, the shift check and the model card need nothing
else of the training data. Names of bags and features of single instances are not kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.io._schema import DamagedFile

__all__ = ["ATTRIBUTE", "ModelRecord", "record_of", "require_record"]

ATTRIBUTE = "training_record_"
MOST_VALUES = 20_000_000  # in all arrays together
MOST_NODES = 200_000  # nodes of the plain values
MOST_TEXT = 100_000
MOST_DEPTH = 8
# Arrays by part: kinds of entries and numbers of axes. Arrays of one part have the same
# length, except the columns of the reference.
HELD_OUT = {
    "truth": ("iuf", (1, 2)),
    "event": ("b", (1,)),
    "label": ("iuf", (1, 2)),
    "score": ("f", (1, 2)),
    "probability": ("f", (1, 2)),
    "prediction": ("f", (1,)),
    "group": ("iu", (1,)),
}
REFERENCE = {
    "summaries": ("f", (2,)),
    "group": ("iu", (1,)),
    "sizes": ("iu", (1,)),
    "low": ("f", (1,)),
    "high": ("f", (1,)),
}


@dataclass(frozen=True)
class ModelRecord:
    """What is known of the training of a model.

    Parameters
    ----------
    about : dict
        Plain values: method, data, protocol, classes, figures, versions.
    held_out : dict of str to ndarray
        Predictions for training bags by models that were not fitted to them, with the
        truth (times and events in survival analysis) and the number of the group.
        Towards the positive class of two; classes are numbers of ``model.classes_``,
        or 1 for the positive one of two.
    reference : dict of str to ndarray
        Statistics of a sample of the training bags, see `bagwise.inspection.shift`.
    """

    about: dict[str, Any] = field(default_factory=dict)
    held_out: dict[str, NDArray[Any]] = field(default_factory=dict)
    reference: dict[str, NDArray[Any]] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        """Return the parts as a dict, for a model file."""
        return {
            "about": self.about,
            "held_out": self.held_out,
            "reference": self.reference,
        }

    @classmethod
    def from_state(cls, state: Any) -> ModelRecord:
        """Check what a file says and return the record.

        Parameters
        ----------
        state : object
            What was read.
        """
        if type(state) is not dict or set(state) != {"about", "held_out", "reference"}:
            raise DamagedFile("its training record is incomplete")
        record = cls(**state)
        if type(record.about) is not dict or _count(record.about, 0) > MOST_NODES:
            raise DamagedFile("its training record contains values that are not plain")
        held = _checked(record.held_out, HELD_OUT)
        if len({len(array) for array in held.values()}) > 1:
            raise DamagedFile("held-out predictions are of different lengths")
        found = _checked(record.reference, REFERENCE)
        rows = {len(found[n]) for n in ("summaries", "group", "sizes") if n in found}
        columns = {len(found[n]) for n in ("low", "high") if n in found}
        if len(rows) > 1 or len(columns) > 1:
            raise DamagedFile("statistics of training bags are of different lengths")
        if sum(a.size for a in (*held.values(), *found.values())) > MOST_VALUES:
            raise DamagedFile("its training record is too large")
        return record


def _count(value: Any, depth: int) -> int:
    """Return the number of plain values inside a value; refuse all others."""
    if depth > MOST_DEPTH:
        raise DamagedFile("its training record is nested too deeply")
    if value is None or type(value) in (bool, int):
        return 1
    if type(value) is float:
        if math.isfinite(value):
            return 1
        raise DamagedFile("its training record contains a number that is not finite")
    if type(value) is str:
        if len(value) <= MOST_TEXT:
            return 1
        raise DamagedFile("its training record contains a text that is too long")
    if type(value) is list:
        return 1 + sum(_count(one, depth + 1) for one in value)
    if type(value) is dict and all(type(key) is str for key in value):
        return 1 + sum(1 + _count(one, depth + 1) for one in value.values())
    raise DamagedFile(f"its training record contains a {type(value).__name__}")


def _checked(
    part: Any, known: Mapping[str, tuple[str, tuple[int, ...]]]
) -> dict[str, NDArray[Any]]:
    if type(part) is not dict or not set(part) <= set(known):
        raise DamagedFile("its training record contains arrays with unknown names")
    for name, array in part.items():
        kinds, axes = known[name]
        sound = type(array) is np.ndarray and array.dtype.kind in kinds
        if not sound or array.ndim not in axes or not len(array):
            raise DamagedFile(
                f"{name} of its training record has the wrong shape or type"
            )
        if array.dtype.kind == "f" and np.isinf(array).any():
            raise DamagedFile(f"{name} of its training record is not finite")
    return dict(part)


def plain(value: Any) -> Any:
    """Return nested values as plain ones; what is not finite becomes None.

    Parameters
    ----------
    value : object
        Values, lists and dicts of them; other objects become their text.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def record_of(model: Any) -> ModelRecord | None:
    """Return the training record of a model; None where it has none."""
    found = getattr(model, "__dict__", {}).get(ATTRIBUTE)
    return found if isinstance(found, ModelRecord) else None


def require_record(model: Any, what: str, part: str = "") -> ModelRecord:
    """Return the training record of a model, or say where models get one.

    Parameters
    ----------
    model : estimator
        A fitted model.
    what : str
        What needs it.
    part : {"", "held_out", "reference"}
        The arrays that are needed.
    """
    record = record_of(model)
    if record is None:
        raise ValueError(
            f"{what} needs the training record of the model, and this model has none:"
            " models of `bagwise compare` and `bagwise fit` (bagwise.compare and"
            " Comparison.fit_best in Python) have one"
        )
    if part and not getattr(record, part):
        hint = "compare methods, or fit with --conformal 0.1"
        raise ValueError(
            f"{what} needs predictions for held-out training bags, which the model"
            f" does not have: {hint}"
            if part == "held_out"
            else f"{what} needs statistics of the training bags, which the model"
            " does not have"
        )
    return record
