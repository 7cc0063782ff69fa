"""Coverage of prediction sets and intervals over simulated draws.

Each draw simulates groups of bags (patients with 1 to 5 bags that share their level),
fits a method to some of them with its prediction sets, as ``bagwise fit --conformal
0.1`` does, and counts how often the sets of bags of 300 new groups hold the truth::

    python studies/scripts/prediction_sets.py --draws 200 --out studies/results/use

Cells that the table holds already are not computed again. Nominal coverage is 90%.
The figures are in ``studies/results/use/README.md``.
"""

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np

from bagwise import Bags
from bagwise.comparison.choose import find_method
from bagwise.comparison.problem import as_problem
from bagwise.comparison.record import attach_fit
from bagwise.comparison.tuning import fit_method
from bagwise.inspection import prediction_sets

ALPHA, N_NEW = 0.1, 300
# Draws before this seed were looked at when folds and interpolation were chosen.
FIRST_SEED = 1_000
# Name, target, method, training groups, whether bags are grouped, quantile per class.
CELLS = [
    ("two classes", "binary", "SimpleMI", 60, True, False),
    ("two classes, few groups", "binary", "SimpleMI", 30, True, False),
    ("two classes, no groups", "binary", "SimpleMI", 100, False, False),
    ("two classes, scores only", "binary", "MI-SVM (linear)", 60, True, False),
    ("one bag of six positive", "rare", "SimpleMI", 120, True, False),
    ("one bag of six, per class", "rare", "SimpleMI", 120, True, True),
    ("three classes", "three", "SimpleMI", 60, True, False),
    ("values", "values", "Mean + ridge", 60, True, False),
    ("values, few groups", "values", "Mean + ridge", 30, True, False),
    ("values, no groups", "values", "Mean + ridge", 100, False, False),
    ("values, kernel", "values", "Set-kernel ridge", 60, True, False),
]
COLUMNS = [
    "cell",
    "method",
    "groups",
    "draws",
    "coverage",
    "error",
    "low_draw",
    "high_draw",
    "size",
    "least_class",
]


def simulate(rng, n_groups, grouped, target):
    """Return bags in groups that share their level, and their labels or values."""
    count = rng.integers(1, 6, n_groups) if grouped else np.ones(n_groups, dtype=int)
    group = np.repeat(np.arange(n_groups), count)
    center = rng.normal(size=(n_groups, 3))[group]
    center = center + 0.6 * rng.normal(size=center.shape)
    sizes = rng.integers(2, 9, len(group))
    data = np.repeat(center, sizes, axis=0) + rng.normal(size=(sizes.sum(), 3))
    groups = group if grouped else None
    X = Bags(data, np.append(0, np.cumsum(sizes)), groups=groups)
    signal = center[:, 0] + 0.7 * rng.normal(size=n_groups)[group]
    signal = signal + 0.5 * rng.normal(size=len(group))
    if target == "values":
        return X, signal
    if target == "three":
        return X, np.digitize(signal, [-0.6, 0.6])
    return X, (signal > (1.4 if target == "rare" else 0.0)).astype(int)


def covered(seed, cell):
    """Return coverage, mean size of sets or intervals, and the least of a class."""
    _, target, name, n_groups, grouped, per_class = cell
    rng = np.random.default_rng([seed, n_groups, grouped])
    X, y = simulate(rng, n_groups, grouped, target)
    task = "regression" if target == "values" else "classification"
    problem, method = as_problem(X, y, task=task), find_method(name)
    fitted = fit_method(method.spec(), X, y, scale=method.scale, random_state=seed)
    sets = {"alpha": ALPHA, "per_class": per_class}
    attach_fit(problem, method, fitted, conformal=sets, random_state=seed)
    new, truth = simulate(rng, N_NEW, grouped, target)
    found = prediction_sets(fitted.model, new)
    hit = found.covers(truth)
    # The bags of each new group have a total weight of one, as in the guarantee.
    groups = np.arange(len(new)) if new.groups is None else new.groups
    once = 1.0 / np.bincount(groups)[groups]
    if found.member is None:
        return np.average(hit, weights=once), np.mean(found.high - found.low), np.nan
    kept = [truth == k for k in np.unique(truth)]
    least = min(np.average(hit[k], weights=once[k]) for k in kept)
    return np.average(hit, weights=once), found.member.sum(axis=1).mean(), least


def plot(rows, path):
    """Plot mean coverage with the range of 90% of draws."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(7.0, 0.9 + 0.32 * len(rows)), layout="tight").subplots()
    ax.axvspan(0.88, 0.92, color="#d0ebff", linewidth=0)
    for k, row in enumerate(rows[::-1]):
        low, mean, high = (float(row[n]) for n in ("low_draw", "coverage", "high_draw"))
        ax.plot([low, high], [k, k], color="#adb5bd")
        ax.plot([mean], [k], "o", color="#1c7ed6", markersize=5)
    ax.set_yticks(range(len(rows)), [row["cell"] for row in rows[::-1]])
    ax.set_xlabel("Coverage of nominal 90% (shaded: 88% to 92%)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.figure.savefig(path, metadata={"Date": None})


def main():
    """Compute the cells that are missing, and write table and figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("prediction-sets"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.out.mkdir(parents=True, exist_ok=True)
    table, known = args.out / "prediction-sets.csv", {}
    if table.exists():
        with table.open(newline="") as file:
            known = {row["cell"]: row for row in csv.DictReader(file)}
    rows = []
    for cell in CELLS:
        row = known.get(cell[0])
        if row is None or int(row["draws"]) < args.draws:
            seeds = range(FIRST_SEED, FIRST_SEED + args.draws)
            found = np.array([covered(seed, cell) for seed in seeds])
            share = found[:, 0]
            error = share.std(ddof=1) / np.sqrt(len(share))
            low, high = np.quantile(share, [0.05, 0.95])
            values = [share.mean(), error, low, high, *found[:, 1:].mean(axis=0)]
            texts = [f"{value:.4f}" for value in values]
            first = [cell[0], cell[2], cell[3], args.draws]
            row = dict(zip(COLUMNS, [*first, *texts], strict=True))
            print(row, flush=True)
        rows.append(row)
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    plot(rows, args.out / "prediction-sets.svg")


if __name__ == "__main__":
    main()
