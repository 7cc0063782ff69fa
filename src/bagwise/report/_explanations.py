"""What methods assume, and whether their instance scores can be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import t as student

from bagwise.report._view import View
from bagwise.report.numbers import figure

__all__ = ["explanation_table"]

CONFIDENCE = 0.95
_TONES = {"faithful": "good", "misleading": "bad"}


def explanation_table(view: View) -> list[dict[str, str]]:
    """Return one row for each finished method.

    "assumption" is the measured line, "verdict", "gap" and "interval" tell whether the
    instance scores of test bags are faithful, "key" is the key-instance success.
    """
    ranked = {row.method: row for row in view.comparison.ranking}
    methods = {method.name: method for method in view.comparison.methods}
    rows = []
    for name in view.finished:
        said = methods[name].assumption.partition(": ")[2]
        row = {"method": name, "assumption": said, "verdict": "", "tone": ""}
        row |= {"gap": "", "interval": "", "key": figure(ranked[name].key_success)}
        gaps = _gaps(view, name)
        if len(gaps) > 1:
            row |= _told(gaps)
        rows.append(row)
    return rows


def _gaps(view: View, method: str) -> Any:
    arrays = view.comparison.arrays
    found = [
        arrays[row["key"]]["faithfulness"]
        for row in view.comparison.runs(method)
        if "faithfulness" in arrays[row["key"]]
    ]
    return np.concatenate(found) if found else np.empty(0)


def _told(gaps: Any) -> dict[str, str]:
    mean, error = float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))
    half = float(student.ppf(0.5 + CONFIDENCE / 2, len(gaps) - 1)) * error
    verdict = "not told from random order"
    if mean - half > 0:
        verdict = "faithful"
    elif mean + half < 0:
        verdict = "misleading"
    return {
        "verdict": verdict,
        "tone": _TONES.get(verdict, "dim"),
        "gap": f"{mean:.2f}",
        "interval": f"{mean - half:.2f} to {mean + half:.2f}",
    }
