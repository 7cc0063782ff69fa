"""What instances are called."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["as_drawn", "for_class", "instance_name", "shorten"]


def instance_name(X: Any, row: int) -> str:
    """Return the id of an instance, or a hash and its place in its bag.

    Parameters
    ----------
    X : Bags
        The bags.
    row : int
        Row of ``X.data``.
    """
    if X.instance_ids is not None:
        return str(X.instance_ids[row])
    place = row - int(X.offsets[np.searchsorted(X.offsets, row, side="right") - 1])
    return f"#{place}"


def shorten(name: str, length: int = 24) -> str:
    """Cut a name that would not fit."""
    return name if len(name) <= length else name[: length - 1] + "…"


def as_drawn(name: Any, length: int | None = None) -> str:
    """Return a name for a picture: on one line, with dollars that are no formula.

    matplotlib reads what stands between two dollars as a formula, and fails where it
    is none.

    Parameters
    ----------
    name : object
        What a user called a bag, an instance, a feature, a class or a method.
    length : int, default=None
        Most letters.
    """
    text = " ".join(str(name).split())
    return (text if length is None else shorten(text, length)).replace("$", r"\$")


def for_class(label: Any) -> str:
    """Say in a picture which class a score speaks for; nothing where it is a value."""
    return "" if label is None else f" for {as_drawn(label, 24)}"
