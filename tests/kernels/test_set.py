import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import (
    laplacian_kernel,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
)

from bagwise import Bags
from bagwise.kernels import bag_kernel, set_kernel
from bagwise.kernels._tiles import StackedRows, self_sums, weighted_sums
from bagwise.kernels.additive import ADDITIVE_KERNELS, additive_features
from bagwise.kernels.basis import fit_basis
from bagwise.kernels.registry import BAG_KERNELS, KERNEL_RESOLVERS

INSTANCE = {
    "rbf": lambda A, B: rbf_kernel(A, B, gamma=0.3),
    "linear": linear_kernel,
    "poly": lambda A, B: polynomial_kernel(A, B, degree=2, gamma=0.3, coef0=0.5),
    "laplacian": lambda A, B: laplacian_kernel(A, B, gamma=0.3),
}
PARAMS = {"gamma": 0.3, "degree": 2, "coef0": 0.5}


def reference(X, Y, k, power, normalization):
    def total(A, B):
        return (k(A, B) ** power).sum()

    def norm(A):
        return {"feature": np.sqrt(total(A, A)), "average": len(A), None: 1.0}[
            normalization
        ]

    return np.array([[total(A, B) / (norm(A) * norm(B)) for B in Y] for A in X])


@pytest.mark.parametrize("kernel", sorted(INSTANCE))
@pytest.mark.parametrize("power", [1, 3])
@pytest.mark.parametrize("normalization", ["feature", "average", None])
def test_equals_the_double_sum(make, as_csr, kernel, power, normalization):
    X, Y = make([1, 4, 2, 7], sparse=True), make([3, 1, 5], sparse=True)
    params = {**PARAMS, "kernel": kernel, "power": power}
    params["normalization"] = normalization
    k = INSTANCE[kernel]
    assert_allclose(
        set_kernel(X, Y, **params), reference(X, Y, k, power, normalization), rtol=1e-10
    )
    K = set_kernel(X, **params)
    assert_allclose(K, reference(X, X, k, power, normalization), rtol=1e-10)
    assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() >= -1e-10 * np.trace(K)
    assert_allclose(set_kernel(as_csr(X), **params), K, rtol=1e-10)
    assert_allclose(set_kernel(X, X, **params), K, rtol=1e-10)


def test_bags_cut_by_tile_borders(make):
    """Sizes as in Musk2: bags of one next to a bag larger than two tiles."""
    X = make([1, 1044, 1, 2, 600, 3, 1], n_features=5)
    k = INSTANCE["rbf"]
    expected = reference(X, X, k, 1, "average")
    K = set_kernel(X, gamma=0.3, normalization="average")
    assert_allclose(K, expected, rtol=1e-10)
    assert_array_equal(K, K.T)
    assert_allclose(
        set_kernel(X[1:], X, gamma=0.3, normalization="average"),
        expected[1:],
        rtol=1e-10,
    )
    assert_allclose(np.diag(set_kernel(X, gamma=0.3)), 1.0, rtol=1e-12)


def test_tiles_with_weights_and_empty_bags(rng):
    data, offsets = rng.normal(size=(9, 2)), np.array([0, 0, 4, 4, 9, 9])
    weight = rng.random(9)
    U = np.zeros((5, 9))
    for i in range(5):
        rows = slice(offsets[i], offsets[i + 1])
        U[i, rows] = weight[rows]
    stack = StackedRows(data, offsets, weight)

    def evaluate(A, B):
        return linear_kernel(A, B)

    expected = U @ data @ data.T @ U.T
    for tile in (2, 3, 100):
        assert_allclose(
            weighted_sums(stack, None, evaluate, tile=tile), expected, atol=1e-14
        )
        assert_allclose(
            weighted_sums(stack, stack, evaluate, tile=tile), expected, atol=1e-14
        )
        assert_allclose(
            self_sums(stack, evaluate, tile=tile), np.diag(expected), atol=1e-14
        )


def test_the_width_is_that_of_the_reference_bags(make):
    train, test = make([3, 2, 4]), make([2, 2], shift=3.0)
    K = set_kernel(test, train)
    width = 1.0 / (3 * train.data.var())
    assert_allclose(K, set_kernel(test, train, gamma=width), rtol=1e-13)
    assert_allclose(set_kernel(train[:1], train), set_kernel(train)[:1], rtol=1e-12)


def test_far_from_the_origin(make):
    X = make([3, 5, 2])
    far = X.with_data(X.data + 1e5)
    assert_allclose(
        set_kernel(far, gamma=0.5), set_kernel(X, gamma=0.5), rtol=1e-8, atol=1e-10
    )


def test_instances_that_cancel_out_have_no_similarity():
    bag = np.array([[0.1, 0.3], [0.7, -0.9], [-0.8, 0.6]])  # sums to rounding
    K = set_kernel([bag, [[2.0, 0.0]]], kernel="linear")
    assert_array_equal(K, [[0.0, 0.0], [0.0, 1.0]])


def test_explicit_features_reproduce_the_kernel(make):
    X = make([1, 6, 3, 2])
    basis = fit_basis(X.data, kernel="rbf", gamma=0.4, method="eigh", tol=1e-14)
    settings = [("set", {"normalization": n}) for n in ("feature", "average", None)]
    settings += [("mi_graph", {"norm": n}) for n in ("paper", "code")]
    for name, given in settings:
        params = KERNEL_RESOLVERS[name](X, gamma=0.4, **given)
        weight, instance = ADDITIVE_KERNELS[name](X, params)
        F = additive_features(X, basis, weight)
        assert instance["gamma"] == 0.4
        assert_allclose(F @ F.T, bag_kernel(X, metric=name, **params), atol=1e-10)


def test_duplicates_change_nothing(make):
    X = make([2, 3, 1])
    twice = Bags.from_list([np.repeat(b, 2, axis=0) for b in X])
    for normalization in ("feature", "average"):
        assert_allclose(
            set_kernel(twice, normalization=normalization),
            set_kernel(X, normalization=normalization),
            rtol=1e-12,
        )


def test_dispatch_and_unknown_names(make):
    X = make([2, 3])
    assert_array_equal(bag_kernel(X, gamma=1.0), set_kernel(X, gamma=1.0))
    assert {"set", "statistics", "graph", "mi_graph", "emd"} <= set(BAG_KERNELS)
    with pytest.raises(ValueError, match="unknown bag kernel 'sett'; known are.*'set'"):
        bag_kernel(X, metric="sett")
    with pytest.raises(ValueError, match="known are 'rbf', 'linear'"):
        set_kernel(X, kernel="gauss")
    with pytest.raises(ValueError, match="normalization 'sum'; known are 'feature'"):
        set_kernel(X, normalization="sum")
    with pytest.raises(ValueError, match="power must be an integer"):
        set_kernel(X, power=0.5)
    with pytest.raises(ValueError, match="gamma must be a positive number"):
        set_kernel(X, gamma=-1.0)
    with pytest.raises(ValueError, match="X has 3 features and Y has 2"):
        set_kernel(X, make([2], n_features=2))


def test_a_matrix_beyond_the_budget_is_refused(make, monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY", "1KB")
    X = make([1] * 20)
    with pytest.raises(ValueError, match=r"20 x 20 bags would take.*n_components"):
        set_kernel(X)
