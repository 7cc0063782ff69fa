"""What methods assume, and whether their instance scores can be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.inspection.importance import gap_verdict, mean_interval
from bagwise.report._view import View
from bagwise.report.numbers import figure

__all__ = ["explanation_table"]

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
    found = mean_interval(gaps)
    verdict = gap_verdict(found)
    mean, low, high = found
    return {
        "verdict": verdict,
        "tone": _TONES.get(verdict, "dim"),
        "gap": f"{mean:.2f}",
        "interval": f"{low:.2f} to {high:.2f}",
    }
