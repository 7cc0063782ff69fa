import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from bagwise import Bags
from bagwise.kernels import hausdorff
from bagwise.kernels._tiles import exact_squared_distances


def brute(A, B, mode):
    D = cdist(A, B)
    nearest = np.concatenate([D.min(axis=1), D.min(axis=0)])
    return {"min": D.min(), "max": nearest.max(), "mean": nearest.mean()}[mode]


@pytest.mark.parametrize("mode", ["min", "max", "mean"])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_equals_brute_force(make, as_csr, mode, shift):
    X = make([1, 3, 1044, 2, 5], shift=shift)
    Y = make([4, 600, 1], shift=shift)
    expected = np.array([[brute(a, b, mode) for b in Y] for a in X])
    assert_allclose(hausdorff(X, Y, mode), expected, rtol=1e-6 if shift else 1e-11)
    D = hausdorff(X, mode=mode)
    assert_array_equal(D, D.T)
    assert_array_equal(np.diag(D), 0.0)
    assert_allclose(hausdorff(X[3:], X, mode), D[3:], rtol=1e-9, atol=1e-12)
    if not shift:
        assert_allclose(hausdorff(as_csr(X), as_csr(Y), mode), expected, rtol=1e-9)


def test_order_of_the_three(make):
    X = make([1, 3, 8, 2])
    low, mid, high = (hausdorff(X, mode=mode) for mode in ("min", "mean", "max"))
    assert (low <= mid).all()
    assert (mid <= high + 1e-15).all()


def test_max_is_a_metric(make):
    D = hausdorff(make([2, 3, 1, 4, 6]), mode="max")
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :] + 1e-12).all()


def test_a_bag_seen_again_is_at_distance_zero(make, as_csr):
    """The matrix product alone would give 1e-7 here."""
    X = make([3, 4, 5], n_features=50, shift=100.0)
    for Z in (X, as_csr(X), X.with_data(X.data.astype(np.float32))):
        for mode in ("min", "max", "mean"):
            assert_array_equal(np.diag(hausdorff(Z, Z[np.arange(3)], mode)), 0.0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.floats(1e-9, 1e-4))
def test_close_pairs_keep_their_digits(seed, step):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(6, 4))
    B = np.concatenate([A[:3] + step * rng.normal(size=(3, 4)), A[3:]])
    expected = cdist(A, B, "sqeuclidean")
    assert_allclose(exact_squared_distances(A, B), expected, rtol=1e-7)


def test_unknown_mode(make):
    with pytest.raises(ValueError, match="unknown mode 'avg'; known are 'min', 'max'"):
        hausdorff(make([2]), mode="avg")


def test_input_is_checked():
    with pytest.raises(ValueError, match="NaN"):
        hausdorff(Bags([[np.nan]], [0, 1]))
