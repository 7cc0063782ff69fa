"""Accuracy of MILBoost, MILES and MI-SVM next to variants that other packages use.

Each variant changes one thing by public parameters, or takes scikit-learn's solver on
the same features, so that a difference to another package has a cause::

    python studies/scripts/peer_accuracy.py MILBoost --sets musk1 elephant

Ten-fold cross-validation with standardized features, repeated with several divisions;
the divisions are the same for all variants, so that differences to the first one are
paired. Their standard errors are those of `bagwise.comparison.difference`. The classic
sets are read from the folder that ``BAGWISE_DATA`` names. The figures are in
``studies/results/peer-accuracy.md``.
"""

import argparse
import warnings

import numpy as np
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from bagwise import Bags
from bagwise.base import bag_folds
from bagwise.comparison import contributions, difference
from bagwise.compose import OnInstances
from bagwise.datasets import fetch
from bagwise.embedding import MILES, PrototypeEmbedding
from bagwise.ensemble import MILBoost
from bagwise.svm import MISVM


class OnPrototypes:
    """scikit-learn's 1-norm SVM on the similarities of MILES: what mil fits."""

    def __init__(self, gamma, **options):
        self.embed = PrototypeEmbedding(gamma=gamma, max_prototypes=None)
        self.svm = LinearSVC(penalty="l1", dual=False, max_iter=10_000, **options)

    def fit(self, X, y):
        """Fit both."""
        self.svm.fit(self.embed.fit_transform(X), y)
        return self

    def decision_function(self, X):
        """Return the scores of bags."""
        return self.svm.decision_function(self.embed.transform(X))


class MeanIntercept:
    """MI-SVM with misvm's intercept: the mean of y - w'x over all support vectors.

    Support vectors inside the margin count in it, so that it is not the minimizer.
    """

    def __init__(self, **options):
        self.model = MISVM(**options)

    def fit(self, X, y):
        """Fit, then find the shift of the scores."""
        self.model.fit(X, y)
        support = self.model.support_vectors_
        scores = self.model.instance_scores(Bags(support, [0, len(support)])).values
        self.shift = np.mean(np.sign(self.model.dual_coef_) - scores)
        return self

    def decision_function(self, X):
        """Return the scores of bags."""
        return self.model.decision_function(X) + self.shift


def variants(method, n_features):
    """Return functions that make a model, the default or the reference first."""
    gamma, tree = 1.0 / n_features, DecisionTreeClassifier(max_depth=1, random_state=0)
    if method == "MILBoost":
        return {
            "50 rounds, stumps of the likelihood": lambda: MILBoost(50),
            "50 rounds, trees of one split (Gini)": lambda: MILBoost(
                50, estimator=tree
            ),
            "100 rounds, stumps of the likelihood": lambda: MILBoost(100),
            "50 rounds, power 5, stumps": lambda: MILBoost(
                50, pooling="power", alpha=5.0
            ),
            "50 rounds, power 5, trees (Gini)": lambda: MILBoost(
                50, pooling="power", alpha=5.0, estimator=tree
            ),
        }
    if method == "MILES":
        shared = {"C": 10.0, "gamma": gamma}
        return {
            "C=10": lambda: MILES(**shared),
            "C=10, balanced": lambda: MILES(**shared, class_weight="balanced"),
            "LinearSVC": lambda: OnPrototypes(**shared, random_state=0),
            "LinearSVC, balanced (as mil)": lambda: OnPrototypes(
                **shared, class_weight="balanced", random_state=0
            ),
            "LinearSVC, intercept_scaling=100": lambda: OnPrototypes(
                **shared, intercept_scaling=100.0, random_state=0
            ),
            "default": MILES,
        }
    shared = {"C": 10.0, "gamma": gamma, "threshold": "zero"}
    return {
        "input mean, threshold zero": lambda: MISVM(**shared, init="input_mean"),
        "the same, intercept of misvm": lambda: MeanIntercept(
            **shared, init="input_mean"
        ),
        "the same, tol=1e-8": lambda: MISVM(**shared, init="input_mean", tol=1e-8),
        "feature mean, threshold zero": lambda: MISVM(**shared, init="feature_mean"),
        "input mean, threshold of training scores": lambda: MISVM(
            10.0, gamma=gamma, init="input_mean"
        ),
        "default": MISVM,
    }


def evaluate(make, X, y, repeats):
    """Return accuracy and AUROC with the contribution of every bag."""
    parts = []
    for repeat in range(repeats):
        for fold, (train, test) in enumerate(bag_folds(X, y, 10, random_state=repeat)):
            scale = OnInstances().fit(X[train])
            model = make().fit(scale.transform(X[train]), y[train])
            score = model.decision_function(scale.transform(X[test]))
            where = np.full_like(test, repeat), np.full_like(test, 10 * repeat + fold)
            parts.append((test, *where, score))
    bag, repeat, run, score = map(np.concatenate, zip(*parts, strict=True))
    rows = {"truth": y[bag].astype(int), "label": (score > 0).astype(int)}
    rows["score"] = score
    return [
        contributions(metric, rows, bag, run=run, repeat=repeat)
        for metric in ("accuracy", "auroc")
    ]


def main():
    """Print one table row per set and variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=("MILBoost", "MILES", "MI-SVM"))
    parser.add_argument("--sets", nargs="*", default=["musk1", "elephant"])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.sets:
        data = fetch(name)
        y = data.y == np.unique(data.y)[1]
        first = None
        for what, make in variants(args.method, data.X.n_features).items():
            found = evaluate(make, data.X, y, args.repeats)
            first = first or found
            cells = [name, what]
            for own, base in zip(found, first, strict=True):
                gap = difference(own, base)
                text = f"{gap.effect:+.3f} ± {gap.error:.3f}"
                cells += [f"{own.value:.3f}", "–" if own is base else text]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
