import warnings

import numpy as np
import ot
import pytest
import scipy.sparse as sp
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.exceptions import ConvergenceWarning

from bagwise import Bags
from bagwise.kernels import distances as emd_module
from bagwise.kernels import emd_distances, emd_kernel
from bagwise.kernels.distances import fit_emd, thin_bags


def by_linprog(A, B):
    n, m = len(A), len(B)
    rows, cols = np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))
    mass = np.concatenate([np.full(n, 1 / n), np.full(m, 1 / m)])
    cost = cdist(A, B).ravel()
    return linprog(cost, A_eq=np.vstack([rows, cols]), b_eq=mass).fun


@pytest.fixture
def bags(make):
    return make([1, 4, 2, 7, 3, 3])


def test_equals_linear_programming(bags, make, as_csr):
    other = make([5, 1, 6])
    expected = np.array([[by_linprog(a, b) for b in other] for a in bags])
    assert_allclose(emd_distances(bags, other), expected, rtol=1e-9)
    assert_allclose(emd_distances(as_csr(bags), as_csr(other)), expected, rtol=1e-9)
    D = emd_distances(bags)
    assert_allclose(D[:3, 3:], [[by_linprog(a, b) for b in bags[3:]] for a in bags[:3]])
    assert_array_equal(D, D.T)
    assert_allclose(emd_distances(bags[2:], bags), D[2:], atol=1e-12)


def test_bounds_and_metric(bags):
    D = emd_distances(bags)
    assert_array_equal(np.diag(D), 0.0)
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :] + 1e-12).all()
    for i, A in enumerate(bags):
        for j, B in enumerate(bags):
            pairs = cdist(A, B)
            lower = max(pairs.min(axis=1).mean(), pairs.min(axis=0).mean())
            if i != j:
                assert lower - 1e-12 <= D[i, j] <= pairs.max() + 1e-12
            means = np.linalg.norm(A.mean(axis=0) - B.mean(axis=0))
            assert means <= D[i, j] + 1e-12


def test_equal_sizes_are_an_assignment(make):
    A, B = make([9, 9])
    C = cdist(A, B)
    expected = C[linear_sum_assignment(C)].mean()
    assert_allclose(emd_distances([A], [B]), [[expected]], rtol=1e-12)


@pytest.mark.parametrize("spread", [None, 3])
def test_all_sizes_agree_with_pot(rng, spread):
    """Also with many equal costs, and on both sides of the limit of the own solver."""
    sizes = rng.integers(1, 48, 24)
    X = Bags(rng.normal(size=(sizes.sum(), 2)), np.append(0, np.cumsum(sizes)))
    if spread:
        X = X.with_data(np.round(X.data * spread / 2))
    masses = [ot.unif(n) for n in sizes]
    expected = [
        [ot.emd2(p, q, cdist(A, B)) for q, B in zip(masses, X, strict=True)]
        for p, A in zip(masses, X, strict=True)
    ]
    D = emd_distances(X, list(X), max_instances=None)
    assert_allclose(D, expected, rtol=1e-10, atol=1e-12)
    assert_allclose(emd_distances(X, max_instances=None), D, rtol=1e-12)


def test_singletons_have_euclidean_distance(make):
    X = make([1] * 6)
    assert_allclose(emd_distances(X), squareform(pdist(X.data)), atol=1e-12)


def test_duplicates_change_nothing(bags):
    twice = Bags.from_list([np.repeat(b, 2, axis=0) for b in bags])
    assert_allclose(emd_distances(twice), emd_distances(bags), atol=1e-12)


def test_kernel_and_its_width(bags):
    D = emd_distances(bags)
    mean = D[np.triu_indices(6, 1)].mean()
    assert_allclose(emd_kernel(bags), np.exp(-D / mean), rtol=1e-12)
    assert_allclose(emd_kernel(bags, scale=0.25), np.exp(-D / (4 * mean)), rtol=1e-12)
    # The width belongs to the reference bags, whatever the rows are.
    assert_allclose(emd_kernel(bags[:2], bags), np.exp(-D / mean)[:2], rtol=1e-12)
    K, params = fit_emd(bags, scale=0.5)
    assert_allclose(emd_kernel(bags[4:], bags, **params), K[4:], rtol=1e-12)
    assert_allclose(emd_kernel(bags, gamma=0.7), np.exp(-0.7 * D), rtol=1e-12)


