"""Read the measured tables of ``studies/results``; one that is not there is empty."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import mean, median

from bagwise.inspection import measured_assumptions
from bagwise.testing._assumptions import TESTS

RESULTS = Path(__file__).parents[2] / "studies" / "results"


def _rows(path: str) -> list[dict[str, str]]:
    file = RESULTS / path
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _study(metric: str) -> list[dict[str, str]]:
    """Return the study of all methods; its tables of before where it is under way."""
    folder = "bag-classifier"
    return _rows(f"{folder}/{metric}.csv") or _rows(f"{folder}/earlier/{metric}.csv")


@cache
def ranks(metric: str = "auroc") -> dict[str, tuple[float, float]]:
    """Return mean rank and mean figure over the sets of the study, by method."""
    # The mean of the sets: a mean that was rounded once would be rounded twice.
    told = {"method", "mean_rank", "mean"}
    return {
        row["method"]: (
            float(row["mean_rank"]),
            mean(float(value) for name, value in row.items() if name not in told),
        )
        for row in _study(metric)
    }


@cache
def n_sets() -> int:
    """Return over how many sets the ranks are."""
    found = _study("auroc")
    return len(found[0]) - 3 if found else 0


@cache
def assumptions() -> dict:
    """Return what methods were measured to assume, by name."""
    found = measured_assumptions()
    values = found.values() if isinstance(found, dict) else found
    return {entry.method: entry for entry in values}


@cache
def key_success() -> dict[str, float]:
    """Return how often the top instance is a true one, on texts, by method."""
    rows = defaultdict(list)
    for row in _rows("key-instances/success.csv"):
        if not row["set"].startswith("keys"):
            rows[row["method"]].append(float(row["mean"]))
    return {name: mean(values) for name, values in rows.items()}


@cache
def seconds() -> dict[str, float]:
    """Return the seconds of one fit on the bags of the assumption tests, by method."""
    rows = defaultdict(list)
    for row in _rows("assumptions/figures.csv"):
        if row["seconds"] and not row["error"]:
            rows[row["method"]].append(float(row["seconds"]))
    # A fit and its predictions for each test; the sixth test asks a model of the first.
    return {name: median(values) / len(TESTS) for name, values in rows.items()}


def speed() -> list[dict[str, str]]:
    """Return the seconds of methods next to those of other packages."""
    return _rows("speed/speed.csv")


@cache
def neural() -> list[dict[str, str]]:
    """Return the figures of the study of networks."""
    return _rows("neural/figures.csv")


@cache
def leaderboard() -> dict[str, dict[str, float]]:
    """Return the figures of the leaderboard, by method and by the head of a column."""
    page = RESULTS / "leaderboard.html"
    if not page.exists():
        return {}
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page.read_text(encoding="utf-8"))
    cells = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in rows]
    heads = next(row for row in cells if "Mean rank" in row)
    found = {}
    for row in cells:
        if row != heads and len(row) == len(heads):
            named = dict(zip(heads, row, strict=True))
            name = named.pop("Method")
            found[name] = {head: float(value) for head, value in named.items() if value}
    return found


@cache
def growth() -> dict[str, dict[str, float]]:
    """Return measured exponents, by method and by what grows."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for path in sorted((RESULTS / "growth").glob("*.csv")):
        for row in _rows(f"growth/{path.name}"):
            try:
                found[row["method"]][row["axis"]] = float(row["exponent"])
            except (KeyError, TypeError, ValueError):
                continue  # tables of single times stand there, too
    return dict(found)
