"""Tables of the page "Intervals and tests" from the files of the study.

``python -m studies.inference.page`` reads ``cells.csv`` (simulated bags), ``real.csv``,
``winner.csv`` and ``metrics.csv``. It writes what is required next to what was measured
(``summary.csv``), means over cells (``by_n.csv`` and others), the coverage of other
metrics and protocols (``others.csv``), and all cells whose coverage or size misses a
requirement (``missed.csv``).
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from studies.inference.__main__ import RESULTS, read

METRICS = {"accuracy": "accuracy", "auroc": "AUROC"}
PARTITIONS = {"1": "one", "2": "two", "default": "default"}
LIMITS = {"coverage": (0.93, 0.98), "size": (0.0, 0.07)}
NOMINAL = {"coverage": 0.95, "size": 0.05}
REQUIRED = {
    "coverage": "each 0.93 to 0.98, mean 0.945 to 0.965",
    "size": "each at most 0.07, mean at most 0.055",
    "width / before": "mean at most 0.65, from 60 bags on",
    "power / before": "1.8, where it was 0.1 to 0.5",
}
QUANTITIES = ("coverage", "width", "size", "power")
SUMMARY = ["Data", "Quantity", "Figure", "Partitions", "Required", "Mean", "Lowest"]
SUMMARY += ["Highest", "Cells", "That meet it", "Expected", "Beyond chance"]
MISSED = ["Bags", "Generator", "Learner", "Figure", "Partitions", "Quantity"]
MISSED += ["Measured", "Data sets", "Beyond chance"]
MEANS = [f"{name}{end}" for name in QUANTITIES for end in ("", "_before")]
Row = dict[str, Any]


def column(rows: list[Row], name: str) -> Any:
    """Return a column of the study as numbers."""
    return np.array([float(row[name]) for row in rows])


def judged(quantity: str, rows: list[Row], before: list[Row]) -> tuple[float, Any, Any]:
    """Return mean, values of all cells, and which of them meet what is required.

    The mean of a ratio is the ratio of the means.
    """
    if quantity in LIMITS:
        low, high = LIMITS[quantity]
        found = column(rows, quantity)
        return float(found.mean()), found, (found >= low) & (found <= high)
    name = quantity.split()[0]
    new, old = column(rows, name), column(before, f"{name}_before")
    if name == "width":
        used = column(rows, "n") >= 60
    else:
        used = (old >= 0.1) & (old <= 0.5)
    if not used.any():
        return float("nan"), new[used], used[used]
    found = new[used] / old[used]
    good = found <= 0.65 if name == "width" else found >= 1.8
    return float(new[used].mean() / old[used].mean()), found, good


def beyond_chance(row: Row, quantity: str) -> bool:
    """Return whether a cell is outside its limits by more than two standard errors."""
    found, low, high = float(row[quantity]), *LIMITS[quantity]
    limit = min(max(found, low), high)
    return abs(found - limit) > 2.0 * np.sqrt(limit * (1.0 - limit) / int(row["sets"]))


def by_chance(rows: list[Row], quantity: str) -> list[Any]:
    """Return how many cells would meet a limit if all had the nominal rate.

    The number of cells that miss it by more than two standard errors follows.
    """
    if quantity not in LIMITS:
        return ["", ""]
    low, high = LIMITS[quantity]
    n = column(rows, "sets")
    inside = binom.cdf(np.floor(high * n + 1e-9), n, NOMINAL[quantity])
    inside -= binom.cdf(np.ceil(low * n - 1e-9) - 1, n, NOMINAL[quantity])
    beyond = sum(beyond_chance(row, quantity) for row in rows)
    return [f"{inside.sum():.0f}", beyond]


def chosen(
    rows: list[Row], metric: str, partitions: str
) -> tuple[list[Row], list[Row]]:
    """Return cells of a metric, and those that the former results are taken from.

    The default of `compare` is two partitions below 200 bags; it was one.
    """
    own = [row for row in rows if row["metric"] == metric]
    if partitions != "default":
        own = [row for row in own if row["repeats"] == partitions]
        return own, own
    first: dict[tuple[Any, ...], Row] = {}
    best: dict[tuple[Any, ...], Row] = {}
    for row in sorted(own, key=lambda row: row["repeats"]):
        key = (row["generator"], row["learner"], row["n"])
        first.setdefault(key, row)
        best[key] = row
    return list(best.values()), list(first.values())


def summary(rows: list[Row], without: str = "") -> Iterator[list[Any]]:
    """Yield a line for each quantity, figure and number of partitions."""
    for quantity, required in REQUIRED.items():
        if quantity == without:
            continue
        for metric, figure in METRICS.items():
            for key, partitions in PARTITIONS.items():
                own, before = chosen(rows, metric, key)
                if not own:
                    continue
                mean, found, good = judged(quantity, own, before)
                if len(found):
                    ends = (mean, found.min(), found.max())
                    head = (quantity, figure, partitions, required)
                    shown = (f"{value:.3f}" for value in ends)
                    counts = (len(found), int(good.sum()), *by_chance(own, quantity))
                    yield [*head, *shown, *counts]


def means(rows: list[Row], key: str) -> Iterator[list[Any]]:
    """Yield the means over cells of the same number of bags, generator or learner."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        where = (row[key], METRICS[row["metric"]], PARTITIONS[row["repeats"]])
        groups.setdefault(where, []).append(row)
    for where, own in groups.items():
        yield [*where, len(own), *(f"{column(own, name).mean():.3f}" for name in MEANS)]


