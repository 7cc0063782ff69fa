"""Features: their names, groups and spread, and their importance by permutation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import check_scoring
from sklearn.utils import Bunch, check_random_state

from bagwise.bags import Bags
from bagwise.bags.chunks import Chunks
from bagwise.bags.validation import in_bag_order
from bagwise.inspection.scores import bags_for

__all__ = [
    "bag_permutation_importance",
    "feature_groups",
    "feature_name",
    "moments",
    "top_features",
]

OVER = ("all", "within", "between")
Rows = NDArray[np.int64]


def feature_name(X: Bags, column: int) -> str:
    """Return the name of a column; ``x`` and its number if it has no name."""
    names = X.feature_names
    return f"x{column}" if names is None else str(names[column])


def feature_groups(
    X: Bags, groups: Mapping[str, Any] | None
) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Return the names and the columns of groups of features.

    Parameters
    ----------
    X : Bags
        The bags.
    groups : dict of str to list, or None
        Columns (numbers or names) of each group; None for each feature on its own.
    """
    if groups is None:
        columns = [np.array([j]) for j in range(X.n_features)]
        return [feature_name(X, j) for j in range(X.n_features)], columns
    if not isinstance(groups, Mapping) or not groups:
        raise TypeError("groups must be a dict that maps names to lists of columns.")
    known = {} if X.feature_names is None else _places(X.feature_names)
    found = []
    for name, members in groups.items():
        listed = [members] if isinstance(members, str | int) else list(members)
        columns = []
        for one in listed:
            place = known.get(one) if isinstance(one, str) else int(one)
            if place is None or not 0 <= place < X.n_features:
                raise ValueError(
                    f"group {name!r} contains {one!r}, which is not a feature of X."
                )
            columns.append(place)
        if not columns:
            raise ValueError(f"group {name!r} is empty.")
        found.append(np.array(columns, dtype=np.int64))
    together = np.concatenate(found)
    if len(np.unique(together)) < len(together):
        twice = together[np.flatnonzero(np.bincount(together)[together] > 1)[0]]
        name = feature_name(X, int(twice))
        raise ValueError(f"feature {name} is listed twice in groups.")
    return list(groups), found


def _places(names: Any) -> dict[str, int]:
    return {str(name): j for j, name in enumerate(names)}


def moments(X: Bags) -> tuple[Any, Any]:
    """Return mean and standard deviation of every feature over all instances.

    Missing values are excluded.
    """
    if X.is_sparse:
        data = X.data
        mean = np.asarray(data.mean(axis=0)).ravel()
        square = np.asarray(data.multiply(data).mean(axis=0)).ravel()
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    else:
        count, mean, squares = _moments_by_chunks(X)
        spread = np.sqrt(squares / np.maximum(count, 1))
    return mean, np.where(spread > 0, spread, 1.0)


def _moments_by_chunks(X: Bags) -> tuple[Any, Any, Any]:
    """Return counts, means and sums of squared deviations of the columns.

    Chunks are combined around their own means, so no large squares are subtracted, and
    sums are in double precision.
    """
    count, mean, squares = np.zeros((3, X.n_features))
    for chunk in Chunks(X):
        data = chunk.X.data
        gaps = np.isnan(data)
        own = (~gaps).sum(axis=0)
        filled = np.where(gaps, 0.0, data)
        center = filled.sum(axis=0, dtype=np.float64) / np.maximum(own, 1)
        rest = np.where(gaps, 0.0, filled - center)
        total = np.maximum(count + own, 1)
        squares += (rest**2).sum(axis=0, dtype=np.float64)
        squares += (center - mean) ** 2 * count * own / total
        mean += (center - mean) * own / total
        count += own
    return count, mean, squares


def top_features(
    X: Bags, row: int, n: int, mean: Any, spread: Any
) -> list[tuple[str, float, float]]:
    """Return name, value and z-score of the `n` most unusual features of a row."""
    found = X.take_rows(np.array([row]))
    values = found.toarray().ravel() if X.is_sparse else found[0]
    z = np.nan_to_num((values - mean) / spread)  # missing values are not unusual
    z[[*X.codings]] = 0.0  # and codes have no scale
    first = np.argsort(-np.abs(z), kind="stable")[:n]
    names = X.feature_names
    return [
        (str(names[j]) if names is not None else f"x{j}", float(values[j]), float(z[j]))
        for j in first
    ]


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
    """Measure how much a score decreases when a feature is permuted over instances.

    scikit-learn's `permutation_importance` permutes the rows of a matrix and cannot be
    used on bags, whose rows are instances while the labels belong to bags. This
    function permutes the values of a feature over instances, in one of three ways.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of bags.
    X : Bags or list of 2-D arrays
        Bags, preferably held out from training.
    y : array-like of shape (n_bags,)
        One label or target per bag.
    over : {"all", "within", "between"}, default="all"
        - "all": over all instances of all bags. The feature carries no information
          afterwards.
        - "within": over the instances of each bag. The distribution of the feature in
          a bag is kept, its relation to the other features of an instance is not.
        - "between": bags exchange their values, in the order of instances; values of a
          smaller bag are repeated, those of a larger bag subsampled. Relations within a
          bag are kept, the relation to the label is not.
    groups : dict of str to list, default=None
        Features (numbers or names) that are permuted together, such as the columns of
        one category; by default each feature is permuted on its own.
    scoring : str or callable, default=None
        As in scikit-learn; the model's `score` method by default.
    n_repeats : int, default=5
        Number of permutations of each feature.
    random_state : int, RandomState instance or None, default=None
        Random seed of the permutations.

    Returns
    -------
    Bunch
        `importances_mean` and `importances_std` of shape (n_groups,), `importances` of
        shape (n_groups, n_repeats), `names`, and the score without permutation,
        `baseline`.

    Notes
    -----
    Predicts `X` ``n_repeats`` times for every feature. Correlated features mask each
    other: permute them as a group.

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
    X = bags_for(model, X)
    y = in_bag_order(y, X)
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
    """Return for every row the row from which it takes its values."""
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
    """Return a function that permutes the rows of some columns of `X`."""
    if not X.is_sparse:

        def dense(columns: Rows, source: Rows) -> Bags:
            data = np.array(X.data)
            data[:, columns] = X.data[np.ix_(source, columns)]
            return X.with_data(data, feature_names=X.feature_names, codings=X.codings)

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
        return X.with_data(data, feature_names=X.feature_names, codings=X.codings)

    return sparse
