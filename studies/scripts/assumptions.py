"""Measure what each method assumes of bags.

Every method of the catalog, untuned, by `bagwise.testing.mil_assumptions`: AUROC on
test bags with other irrelevant instances than in training. A method that respects the
standard assumption (a bag is positive if and only if it contains a positive instance)
keeps its AUROC.

A second run continues where the first one ended: one line of `figures.csv` is one
method on one simulated data set. `python studies/scripts/assumptions.py`
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline

from bagwise.comparison import list_methods
from bagwise.comparison.description import build_estimator
from bagwise.comparison.run_one import Limits, RunTimeLimit
from bagwise.comparison.tuning import make_scaler
from bagwise.testing import mil_assumptions
from bagwise.testing._assumptions import (
    MONOTONE,
    TESTS,
    label_of,
    monotone_line,
    respects,
)

RESULTS = Path(__file__).parents[1] / "results"
FIELDS = ["method", "seed", *TESTS, "falls", "fall", "seconds", "error"]
# The table that the library reads for a one-line summary of each method.
PACKAGED = Path(__file__).parents[2] / "src/bagwise/inspection/assumptions.csv"

ABOUT = """
| test | training bags | test bags |
|---|---|---|
| presence | positive: 1-2 instances near c | same |
| distractors | positive: c; negative: 1-2 near p | positive: c and p |
| frequency | positive: one near c, 0-1 near q; negative: 4-6 near q | the other way |
| two concepts | positive: c and d; negative: one of them or none | same |
| threshold | positive: 4-6 near c; negative: 1-2 near c, and p | positive hold p |
| monotone | as presence | a background instance is added to positive bags |

