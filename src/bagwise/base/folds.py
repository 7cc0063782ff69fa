"""Splits of bags: groups and copies stay together, classes keep their shares."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target

from bagwise.bags import Bags
from bagwise.bags.validation import in_bag_order


def bag_folds(X, y, n_splits=5, random_state=0, *, groups=None):
    """Split bags into folds that keep groups, and copies of a bag, together.

    Parameters
    ----------
    X : Bags or sequence of bags
        The bags. Their `groups`, if they have some, are not split across folds, and
        neither are bags with the same instances, unless fewer than two different bags
        (of a class) would be left.
    y : array-like of shape (n_bags,) or (n_bags, n_outputs)
        The targets. Classes keep their proportions in every fold; real values and
        tables of targets do not affect the split.
    n_splits : int, default=5
        Number of folds.
    random_state : int or RandomState, default=0
        Random seed of the order in which bags, or groups, are assigned to folds.
    groups : array-like of shape (n_bags,), default=None
        The groups; those of `X` by default.

    Returns
    -------
    list of (ndarray, ndarray)
        Positions of training and test bags of each fold.

    See Also
    --------
    most_folds : How many folds are possible.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> from bagwise.base import bag_folds
    >>> X = Bags(np.zeros((6, 1)), np.arange(7), groups=[0, 0, 1, 1, 2, 2])
    >>> [X.groups[test].tolist() for _, test in bag_folds(X, [0, 1] * 3, 3)]
    [[2, 2], [1, 1], [0, 0]]
    """
    y = np.asarray(in_bag_order(y, X))
    if len(y) != len(X):
        raise ValueError(f"y has {len(y)} entries for {len(X)} bags.")
    discrete = _is_discrete(y)
    codes = _units(X, y, groups, discrete)
    grouped = groups is not None or getattr(X, "groups", None) is not None
    _refuse_too_few(n_splits, y, codes, discrete, grouped)
    how = {"n_splits": n_splits, "shuffle": True, "random_state": random_state}
    if codes is not None and not grouped:
        first = np.unique(codes, return_index=True)[1]
        if not discrete or (y == y[first][codes]).all():
            # Copies are assigned with the first one: duplicating a bag changes no fold.
            parts = bag_folds(first, y[first], n_splits, random_state)
            of = [[np.isin(codes, part) for part in pair] for pair in parts]
            return [(np.flatnonzero(one), np.flatnonzero(two)) for one, two in of]
    if codes is None:
        splitter = StratifiedKFold(**how) if discrete else KFold(**how)
    elif discrete:
        # Shuffled here: older versions of scikit-learn mix up the labels of groups.
        order = np.arange(codes.max() + 1)
        check_random_state(random_state).shuffle(order)
        codes = np.argsort(order)[codes]
        splitter = StratifiedGroupKFold(n_splits)
    else:
        splitter = GroupKFold(**how)
    folds = list(splitter.split(y, y, codes))
    if discrete and codes is not None:
        _refuse_lost_class(folds, y)
    return folds


def most_folds(X, y, n_splits=5, *, groups=None):
    """Return how many folds `bag_folds` can make, at most `n_splits`.

    Parameters
    ----------
    X : Bags or sequence of bags
        The bags.
    y : array-like of shape (n_bags,) or (n_bags, n_outputs)
        The targets.
    n_splits : int, default=5
        Number of folds that are wanted.
    groups : array-like of shape (n_bags,), default=None
        The groups; those of `X` by default.

    Returns
    -------
    int
        With labels, the number of bags (or of groups with such a bag) of the rarest
        class if that is less; copies of a bag count once. Below 2 no split is possible.
    """
    y = np.asarray(y)
    discrete = _is_discrete(y)
    counts = _counts(len(X), y, _units(X, y, groups, discrete), discrete)
    return min(n_splits, min(counts.values()))


def kept_together(X, groups=None):
    """Number the units that no split may divide: groups, and copies of a bag.

    Parameters
    ----------
    X : Bags
        The bags.
    groups : array-like of shape (n_bags,), default=None
        The groups; those of `X` by default. Groups that share a copy are one unit.

    Returns
    -------
    ndarray of shape (n_bags,) or None
        The unit of each bag, in order of appearance; None if every bag is its own.
    """
    codes, copies = _group_codes(X, groups), copied_bags(X)
    if codes is None or copies is None:
        return codes if copies is None else np.unique(copies, return_inverse=True)[1]
    n = int(max(codes.max(), len(X)) + 1)
    links = coo_array((np.ones(len(X)), (codes, copies + n)), shape=(2 * n, 2 * n))
    return _group_codes(X, connected_components(links, directed=False)[1][codes])


def copied_bags(X):
    """Return for every bag the first one with the same instances; None without copies.

    The order of the instances does not matter, except for bags on disk.
    """
    if not isinstance(X, Bags):
        return None
    marks = X.sizes.astype(np.uint64)
    if X.on_disk:
        heads = Bags(X.take_rows(X.offsets[:-1]), np.arange(X.n_bags + 1))
        marks = _hash_bags(heads) * np.uint64(_ODD) + marks
    _, place, count = np.unique(marks, return_inverse=True, return_counts=True)
    alike = np.flatnonzero(count[place] > 1)  # the sizes of all others are unique
    if not len(alike):
        return None
    chosen = X if len(alike) == len(X) else X[alike]
    rows = max(1, _CHUNK // X.n_features)
    parts = [_hash_bags(chunk) for chunk in chosen.iter_chunks(rows)]
    marks = np.stack([marks[alike], np.concatenate(parts)], axis=1)
    _, first, place = np.unique(marks, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(alike):
        return None
    out = np.arange(len(X))
    out[alike] = alike[first[place.reshape(-1)]]
    return out


_ODD = 0x9E3779B97F4A7C15
_CHUNK = 2**20  # entries hashed at a time


def _hash_bags(X):
    """Return 64 bits of the values of every bag, whatever the order of instances."""
    keys = np.random.default_rng(0).integers(2**63, size=X.n_features, dtype=np.uint64)
    keys = 2 * keys + np.uint64(1)
    if X.is_sparse:
        data = X.data.tocsr()
        # Sums modulo 2^64 are exact, so that differences of cumulative sums are, too.
        total = _cumulated(_mixed(data.data) * keys[data.indices] * (data.data != 0))
        rows = total[data.indptr[1:]] - total[data.indptr[:-1]]
    else:
        rows = (_mixed(X.data) * keys).sum(axis=1, dtype=np.uint64)
    total = _cumulated(_mixed(rows))
    return total[X.offsets[1:]] - total[X.offsets[:-1]]


def _mixed(values):
    if values.dtype != np.uint64:
        values = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    values = values * np.uint64(_ODD)
    return values ^ (values >> np.uint64(32))


def _cumulated(values):
    return np.concatenate([np.zeros(1, np.uint64), values.cumsum(dtype=np.uint64)])


def _is_discrete(y):
    return y.ndim == 1 and type_of_target(y) in ("binary", "multiclass")


def _group_codes(X, groups):
    """Return the groups as numbers, whatever they are called, or None."""
    groups = getattr(X, "groups", None) if groups is None else np.asarray(groups)
    if groups is None:
        return None
    if groups.shape != (len(X),):
        raise ValueError(
            f"groups must have one entry for each of the {len(X)} bags, got shape "
            f"{groups.shape}."
        )
    seen = {}
    return np.array([seen.setdefault(g, len(seen)) for g in groups.tolist()])


def _units(X, y, groups, discrete):
    """Return the number of the unit of each bag that is assigned to folds, or None."""
    units = kept_together(X, groups)
    if units is not None and min(_counts(len(X), y, units, discrete).values()) < 2:
        return _group_codes(X, groups)  # too few distinct bags for folds
    return units


def _counts(n_bags, y, codes, discrete):
    """Count what can be dealt out: bags or groups, of each class where there are."""
    units = np.arange(n_bags) if codes is None else codes
    if not discrete:
        return {None: len(np.unique(units))}
    return {label: len(np.unique(units[y == label])) for label in np.unique(y)}


def _refuse_too_few(n_splits, y, codes, discrete, grouped):
    if n_splits < 2:
        raise ValueError(f"a split needs at least 2 folds, got n_splits={n_splits}.")
    counts = _counts(len(y), y, codes, discrete)
    label = min(counts, key=counts.get)
    if counts[label] >= n_splits:
        return
    what = "groups" if grouped else "bags" if codes is None else "different bags"
    if label is not None:
        what += f" {'with a bag of' if grouped else 'of'} class {label!s}"
    raise ValueError(
        f"{n_splits} folds need at least {n_splits} {what}, there are "
        f"{counts[label]}. Use fewer folds."
    )


def _refuse_lost_class(folds, y):
    for number, (train, _) in enumerate(folds):
        missing = np.setdiff1d(y, y[train])
        if missing.size:
            raise ValueError(
                f"fold {number} holds all bags of class {missing[0]!s}: none is left "
                "for training, because too few groups have such bags. Use fewer folds."
            )
