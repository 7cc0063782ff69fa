import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics.pairwise import rbf_kernel

from bagwise import Bags
from bagwise.kernels import _graph as neighborhoods
from bagwise.kernels import graph_kernel, mi_graph_kernel, set_kernel
from bagwise.kernels._graph import clique_weights

SIZES = [1, 2, 5, 9, 3, 2, 1, 7]


def adjacency(A, delta="mean"):
    D = squareform(pdist(A)) if len(A) > 1 else np.zeros((1, 1))
    radius = pdist(A).mean() if delta == "mean" and len(A) > 1 else delta
    near = D < (0.0 if radius == "mean" else radius * (1 - 1e-9))
    np.fill_diagonal(near, False)
    return D, near, radius


def mi_graph_reference(X, Y, gamma, norm):
    def weight(A):
        return 1.0 / (1.0 + adjacency(A)[1].sum(axis=1))

    def size(w):
        return w.sum() if norm == "paper" else np.sqrt(w.sum())

    return np.array(
        [
            [
                weight(A)
                @ rbf_kernel(A, B, gamma=gamma)
                @ weight(B)
                / (size(weight(A)) * size(weight(B)))
                for B in Y
            ]
            for A in X
        ]
    )


def edges(A, delta="mean"):
    D, near, radius = adjacency(A, delta)
    if not near.any():
        return np.zeros((0, 4))
    W = np.where(near, np.exp(-((D / radius) ** 2)), 0.0)
    degree = near.sum(axis=1) / len(A)
    total = W.sum(axis=1)
    return np.array(
        [
            [degree[u], W[u, v] / total[u], degree[v], W[u, v] / total[v]]
            for u, v in zip(*np.nonzero(near), strict=True)
        ]
    )


def graph_reference(X, Y, gamma, gamma_edge, mean_parts):
    def g(A, B):
        E, F = edges(A), edges(B)
        nodes = rbf_kernel(A, B, gamma=gamma).sum()
        links = rbf_kernel(E, F, gamma=gamma_edge).sum() if len(E) and len(F) else 0.0
        if mean_parts:
            return nodes / (len(A) * len(B)) + links / max(1, len(E) * len(F))
        return nodes + links

    return np.array([[g(A, B) / np.sqrt(g(A, A) * g(B, B)) for B in Y] for A in X])


@pytest.mark.parametrize("norm", ["paper", "code"])
def test_mi_graph_equals_its_definition(make, as_csr, norm):
    X, Y = make(SIZES), make([4, 1, 2])
    params = {"gamma": 0.4, "norm": norm}
    assert_allclose(
        mi_graph_kernel(X, Y, **params), mi_graph_reference(X, Y, 0.4, norm), rtol=1e-11
    )
    K = mi_graph_kernel(X, **params)
    assert_allclose(K, mi_graph_reference(X, X, 0.4, norm), rtol=1e-11)
    assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    assert_allclose(mi_graph_kernel(as_csr(X), **params), K, rtol=1e-11)
    assert_allclose(mi_graph_kernel(X[2:], X, **params), K[2:], rtol=1e-11)


@pytest.mark.parametrize("delta", [0.0, np.inf])
def test_mi_graph_without_structure_is_the_averaged_set_kernel(make, delta):
    X = make([*SIZES, 300])
    assert_allclose(
        mi_graph_kernel(X, gamma=0.4, delta=delta),
        set_kernel(X, gamma=0.4, normalization="average"),
        rtol=1e-12,
    )


def test_singletons_have_the_instance_kernel(make):
    X = make([1] * 5)
    expected = rbf_kernel(X.data, gamma=0.4)
    for norm in ("paper", "code"):
        assert_allclose(mi_graph_kernel(X, gamma=0.4, norm=norm), expected)
    assert_allclose(graph_kernel(X, gamma=0.4), expected)


