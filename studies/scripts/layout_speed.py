"""Fit times of every estimator in two trees of the package, next to each other.

Two processes hold one tree each and fit in turn, so that a busy machine slows both::

    git worktree add --detach OTHER fe00d5c
    python studies/scripts/layout_speed.py OTHER/src --log layout.csv

Each row is the least CPU seconds of 4 to 40 fits per tree with default parameters. Rows
that are in the log are kept. The classic sets are read from the folder
that ``BAGWISE_DATA`` names. ``--page`` prints the log as a table. The figures are in
``studies/results/layout-speed.md``.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

SETS = ("musk1", "elephant", "digits")
FIELDS = ("data", "method", "before", "now", "fits")
# Maximum seconds per row, and minimum and maximum number of fits of each source tree.
MOST_SECONDS, FEWEST, MOST = 6.0, 4, 40
LEFT_OUT = {"NeuralBagClassifier", "NeuralBagRegressor", "NeuralBagSurvival"}
# These require other estimators, or are not models of bags.
NEEDED = {"BagStackingClassifier", "OneModelPerLabel", "EmbeddedSurvival"}


def serve():
    """Fit what is asked for on standard input, answer with CPU seconds."""
    import numpy as np
    from sklearn.base import is_regressor

    from bagwise import datasets
    from bagwise.bags import Bags

    warnings.simplefilter("ignore")
    known, loaded = classes(), {}
    print(json.dumps(sorted(known)), flush=True)
    for line in sys.stdin:
        name, method = json.loads(line)
        if name not in loaded:
            digits = name == "digits"
            found = datasets.load_digit_bags() if digits else datasets.fetch(name)
            X, y = found if isinstance(found, tuple) else (found.X, found.y)
            rows = np.asarray(X.data, dtype=np.float64)
            spread = rows.std(axis=0)
            rows = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
            loaded[name] = Bags(rows, X.offsets), np.asarray(y)
        X, y = loaded[name]
        model = known[method]()
        if "random_state" in model.get_params(deep=False):
            model.set_params(random_state=0)
        try:
            target = y
            if is_regressor(model):
                target = (y == np.unique(y)[1]) + 0.1 * np.sin(np.arange(len(y)))
            start = time.process_time()
            model.fit(X, target)
            answer = time.process_time() - start
        except Exception as error:
            answer = str(error)[:80]
        print(json.dumps(answer), flush=True)


def classes():
    """Return the bag estimators of this tree by name."""
    from bagwise.testing import all_estimators

    found = dict(all_estimators())
    return {n: c for n, c in found.items() if n not in LEFT_OUT | NEEDED}


class Tree:
    """A process that fits with the package of one folder."""

    def __init__(self, source):
        env = {**os.environ, "PYTHONPATH": str(source)}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.known = set(self._answer())

    def _answer(self):
        return json.loads(self.process.stdout.readline())

    def fit(self, name, method):
        """Return the CPU seconds of one fit, or what went wrong."""
        self.process.stdin.write(json.dumps([name, method]) + "\n")
        self.process.stdin.flush()
        return self._answer()


def measure(trees, name, method):
    """Return the least seconds of each tree, and the number of fits."""
    for tree in trees:
        first = tree.fit(name, method)  # compiles
        if isinstance(first, str):
            raise ValueError(first)
    best, start, n = [float("inf")] * 2, time.monotonic(), 0
    while n < FEWEST or (n < MOST and time.monotonic() - start < MOST_SECONDS):
        for k in (0, 1) if n % 2 else (1, 0):
            best[k] = min(best[k], trees[k].fit(name, method))
        n += 1
    return (*best, n)


def page(path):
    """Print the rows of the log, the slowest ratio first."""
    with open(path, newline="") as stream:
        rows = list(csv.DictReader(stream))
    print(
        "| data | method | before, s | now, s | now / before |\n|---|---|---|---|---|"
    )
    for row in sorted(rows, key=lambda r: -float(r["now"]) / float(r["before"])):
        before, now = float(row["before"]), float(row["now"])
        print(
            f"| {row['data']} | {row['method']} | {before:.3g} | {now:.3g} "
            f"| {now / before:.2f} |"
        )


def main():
    """Measure every estimator on every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", nargs="?", help="src folder of the other tree")
    parser.add_argument("--log", default="layout.csv")
    parser.add_argument("--only", nargs="*", help="methods to measure again")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--serve", action="store_true")
    args = parser.parse_args()
    if args.serve:
        return serve()
    if args.page:
        return page(args.log)
    here = Path(__file__).resolve().parents[2] / "src"
    trees = Tree(args.before), Tree(here)
    done, log = set(), Path(args.log)
    if log.exists():
        with log.open(newline="") as stream:
            done = {(row["data"], row["method"]) for row in csv.DictReader(stream)}
    else:
        log.write_text(",".join(FIELDS) + "\n")
    for name in args.sets:
        for method in sorted(trees[0].known & trees[1].known):
            if args.only and method not in args.only:
                continue
            if (name, method) in done:
                continue
            try:
                before, now, fits = measure(trees, name, method)
            except ValueError as error:
                print(name, method, error, flush=True)
                continue
            with log.open("a", newline="") as stream:
                row = [name, method, f"{before:.5f}", f"{now:.5f}", fits]
                csv.writer(stream).writerow(row)
            print(f"{name:9} {method:26} {now / before:.2f}", flush=True)
    return None


if __name__ == "__main__":
    main()
