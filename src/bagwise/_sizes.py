"""Sizes of memory as people write them, and how much of it an array may take."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
# Compression shrinks numbers to about a third, zeros to a thousandth.
_LARGE, _MOST_PACKED = 2**30, 200
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([KMGT]?)(I?)B?\s*")


def parse_size(text: str | int | float) -> int:
    """Return a size in bytes: a number, or text such as ``"4GB"``.

    Parameters
    ----------
    text : int, float or str
        Bytes, or a number and a unit: KB, MB, GB, TB (powers of 1000) or KiB and its
        siblings (powers of 1024); the B may be missing.

    Returns
    -------
    int
        Bytes.

    Examples
    --------
    >>> parse_size("1.5 GB"), parse_size("2MiB")
    (1500000000, 2097152)
    """
    if isinstance(text, int | float):
        return int(text)
    match = _SIZE.fullmatch(text.upper())
    if not match or (match[3] and not match[2]):
        raise ValueError(f"{text!r} is not a size; write it like 500MB or 4GB")
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** _UNITS[match[2]])


def memory_budget() -> float:
    """Return the bytes one array may take: BAGWISE_MEMORY, else half of the memory."""
    text = os.environ.get("BAGWISE_MEMORY")
    if not text:
        return 0.5 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return float(parse_size(text))
    except ValueError as error:
        raise ValueError(f"the environment variable BAGWISE_MEMORY: {error}") from None


def check_memory(n_bytes: float, what: str, hint: str) -> None:
    """Raise before an allocation that would exceed the memory budget."""
    budget = memory_budget()
    if n_bytes > budget:
        raise ValueError(
            f"{what} would take {_said(n_bytes)}, more than the budget of "
            f"{_said(budget)}. {hint} (The environment variable BAGWISE_MEMORY "
            "sets the budget.)"
        )


def check_disk(n_bytes: float, folder: Path, what: str, hint: str) -> None:
    """Raise before a file is written that would not fit on the disk."""
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise ValueError(
            f"{what} would take {_said(n_bytes)}, more than the {_said(free)} that are "
            f"free in {folder}. {hint}"
        )


def check_unpacked(n_bytes: int, packed: int) -> None:
    """Refuse a file that would fill the memory out of next to nothing.

    Parameters
    ----------
    n_bytes : int
        What the file says that it holds.
    packed : int
        The bytes that it takes on disk.
    """
    if n_bytes > _LARGE and n_bytes > _MOST_PACKED * packed:
        raise ValueError(
            f"{packed:,} bytes on disk declare {n_bytes:,} bytes of data, a higher "
            "compression than real data reach. If this is intended, save the data "
            "again without compression"
        )


def _said(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.3g} MB"
