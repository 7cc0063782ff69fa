"""Folds for the decision threshold from out-of-fold scores: accuracy and cost.

With ``threshold="cv"`` a method is fitted once more for each fold of the training bags.
This script fits each method once, finds thresholds from 2, 3 and 5 folds, and scores
them on the same held-out bags (outer folds, repeated)::

    python studies/scripts/threshold_folds.py --methods SBMIL --sets musk1

Differences have the standard errors of `bagwise.comparison.difference`. The last
columns are the CPU seconds of the fit and of the folds over those of the fit. The
classic sets are read from the folder that ``BAGWISE_DATA`` names. The figures are in
``studies/results/threshold-folds.md``.
"""

import argparse
import time
import warnings

import numpy as np

from bagwise import Bags
from bagwise.base import bag_folds
from bagwise.base.thresholds import out_of_fold_scores, sigmoid_threshold
from bagwise.comparison import contributions, difference
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
    """Return balanced accuracy for every number of folds, and the relative cost."""
    parts, cost = [], []
    for repeat in range(repeats):
        splits = bag_folds(X, y, outer, random_state=repeat)
        for fold, (train, test) in enumerate(splits):
            t, weight = np.where(y[train] > 0, 1.0, -1.0), np.ones(len(train))
            start = time.process_time()
            model = make().fit(X[train], y[train])
            once = time.process_time() - start
            thresholds, found = [0.0], []
            for n_folds in FOLDS:
                start = time.process_time()
                held = out_of_fold_scores(model, X[train], t, weight, n_folds)
                found.append(1.0 + (time.process_time() - start) / once)
                thresholds.append(sigmoid_threshold(held, t > 0))
            above = model.decision_function(X[test])[:, None] > thresholds
            run = np.full_like(test, outer * repeat + fold)
            parts.append((test, run, above.astype(int)))
            cost.append(found)
    bag, run, label = map(np.concatenate, zip(*parts, strict=True))
    found = [
        contributions(
            "balanced_accuracy", {"truth": y[bag], "label": own}, bag, run=run
        )
        for own in label.T
    ]
    return found, np.median(cost, axis=0)


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
            found, cost = evaluate(METHODS[method], X, y, args.outer, args.repeats)
            mean = " | ".join(f"{own.value:.3f}" for own in found)
            pairs = [difference(own, found[-1]) for own in found[1:-1]]
            gaps = " | ".join(f"{one.effect:+.3f} ± {one.error:.3f}" for one in pairs)
            times = " | ".join(f"{v:.1f}" for v in cost)
            print(f"| {name} | {method} | {mean} | {gaps} | {times} |", flush=True)


if __name__ == "__main__":
    main()
