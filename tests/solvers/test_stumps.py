"""Stumps against trying every threshold of every feature."""

import numpy as np
import pytest
import scipy.sparse as sp

from bagwise.solvers.stumps import SortedColumns, Stump


def best_gain(data, w):
    """Largest sum of w h over constants and all thresholds, by trying them."""
    gains = [abs(w.sum())]
    for f in range(data.shape[1]):
        for threshold in np.unique(data[:, f]):
            gains.append(abs(w @ np.where(data[:, f] > threshold, 1.0, -1.0)))
    return max(gains)


def problem(seed, kind):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 40)), int(rng.integers(1, 6))
    data = rng.normal(size=(n, d))
    if kind == "ties":
        data = np.round(data)
    if kind == "sparse":
        data[rng.random(data.shape) < 0.6] = 0.0
    if kind == "positive":
        data = np.abs(np.round(data, 1))
    return data, rng.normal(size=n)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("kind", ["plain", "ties", "sparse", "positive"])
def test_gain_is_the_largest_there_is(kind, layout):
    for seed in range(60):
        data, w = problem(seed, kind)
        given = layout(data)
        stump = SortedColumns(given).best_stump(w)
        h = stump.predict(given)
        assert set(np.unique(h)) <= {-1.0, 1.0}
        assert w @ h == pytest.approx(best_gain(data, w), rel=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_dense_and_sparse_find_the_same_stump(seed):
    data, w = problem(seed, "sparse")
    dense = SortedColumns(data).best_stump(w)
    sparse = SortedColumns(sp.csr_matrix(data)).best_stump(w)
    assert (dense.feature, dense.threshold, dense.sign) == (
        sparse.feature,
        sparse.threshold,
        sparse.sign,
    )


def test_explicit_zeros_are_zeros():
    data = sp.csr_matrix(
        (np.array([0.0, 1.0, -1.0, 0.0]), ([0, 1, 2, 3], [0, 0, 0, 0])), shape=(5, 1)
    )
    w = np.array([1.0, -5.0, 1.0, 1.0, 1.0])
    stump = SortedColumns(data).best_stump(w)
    assert (stump.feature, stump.threshold, stump.sign) == (0, 0.5, -1.0)


def test_order_of_rows_does_not_decide_between_equal_thresholds():
    """Three copies of a column and a mirror: the first wins, whatever the rounding."""
    rng = np.random.default_rng(3)
    column = rng.normal(size=50)
    data = np.column_stack([column, 2 * column, -column, column**3])
    for _ in range(30):
        w = rng.normal(size=50) / 3
        order = rng.permutation(50)
        a = SortedColumns(data).best_stump(w)
        b = SortedColumns(data[order]).best_stump(w[order])
        assert a.feature in (-1, 0)
        assert (a.feature, a.threshold, a.sign) == (b.feature, b.threshold, b.sign)


def test_no_threshold_between_neighbours_in_floating_point():
    low = 1.0
    high = np.nextafter(low, 2.0)
    data = np.array([[low], [high]])
    stump = SortedColumns(data).best_stump(np.array([-1.0, 1.0]))
    np.testing.assert_array_equal(stump.predict(data), [-1.0, 1.0])


def test_huge_values_do_not_overflow():
    data = np.array([[-1.7e308], [1.7e308]])
    stump = SortedColumns(data).best_stump(np.array([1.0, -1.0]))
    np.testing.assert_array_equal(stump.predict(data), [1.0, -1.0])


def test_constant_columns_give_a_constant_stump():
    data = np.full((4, 3), 2.0)
    stump = SortedColumns(data).best_stump(np.array([-1.0, -1.0, 1.0, -1.0]))
    assert stump.feature == -1
    np.testing.assert_array_equal(stump.predict(data), -np.ones(4))


def test_single_precision_read_only_rows():
    data, w = problem(1, "plain")
    data = data.astype(np.float32)
    data.flags.writeable = False
    h = SortedColumns(data).best_stump(w).predict(data)
    assert w @ h == pytest.approx(best_gain(data, w), rel=1e-10)


def test_too_large_for_the_memory_budget(monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY", "1000")
    with pytest.raises(ValueError, match="sorted columns"):
        SortedColumns(np.zeros((100, 10)))


def test_stump_says_what_it_does():
    assert repr(Stump(2, 0.5, -1)) == "Stump(-1 if x[2] > 0.5 else +1)"
    assert repr(Stump(-1, -np.inf, 1)) == "Stump(+1)"
