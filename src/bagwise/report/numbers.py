"""Numbers and axes as people read them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["figure", "memory", "p_value", "plain", "round_axis", "seconds"]


def figure(value: float | None) -> str:
    """Write a figure between 0 and 1 with three decimals; empty where there is none."""
    return f"{value:.3f}" if value is not None and math.isfinite(value) else ""


def p_value(value: float) -> str:
    """Write a p value; empty where there is none."""
    if not math.isfinite(value):
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def seconds(value: float) -> str:
    """Write a time with three digits and its unit."""
    if not math.isfinite(value):
        return ""
    if value < 0.9995:
        return f"{1000 * value:.3g} ms" if value >= 0.001 else "< 1 ms"
    return f"{value:.3g} s" if value < 90 else f"{value / 60:.1f} min"


def memory(value: float) -> str:
    """Write a number of bytes with its unit."""
    if not math.isfinite(value):
        return ""
    if value < 1e6:
        return "< 1 MB"
    return f"{value / 1e6:.0f} MB" if value < 1e9 else f"{value / 1e9:.1f} GB"


def plain(value: Any, digits: int = 4) -> float | None:
    """Return a rounded number for JSON, None for what is none."""
    number = float(value)
    return round(number, digits) if math.isfinite(number) else None


def round_axis(
    low: float, high: float, *, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> dict[str, Any]:
    """Return an axis with round ends that holds both values.

    An axis always has a length, also when all values are the same, and never leaves
    `bounds`.

    Examples
    --------
    >>> axis = round_axis(1.0, 1.0, bounds=(0.0, 1.0))
    >>> axis["low"], axis["high"], [tick["text"] for tick in axis["ticks"]]
    (0.98, 1.0, ['0.98', '0.985', '0.99', '0.995', '1'])
    """
    least = 0.02 if bounds[1] == 1.0 else max(0.02 * abs(high), 1e-12)
    if high - low < least:
        low = max(bounds[0], high - least)
        high = min(bounds[1], low + least)
    span = high - low
    power = 10.0 ** math.floor(math.log10(span / 5.5))
    step = next(f * power for f in (1, 2, 5, 10) if span / (f * power) <= 5.5)
    first, last = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
    low, high = first * step, last * step
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return {
        "low": low,
        "high": high,
        "ticks": [
            {
                "at": round(100 * (k - first) / (last - first), 2),
                "text": _tick(k * step, digits),
            }
            for k in range(first, last + 1)
        ],
    }


def _tick(value: float, digits: int) -> str:
    if value and (abs(value) >= 1e5 or digits > 4):
        return f"{value:.3g}"
    text = f"{value:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def place(value: float, axis: dict[str, Any]) -> float | None:
    """Return where a value stands on an axis, in percent; None for no value."""
    if not math.isfinite(value):
        return None
    share = 100 * (value - axis["low"]) / (axis["high"] - axis["low"])
    return round(float(np.clip(share, 0.0, 100.0)), 2)