def test_fixed_radius_ignores_duplicates(make):
    X = make([2, 5, 3])
    twice = Bags.from_list([np.repeat(b, 2, axis=0) for b in X])
    K = mi_graph_kernel(X, gamma=0.4, delta=1.0)
    assert_allclose(mi_graph_kernel(twice, gamma=0.4, delta=1.0), K, rtol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
def test_bags_of_two_are_never_neighbours(scale):
    """Their distance is the mean distance; rounding must not decide."""
    rng = np.random.default_rng(1)
    X = Bags(scale * rng.normal(size=(400, 7)), np.arange(0, 401, 2))
    assert_array_equal(clique_weights(X), 1.0)
    assert_array_equal(clique_weights(X[3:4]), 1.0)
    K = graph_kernel(X, gamma="median")
    assert_allclose(K, set_kernel(X, gamma="median"), rtol=1e-12)
    assert np.isfinite(mi_graph_kernel(X)).all()


def test_regular_polygons_have_no_neighbours_at_the_mean():
    """An equilateral triangle: all three distances equal their mean."""
    angle = 2 * np.pi * np.arange(3) / 3 + 0.3
    corner = np.column_stack([np.cos(angle), np.sin(angle)])
    assert_array_equal(clique_weights(Bags(corner, [0, 3])), 1.0)


def test_large_bags_in_blocks(make, monkeypatch):
    X = make([1, 1044, 300, 2])
    whole = clique_weights(X)
    expected = 1.0 / (1 + adjacency(X[1])[1].sum(axis=1))
    assert_array_equal(whole[1:1045], expected)
    small = make([1, 250, 2])
    before = graph_kernel(small, gamma=0.4)
    monkeypatch.setattr(
        neighborhoods,
        "row_blocks",
        lambda n, _: (slice(s, min(s + 100, n)) for s in range(0, n, 100)),
    )
    assert_array_equal(clique_weights(X), whole)
    assert_allclose(graph_kernel(small, gamma=0.4), before, rtol=1e-9)


@pytest.mark.parametrize("gamma_edge", [0.3, 1.0, 6.0])
@pytest.mark.parametrize("mean_parts", [False, True])
def test_graph_equals_its_definition(make, as_csr, gamma_edge, mean_parts):
    """Edges one by one, against the inner products of their short expansions."""
    X, Y = make(SIZES), make([4, 1, 2, 6])
    params = {"gamma": 0.4, "gamma_edge": gamma_edge, "mean_parts": mean_parts}
    expected = graph_reference(X, Y, 0.4, gamma_edge, mean_parts)
    assert_allclose(graph_kernel(X, Y, **params), expected, rtol=1e-8)
    K = graph_kernel(X, **params)
    assert_allclose(K, graph_reference(X, X, 0.4, gamma_edge, mean_parts), rtol=1e-8)
    assert_array_equal(K, K.T)
    assert_allclose(np.diag(K), 1.0, rtol=1e-14)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    assert_allclose(graph_kernel(as_csr(X), **params), K, rtol=1e-10)
    assert_allclose(graph_kernel(X[2:], X, **params), K[2:], rtol=1e-10)


def test_a_complete_graph(make):
    """With an infinite radius all weights are one: p = 1 / (n - 1)."""
    X = make([3, 4])
    K = graph_kernel(X, gamma=0.4, delta=np.inf)
    E = {n: np.tile([(n - 1) / n, 1 / (n - 1)], 2) for n in (3, 4)}
    gap = np.exp(-((E[3] - E[4]) ** 2).sum())
    nodes = set_kernel(X, gamma=0.4, normalization=None)
    g = nodes + np.array([[36.0, 72.0 * gap], [72.0 * gap, 144.0]])
    assert_allclose(K[0, 1], g[0, 1] / np.sqrt(g[0, 0] * g[1, 1]), rtol=1e-9)


def test_bad_parameters(make):
    X = make([2, 3])
    with pytest.raises(ValueError, match="norm 'authors'; known are 'paper', 'code'"):
        mi_graph_kernel(X, norm="authors")
    for kernel in (graph_kernel, mi_graph_kernel):
        with pytest.raises(ValueError, match="delta must be 'mean' or a number"):
            kernel(X, delta="median")
        with pytest.raises(ValueError, match="delta must not be negative"):
            kernel(X, delta=-1.0)
    with pytest.raises(ValueError, match="gamma_edge must be a positive number"):
        graph_kernel(X, gamma_edge=0.0)
