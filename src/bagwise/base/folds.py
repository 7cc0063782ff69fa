"""Splits of bags: groups stay together, every fold has its share of the classes."""

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target

_DISCRETE = ("binary", "multiclass")


def bag_folds(X, y, n_splits=5, random_state=0, *, groups=None):
    """Split bags into folds that keep groups together.

    Parameters
    ----------
    X : Bags or sequence of bags
        The bags. Their `groups`, if they have some, are not split across folds.
    y : array-like of shape (n_bags,) or (n_bags, n_outputs)
        The targets. Labels keep their share in every fold; real values and tables of
        targets are split without regard to them.
    n_splits : int, default=5
        Number of folds.
    random_state : int or RandomState, default=0
        The order in which bags, or groups, are dealt out.
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
    y = np.asarray(y)
    n_bags = len(X)
    if len(y) != n_bags:
        raise ValueError(f"y has {len(y)} entries for {n_bags} bags.")
    codes, discrete = _group_codes(X, groups), _is_discrete(y)
    _refuse_too_few(n_splits, n_bags, y, codes, discrete)
    how = {"n_splits": n_splits, "shuffle": True, "random_state": random_state}
    if codes is None:
        splitter = StratifiedKFold(**how) if discrete else KFold(**how)
    elif discrete:
        # Shuffled here: older versions mix up the labels of groups when they do it.
        order = np.arange(codes.max() + 1)
        check_random_state(random_state).shuffle(order)
        codes = np.argsort(order)[codes]
        splitter = StratifiedGroupKFold(n_splits)
    else:
        splitter = GroupKFold(**how)
    folds = list(splitter.split(np.zeros(n_bags), y, codes))
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
        class if that is less; below 2 no split is possible.
    """
    y = np.asarray(y)
    counts = _counts(len(X), y, _group_codes(X, groups), _is_discrete(y))
    return min(n_splits, min(counts.values()))


def _is_discrete(y):
    return y.ndim == 1 and type_of_target(y) in _DISCRETE


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


def _counts(n_bags, y, codes, discrete):
    """Count what can be dealt out: bags or groups, of each class where there are."""
    units = np.arange(n_bags) if codes is None else codes
    if not discrete:
        return {None: len(np.unique(units))}
    return {label: len(np.unique(units[y == label])) for label in np.unique(y)}


def _refuse_too_few(n_splits, n_bags, y, codes, discrete):
    if n_splits < 2:
        raise ValueError(f"a split needs at least 2 folds, got n_splits={n_splits}.")
    counts = _counts(n_bags, y, codes, discrete)
    label = min(counts, key=counts.get)
    if counts[label] >= n_splits:
        return
    of = "" if label is None else f" with a bag of class {label!s}"
    if codes is None:
        what = "bags" if label is None else f"bags of class {label!s}"
    else:
        what = f"groups{of}"
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
                "to train on, too few groups have such bags. Use fewer folds."
            )
