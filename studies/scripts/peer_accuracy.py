"""Accuracy of MILBoost, MILES and MI-SVM next to variants that other packages use.

Each variant changes one thing by public parameters, or takes scikit-learn's solver on
the same features, so that a difference to another package has a cause::

    python studies/scripts/peer_accuracy.py MILBoost --sets musk1 elephant

Ten-fold cross-validation with standardized features, repeated with several divisions;
the divisions are the same for all variants, so that differences to the first one are
paired. The classic sets are read from the folder that ``BAGWISE_DATA`` names. The
figures are in ``studies/results/peer-accuracy.md``.
"""

import argparse
import warnings

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from bagwise import Bags
from bagwise.base import bag_folds
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


def evaluate(make, X, y, seed):
    """Return accuracy over all bags and the mean AUROC of folds."""
    right, areas = np.zeros(len(y)), []
    for train, test in bag_folds(X, y, 10, random_state=seed):
        scale = OnInstances().fit(X[train])
        model = make().fit(scale.transform(X[train]), y[train])
        score = model.decision_function(scale.transform(X[test]))
        right[test] = (score > 0) == y[test]
        areas.append(roc_auc_score(y[test], score))
    return right.mean(), np.mean(areas)


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
            found = [evaluate(make, data.X, y, seed) for seed in range(args.repeats)]
            found = np.array(found)
            first = found if first is None else first
            mean, gap = found.mean(axis=0), found - first
            error = gap.std(axis=0, ddof=1) / np.sqrt(len(gap))
            gap = gap.mean(axis=0)
            print(
                f"| {name} | {what} | {mean[0]:.3f} | {gap[0]:+.3f} ± {error[0]:.3f} "
                f"| {mean[1]:.3f} | {gap[1]:+.3f} ± {error[1]:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
