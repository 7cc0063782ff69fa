"""`BagRegressor`, untuned, against tuned single regressors.

Eight problems: two sets of artificial binding energies, three values of digit bags and
three generated kinds. Single methods are scaled and tuned inside every training fold
(default grids, three inner folds, by R2); `BagRegressor` is what its default is. Three
folds each; the binding energies once more as their source splits them, a half for
fitting and a half for testing.

What these figures are worth: members and grids were chosen on these very kinds of data,
so that the ranks say that the stack finds its best members, not that it wins elsewhere.

Runs are kept in a store, and the same command continues where it was stopped:

    python benchmarks/bag_regressor_study.py --store study.sqlite
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from bagwise import BagRegressor
from bagwise.bags import Bags
from bagwise.comparison import KFold, Problem, compare, list_methods
from bagwise.datasets import fetch, load_digit_bags, make_regression_bags

FOLDS, SEED = 3, 0


def problems():
    """Yield every problem."""
    for name in ("lj-16.30.2", "lj-80.166.1"):
        data = fetch(name)
        X = Bags.concatenate([data.X, data.X_test])
        y = np.concatenate([data.y, data.y_test])
        yield Problem(name, X, y, task="regression")
    for target in ("max", "mean", "count"):
        X, y = load_digit_bags(target=target, return_X_y=True, random_state=SEED)
        yield Problem(f"digits, {target}", X, y, task="regression")
    for kind in ("prime", "mean", "distribution"):
        X, y = make_regression_bags(120, kind=kind, random_state=SEED)
        yield Problem(f"drawn, {kind}", X, y, task="regression")


def measure(store, n_jobs):
    """Return the methods and the mean R2 of each on each problem."""
    methods = [m for m in list_methods() if m.task == "regression"]
    methods = [m for m in methods if not m.path.startswith("bagwise.neural")]
    names, table = [m.name for m in methods], {}
    for problem in problems():
        result = compare(
            problem,
            methods=methods,
            protocol=KFold(FOLDS),
            metric="r2",
            n_jobs=n_jobs,
            store=store,
            progress=False,
            seed=SEED,
        )
        found = {row.method: row.mean for row in result.ranking}
        table[problem.name] = [found.get(name, np.nan) for name in names]
        print(f"{problem.name}: {result.summary()}", flush=True)
    return names, table


def halves():
    """R2 on the test halves of the binding energies."""
    found = {}
    for name in ("lj-16.30.2", "lj-80.166.1"):
        data = fetch(name)
        model = BagRegressor(random_state=SEED).fit(data.X, data.y)
        found[name] = model.score(data.X_test, data.y_test)
    return found


def write(names, table, tested, out):
    """Write the page and the table behind it."""
    out.mkdir(parents=True, exist_ok=True)
    values = np.array(list(table.values()))
    # The best has rank 1; equal figures share a rank.
    ranks = np.array(
        [
            [1 + (row > v).sum() + 0.5 * ((row == v).sum() - 1) for v in row]
            for row in values
        ]
    )
    order = np.argsort(ranks.mean(axis=0), kind="stable")
    with (out / "r2.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["method", "mean_rank", *table])
        for j in order:
            cells = [f"{v:.4f}" for v in values[:, j]]
            rows.writerow([names[j], f"{ranks[:, j].mean():.3f}", *cells])
    lines = ["# BagRegressor against tuned single regressors", "", __doc__.strip(), ""]
    lines += [
        "R2 on the test halves, fitted on the training halves: "
        + ", ".join(f"{name} {score:.3f}" for name, score in tested.items())
        + ".",
        "",
        f"| method | mean rank of {len(names)} | " + " | ".join(table) + " |",
        "|---|---|" + "---|" * len(table),
    ]
    for j in order:
        cells = " | ".join(f"{v:.3f}" for v in values[:, j])
        lines.append(f"| {names[j]} | {ranks[:, j].mean():.2f} | {cells} |")
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="regressors.sqlite")
    parser.add_argument("--out", type=Path, default=Path("results/bag-regressor"))
    parser.add_argument("--jobs", type=int, default=-1)
    arguments = parser.parse_args()
    names, table = measure(arguments.store, arguments.jobs)
    write(names, table, halves(), arguments.out)


if __name__ == "__main__":
    main()
