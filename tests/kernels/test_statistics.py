import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from bagwise import Bags
from bagwise.kernels import statistics_kernel
from bagwise.kernels._distribution import bag_extremes


def extremes(X):
    return np.array([np.concatenate([b.min(axis=0), b.max(axis=0)]) for b in X])


def test_equals_a_kernel_on_minimum_and_maximum(make, as_csr):
    X, Y = make([1, 4, 2, 1044], sparse=True), make([3, 1], sparse=True)
    S, T = extremes(X), extremes(Y)
    assert_allclose(statistics_kernel(X, Y, gamma=0.2), rbf_kernel(S, T, gamma=0.2))
    poly = {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.5}
    expected = polynomial_kernel(S, T, gamma=0.5, degree=2, coef0=1.5)
    assert_allclose(statistics_kernel(X, Y, **poly), expected)
    assert_allclose(statistics_kernel(as_csr(X), as_csr(Y), **poly), expected)
    K = statistics_kernel(X, gamma=0.2)
    assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12


@pytest.mark.parametrize("density", [0.0, 0.2, 0.9])
def test_sparse_extremes_count_the_absent_zeros(rng, density):
    dense = rng.normal(size=(20, 6)) * (rng.random((20, 6)) < density)
    X = Bags(dense, [0, 1, 5, 8, 20])
    S = bag_extremes(X.with_data(sp.csr_array(dense)))
    assert sp.issparse(S)
    assert_array_equal(S.toarray(), extremes(X))


def test_the_width_is_that_of_the_reference_bags(make):
    train, test = make([3, 2, 4]), make([2, 2], shift=3.0)
    S, T = extremes(test), extremes(train)
    expected = rbf_kernel(S, T, gamma=1.0 / (6 * T.var()))
    assert_allclose(statistics_kernel(test, train), expected, rtol=1e-12)
