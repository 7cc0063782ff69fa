"""Splits keep groups together and say what they cannot do."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold, StratifiedKFold

from bagwise import Bags
from bagwise.base import bag_folds
from bagwise.base.folds import copied_bags, kept_together, most_folds
from bagwise.datasets import make_bags


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


def _copied(kind):
    """Return 24 bags, of which the last eight are copies, and the originals of all."""
    X, y = make_bags(16, n_features=3, random_state=0)
    data = X.data.copy()
    data[3, 1], data[4, 1], data[5] = np.nan, 0.0, 0.0
    if kind == "sparse":
        data = sp.csr_matrix(np.nan_to_num(data) * (np.abs(np.nan_to_num(data)) > 0.5))
    elif kind == "float32":
        data = data.astype(np.float32)
    original = np.append(np.arange(16), np.arange(8))
    return X.with_data(data), y, original


@pytest.mark.parametrize("kind", ["float64", "float32", "sparse", "shuffled", "zeros"])
def test_copies_of_a_bag_share_a_fold(kind):
    X, y, original = _copied(kind)
    assert copied_bags(X) is None
    assert kept_together(X) is None
    parts = X[original].to_list()
    if kind == "shuffled":  # the order of instances is no difference
        parts = [part[::-1] for part in parts[:8]] + parts[8:]
    elif kind == "zeros":
        parts = [np.where(part == 0, -0.0, part) for part in parts[:8]] + parts[8:]
    twice = Bags.from_list(parts)
    np.testing.assert_array_equal(copied_bags(twice), original)
    for target in (y[original], np.random.default_rng(0).normal(size=24)):
        for seed in range(4):
            folds = bag_folds(twice, target, 4, seed)
            assert _covered(folds, 24)
            for train, test in folds:
                assert not set(original[train]) & set(original[test])
    # The folds are those of the bags without their copies.
    for (train, _), (alone, _) in zip(
        bag_folds(twice, y[original], 4, 1), bag_folds(X, y, 4, 1), strict=True
    ):
        np.testing.assert_array_equal(np.unique(original[train]), alone)


def test_copies_with_other_labels_and_groups_share_a_fold():
    X, y, original = _copied("float64")
    X = X[original]
    for train, test in bag_folds(X, np.arange(24) % 2, 3):
        assert not set(original[train]) & set(original[test])
    # Bag 16 is a copy of bag 0: their groups are one unit.
    X = X[:17].with_groups(np.repeat(np.arange(9), 2)[:17])
    units = kept_together(X)
    assert units[0] == units[1] == units[16]
    assert len(set(units)) == 8
    for train, test in bag_folds(X, y[original[:17]], 3):
        assert not set(units[train]) & set(units[test])


def test_copies_count_once_unless_nothing_else_is_there():
    X, y, _ = _copied("float64")
    few = np.append(np.arange(6), np.arange(6))
    smallest = int(min(np.bincount(y[:6])))
    assert most_folds(X[few], y[few], 12) == smallest
    message = f"{smallest + 1} different bags of class [01], there are {smallest}"
    with pytest.raises(ValueError, match=message):
        bag_folds(X[few], y[few], smallest + 1)
    # One bag per class leaves no folds: copies are bags like others then.
    same = np.zeros(8, dtype=int)
    assert most_folds(X[same], np.arange(8) % 2, 4) == 4
    assert len(bag_folds(X[same], np.arange(8) % 2, 4)) == 4


def test_copies_on_disk_are_found(tmp_path):
    X, _, original = _copied("float64")
    stacked = np.nan_to_num(X[original].data).astype(np.float16)
    np.save(tmp_path / "rows.npy", stacked)
    stored = np.load(tmp_path / "rows.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        copied_bags(Bags(stored, X[original].offsets)), original
    )
