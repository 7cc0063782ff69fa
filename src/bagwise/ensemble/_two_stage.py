"""Boosted trees of instances, and boosted trees on the distribution of their scores."""

from numbers import Integral

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from bagwise._compat import Interval
from bagwise.bags.segments import repeat
from bagwise.base import WeightedBagClassifier, bag_folds
from bagwise.base.folds import most_folds
from bagwise.compose.forests import decision_values
from bagwise.ensemble._inputs import spread_out

# Quantiles of the scores of a bag, and number of its largest scores, used as features.
_QUANTILES, _LARGEST = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0), 3
# Bound on the log-odds of instances: pure leaves are not certain.
_BOUND = 10.0


class TwoStageBoosting(WeightedBagClassifier):
    r"""Boost trees on quantiles of the scores that boosted trees give to instances.

    Instances inherit the label of their bag. Half of the bags train the scores of the
    other half; new bags get the mean of both. The second stage learns from quantiles
    of the scores of a bag, its largest ones, their mean, and the log of its size: it
    can count instances as well as look for a single one.

    Parameters
    ----------
    max_iter : int, default=100
        Trees of each model of instances.
    max_leaf_nodes : int, default=15
        Leaves of these trees.
    max_samples : int or None, default=None
        Instances that a model learns from at most.
    random_state : int or RandomState, default=None
        Seeds the halves and the trees.

    Attributes
    ----------
    instance_models_ : list of HistGradientBoostingClassifier
        One model of instances for each half.
    bag_model_ : HistGradientBoostingClassifier
        The second stage.
    """

    _parameter_constraints: dict = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_leaf_nodes": [Interval(Integral, 2, None, closed="left")],
        "max_samples": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self, max_iter=100, *, max_leaf_nodes=15, max_samples=None, random_state=None
    ):
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.max_samples = max_samples
        self.random_state = random_state

    def _fit_binary(self, X, t, bag_weight):
        even = (bag_weight == 1.0).all()  # weights slow down scikit-learn's trees
        self.instance_models_, scores = [], np.empty(X.n_instances)
        for learn, held in self._halves(X, t):
            held = np.sort(held)
            part = X[learn]
            rows = spread_out(part.n_instances, self.max_samples or part.n_instances)
            weight = None if even else repeat(bag_weight[learn], part.offsets)[rows]
            model = HistGradientBoostingClassifier(
                max_iter=self.max_iter,
                max_leaf_nodes=self.max_leaf_nodes,
                early_stopping=False,
                random_state=self.random_state,
            )
            labels = repeat(t[learn] > 0, part.offsets)[rows]
            model.fit(part.data[rows], labels, sample_weight=weight)
            self.instance_models_.append(model)
            scores[np.isin(X.bag_index, held)] = _log_odds(model, X[held].data)
        self.bag_model_ = HistGradientBoostingClassifier(
            max_iter=60,
            max_leaf_nodes=6,
            early_stopping=False,
            random_state=self.random_state,
        )
        rows = score_statistics(scores, X.offsets)
        self.bag_model_.fit(rows, t > 0, sample_weight=None if even else bag_weight)

    def _halves(self, X, t):
        """Return two folds with both classes; without them, all bags twice."""
        if most_folds(X, t, 2) == 2:
            folds = bag_folds(X, t, 2, random_state=self.random_state)
            if all(len(np.unique(t[learn])) == 2 for learn, _ in folds):
                return folds
        everything = np.arange(len(X))
        return [(everything, everything)]

    def _score_instances(self, X):
        return np.mean([_log_odds(m, X.data) for m in self.instance_models_], axis=0)

    def _score_bags(self, X):
        rows = score_statistics(self._score_instances(X), X.offsets)
        return decision_values(self.bag_model_, rows)


def _log_odds(model, rows):
    return np.clip(decision_values(model, rows), -_BOUND, _BOUND)


def score_statistics(scores, offsets):
    """Return quantiles, largest values, mean and log size of the scores of each bag.

    Parameters
    ----------
    scores : ndarray of shape (n_instances,)
        A score per instance.
    offsets : ndarray of shape (n_bags + 1,)
        Where bags begin.

    Returns
    -------
    ndarray of shape (n_bags, n_statistics)
    """
    sizes = np.diff(offsets)
    bag = np.repeat(np.arange(len(sizes)), sizes)
    ranked = scores[np.lexsort((scores, bag))]
    columns = []
    for q in _QUANTILES:
        place = q * (sizes - 1)
        low = np.floor(place).astype(int)
        high = np.minimum(low + 1, sizes - 1)
        first, second = ranked[offsets[:-1] + low], ranked[offsets[:-1] + high]
        columns.append(first + (place - low) * (second - first))
    for k in range(1, _LARGEST):
        columns.append(ranked[offsets[1:] - 1 - np.minimum(k, sizes - 1)])
    columns.append(np.bincount(bag, weights=scores) / sizes)
    columns.append(np.log(sizes))
    return np.column_stack(columns)
