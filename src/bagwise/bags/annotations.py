"""Annotations of bags: names, groups and coordinates, and their validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.bags.segmented import read_only


def refuse_masked(values: Any, what: str) -> None:
    """Refuse masked entries: numpy would give back what stands under the mask."""
    hidden = np.ma.getmaskarray(values) if np.ma.isMaskedArray(values) else None
    if hidden is not None and hidden.any():
        place = np.argwhere(hidden)[0].tolist()
        raise ValueError(
            f"{what} is a masked array, and its masked values would be used (the first "
            f"at {place}). Fill them, or leave these bags out."
        )


def first_missing(values: npt.NDArray[Any]) -> int | None:
    """Return where the first None, NaN, NaT or pandas' NA stands, if there is one."""
    if values.dtype.kind in "biuSU":
        return None
    return next((i for i, v in enumerate(values.tolist()) if _is_missing(v)), None)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA is neither equal to itself nor not
        return True


def names(
    values: npt.ArrayLike | None, length: int, what: str, of: str
) -> npt.NDArray[Any] | None:
    """Return one name per bag or instance, checked for its length."""
    if values is None:
        return None
    refuse_masked(values, what)
    array = np.asarray(values)
    if array.ndim != 1 or array.shape[0] != length:
        raise ValueError(
            f"{what} must have one entry for each of the {length} {of}, got shape "
            f"{array.shape}."
        )
    return read_only(array)


def refuse_missing_group(groups: npt.NDArray[Any] | None) -> None:
    """Raise if a bag has no group while others have one."""
    bag = None if groups is None else first_missing(groups)
    if bag is not None:
        raise ValueError(
            f"the group of bag {bag} is missing. Give every bag a group; a bag that "
            "belongs to none is a group of its own."
        )


def places(
    coords: npt.ArrayLike | None, n_instances: int
) -> npt.NDArray[np.float64] | None:
    """Return checked coordinates, one row per instance."""
    if coords is None:
        return None
    refuse_masked(coords, "coords")
    array = np.asarray(coords)
    if array.ndim != 2 or array.shape[0] != n_instances:
        raise ValueError(
            f"coords must have one row for each of the {n_instances} instances, got "
            f"shape {array.shape}."
        )
    if array.dtype.kind not in "fiub":
        raise TypeError(f"coords must be real numbers, got dtype {array.dtype}.")
    array = array.astype(np.float64, copy=False)
    wrong = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if wrong.size:
        raise ValueError(f"coords of instance {wrong[0]} are not finite.")
    return read_only(array)


def part(values: npt.NDArray[Any] | None, which: Any) -> npt.NDArray[Any] | None:
    """Return the entries of some bags or instances."""
    return None if values is None else read_only(values[which])


def joined(parts: Sequence[Any], what: str) -> npt.NDArray[Any] | None:
    """Concatenate one annotation over parts, which must all have it or all lack it."""
    found = [getattr(part, what) for part in parts]
    without = [i for i, values in enumerate(found) if values is None]
    if not without:
        return np.concatenate(found)
    if len(without) < len(parts):
        raise ValueError(
            f"part {without[0]} has no {what}, others have: give them to all parts or "
            "to none."
        )
    return None
