import numpy as np
import pytest

from bagwise.comparison import (
    compare,
    half_splits,
    leave_one_bag_out,
    repeated_kfold,
    train_test,
)
from bagwise.comparison._protocols import check_size, list_folds, split

Y = np.array([0] * 12 + [1] * 9)


@pytest.mark.parametrize(
    "protocol", [repeated_kfold(4, 3), leave_one_bag_out()], ids=["kfold", "loo"]
)
def test_every_bag_is_tested_once_a_repeat(protocol):
    seen = {}
    for repeat, fold in list_folds(protocol, len(Y)):
        train, test = split(protocol, Y, repeat, fold, seed=3)
        assert not set(train) & set(test)
        assert set(train) | set(test) == set(range(len(Y)))
        seen.setdefault(repeat, []).extend(test)
    for tested in seen.values():
        assert sorted(tested) == list(range(len(Y)))


def test_repeats_differ_and_seeds_fix_them():
    protocol = repeated_kfold(3, 2)
    first = split(protocol, Y, 0, 0, 0)[1]
    np.testing.assert_array_equal(first, split(protocol, Y, 0, 0, 0)[1])
    assert list(first) != list(split(protocol, Y, 1, 0, 0)[1])
    assert list(first) != list(split(protocol, Y, 0, 0, 1)[1])


def test_half_splits_keep_the_share_of_classes():
    for repeat, fold in list_folds(half_splits(4), len(Y)):
        train, test = split(half_splits(4), Y, repeat, fold, 0)
        assert abs(len(train) - len(test)) <= 1
        assert abs(Y[test].mean() - Y.mean()) < 0.05


def test_train_test_takes_the_files_as_they_are():
    train, test = split(train_test(15), Y, 0, 0, 0)
    assert list(train) == list(range(15))
    assert list(test) == list(range(15, 21))


@pytest.mark.parametrize(
    ("protocol", "inner", "need"),
    [(repeated_kfold(5), 0, 5), (repeated_kfold(5), 5, 7), (half_splits(2), 3, 6)],
)
def test_the_stated_need_is_the_true_one(protocol, inner, need):
    """With as many bags as stated, every fold has both classes inside and out."""
    y = np.array([0] * need + [1] * (need + 3))
    check_size(protocol, y, inner)
    for repeat, fold in list_folds(protocol, len(y)):
        train, test = split(protocol, y, repeat, fold, 0)
        assert np.bincount(y[train], minlength=2).min() >= inner
        assert len(np.unique(y[train])) == 2
    with pytest.raises(ValueError, match=f"needs at least {need}"):
        check_size(protocol, y[1:], inner)


def test_three_bags_are_too_few_and_the_message_says_why():
    bags = [np.zeros((2, 2)), np.ones((3, 2)), np.ones((1, 2))]
    with pytest.raises(ValueError, match="class 0 has 1 of 3 bags.*at least 5 of each"):
        compare(bags, [0, 1, 1], methods=["SimpleMI"])


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="one class only"):
        compare([np.zeros((2, 2))] * 8, [1] * 8, methods=["SimpleMI"])