def winners(path: Path) -> Iterator[list[Any]]:
    """Yield lines on the figure of the best of 16 methods, from `winner.csv`."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for name, quantity in (
        ("corrected_bias", "bias of the winner, corrected"),
        ("bias", "bias of the winner before correction"),
    ):
        for metric, figure in METRICS.items():
            found = column([row for row in rows if row["metric"] == metric], name)
            ends = (
                f"{value:.3f}" for value in (found.mean(), found.min(), found.max())
            )
            required = "" if name == "bias" else "within 0.005 on average"
            good = np.abs(found) <= 0.005
            head = ("simulated", quantity, figure, "one", required)
            yield [*head, *ends, len(found), int(good.sum()), "", ""]


def others(path: Path) -> Iterator[list[Any]]:
    """Yield the coverage of other metrics by protocol, from `metrics.csv`."""
    groups: dict[tuple[str, str], list[Row]] = {}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                groups.setdefault((row["metric"], row["protocol"]), []).append(row)
    for (metric, protocol), own in sorted(groups.items()):
        found, n = column(own, "coverage"), column(own, "sets").sum()
        error = np.sqrt(found.mean() * (1.0 - found.mean()) / n)
        ends = (f"{value:.3f}" for value in (found.mean(), error, found.min()))
        beyond = sum(beyond_chance(row, "coverage") for row in own)
        yield [metric.replace("_", " "), protocol, len(own), *ends, beyond]


def missed(rows: list[Row]) -> Iterator[list[Any]]:
    """Yield the cells that miss, and whether by more than two standard errors."""
    for row in rows:
        for quantity, (low, high) in LIMITS.items():
            found, sets = float(row[quantity]), int(row["sets"])
            if low <= found <= high:
                continue
            beyond = beyond_chance(row, quantity)
            head = (row["n"], row["generator"], row["learner"])
            what = (METRICS[row["metric"]], PARTITIONS[row["repeats"]], quantity)
            yield [*head, *what, f"{found:.3f}", sets, "yes" if beyond else "no"]


def table(path: Path, names: list[str], rows: list[list[Any]]) -> None:
    """Write a table of the page."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([names, *rows])


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the files")
    out = parser.parse_args().out
    cells = [list(read(out / name).values()) for name in ("cells.csv", "real.csv")]
    simulated, real = cells
    lines = [["simulated", *line] for line in summary(simulated)]
    lines += [["real", *line] for line in summary(real, without="size")]
    lines += winners(out / "winner.csv")
    table(out / "summary.csv", SUMMARY, lines)
    for key in ("n", "generator", "learner"):
        head = [key, "figure", "partitions", "cells", *MEANS]
        table(out / f"by_{key}.csv", head, list(means(simulated, key)))
    head = ["Metric", "Protocol", "Cells", "Mean coverage", "Standard error", "Lowest"]
    table(
        out / "others.csv", [*head, "Beyond chance"], list(others(out / "metrics.csv"))
    )
    table(out / "missed.csv", MISSED, list(missed([*simulated, *real])))


if __name__ == "__main__":
    main()
