"""Which of two labels is the positive one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.io._errors import TableError

__all__ = ["positive_or_not", "same_label"]


def same_label(pos_label: Any, classes: npt.NDArray[Any]) -> Any:
    """Return the class that was written as text, where it is a number."""
    if not isinstance(pos_label, str) or pos_label in classes.astype(object).tolist():
        return pos_label
    same = [label for label in classes.tolist() if str(label) == pos_label]
    return same[0] if same else pos_label


def positive_or_not(y: Any, pos_label: Any, source: str = "") -> npt.NDArray[np.int64]:
    """Return 1 for bags with the positive one of two labels, 0 for the other bags."""
    place = f"{source}: " if source else ""
    if y is None:
        raise TableError(
            f"{place}pos_label={pos_label!r} is given, but no label",
            "Give {0}.",
            ("label", ...),
        )
    y = np.asarray(y)
    classes = np.unique(y)
    shown = ", ".join(repr(label) for label in classes.tolist()[:6])
    more = ", ..." if len(classes) > 6 else ""
    if y.ndim != 1 or len(classes) > 2:
        raise TableError(
            f"{place}pos_label={pos_label!r} names one of two labels, but there are "
            f"{len(classes)}, {shown}{more}"
        )
    label = same_label(pos_label, classes)
    if label not in classes.tolist():
        raise TableError(
            f"{place}pos_label={pos_label!r} is not among the labels {shown}"
        )
    return (y == label).astype(np.int64)
