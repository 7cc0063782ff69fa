"""Check that what is not tuned gives labels worth its scores."""

import warnings

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from bagwise.bags import Bags
from bagwise.base import best_threshold
from bagwise.compose import OnInstances
from bagwise.datasets import make_bags, make_key_instance_bags
from bagwise.testing._tools import fit, need_classifier, output

_N_TRAIN, _N_TEST = 60, 100
# Scores separate from here on; labels may be that much worse than at the best cut.
_SEPARATE, _WORSE = 0.8, 0.10
# Ten seconds for each problem: these are asked one, that with few positive bags.
_LONG = ("AttentionBagClassifier", "BagClassifier")


def _witness(n_bags):
    return make_bags(n_bags, n_features=4, bag_size=(3, 8), shift=3.0, random_state=1)


def _few_positive(n_bags):
    X, y = make_bags(3 * n_bags, n_features=4, bag_size=(3, 8), random_state=2)
    n_positive = n_bags // 4
    negative, positive = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    chosen = np.concatenate([negative[: n_bags - n_positive], positive[:n_positive]])
    chosen = np.random.default_rng(2).permutation(chosen)
    return X[chosen], y[chosen]


def _shifted(n_bags):
    """Every instance of a positive bag is moved: the other end of the assumption."""
    rng = np.random.default_rng(3)
    y = np.arange(n_bags) % 2
    sizes = rng.integers(3, 9, n_bags)
    bags = [rng.normal(0.6 * k, 1.0, (n, 4)) for n, k in zip(sizes, y, strict=True)]
    return Bags.from_list(bags), y


def _key_instance(n_bags):
    return make_key_instance_bags(
        n_bags, n_features=4, bag_size=(4, 10), random_state=4
    )


DRAWN = (_witness, _few_positive, _shifted, _key_instance)


def check_defaults_decide(estimator):
    """Where the scores of the defaults separate held-out bags, so do the labels."""
    need_classifier(estimator)
    name = type(estimator).__name__
    estimator = type(estimator)()
    for draw in (_few_positive,) if name in _LONG else DRAWN:
        X, y = draw(_N_TRAIN + _N_TEST)
        train, test = slice(0, _N_TRAIN), slice(_N_TRAIN, None)
        X = OnInstances(StandardScaler()).fit(X[train]).transform(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = output(fit(estimator, X[train], y[train]), X[test])
        truth = y[test] == 1
        area = roc_auc_score(truth, scores)
        ours = np.mean((scores > 0) == truth)
        best = np.mean((scores > best_threshold(scores, truth)) == truth)
        assert area <= _SEPARATE or ours >= best - _WORSE, (
            f"{draw.__name__}: the area under the ROC curve is {area:.2f}, the best "
            f"cut is right for {best:.2f} of the bags and the default for {ours:.2f}"
        )
