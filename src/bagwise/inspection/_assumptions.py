"""Measured assumptions of the methods of the catalog, in one line each.

The results of `bagwise.testing.mil_assumptions` are in ``assumptions.csv``, which
``studies/scripts/assumptions.py`` writes. Catalog, report and guide show the lines.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sklearn.utils import get_tags

__all__ = ["MeasuredAssumption", "assumption_line", "measured_assumptions"]

_FILE = Path(__file__).with_name("assumptions.csv")
_STANDARD = ("distractors", "frequency")  # the tests of the standard assumption
_FIRST = ("method", "respects", "label", "draws")
_START = "respects the standard assumption: "


@dataclass(frozen=True)
class MeasuredAssumption:
    """Measured assumptions of one method of the catalog.

    Attributes
    ----------
    method : str
        Name in the catalog.
    respects : bool or None
        Whether it respects the standard assumption; None if the tests do not show it.
    label : str
        "standard", "generalized", "neither" or "cannot learn it".
    draws : int
        Number of simulated data sets.
    auroc : dict of str to float
        Mean AUROC of each test.
    worst : dict of str to float
        AUROC on the worst data set, for the tests of the standard assumption.
    falls : float
        Share of positive bags whose score decreases if a background instance is added.
    """

    method: str
    respects: bool | None
    label: str
    draws: int
    auroc: dict[str, float]
    worst: dict[str, float]
    falls: float

    @property
    def line(self) -> str:
        """Result in one line."""
        figures = ", ".join(f"{t} {area:.2f}" for t, area in self.worst.items())
        data = f"worst AUROC of {self.draws} data sets"
        if self.respects is None:
            presence = self.auroc["presence"]
            return f"{_START}not shown, presence not learned (AUROC {presence:.2f})"
        answer = "yes" if self.respects else "no"
        return f"{_START}{answer}, measured ({data}: {figures})"


@cache
def measured_assumptions() -> dict[str, MeasuredAssumption]:
    """Return the measured assumptions of all methods, by name in the catalog.

    Each has `respects` (True, False, or None if not shown), `label`, `auroc` and
    `worst` (mean and smallest AUROC by test), `falls` and `line`.

    Examples
    --------
    >>> from bagwise.inspection import measured_assumptions
    >>> measured_assumptions()["MI-SVM"].respects
    True
    """
    known = {"yes": True, "no": False, "not shown": None}
    found = {}
    with _FILE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            names = [n for n in row if n not in (*_FIRST, "falls")]
            found[row["method"]] = MeasuredAssumption(
                row["method"],
                known[row["respects"]],
                row["label"],
                int(row["draws"]),
                {n: float(row[n]) for n in names if not n.startswith("worst ")},
                {name: float(row[f"worst {name}"]) for name in _STANDARD},
                float(row["falls"]),
            )
    return found


def assumption_line(method: Any) -> str:
    """Return one line: whether a method respects the standard assumption.

    Parameters
    ----------
    method : str or estimator
        A name in the catalog, or an estimator, whose tag is read.

    Returns
    -------
    str
        For a name, with the measured AUROC. For an estimator, by its tag.

    Examples
    --------
    >>> from bagwise.inspection import assumption_line
    >>> from bagwise.svm import MISVM
    >>> assumption_line(MISVM())
    'respects the standard assumption: yes, measured'
    >>> assumption_line("a method of my own")
    'respects the standard assumption: not measured'
    """
    if isinstance(method, str):
        found = measured_assumptions().get(method)
        return f"{_START}not measured" if found is None else found.line
    tags = get_tags(method).input_tags
    respects = getattr(tags, "respects_standard_assumption", None)
    if respects is None:
        return f"{_START}not measured"
    return f"{_START}{'yes' if respects else 'no'}, measured"
