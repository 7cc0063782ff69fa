"""Quadratic forms on the simplex against a grid, and where rounding must not decide."""

import numpy as np
import pytest

from bagwise.solvers.simplex import simplex_quadratic


def test_simplex_quadratic_against_a_dense_grid():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3, 3))
    H, c = A @ A.T, rng.normal(size=3)
    x = simplex_quadratic(H, c, np.full(3, 1 / 3))
    steps = np.linspace(0, 1, 401)
    a, b = np.meshgrid(steps, steps)
    inside = a + b <= 1
    grid = np.stack([a[inside], b[inside], 1 - a[inside] - b[inside]])
    values = 0.5 * np.einsum("in,ij,jn->n", grid, H, grid) + c @ grid
    mine = 0.5 * x @ H @ x + c @ x
    assert mine <= values.min() + 1e-12
    assert mine >= values.min() - 1e-4


@pytest.mark.parametrize("seed", range(10))
def test_simplex_quadratic_is_optimal_from_any_start(seed):
    """The conditions of optimality hold, and the start does not matter."""
    rng = np.random.default_rng(seed)
    n = 30
    A = rng.normal(size=(n, 8))
    H, c = A @ A.T + 1e-6 * np.eye(n), rng.normal(size=n)
    ends = []
    for vertex in (0, 17):
        x = simplex_quadratic(H, c, np.eye(n)[vertex])
        gradient = H @ x + c
        assert x.min() >= 0
        assert x.sum() == pytest.approx(1.0, abs=1e-12)
        assert gradient.min() >= x @ gradient - 1e-9
        ends.append(x)
    np.testing.assert_allclose(*ends, atol=1e-7)


def test_equal_columns_share_their_weight():
    """Rounding in the columns must not decide which of them is chosen."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 6))[:, [0, 1, 1, 2, 3, 3, 3]]
    c = np.array([0.3, -0.5, -0.5, 0.1, -0.4, -0.4, -0.4])
    ends = []
    for noise in (0.0, 1e-14, -1e-14):
        B = A * (1.0 + noise * rng.normal(size=A.shape))
        H = B.T @ B + 1e-5 * np.eye(7)
        ends.append(simplex_quadratic(H, c, np.eye(7)[0]))
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-8)
    np.testing.assert_allclose(ends[2], ends[0], atol=1e-8)
    assert ends[0][1] == pytest.approx(ends[0][2], abs=1e-9)