16 dimensions, background standard normal, concepts at distance 4, 8-20 instances per
bag, 200 training and 200 test bags. "yes": presence is learned (a mean of 0.9), and the
AUROC is at least 0.6 in every data set with distractors in negative bags and with other
frequencies. "no": it is lower in one of them; the worst data set is in brackets. "not
shown": presence is not learned with these settings, and no AUROC is far below 0.5. The
label is "generalized" if two concepts and threshold reach 0.9 as well. Monotone: the
share of positive bags whose score falls when a background instance is added, and the
fall relative to the difference of the mean scores of the two classes.
"""


# In addition to the catalog: name, class, parameters. Entries that need torch are
# excluded where torch is not installed.
MORE = [
    ("BagClassifier (standard)", "ensemble.BagClassifier", {"assumption": "standard"}),
    *(
        (
            f"Network ({pooling}{', pooled head' if head == 'pooled' else ''})",
            "neural.NeuralBagClassifier",
            {"pooling": pooling, "head": head, "precision": "float32"},
        )
        for pooling in ("gated", "attention", "mean", "max")
        for head in ("additive", "pooled")
    ),
]


# Notes on rows of `figures.csv`; to be removed when the rows are computed again.
NOTES = []


def entries(wanted):
    """Yield the name and the unfitted pipeline of every method."""
    found = [
        (method.name, method.spec(), method.scale)
        for method in list_methods()
        if method.task == "classification"
    ]
    for name, path, params in MORE:  # these scale their inputs themselves
        spec = {"class": f"bagwise.{path}", "params": params}
        found.append((name, spec, "none"))
    for name, spec, scale in found:
        if wanted and name not in wanted:
            continue
        try:
            estimator = build_estimator(spec)
        except ImportError as error:
            print(f"{name}: {error}")
            continue
        yield name, make_pipeline(make_scaler(scale, sparse=False), estimator)


def measure(name, estimator, seed, limit):
    """Return one line of the table of figures."""
    line = dict.fromkeys(FIELDS, "") | {"method": name, "seed": seed}
    started = time.process_time()
    try:
        with Limits(limit).hold():
            found = mil_assumptions(estimator, seed, n_repeats=1)
    except (Exception, RunTimeLimit) as error:
        line["error"] = f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
    else:
        line |= {test: f"{found[test].auroc:.4f}" for test in TESTS}
        line["falls"] = f"{found[MONOTONE].falls:.4f}"
        line["fall"] = f"{found[MONOTONE].fall:.4g}"
    line["seconds"] = f"{time.process_time() - started:.1f}"
    return line


def read(path):
    """Return the lines that are there already."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def add(path, line):
    """Append a line, after a heading in a new file."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            table.writeheader()
        table.writerow(line)


def summarize(lines):
    """Return one entry a method: mean areas, label, verdict."""
    found = []
    for name in dict.fromkeys(line["method"] for line in lines):
        own = [one for one in lines if one["method"] == name]
        good = [one for one in own if not one["error"]]
        if not good:
            found.append({"method": name, "error": own[-1]["error"]})
            continue
        areas = {t: float(np.mean([float(one[t]) for one in good])) for t in TESTS}
        worst = {t: min(float(one[t]) for one in good) for t in TESTS}
        last = monotone_line(
            [float(one["falls"]) for one in good], [float(one["fall"]) for one in good]
        )
        found.append(
            {
                "method": name,
                "draws": len(good),
                **areas,
                "worst": worst,
                "falls": last.falls,
                "fall": last.fall,
                "label": label_of(areas, worst),
                "respects": {True: "yes", False: "no", None: "not shown"}[
                    respects(areas, worst)
                ],
                "seconds": float(np.mean([float(one["seconds"]) for one in good])),
            }
        )
    return found


def _area(row, test):
    """Return a mean AUROC, bold when inverted, with the worst data set if relevant."""
    short = lambda value: f"{value:.2f}".removeprefix("0")  # noqa: E731
    text = short(row[test])
    text = f"**{text}**" if row[test] <= 0.4 else text
    if test in ("distractors", "frequency"):
        text += f" ({short(row['worst'][test])})"
    return text


def write_page(rows, path):
    """Write the table of all methods."""
    good = [row for row in rows if "error" not in row]
    order = {"yes": 0, "no": 1, "not shown": 2}
    good.sort(key=lambda row: (order[row["respects"]], -row["presence"]))
    draws = sorted({row["draws"] for row in good})
    lines = ["# What does each method assume?", "", __doc__.split("\n\n")[1], ABOUT]
    heads = ["", "respects the standard assumption", "label", *TESTS, MONOTONE, "draws"]
    lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in good:
        areas = [_area(row, t) for t in TESTS]
        falls = f"{row['falls']:.0%}, {row['fall']:.2f}" if row["falls"] else "never"
        cells = [row["method"], row["respects"], row["label"], *areas, falls]
        lines.append("| " + " | ".join([*cells, str(row["draws"])]) + " |")
    counts = f"{draws[0]}" if len(draws) == 1 else f"{draws[0]} to {draws[-1]}"
    lines += ["", f"Mean AUROC over {counts} simulated data sets, see the last column."]
    lines += NOTES
    lines += [
        "At 0.4 and below (bold) the method has learned the opposite of the truth."
    ]
    failed = [row for row in rows if "error" in row]
    if failed:
        lines += ["", "Without a result:", ""]
        lines += [f"- {row['method']}: {row['error']}" for row in failed]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_packaged(rows, path):
    """Write the table that the library reads."""
    lowest = {t: f"worst {t}" for t in ("distractors", "frequency")}
    fields = ["method", "respects", "label", "draws", *TESTS, *lowest.values(), "falls"]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fields, lineterminator="\n", extrasaction="ignore")
        table.writeheader()
        for row in rows:
            if "error" not in row:
                values = {t: f"{row[t]:.3f}" for t in (*TESTS, "falls")}
                values |= {n: f"{row['worst'][t]:.3f}" for t, n in lowest.items()}
                table.writerow(row | values)


def main():
    """Measure what is missing, then write figures, page and packaged table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "assumptions")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a draw")
    parser.add_argument("--methods", nargs="*", help="names; all by default")
    parser.add_argument("--retry", action="store_true", help="failed ones once more")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.out.mkdir(parents=True, exist_ok=True)
    figures = arguments.out / "figures.csv"
    known = {name: estimator for name, estimator in entries(arguments.methods)}
    done = {
        (line["method"], int(line["seed"])): line
        for line in read(figures)
        if not (line["error"] and arguments.retry)
    }
    failed = {name for (name, _), line in done.items() if line["error"]}
    for seed in range(arguments.draws):
        for name, estimator in known.items():
            if (name, seed) in done or name in failed:
                continue
            line = measure(name, estimator, seed, arguments.limit)
            if line["error"]:  # do not repeat failed or slow methods
                failed.add(name)
            add(figures, line)
            print(*line.values(), sep="  ", flush=True)
    rows = summarize(read(figures))
    write_page(rows, arguments.out / "README.md")
    write_packaged(rows, PACKAGED)


if __name__ == "__main__":
    main()
