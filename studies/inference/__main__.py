"""Measure coverage, width, size and power of intervals and tests.

``python -m studies.inference`` simulates the verification cells (generator, learner,
number of bags, repeats) that are not in ``studies/results/inference/cells.csv``, in
rounds of 100 data sets per cell, or fewer if fewer are asked for, until every cell has
as many as asked for or the time is over. A killed run continues with the next cell.
``--development`` does the same with the generators that the estimator was chosen on,
and ``--short`` is a version of at most 30 CPU minutes.

The truth of an interval is the mean figure of the fitted models on new bags. Two
methods see one half of the features each; the halves are equally good, so that every
rejection is an error. A third method sees the first half with noise, for the power.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from studies.inference.cells import COLUMNS, measure, merged, summary
from studies.inference.generators import DEVELOPMENT, VERIFICATION
from studies.inference.learners import LEARNERS
from studies.inference.real import REAL

RESULTS = Path(__file__).parents[1] / "results" / "inference"
SIZES = (30, 60, 120, 300)
ROUND = 100
KEY = ("generator", "learner", "n", "repeats", "metric")


def cells(generators: list[str], largest: int) -> Iterator[tuple[str, str, int]]:
    """Yield generator, learner and number of bags."""
    for n in SIZES:
        for kind in generators:
            if n <= min(largest, REAL.get(kind, largest)):
                yield from ((kind, learner, n) for learner in LEARNERS)


def read(path: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the rows of a file of cells by their key."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {tuple(row[name] for name in KEY): row for row in csv.DictReader(file)}


def write(path: Path, rows: dict[tuple[str, ...], dict[str, Any]]) -> None:
    """Replace a file of cells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
    os.replace(part, path)


def run(path: Path, generators: list[str], sets: int, minutes: float) -> None:
    """Simulate until every cell has so many sets, or the processor time is over."""
    end = time.process_time() + 60.0 * minutes
    rows = read(path)
    for number in range(max(sets // ROUND, 1)):
        for kind, learner, n in cells(generators, max(SIZES)):
            done = rows.get((kind, learner, str(n), "1", "accuracy"))
            if done and int(done["simulated"]) > number * ROUND:
                continue
            if time.process_time() > end:
                return
            for row in measure(kind, learner, n, min(ROUND, sets), number):
                key = tuple(str(row[name]) for name in KEY)
                rows[key] = merged(rows.get(key), row)
            write(path, rows)


def main() -> None:
    """Simulate the cells that are missing and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=1000, help="data sets per cell")
    parser.add_argument("--minutes", type=float, default=600.0, help="processor time")
    parser.add_argument("--short", action="store_true", help="100 sets, 30 minutes")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the files")
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--real", action="store_true", help="subsamples of real data")
    args = parser.parse_args()
    names = list(DEVELOPMENT if args.development else VERIFICATION)
    name = "development" if args.development else "cells"
    if args.real:
        names, name = list(REAL), "real"
    path = args.out / f"{name}.csv"
    sets, minutes = (ROUND, 30.0) if args.short else (args.sets, args.minutes)
    run(path, names, sets, minutes)
    print(summary(list(read(path).values())))


if __name__ == "__main__":
    main()
