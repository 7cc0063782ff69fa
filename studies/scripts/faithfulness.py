"""Measure how faithful explanations are, method by method.

Every method is fitted to one half of the bags, untuned. On the other half instances are
scored by the model's own scores, alone ("single") and by the loss without them
("leave_out"), and removed in that order: the gap between removing the least and the
most important first, in standard deviations of the bag scores, with a 95% interval.
Key-instance success is given where instance labels are known: a faithful explanation of
a wrong model names the wrong instances.

A second run continues where the first one ended:
`python studies/scripts/faithfulness.py`
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline

from bagwise.bags import Ragged
from bagwise.comparison.choose import find_method
from bagwise.comparison.description import build_estimator
from bagwise.comparison.tuning import make_scaler
from bagwise.datasets import fetch, load_digit_bags, make_key_instance_bags
from bagwise.inspection import faithfulness, instance_importance
from bagwise.metrics import key_instance_success

RESULTS = Path(__file__).parents[1] / "results"
WAYS = ("native", "single", "leave_out")
FIELDS = ["set", "method", "way", "gap", "low", "high", "verdict", "key", "seconds"]
METHODS = [
    "BagClassifier",
    "SimpleMI",
    "WrapperMI (forest)",
    "MI-SVM",
    "MILR",
    "MILBoost",
    "MILES",
    "MI-Kernel",
    "EMD + SVC",
    "SAFE",
    "miFV",
]


def data_sets():
    """Yield name, bags, labels and instance labels (or None)."""
    digits = load_digit_bags()
    yield "digits", digits.X, digits.y, digits.instance_labels
    X, y, z = make_key_instance_bags(100, random_state=0, return_instance_labels=True)
    yield "key instances", X, y, z
    try:
        musk = fetch("musk1", download_if_missing=False)
    except (OSError, ValueError):
        musk = None
    if musk is not None:
        yield "musk1", musk.X, np.asarray(musk.y), None


def measure(name, X, y, labels, method):
    """Yield one line for each way of scoring instances."""
    split = StratifiedShuffleSplit(1, test_size=0.5, random_state=0)
    train, test = next(split.split(np.zeros(len(y)), y))
    entry = find_method(method)
    model = make_pipeline(
        make_scaler(entry.scale, sparse=X.is_sparse), build_estimator(entry.spec(), 0)
    ).fit(X[train], y[train])
    held = X[test]
    positive = test[y[test] == model.classes_[1]]
    for way in WAYS:
        started = time.process_time()
        try:
            found = instance_importance(model, held, way)
        except ValueError:  # the method does not provide scores
            continue
        told = faithfulness(model, held, found)
        key = ""
        if labels is not None:
            own = instance_importance(model, X[positive], way)
            truth = Ragged(np.asarray(labels.values), X.offsets)[positive]
            key = f"{key_instance_success(truth, own):.3f}"
        figures = [f"{value:.4f}" for value in told.gap]
        seconds = f"{time.process_time() - started:.1f}"
        yield [name, method, way, *figures, told.verdict, key, seconds]


def write_page(rows, path):
    """Write one table a data set."""
    lines = ["# Are explanations faithful?", "", *__doc__.split("\n")[2:9], ""]
    for name in dict.fromkeys(row["set"] for row in rows):
        lines += [f"## {name}", ""]
        lines += ["| | " + " | ".join(WAYS) + " | key instances found |"]
        lines += ["|---" * (len(WAYS) + 2) + "|"]
        for method in dict.fromkeys(row["method"] for row in rows):
            own = {
                row["way"]: row
                for row in rows
                if (row["set"], row["method"]) == (name, method)
            }
            if not own:
                continue
            cells = [_cell(own.get(way)) for way in WAYS]
            keys = [
                f"{float(own[way]['key']):.0%} ({way})"
                for way in WAYS
                if way in own and own[way]["key"]
            ]
            lines.append(
                f"| {method} | " + " | ".join(cells) + f" | {', '.join(keys)} |"
            )
        lines.append("")
    lines.append("Bold: not different from random order, or misleading.")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _cell(row):
    if row is None:
        return "-"
    text = (
        f"{float(row['gap']):.2f} [{float(row['low']):.2f}, {float(row['high']):.2f}]"
    )
    return text if row["verdict"] == "faithful" else f"**{text}**"


def main():
    """Measure what is missing and write table and page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "faithfulness")
    parser.add_argument("--methods", nargs="*", default=METHODS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "figures.csv"
    rows = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    done = {(row["set"], row["method"]) for row in rows}
    with path.open("a", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        if not rows:
            table.writerow(FIELDS)
        for name, X, y, labels in data_sets():
            for method in arguments.methods:
                if (name, method) in done:
                    continue
                for line in measure(name, X, y, labels, method):
                    table.writerow(line)
                    rows.append(dict(zip(FIELDS, line, strict=True)))
                    print(*line, sep="  ", flush=True)
                file.flush()
    write_page(rows, arguments.out / "README.md")


if __name__ == "__main__":
    main()
