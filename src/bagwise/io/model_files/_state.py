"""Questions asked of one part of an object's state; a wrong answer is an error."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.io.model_files._archive import DamagedFile


def whole(value: Any, name: str, *, least: int = 0, most: int = 2**53) -> int:
    """Return a whole number between two bounds."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise DamagedFile(f"{name} is no whole number")
    if not least <= value <= most:
        raise DamagedFile(f"{name} is {value}")
    return int(value)


def array(part: Any, name: str, kinds: str, shape: tuple[int | None, ...]) -> Any:
    """Return an array whose shape is the given one; None stands for any length."""
    if not isinstance(part, np.ndarray) or part.dtype.kind not in kinds:
        raise DamagedFile(f"{name} is no array of the right kind")
    same = part.ndim == len(shape) and all(
        want is None or want == have
        for want, have in zip(shape, part.shape, strict=True)
    )
    if not same:
        raise DamagedFile(f"{name} has the shape {part.shape}")
    return part


def below(part: Any, limit: Any, name: str) -> None:
    """Refuse places that are negative or not below the limit."""
    if part.size and (part.min() < 0 or (part >= limit).any()):
        raise DamagedFile(f"{name} points outside")
