"""Folds for the decision threshold from out-of-fold scores: accuracy and cost.

With ``threshold="cv"`` a method is fitted once more for each fold of the training bags.
This script fits each method once, finds thresholds from 2, 3 and 5 folds, and scores
them on the same held-out bags (outer folds, repeated)::

    python studies/scripts/threshold_folds.py --methods SBMIL --sets musk1

The last column is the CPU seconds of the fit and of the folds over those of the fit.
The classic sets are read from the folder that ``BAGWISE_DATA`` names. The figures are
in ``studies/results/threshold-folds.md``.
"""

import argparse
import time
import warnings

import numpy as np

from bagwise import Bags
from bagwise.base import bag_folds
from bagwise.base.thresholds import out_of_fold_scores, sigmoid_threshold
from bagwise.compose import OnInstances, WrapperMI
from bagwise.datasets import fetch, load_digit_bags
from bagwise.svm import MIODM, SBMIL, STMIL

METHODS = {
    "MIODM": lambda: MIODM(threshold="zero", random_state=0),
    "SBMIL": lambda: SBMIL(threshold="zero"),
    "STMIL": lambda: STMIL(threshold="zero"),
    "WrapperMI": lambda: WrapperMI(threshold="zero"),
}
SETS = ("musk1", "elephant", "fox", "tiger", "digits", "one in ten", "rare class")
FOLDS = (2, 3, 5)


def bags_of(name):
    """Return standardized bags and labels 0 and 1."""
    if name in ("one in ten", "rare class"):
        rng = np.random.default_rng(0)
        y = (np.arange(120) % (2 if name == "one in ten" else 6) == 0).astype(int)
        bags = [rng.normal(size=(10, 10)) for _ in y]
        for bag, label in zip(bags, y, strict=True):
            bag[0, :4] += 1.5 * label
        return Bags.from_list(bags), y
    data = load_digit_bags() if name == "digits" else fetch(name)
    X, y = data.X, data.y
    return OnInstances().fit_transform(X), (y == np.unique(y)[-1]).astype(int)


def evaluate(make, X, y, outer, repeats):
    """Return balanced accuracy and relative cost for every number of folds."""
    right, cost = [], []
    for seed in range(repeats):
        for train, test in bag_folds(X, y, outer, random_state=seed):
            t, weight = np.where(y[train] > 0, 1.0, -1.0), np.ones(len(train))
            start = time.process_time()
            model = make().fit(X[train], y[train])
            once = time.process_time() - start
            scores, found = model.decision_function(X[test]), []
            row = [0.0]
            for n_folds in FOLDS:
                start = time.process_time()
                held = out_of_fold_scores(model, X[train], t, weight, n_folds)
                found.append(1.0 + (time.process_time() - start) / once)
                row.append(sigmoid_threshold(held, t > 0))
            classes = [y[test] == k for k in (0, 1)]
            right.append(
                [
                    np.mean([((scores > c) == y[test])[k].mean() for k in classes])
                    for c in row
                ]
            )
            cost.append(found)
    return np.array(right), np.median(cost, axis=0)


def main():
    """Print one table row per method and set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--outer", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.sets:
        X, y = bags_of(name)
        for method in args.methods:
            right, cost = evaluate(METHODS[method], X, y, args.outer, args.repeats)
            mean = " | ".join(f"{v:.3f}" for v in right.mean(axis=0))
            gap = right[:, 1:3] - right[:, 3:]
            error = gap.std(axis=0, ddof=1) / np.sqrt(len(gap))
            gaps = " | ".join(
                f"{m:+.3f} ± {e:.3f}"
                for m, e in zip(gap.mean(axis=0), error, strict=True)
            )
            times = " | ".join(f"{v:.1f}" for v in cost)
            print(f"| {name} | {method} | {mean} | {gaps} | {times} |", flush=True)


if __name__ == "__main__":
    main()
