"""The result of `evaluate`, and its comparison with cross-validation."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.inference import Interval
from bagwise.io.record import plain

__all__ = ["LABELS", "Evaluation", "compare_with_expected", "read_evaluation"]

# Metrics of predicted labels, which depend on the threshold.
LABELS = ("accuracy", "balanced_accuracy", "group_accuracy")


@dataclass(frozen=True)
class Evaluation:
    """How good a fixed model is on new bags; made by :func:`bagwise.evaluate`.

    Attributes
    ----------
    data, task : str
        Name of the data, and kind of the target.
    n_bags, n_groups : int, int or None
        What was predicted.
    figures : list of dict
        One entry per metric: `name`, `title`, `mean` with its 95% interval `low` to
        `high`, and where the model has a training record `expected` (the
        cross-validated figure, for the selected method corrected for its selection),
        `difference` (observed minus expected, with interval) and `text`.
    operating : dict or None
        Two classes: the threshold, how it was fixed, sensitivity, specificity,
        predictive values with intervals, and counts.
    calibration : dict or None
        Bins, and slope and intercept with intervals.
    decision : dict or None
        Net benefit over thresholds, see `bagwise.comparison.clinical`.
    curve : dict or None
        The ROC curve of two classes; predicted and true values in regression.
    confusion : list of list of int or None
        Bags by true (row) and predicted class (column).
    classes : list of str
        The classes; the positive one is `positive`.
    subgroups : list of dict
        The main figures for every level of the columns in `by`.
    risks : dict or None
        Survival: Kaplan-Meier curves of groups of predicted risk, numbers at risk and
        the log-rank test.
    against : dict or None
        The paired comparison with another model.
    about : dict
        What the training record says of the model.
    notes : list of str
        What limits the figures.
    """

    data: str
    task: str
    n_bags: int
    n_groups: int | None
    figures: list[dict[str, Any]]
    operating: dict[str, Any] | None = None
    calibration: dict[str, Any] | None = None
    decision: dict[str, Any] | None = None
    curve: dict[str, Any] | None = None
    confusion: list[list[int]] | None = None
    classes: list[str] = field(default_factory=list)
    positive: str | None = None
    subgroups: list[dict[str, Any]] = field(default_factory=list)
    risks: dict[str, Any] | None = None
    against: dict[str, Any] | None = None
    about: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def figure(self, name: str) -> dict[str, Any]:
        """Return one of the figures.

        Parameters
        ----------
        name : str
            A metric, such as "auroc".
        """
        for row in self.figures:
            if row["name"] == name:
                return row
        known = ", ".join(row["name"] for row in self.figures)
        raise KeyError(f"{name!r} is not among the figures: {known}")

    def summary(self) -> str:
        """Return the main figure, and how it compares with what was expected."""
        if not self.figures:
            return "No figure is defined for these bags."
        main = self.about.get("metric")
        names = [row["name"] for row in self.figures]
        row = self.figures[names.index(main) if main in names else 0]
        show = METRICS[row["name"]].show
        text = f"{row['title']} {show(row['mean'])}"
        if np.isfinite(row["low"]):
            text += f" [{show(row['low'])}, {show(row['high'])}]"
        units = "one bag" if self.n_bags == 1 else f"{self.n_bags} bags"
        if self.n_groups is not None:
            units += f" of {self.n_groups} group{'s' if self.n_groups > 1 else ''}"
        text += f" on {units}"
        return f"{text}: {row['text']}." if row.get("text") else f"{text}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, None for what is undefined."""
        return {**plain(asdict(self)), "text": self.summary()}

    def to_frame(self) -> Any:
        """Return the figures as a pandas data frame."""
        import pandas

        names = ("name", "mean", "low", "high", "text")
        rows = [{name: row.get(name) for name in names} for row in self.figures]
        return pandas.DataFrame(rows).set_index("name")


def read_evaluation(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `Evaluation.to_dict` wrote as JSON.

    Parameters
    ----------
    path : path
        The file.
    """
    damaged = ValueError(f"{path} is not an evaluation.json of bagwise evaluate")
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise damaged from None
    kinds = {"data": str, "text": str, "notes": list, "figures": list, "n_bags": int}
    if not isinstance(found, dict) or any(
        not isinstance(found.get(name), kind) for name, kind in kinds.items()
    ):
        raise damaged
    rows = [*found["figures"], *(found.get("subgroups") or [])]
    if any(not isinstance(row, dict) for row in rows) or any(
        not isinstance(row.get("name"), str) for row in found["figures"]
    ):
        raise damaged
    if any(not {"by", "level", "n_bags"} <= {*row} for row in found["subgroups"] or []):
        raise damaged
    return found


def compare_with_expected(
    figures: list[dict[str, Any]], about: dict[str, Any], *, skip_labels: bool
) -> None:
    """Add what cross-validation let expect, and the difference from it.

    The difference of two independent figures has the interval of Zou and Donner (2008),
    which is made of the intervals of both.
    """
    known = {row.get("name"): row for row in about.get("figures") or []}
    for row in figures:
        if row["name"] not in known or (skip_labels and row["name"] in LABELS):
            continue
        expected = known[row["name"]].get("corrected") or known[row["name"]]
        one = Interval(row["mean"], row["low"], row["high"])
        ends = [expected.get(key) for key in ("mean", "low", "high")]
        if any(not isinstance(end, int | float) for end in ends):
            continue
        two = Interval(*(float(end) for end in ends))
        difference = _difference(one, two)
        row["expected"], row["difference"] = asdict(two), asdict(difference)
        row["text"] = _in_words(row["name"], difference)


def _difference(one: Interval, two: Interval) -> Interval:
    mean = one.mean - two.mean
    down = np.hypot(one.mean - one.low, two.high - two.mean)
    up = np.hypot(one.high - one.mean, two.mean - two.low)
    return Interval(mean, float(mean - down), float(mean + up))


def _in_words(name: str, difference: Interval) -> str:
    """Describe in points how a figure differs from the expected one."""
    metric = METRICS[name]
    points = metric.high == 1.0 and name != "r2"
    scale, unit = (100.0, " points") if points else (1.0, "")
    low, mean, high = (
        scale * v for v in (difference.low, difference.mean, difference.high)
    )
    if not np.isfinite(low + high):
        return ""

    def show(value: float) -> str:
        return f"{value:.1f}" if points else f"{value:.3g}"

    if low > 0 or high < 0:
        word = "higher" if mean > 0 else "lower"
        first, last = sorted((abs(low), abs(high)))
        size = f"{show(abs(mean))}{unit} [{show(first)}, {show(last)}]"
        return f"{word} than expected from cross-validation by {size}"
    sign = "+" if mean > 0 else ""
    return (
        "not significantly different from the cross-validated figure"
        f" ({sign}{show(mean)}{unit} [{show(low)}, {show(high)}])"
    )
