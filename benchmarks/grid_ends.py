"""How often the catalogue's grids end where the optimum lies.

Every tuned method of the catalogue on benchmark sets, five outer folds, tuned inside
the training folds as `compare` does. For every parameter: in how many folds the chosen
value stood at an end of its grid, natural limits apart. A grid is wide enough where
this is rare.

    python benchmarks/grid_ends.py [--sets musk1,fox] [--methods "MI-Kernel,miFV"]

Runs are kept in a store, and the same command continues where it was stopped.
"""

import argparse
import collections
import warnings
from pathlib import Path

from bagwise.comparison import compare, find_method, list_methods
from bagwise.datasets import fetch

SETS = "musk1,elephant,fox,tiger"


def tuned_methods():
    """Return the names of classifiers with a grid that `compare` chooses from."""
    found = [find_method(name) for name in list_methods()]
    return [
        method.name
        for method in found
        if method.grid and method.task == "classification" and method.available()
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=SETS, help="separated by commas")
    parser.add_argument("--methods", default="", help="separated by commas; all else")
    parser.add_argument("--store", default="grid-ends.sqlite")
    parser.add_argument("--out", default="results/grid-ends")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [name.strip() for name in asked.methods.split(",") if name.strip()]
    chosen = chosen or tuned_methods()
    sets = asked.sets.split(",")
    counts = collections.defaultdict(collections.Counter)
    folds = collections.Counter()
    for name in chosen:
        for dataset in sets:
            data = fetch(dataset)
            result = compare(
                data.X,
                data.y,
                methods=[name],
                store=asked.store,
                n_jobs=1,
                progress=False,
            )
            for row in result.runs(name):
                folds[name] += 1
                for parameter, end in (row.get("grid_ends") or {}).items():
                    counts[name][f"{parameter}, {end} end"] += 1
        print(name, folds[name], dict(counts[name]), flush=True)
    lines = ["# " + __doc__.splitlines()[0], ""]
    lines += [f"Sets: {', '.join(sets)}; five folds each. Share of folds in which the"]
    lines += ["chosen value stood at an end of the default grid.", ""]
    lines += ["| method | grid | at an end |", "|---|---|---|"]
    for name in chosen:
        ends = [f"{key}: {n / folds[name]:.0%}" for key, n in counts[name].items()]
        grid = str(find_method(name).grid).replace("|", "\\|")
        lines.append(f"| {name} | `{grid}` | {'; '.join(ends) or 'never'} |")
    lines += ["", "Made by `python benchmarks/grid_ends.py`."]
    out = Path(asked.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
