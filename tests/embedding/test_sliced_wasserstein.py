"""The sliced Wasserstein embedding against sorted projections and quadrature."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import wasserstein_distance

from bagwise.bags import Bags
from bagwise.embedding import SlicedWassersteinEmbedding


def draw(sizes, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    return Bags.from_list([rng.normal(size=(n, n_features)) for n in sizes])


@pytest.mark.parametrize("n_quantiles", [6, 12, 30])
def test_equal_sizes_give_the_sorted_projection_formula(n_quantiles):
    X = draw([6] * 5)
    model = SlicedWassersteinEmbedding(7, n_quantiles=n_quantiles, random_state=0)
    V = model.fit_transform(X)
    for i in range(5):
        for k in range(i):
            a = np.sort(X[i] @ model.directions_, axis=0)
            b = np.sort(X[k] @ model.directions_, axis=0)
            truth = np.sqrt(((a - b) ** 2).mean())
            assert np.linalg.norm(V[i] - V[k]) == pytest.approx(truth, rel=1e-12)


def test_sizes_that_divide_the_parts_give_the_exact_distance():
    X = draw([2, 3, 4, 6])
    model = SlicedWassersteinEmbedding(5, n_quantiles=12, random_state=1)
    V = model.fit_transform(X)
    grid = (np.arange(1200) + 0.5) / 1200
    for i in range(4):
        for k in range(i):
            total = 0.0
            for theta in model.directions_.T:
                a, b = np.sort(X[i] @ theta), np.sort(X[k] @ theta)
                step = a[(grid * len(a)).astype(int)] - b[(grid * len(b)).astype(int)]
                total += (step**2).mean()
            assert np.linalg.norm(V[i] - V[k]) == pytest.approx(np.sqrt(total / 5))


def test_fewer_parts_never_give_more_than_the_distance():
    X = draw([17, 23, 40], seed=3)
    fine = SlicedWassersteinEmbedding(4, n_quantiles=17 * 23 * 40, random_state=0)
    truth = fine.fit_transform(X)
    for n_quantiles in (1, 3, 10):
        coarse = SlicedWassersteinEmbedding(4, n_quantiles=n_quantiles, random_state=0)
        V = coarse.fit_transform(X)
        for i in range(3):
            for k in range(i):
                upper = np.linalg.norm(truth[i] - truth[k])
                assert np.linalg.norm(V[i] - V[k]) <= upper + 1e-12


def test_one_direction_agrees_with_scipy():
    # W1 of equal sizes is the mean absolute difference of sorted values.
    X = draw([8, 8], n_features=1)
    model = SlicedWassersteinEmbedding(1, n_quantiles=8, random_state=0)
    V = model.fit_transform(X) * np.sqrt(8)
    assert np.abs(V[0] - V[1]).mean() == pytest.approx(
        wasserstein_distance(X[0][:, 0], X[1][:, 0])
    )


def test_sparse_rows_and_chunks_change_nothing(monkeypatch):
    X = draw([3, 9, 1, 4], n_features=6)
    model = SlicedWassersteinEmbedding(5, random_state=0).fit(X)
    V = model.transform(X)
    rows = Bags(sp.csr_array(X.data), X.offsets)
    np.testing.assert_allclose(model.transform(rows), V, atol=1e-14)
    monkeypatch.setattr("bagwise.embedding._sliced_wasserstein._CHUNK", 2)
    np.testing.assert_allclose(model.transform(X), V, atol=1e-14)


@pytest.mark.parametrize("changed", [{"n_projections": 1}, {"n_projections": 500}])
def test_a_fitted_embedding_keeps_its_size_when_parameters_change(changed):
    X = draw([3, 4])
    model = SlicedWassersteinEmbedding(50, random_state=0).fit(X)
    expected = model.transform(X)
    model.set_params(**changed, n_quantiles=7)
    np.testing.assert_array_equal(model.transform(X), expected)
