"""Small steps shared by the generators and the digit bags."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.bags import Bags, Ragged

IntRange = int | tuple[int, int]


def check_range(value: Any, name: str, *, least: int = 1) -> tuple[int, int]:
    """Return `value` (an int or a pair) as a pair of ints, both ends included."""
    pair = (value, value) if isinstance(value, Integral) else tuple(value)
    if len(pair) != 2 or not all(isinstance(v, Integral) for v in pair):
        raise ValueError(
            f"{name} must be an int or a pair of ints (smallest, largest), got "
            f"{value!r}."
        )
    low, high = int(pair[0]), int(pair[1])
    if low < least or high < low:
        raise ValueError(
            f"{name} must satisfy {least} <= smallest <= largest, got {value!r}."
        )
    return low, high


def check_count(value: Any, name: str, *, least: int = 1) -> int:
    """Return `value` as an int that is at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, got {value!r}.")
    return int(value)


def balanced_labels(
    n_bags: int, n_classes: int, rng: np.random.RandomState
) -> npt.NDArray[np.int64]:
    """Return labels 0..n_classes-1, as balanced as possible, in random order."""
    return rng.permutation(np.arange(n_bags, dtype=np.int64) % n_classes)


def random_sizes(
    n_bags: int, bag_size: tuple[int, int], rng: np.random.RandomState
) -> npt.NDArray[np.int64]:
    """Return one bag size per bag, uniform on the range."""
    low, high = bag_size
    return rng.randint(low, high + 1, size=n_bags).astype(np.int64)


def offsets_of(sizes: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the offsets of bags of these sizes."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def finish(
    bags: Sequence[npt.NDArray[Any]],
    y: npt.NDArray[Any],
    instance_labels: Sequence[npt.ArrayLike],
    return_instance_labels: bool,
) -> tuple[Any, ...]:
    """Stack the bags and return (X, y) or (X, y, instance labels)."""
    X = Bags.from_list(list(bags))
    if not return_instance_labels:
        return X, y
    z = np.concatenate([np.asarray(v) for v in instance_labels])
    return X, y, Ragged(z, X.offsets)
