"""How `BagClassifier` ranks in the demo.

What `bagwise demo` compares: 120 bags of digits, positive if they contain a nine, in
five folds; `BagClassifier` with its defaults, the others scaled and tuned inside every
training fold. One small data set: one bag is 0.008 of the accuracy.

    python studies/scripts/bag_classifier_demo.py --folder demo

Runs that are in the folder already, those of `bagwise demo --out demo` for one, are
taken from there if the code of the method is still the same.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from bagwise.comparison import demo
from bagwise.comparison.run_one import versions

RESULTS = Path(__file__).parents[1] / "results"
STACK = "BagClassifier"
METRICS = {"accuracy": "accuracy", "auroc": "AUROC", "log_loss": "log loss"}


def measure(folder, n_jobs):
    """Return the methods and their mean of every metric over the folds."""
    result = demo(folder, n_jobs=n_jobs, progress=False)
    if result.failures:
        # Ranks mean nothing if some methods were not measured.
        failed = sorted({row["method"] for row in result.failures})
        raise SystemExit(f"failed: {', '.join(failed)}")
    names = [one.method for one in result.ranking]
    table = {
        metric: np.array([_mean(result.runs(name), metric) for name in names])
        for metric in METRICS
    }
    return names, table


def _mean(rows, metric):
    values = [row[metric] for row in rows]
    return np.nan if None in values else float(np.mean(values))


def write(names, table, out):
    """Write the page, best accuracy first."""
    ranks = {m: rankdata(-table[m], method="min") for m in ("accuracy", "auroc")}
    k, n = names.index(STACK), len(names)
    made_with = ", ".join(f"{k} {v}" for k, v in versions().items() if k != "platform")
    lines = ["# BagClassifier in the demo", "", __doc__.strip(), ""]
    lines += [f"Made with {made_with}.", ""]
    places = (f"{ranks[m][k]:.0f} of {n} by {METRICS[m]}" for m in ranks)
    lines += [f"Rank: {', '.join(places)}. The goal was a place among the first three."]
    lines += [
        "",
        "| method | " + " | ".join(METRICS.values()) + " |",
        "|---|---|---|---|",
    ]
    for j in np.lexsort((-table["auroc"], ranks["accuracy"])):
        cells = (table[m][j] for m in METRICS)
        figures = " | ".join("" if np.isnan(v) else f"{v:.3f}" for v in cells)
        lines.append(f"| {names[j]} | {figures} |")
    lines += ["", "Methods without a figure in the last column have no probabilities."]
    out.mkdir(parents=True, exist_ok=True)
    (out / "demo.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("bagwise-demo"))
    parser.add_argument("--out", type=Path, default=RESULTS / "bag-classifier")
    parser.add_argument("--jobs", type=int, default=-1)
    given = parser.parse_args()
    write(*measure(given.folder, given.jobs), given.out)


if __name__ == "__main__":
    main()
