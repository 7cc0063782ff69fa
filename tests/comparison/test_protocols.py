import numpy as np
import pytest
from toy_methods import make_problem, toy

from bagwise.comparison import (
    CrossValidation,
    Halves,
    LeaveOneBagOut,
    TrainTest,
    compare,
)

Y = np.array([0] * 12 + [1] * 9)


@pytest.mark.parametrize(
    "protocol", [CrossValidation(4, 3), LeaveOneBagOut()], ids=["kfold", "loo"]
)
def test_every_bag_is_tested_once_a_repeat(protocol):
    seen = {}
    for repeat, fold in protocol.folds(len(Y)):
        train, test = protocol.split(Y, repeat, fold, random_state=3)
        assert not set(train) & set(test)
        assert set(train) | set(test) == set(range(len(Y)))
        seen.setdefault(repeat, []).extend(test)
    for tested in seen.values():
        assert sorted(tested) == list(range(len(Y)))


def test_repeats_differ_and_seeds_fix_them():
    protocol = CrossValidation(3, 2)
    first = protocol.split(Y, 0, 0, 0)[1]
    np.testing.assert_array_equal(first, protocol.split(Y, 0, 0, 0)[1])
    assert list(first) != list(protocol.split(Y, 1, 0, 0)[1])
    assert list(first) != list(protocol.split(Y, 0, 0, 1)[1])


def test_half_splits_keep_the_share_of_classes():
    for repeat, fold in Halves(4).folds(len(Y)):
        train, test = Halves(4).split(Y, repeat, fold, 0)
        assert abs(len(train) - len(test)) <= 1
        assert abs(Y[test].mean() - Y.mean()) < 0.05


def test_train_test_takes_the_files_as_they_are():
    train, test = TrainTest(15).split(Y, 0, 0, 0)
    assert list(train) == list(range(15))
    assert list(test) == list(range(15, 21))


@pytest.mark.parametrize(
    ("protocol", "inner", "need"),
    [(CrossValidation(5), 0, 5), (CrossValidation(5), 5, 7), (Halves(2), 3, 6)],
)
def test_the_stated_need_is_the_true_one(protocol, inner, need):
    """With as many bags as stated, every fold has both classes inside and out."""
    y = np.array([0] * need + [1] * (need + 3))
    protocol.check(y, inner)
    for repeat, fold in protocol.folds(len(y)):
        train, test = protocol.split(y, repeat, fold, 0)
        assert np.bincount(y[train], minlength=2).min() >= inner
        assert len(np.unique(y[train])) == 2
    with pytest.raises(ValueError, match=f"needs at least {need}"):
        protocol.check(y[1:], inner)


def test_three_bags_are_too_few_and_the_message_says_why():
    bags = [np.zeros((2, 2)), np.ones((3, 2)), np.ones((1, 2))]
    with pytest.raises(ValueError, match="class 0 has 1 of 3 bags.*at least 5 of each"):
        compare(bags, [0, 1, 1], methods=["SimpleMI"])


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="only one class"):
        compare([np.zeros((2, 2))] * 8, [1] * 8, methods=["SimpleMI"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CrossValidation(1), "n_splits >= 2, got 1"),
        (lambda: Halves(0), "n_repeats >= 1"),
        (lambda: TrainTest(1), "n_train >= 2"),
    ],
)
def test_impossible_protocols_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("protocol", [LeaveOneBagOut(), Halves(1)])
def test_every_protocol_ends_in_a_ranking(protocol):
    problem = make_problem(24)
    found = compare(
        problem,
        methods=[toy("a"), toy("b")],
        protocol=protocol,
        grid="none",
        n_jobs=1,
        time_limit=None,
        progress=False,
    )
    first, second = found.ranking
    assert first.n_folds == len(protocol.folds(24))
    assert first.low <= first.mean <= first.high
    assert second.p == 1.0  # the same method twice
    assert found.to_json()["protocol"]["kind"] == protocol.kind


@pytest.mark.parametrize(("n", "runs"), [(198, 10), (200, 5)])
def test_few_bags_are_partitioned_twice_by_default(n, runs):
    options = {"methods": [toy("a")], "grid": "none", "n_jobs": 1, "progress": False}
    found = compare(make_problem(n), **options)
    assert len(found.rows) == runs
