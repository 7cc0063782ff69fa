"""Processor time of the intervals and tests of 16 methods on 2,000 bags.

``python -m studies.inference.cost`` writes ``studies/results/inference/cost.csv``. The
methods take no time (`benchmarks.bench_compare`); what is measured is everything that
follows from stored predictions: ranking, tests, corrected figure and sample size.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

from benchmarks.bench_compare import Inference
from studies.inference.__main__ import RESULTS

SHAPES = ((16, 2000, 5), (16, 2000, 10))


def main() -> None:
    """Measure the seconds of processor time, the best of three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the file")
    out = parser.parse_args().out
    rows = []
    for shape in SHAPES:
        case = Inference()
        case.setup(shape)
        seconds = []
        for _ in range(3):
            start = time.process_time()
            case.time_inference(shape)
            seconds.append(time.process_time() - start)
        rows.append([*shape, f"{min(seconds):.2f}"])
    with (out / "cost.csv").open("w", newline="", encoding="utf-8") as file:
        head = ["methods", "bags", "folds", "seconds"]
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


if __name__ == "__main__":
    main()
