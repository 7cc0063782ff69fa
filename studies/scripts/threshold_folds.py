"""The decision threshold from out-of-fold scores: accuracy and cost of short cuts.

With ``threshold="cv"`` folds end once 60 bags of each class have scores, and MI-ODM
keeps the mixture of its fit in the folds. This script fits each method once, finds the
threshold as the library does and from full fits to all folds (5, or those given), and
applies both to the same held-out bags (five outer folds, repeated)::

    python studies/scripts/threshold_folds.py --methods SBMIL --sets tiger [--folds 3 5]

The costs are CPU seconds of the fit and of the folds over those of the fit. With
``--scores`` it prints what the first k of five folds give, on simulated bags with many
test bags. The classic sets are read from the folder that ``BAGWISE_DATA`` names. The
figures are in ``studies/results/threshold-folds.md``.
"""

import argparse
import time
import warnings

import numpy as np

from bagwise import Bags
from bagwise.base import BinaryBagClassifier, bag_folds
from bagwise.base.thresholds import out_of_fold_scores, sigmoid_threshold
from bagwise.compose import OnInstances, WrapperMI
from bagwise.datasets import (
    fetch,
    load_digit_bags,
    make_bags,
    make_generalized_bags,
    make_key_instance_bags,
)
from bagwise.svm import MIODM, SBMIL, STMIL

METHODS = {
    "MIODM": lambda: MIODM(threshold="zero", random_state=0),
    "SBMIL": lambda: SBMIL(threshold="zero"),
    "STMIL": lambda: STMIL(threshold="zero"),
    "WrapperMI": lambda: WrapperMI(threshold="zero"),
}
MADE = {
    "simulated": lambda: make_bags(240, random_state=1),
    "long bags": lambda: make_bags(160, bag_size=(10, 20), shift=2.0, random_state=1),
    "key instances": lambda: make_key_instance_bags(240, random_state=1),
    "boxes": lambda: make_generalized_bags(240, random_state=1),
    "digits": lambda: load_digit_bags(return_X_y=True),
    "one in ten": lambda: one_in_ten(120, 2),
    "rare class": lambda: one_in_ten(120, 6),
}


def one_in_ten(n_bags, share, seed=0, size=10):
    """Simulate bags of normal instances; one of ``share`` bags has a shifted one."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n_bags) % share == 0).astype(int)
    rows = rng.normal(size=(n_bags * size, 10))
    rows[np.flatnonzero(y) * size, :4] += 1.5
    return Bags(rows, np.arange(0, n_bags * size + 1, size)), y


def bags_of(name):
    """Return standardized bags and labels 0 and 1."""
    X, y = MADE[name]() if name in MADE else fetch(name, return_X_y=True)
    y = (np.asarray(y) == np.unique(y)[-1]).astype(int)
    return X if X.is_sparse else OnInstances().fit_transform(X), y


def full_fits(model, X, t, n_splits):
    """Return out-of-fold scores of a full fit to every fold."""
    scores, weight = np.empty(len(t)), np.ones(len(t))
    for train, test in bag_folds(X, t, n_splits):
        one = BinaryBagClassifier._fitted_to_fold(model, X, t, weight, train)
        scores[test] = one._score_bags(X[test])
    return scores


def evaluate(make, X, y, folds, repeats):
    """Return accuracies and relative costs: zero, the library, full fits."""
    right, cost = [], []
    for seed in range(repeats):
        for train, test in bag_folds(X, y, 5, random_state=seed):
            t = np.where(y[train] > 0, 1.0, -1.0)
            start = time.process_time()
            model = make().fit(X[train], y[train])
            once = time.process_time() - start
            scores = model.decision_function(X[test])
            row, times = [((scores > 0.0) == y[test]).mean()], []
            for n_folds in (None, *folds):
                start = time.process_time()
                if n_folds is None:
                    held = out_of_fold_scores(model, X[train], t, np.ones(len(t)))
                else:
                    held = full_fits(model, X[train], t, n_folds)
                times.append(1.0 + (time.process_time() - start) / once)
                known = np.isfinite(held)
                threshold = sigmoid_threshold(held[known], t[known] > 0)
                row.append(((scores > threshold) == y[test]).mean())
            right.append(row)
            cost.append(times)
    return np.array(right), np.median(cost, axis=0)


def first_folds(make, share, n_bags, repeats):
    """Return accuracies with the threshold from the first 1 to 5 of five folds."""
    found = []
    for seed in range(repeats):
        X, y = one_in_ten(n_bags + 2_000, share, seed, size=6)
        train, test = slice(0, n_bags), slice(n_bags, None)
        own, t = X[train], np.where(y[train] > 0, 1.0, -1.0)
        model = make().fit(own, y[train])
        scores, row = model.decision_function(X[test]), []
        held = np.full(n_bags, np.nan)
        for inside, outside in bag_folds(own, t, 5):
            one = model._fitted_to_fold(own, t, np.ones(n_bags), inside)
            held[outside] = one._score_bags(own[outside])
            known = np.isfinite(held)
            threshold = sigmoid_threshold(held[known], t[known] > 0)
            row.append(((scores > threshold) == y[test]).mean())
        found.append(row)
    return np.array(found)


def paired(gap):
    """Return the mean of differences and its standard error, as text."""
    error = gap.std(axis=0, ddof=1) / np.sqrt(len(gap))
    return [f"{m:+.3f} ± {e:.3f}" for m, e in zip(gap.mean(axis=0), error, strict=True)]


def main():
    """Print one table row per method and set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--sets", nargs="*", default=list(MADE))
    parser.add_argument("--folds", nargs="*", type=int, default=[5])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--scores", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.scores:
        for method in args.methods:
            for share in (2, 6):
                for n_bags in (150, 400):
                    right = first_folds(METHODS[method], share, n_bags, args.repeats)
                    gaps = paired(right[:, :4] - right[:, 4:])
                    cells = [method, f"{n_bags} bags, one of {share} positive"]
                    print("|", " | ".join([*cells, *gaps]), "|", flush=True)
        return
    for name in args.sets:
        X, y = bags_of(name)
        for method in args.methods:
            right, cost = evaluate(METHODS[method], X, y, args.folds, args.repeats)
            cells = [name, method, *(f"{v:.3f}" for v in right.mean(axis=0))]
            cells += paired(right[:, [1]] - right[:, 2:])
            cells += [f"{v:.1f}" for v in cost]
            print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
