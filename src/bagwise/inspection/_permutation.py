"""Importance of features by permuting them over instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import check_scoring
from sklearn.utils import Bunch, check_random_state

from bagwise.bags import Bags, as_bags
from bagwise.inspection.groups import feature_groups

__all__ = ["bag_permutation_importance"]

OVER = ("all", "within", "between")
Rows = NDArray[np.int64]


def bag_permutation_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    over: str = "all",
    groups: Mapping[str, Any] | None = None,
    scoring: Any = None,
    n_repeats: int = 5,
    random_state: Any = None,
) -> Bunch:
    """Measure how much a score falls when a feature is permuted over instances.

    The function of scikit-learn shuffles the rows of a matrix and cannot be used on
    bags, whose rows are instances while the labels belong to bags. This one shuffles
    the values of a feature over instances, in one of three ways that break different
    things.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of bags.
    X : Bags or list of 2-D arrays
        Bags, best such that the model has not seen.
    y : array-like of shape (n_bags,)
        One label or target per bag.
    over : {"all", "within", "between"}, default="all"
        - "all": over all instances of all bags. The feature then tells nothing at all.
        - "within": over the instances of each bag. What a bag has of the feature stays,
          which instance has it does not: shows features that matter together with
          others of the same instance.
        - "between": bags exchange their values, in the order of instances. A bag that
          gets values of a smaller one gets them repeated, of a larger one a draw of
          them. What is usual inside a bag stays, the link to the label does not.
    groups : dict of str to list, default=None
        Features (numbers or names) that are permuted together, such as the columns of
        one category; by default each on its own.
    scoring : str or callable, default=None
        As in scikit-learn; the model's `score` by default.
    n_repeats : int, default=5
        Permutations of each feature.
    random_state : int, RandomState instance or None, default=None
        Fixes the permutations.

    Returns
    -------
    Bunch
        `importances_mean`, `importances_std` of shape (n_groups,), `importances` of
        shape (n_groups, n_repeats), `names` and the score before, `baseline`.

    Notes
    -----
    Predicts `X` ``n_repeats`` times for every feature. Features that tell the same
    hide each other: group them.

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.inspection import bag_permutation_importance
    >>> from bagwise.svm import MISVM
    >>> X, y = make_bags(random_state=0)  # the first feature makes a bag positive
    >>> found = bag_permutation_importance(MISVM().fit(X, y), X, y, random_state=0)
    >>> found.names[found.importances_mean.argmax()]
    'x0'
    """
    if over not in OVER:
        raise ValueError(f"over must be one of {', '.join(OVER)}, got {over!r}.")
    if n_repeats < 1:
        raise ValueError(f"n_repeats must be at least 1, got {n_repeats}.")
    X = as_bags(X)
    if len(y) != len(X):
        raise ValueError(f"y has {len(y)} entries for {len(X)} bags.")
    names, columns = feature_groups(X, groups)
    scorer = check_scoring(model, scoring=scoring)
    rng = check_random_state(random_state)
    baseline = float(scorer(model, X, y))
    swap = _swapper(X)
    falls = np.empty((len(names), n_repeats))
    for r in range(n_repeats):
        for k, own in enumerate(columns):
            shuffled = swap(own, _source(X, over, rng))
            falls[k, r] = baseline - float(scorer(model, shuffled, y))
    return Bunch(
        importances_mean=falls.mean(axis=1),
        importances_std=falls.std(axis=1),
        importances=falls,
        names=names,
        baseline=baseline,
    )


def _source(X: Bags, over: str, rng: Any) -> Rows:
    """Return for every row the row that its values are taken from."""
    n = X.n_instances
    if over == "all":
        return rng.permutation(n)
    if over == "within":
        return np.lexsort((rng.random_sample(n), X.bag_index))
    giver = rng.permutation(len(X))
    parts = []
    for i, j in enumerate(giver):
        own, other = int(X.sizes[i]), int(X.sizes[j])
        if other > own:
            places = np.sort(rng.choice(other, own, replace=False))
        else:
            places = np.arange(own) % other
        parts.append(X.offsets[j] + places)
    return np.concatenate(parts)


def _swapper(X: Bags) -> Any:
    """Return a function that gives `X` with some columns taken from other rows."""
    if not X.is_sparse:

        def dense(columns: Rows, source: Rows) -> Bags:
            data = np.array(X.data)
            data[:, columns] = X.data[np.ix_(source, columns)]
            return X.with_data(data, feature_names=X.feature_names)

        return dense
    by_column = sp.csc_matrix(X.data)

    def sparse(columns: Rows, source: Rows) -> Bags:
        keep = np.ones(X.n_features)
        keep[columns] = 0.0
        rest = X.data @ sp.diags(keep, format="csr")
        moved = sp.csr_matrix(by_column[:, columns])[source]
        place = sp.csr_matrix(
            (np.ones(len(columns)), (np.arange(len(columns)), columns)),
            shape=(len(columns), X.n_features),
        )
        data = sp.csr_matrix(rest + moved @ place)
        data.eliminate_zeros()
        return X.with_data(data, feature_names=X.feature_names)

    return sparse
