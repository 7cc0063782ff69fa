"""`BagRegressor`, untuned, against tuned single regressors.

Eight problems: two sets of artificial binding energies, three values of digit bags and
three generated kinds. Single methods are scaled and tuned inside every training fold
(default grids, three inner folds, by R2; trees on statistics have a grid here that they
have not in the catalogue); `BagRegressor` is what its default is. Three folds each.
The binding energies once more as their source splits them, a half for fitting and a
half for testing, which is not counted in the ranks.

What these figures are worth: members were chosen on these very kinds of data, so that
the ranks say that the stack finds its best members, not that it wins elsewhere. List of
methods, grids and protocol were fixed before the first run, and nothing was changed by
the results.

Runs are kept in a store, and the same command continues where it was stopped:

    python benchmarks/bag_regressor_study.py --store regressors.sqlite
"""

import argparse
import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from bagwise.bags import Bags
from bagwise.comparison import KFold, Problem, TrainTest, compare, list_methods
from bagwise.comparison._one_run import versions
from bagwise.datasets import fetch, load_digit_bags, make_regression_bags

FOLDS, SEED = 3, 0
ENERGIES = ("lj-16.30.2", "lj-80.166.1")
TREES = "Statistics + trees"
TREE_GRID = {
    "estimator__max_features": [0.3, 1.0],
    "estimator__min_samples_leaf": [1, 3],
}


def energies(name):
    """Return all bags of one set, and how many of them are for training."""
    data = fetch(name)
    X = Bags.concatenate([data.X, data.X_test])
    y = np.concatenate([data.y, data.y_test])
    return X, y, len(data.y)


def problems():
    """Yield every problem and its protocol."""
    for name in ENERGIES:
        X, y, _ = energies(name)
        yield Problem(name, X, y, task="regression"), KFold(FOLDS)
    for target in ("max", "mean", "count"):
        X, y = load_digit_bags(target=target, return_X_y=True, random_state=SEED)
        yield Problem(f"digits, {target}", X, y, task="regression"), KFold(FOLDS)
    for kind in ("prime", "mean", "distribution"):
        X, y = make_regression_bags(120, kind=kind, random_state=SEED)
        yield Problem(f"drawn, {kind}", X, y, task="regression"), KFold(FOLDS)
    for name in ENERGIES:
        X, y, n_train = energies(name)
        problem = Problem(f"{name}, test half", X, y, task="regression")
        yield problem, TrainTest(n_train)


def methods():
    """Return the regressors of the catalogue, networks left aside."""
    found = [m for m in list_methods() if m.task == "regression"]
    found = [m for m in found if not m.path.startswith("bagwise.neural")]
    return [replace(m, grid=TREE_GRID) if m.name == TREES else m for m in found]


def measure(store, n_jobs):
    """Return the methods and the R2 of each on each problem."""
    entries = methods()
    names, table = [m.name for m in entries], {}
    for problem, protocol in problems():
        result = compare(
            problem,
            methods=entries,
            protocol=protocol,
            metric="r2",
            n_jobs=n_jobs,
            store=store,
            progress=False,
            seed=SEED,
        )
        if result.failures:
            # A rank beside methods that were not measured says nothing.
            failed = sorted({row["method"] for row in result.failures})
            raise SystemExit(f"{problem.name}: failed: {', '.join(failed)}")
        found = {row.method: row.mean for row in result.ranking}
        table[problem.name] = np.array([found[name] for name in names])
        print(f"{problem.name}: {result.summary()}", flush=True)
    return names, table


def write(names, table, out):
    """Write the page and the table behind it."""
    out.mkdir(parents=True, exist_ok=True)
    ranked = [name for name in table if not name.endswith("test half")]
    # The best has rank 1; equal figures share a rank.
    ranks = np.array([rankdata(-table[name]) for name in ranked])
    mean_rank, wins = ranks.mean(axis=0), (ranks == 1).sum(axis=0)
    order = np.argsort(mean_rank, kind="stable")
    with (out / "r2.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["method", "mean_rank", *table])
        for j in order:
            cells = [f"{values[j]:.4f}" for values in table.values()]
            rows.writerow([names[j], f"{mean_rank[j]:.3f}", *cells])
    made_with = ", ".join(f"{k} {v}" for k, v in versions().items() if k != "platform")
    lines = ["# BagRegressor against tuned single regressors", "", __doc__.strip(), ""]
    lines += [
        f"Seed {SEED}. Made with {made_with}.",
        "",
        f"## R2: {len(names)} methods on {len(ranked)} sets",
        "",
        "| method | mean rank | wins | " + " | ".join(ranked) + " |",
        "|---|---|---|" + "---|" * len(ranked),
    ]
    for j in order:
        cells = " | ".join(f"{table[name][j]:.3f}" for name in ranked)
        lines.append(f"| {names[j]} | {mean_rank[j]:.2f} | {wins[j]} | {cells} |")
    halves = [name for name in table if name not in ranked]
    lines += ["", "## R2 on the test halves, fitted on the training halves", ""]
    lines += ["| method | " + " | ".join(halves) + " |", "|---|" + "---|" * len(halves)]
    for j in order:
        cells = " | ".join(f"{table[name][j]:.3f}" for name in halves)
        lines.append(f"| {names[j]} | {cells} |")
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="regressors.sqlite")
    parser.add_argument("--out", type=Path, default=Path("results/bag-regressor"))
    parser.add_argument("--jobs", type=int, default=-1)
    arguments = parser.parse_args()
    names, table = measure(arguments.store, arguments.jobs)
    write(names, table, arguments.out)


if __name__ == "__main__":
    main()
