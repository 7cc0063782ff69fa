"""Splits keep groups together and say what they cannot do."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from bagwise import Bags
from bagwise.base import bag_folds
from bagwise.base.folds import most_folds


def _bags(n_bags, groups=None):
    return Bags(np.zeros((n_bags, 1)), np.arange(n_bags + 1), groups=groups)


def _covered(folds, n_bags):
    tests = np.concatenate([test for _, test in folds])
    return np.array_equal(np.sort(tests), np.arange(n_bags)) and all(
        not set(train) & set(test) for train, test in folds
    )


def test_without_groups_the_splits_are_those_of_scikit_learn():
    y = np.arange(20) % 2
    ours = bag_folds(_bags(20), y, 4, random_state=3)
    theirs = StratifiedKFold(4, shuffle=True, random_state=3).split(np.zeros(20), y)
    for (a, b), (c, d) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)
    real = np.linspace(0.0, 1.0, 20) + 0.001
    ours = bag_folds(_bags(20), real, 4, random_state=3)
    theirs = KFold(4, shuffle=True, random_state=3).split(np.zeros(20))
    for (_, b), (_, d) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(b, d)


@pytest.mark.parametrize("kind", ["labels", "real"])
def test_groups_stay_together(kind):
    rng = np.random.default_rng(0)
    names = np.array([f"patient {i}" for i in range(12)], dtype=object)
    groups = np.repeat(names, 3)
    y = np.repeat(np.arange(12) % 2, 3) if kind == "labels" else rng.normal(size=36)
    X = _bags(36, groups)
    for random_state in range(5):
        folds = bag_folds(X, y, 4, random_state)
        assert _covered(folds, 36)
        for train, test in folds:
            assert not set(groups[train]) & set(groups[test])
            if kind == "labels":
                assert set(y[train]) == {0, 1}
    first, again = bag_folds(X, y, 4, 0), bag_folds(X, y, 4, 0)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(first, again, strict=True))
    drawn = {
        tuple(np.concatenate([t for _, t in bag_folds(X, y, 4, s)])) for s in (1, 2, 3)
    }
    assert len(drawn) > 1


@pytest.mark.parametrize("random_state", range(8))
def test_groups_of_one_class_are_dealt_evenly(random_state):
    y = np.repeat([0, 1, 0, 1, 0, 1], 3)
    groups = np.repeat(list("abcdef"), 3)
    for _, test in bag_folds(_bags(18, groups), y, 3, random_state):
        assert y[test].tolist().count(0) == y[test].tolist().count(1) == 3


def test_groups_given_win_over_those_of_the_bags():
    X = _bags(8, groups=np.arange(8))
    folds = bag_folds(X, [0, 1] * 4, 2, groups=[0, 0, 0, 0, 1, 1, 1, 1])
    assert [sorted(test) for _, test in sorted(folds, key=lambda f: min(f[1]))] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]


def test_too_few_are_refused_with_their_number():
    y = np.array([0] * 9 + [1] * 3)
    with pytest.raises(ValueError, match="4 bags of class 1, there are 3"):
        bag_folds(_bags(12), y, 4)
    groups = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 1])
    with pytest.raises(ValueError, match="3 groups with a bag of class 1, there are 2"):
        bag_folds(_bags(12, groups), y, 3)
    with pytest.raises(ValueError, match="5 groups, there are 2"):
        bag_folds(_bags(12, np.arange(12) % 2), np.linspace(0.1, 1, 12), 5)
    with pytest.raises(ValueError, match="at least 2 folds"):
        bag_folds(_bags(12), y, 1)
    with pytest.raises(ValueError, match="11 entries for 12"):
        bag_folds(_bags(12), y[:-1], 3)
    with pytest.raises(ValueError, match="one entry for each"):
        bag_folds(_bags(12), y, 3, groups=[1, 2])
    assert most_folds(_bags(12), y) == 3
    assert most_folds(_bags(12, groups), y) == 2
    assert most_folds(_bags(12), y, 2) == 2


def test_a_fold_that_takes_a_whole_class_is_refused():
    # Group 0 has nearly all positive bags: whatever is dealt, one fold is extreme.
    y = np.array([1] * 20 + [0] * 4 + [1])
    groups = np.array([0] * 20 + [1, 2, 3, 4] + [0])
    with pytest.raises(ValueError, match="2 groups with a bag of class 1"):
        bag_folds(_bags(25, groups), y, 2)