def test_workers_change_nothing(bags, monkeypatch):
    monkeypatch.setattr(emd_module, "_ROWS", 4)
    assert len(list(emd_module.bag_groups(bags.offsets, 4))) > 2
    with parallel_config(backend="threading"):
        D = emd_distances(bags, n_jobs=2)
    assert_array_equal(D, emd_distances(bags))


def test_thinning_depends_on_the_content_alone(rng):
    data = rng.normal(size=(300, 4)) * (rng.random((300, 4)) < 0.6)
    X = Bags(data, [0, 1, 1 + 200, 300])
    thin = thin_bags(X, 30)
    assert_array_equal(thin.sizes, [1, 30, 30])
    for kept, bag in zip(thin, X, strict=True):
        assert {r.tobytes() for r in kept} <= {r.tobytes() for r in bag}
    shuffled = Bags.from_list([rng.permutation(b) for b in X])
    assert_array_equal(thin_bags(shuffled, 30).data, thin.data)
    assert_array_equal(thin_bags(X[1:2], 30).data, thin[1])
    sparse = thin_bags(X.with_data(sp.csr_array(data)), 30)
    assert_array_equal(sparse.data.toarray(), thin.data)
    assert thin_bags(X, None) is X


def test_thinning_is_a_fair_draw():
    """Every tenth row is marked; so is about every tenth row kept, over 400 bags."""
    rng = np.random.default_rng(3)
    marked = np.tile(np.arange(100) % 10 == 0, 400)
    data = np.column_stack([rng.normal(size=40_000), marked])
    thin = thin_bags(Bags(data, np.arange(0, 40_001, 100)), 20)
    share = thin.data[:, 1].mean()
    assert abs(share - 0.1) < 4 * np.sqrt(0.1 * 0.9 / 8000)


def test_thinning_draws_copies_of_a_row_one_by_one():
    bag = np.repeat(np.arange(8.0)[:, None], 50, axis=0)
    kept = thin_bags(Bags(bag, [0, 400]), 100).data[:, 0]
    counts = np.bincount(kept.astype(int), minlength=8)
    assert counts.min() >= 3  # 12.5 each on average; all or nothing otherwise
    assert counts.max() <= 30


def test_large_bags_next_to_small_ones(make):
    X = make([1, 1044, 2])
    D = emd_distances(X)
    thin = thin_bags(X, 40)
    assert_allclose(D, emd_distances(thin, max_instances=None), rtol=1e-12)
    assert D[0, 1] == pytest.approx(cdist(X[0], thin[1]).mean())


def test_an_unfinished_problem_warns(make, monkeypatch):
    monkeypatch.setattr(emd_module, "_MAX_ITER", 1)
    with pytest.warns(ConvergenceWarning, match="did not reach its optimum"):
        emd_distances(make([50, 45]), max_instances=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        emd_distances(make([1, 1]))


def test_bad_parameters(bags):
    with pytest.raises(ValueError, match="max_instances must be at least 1"):
        emd_distances(bags, max_instances=0)
    with pytest.raises(ValueError, match="gamma must be 'mean' or a positive number"):
        emd_kernel(bags, gamma="median")
    with pytest.raises(ValueError, match="scale must be a positive number"):
        emd_kernel(bags, scale=-1.0)
    with pytest.raises(ValueError, match="gamma must be a positive number"):
        emd_kernel(bags, bags, gamma=0.0)


def test_very_many_pairs_are_told_before_the_work(monkeypatch):
    monkeypatch.setattr(emd_module, "_MANY", 9)
    X = np.arange(10.0).reshape(5, 2, 1)
    assert emd_distances(list(X[:4])).shape == (4, 4)  # six pairs
    with pytest.warns(UserWarning, match="10 transport problems.*SlicedWasserstein"):
        emd_distances(list(X))
    with pytest.warns(UserWarning, match="12 transport problems"):
        emd_distances(list(X[:4]), list(X[:3]))
