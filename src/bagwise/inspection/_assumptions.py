"""What methods were measured to assume, in one line each.

The figures are those of `bagwise.testing.mil_assumptions`, written next to this file by
``studies/scripts/assumptions.py``. Catalogue, report and guide take their line from
here.
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
_SHORT = {"poisoned negatives": "poison", "frequency": "frequency"}
_FIRST = ("method", "respects", "label", "draws")
_START = "respects the standard assumption: "


@dataclass(frozen=True)
class MeasuredAssumption:
    """What was measured of one method of the catalogue.

    Attributes
    ----------
    method : str
        Name in the catalogue.
    respects : bool or None
        Whether it respects the standard assumption; None when nothing was shown.
    label : str
        "standard", "generalised", "neither" or "cannot learn it".
    draws : int
        Draws of the data.
    auroc : dict of str to float
        Mean area of each test.
    worst : dict of str to float
        Area of the worst draw, of the tests that count for the standard assumption.
    falls : float
        Share of positive bags whose score falls when a background instance joins.
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
        """The one line."""
        figures = ", ".join(f"{_SHORT[t]} {area:.2f}" for t, area in self.worst.items())
        draws = f"worst of {self.draws} draws"
        if self.respects is None:
            presence = self.auroc["presence"]
            return f"{_START}not shown, presence not learned ({presence:.2f})"
        said = "yes" if self.respects else "no"
        return f"{_START}{said}, measured ({draws}: {figures})"


@cache
def measured_assumptions() -> dict[str, MeasuredAssumption]:
    """Return what was measured, by the names of the catalogue.

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
                {name: float(row[f"worst {name}"]) for name in _SHORT},
                float(row["falls"]),
            )
    return found


def assumption_line(method: Any) -> str:
    """Say in one line whether a method respects the standard assumption.

    Parameters
    ----------
    method : str or estimator
        A name of the catalogue, or an estimator, whose tag is read.

    Returns
    -------
    str
        For a name, with the measured figures. For an estimator, what it promises.

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
    promised = getattr(tags, "respects_standard_assumption", None)
    if promised is None:
        return f"{_START}not measured"
    return f"{_START}{'yes' if promised else 'no'}, measured"
