import numpy as np
import pytest
from sklearn.base import clone

from bagwise.kernels import BoxGrid


def levels(grid, values):
    return grid.transform([np.asarray(values, dtype=float)[:, None]])[0][:, 0]


def fitted(strategy, values, **params):
    return BoxGrid(strategy, **params).fit([np.asarray(values, float)[:, None]])


def test_equal_width():
    grid = fitted("width", [0.0, 10.0], n_levels=5)
    x = [-1.0, 0.0, 1.99, 2.0, 5.0, 9.99, 10.0, 99.0]
    np.testing.assert_array_equal(levels(grid, x), [0, 0, 0, 1, 2, 4, 4, 4])


def test_integers_are_kept_and_clipped():
    grid = fitted("integer", [-3, 4, 0])
    assert grid.max_level_.tolist() == [7]
    np.testing.assert_array_equal(levels(grid, [-9, -3, 0, 4, 5]), [0, 0, 3, 7, 7])


def test_rank_among_training_values():
    grid = fitted("rank", [5.0, 1.0, 5.0, 2.5])
    x = [0.0, 1.0, 2.0, 2.5, 4.0, 5.0, 6.0]
    np.testing.assert_array_equal(levels(grid, x), [0, 0, 0, 1, 1, 2, 2])


def test_quantiles_share_the_instances():
    values = np.random.default_rng(0).lognormal(size=1000)
    grid = fitted("quantile", values, n_levels=4)
    counts = np.bincount(levels(grid, values).astype(int))
    assert counts.tolist() == [250, 250, 250, 250]
    ties = fitted("quantile", [0.0] * 90 + [1.0] * 10, n_levels=4)
    np.testing.assert_array_equal(levels(ties, [0.0, 0.5, 1.0]), [0, 0, 1])


def test_each_dimension_for_itself():
    X = [np.array([[0.0, 5.0, 1.0], [1.0, 7.0, 1.0]])]
    grid = BoxGrid(["width", "integer", "rank"], n_levels=[4, 9, 9]).fit(X)
    assert grid.max_level_.tolist() == [3, 2, 0]
    assert sorted(grid.order_.tolist()) == [0, 1]  # a constant feature is no dimension
    assert np.exp(grid.log_n_boxes_) == pytest.approx(10 * 6)


def test_bounds_say_which_values_are_inside():
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(200, 2))]
    grid = BoxGrid(n_levels=6).fit(X)
    low, high = np.array([[1, 0]]), np.array([[3, 2]])
    bounds = grid.bounds(low, high)[0]
    x = 2.0 * rng.normal(size=(500, 2))
    inside = ((x >= bounds[:, 0]) & (x < bounds[:, 1])).all(axis=1)
    at = grid.levels([x])
    np.testing.assert_array_equal(inside, ((at >= low) & (at <= high)).all(axis=1))
    assert bounds[1, 0] == -np.inf


def test_bad_input():
    with pytest.raises(ValueError, match="whole numbers: feature 1"):
        BoxGrid("integer").fit([np.array([[1.0, 2.5], [2.0, 3.0]])])
    grid = fitted("integer", [0, 3])
    with pytest.raises(ValueError, match="whole numbers"):
        levels(grid, [0.5])
    with pytest.raises(ValueError, match="more than"):
        fitted("integer", [0, 1e6])
    with pytest.raises(ValueError, match="levels"):
        fitted("rank", np.arange(70_000))
    with pytest.raises(ValueError, match="n_levels"):
        fitted("width", [0, 1], n_levels=[3, 4])
    with pytest.raises(ValueError, match="strategy"):
        BoxGrid(["width", "nonsense"]).fit([np.zeros((2, 2))])


def test_training_statistics_ignore_orders_and_duplicates():
    rng = np.random.default_rng(2)
    bags = [rng.normal(size=(4, 3)) for _ in range(5)]
    again = [np.repeat(rng.permutation(b), 2, axis=0) for b in bags[::-1]]
    a, b = BoxGrid().fit(bags), clone(BoxGrid()).fit(again)
    np.testing.assert_array_equal(a.anchors_, b.anchors_)
    np.testing.assert_array_equal(a.order_, b.order_)
    assert a.mean_bag_size_ == b.mean_bag_size_ == 4.0
