"""Geometry of orthonormal columns."""

import numpy as np
import pytest
from scipy.linalg import expm

from bagwise.decomposition.midr._stiefel import (
    basis_of_span,
    fill_with_axes,
    orthonormal_from,
    project_tangent,
    random_orthonormal,
    retract,
    rotate_plane,
)

SHAPES = [(7, 3), (5, 5), (6, 1)]


def symmetric(M):
    return (M + M.T) / 2


@pytest.fixture(params=SHAPES, ids=str)
def point(request):
    rng = np.random.default_rng(0)
    A = random_orthonormal(*request.param, rng)
    return A, rng.normal(size=request.param), rng


def test_projection(point):
    A, Z, rng = point
    G = project_tangent(A, Z)
    np.testing.assert_allclose(A.T @ G + G.T @ A, 0, atol=1e-12)
    np.testing.assert_allclose(project_tangent(A, G), G, atol=1e-12)
    Y = rng.normal(size=A.shape)
    assert np.vdot(G, Y) == pytest.approx(np.vdot(Z, project_tangent(A, Y)), abs=1e-12)
    inner = A.T @ Z
    published = A @ (inner - inner.T) / 2 + Z - A @ inner  # Eq. (7)
    np.testing.assert_allclose(G, published, atol=1e-12)


def test_drift_of_the_published_flow(point):
    """Off the manifold the constraint error obeys dE/dt = ES + SE."""
    A, Z, rng = point
    A = A + 0.1 * rng.normal(size=A.shape)
    E = A.T @ A - np.eye(A.shape[1])
    S = symmetric(A.T @ Z)
    velocity = -project_tangent(A, Z)
    np.testing.assert_allclose(
        A.T @ velocity + velocity.T @ A, E @ S + S @ E, atol=1e-12
    )


def test_step_without_retraction_leaves(point):
    A, Z, _ = point
    G = project_tangent(A, Z)
    gamma = 0.3
    moved = A - gamma * G
    np.testing.assert_allclose(
        moved.T @ moved - np.eye(A.shape[1]), gamma**2 * G.T @ G, atol=1e-12
    )


def test_retraction_is_the_qr_factor(point):
    A, Z, _ = point
    xi = project_tangent(A, Z)
    Q, R = np.linalg.qr(A + xi)
    expected = Q * np.sign(np.diag(R))
    np.testing.assert_allclose(retract(A, xi), expected, atol=1e-12)
    for t in (1e-2, 1e-3, 1e-4):
        error = np.linalg.norm(retract(A, t * xi) - A - t * xi)
        assert error <= 2 * t**2 * np.linalg.norm(xi) ** 2


def test_retraction_does_not_drift(point):
    A, _, rng = point
    for _ in range(300):
        A = retract(A, project_tangent(A, rng.normal(size=A.shape)))
    assert np.abs(A.T @ A - np.eye(A.shape[1])).max() < 1e-12


def test_retraction_leaves_its_input_alone(point):
    A, Z, _ = point
    before = A.copy(), Z.copy()
    retract(A, Z)
    np.testing.assert_array_equal(A, before[0])
    np.testing.assert_array_equal(Z, before[1])


def test_rotation_is_the_exponential(point):
    A, _, rng = point
    w = rng.normal(size=A.shape[1])
    u, g = A @ w, rng.normal(size=A.shape[0])
    for t in (0.0, 0.4, -2.0):
        expected = expm(-t * (np.outer(g, u) - np.outer(u, g))) @ A
        np.testing.assert_allclose(rotate_plane(A, u, g, t), expected, atol=1e-12)
    G = np.outer(g, w)
    h = 1e-6
    slope = (rotate_plane(A, u, g, h) - rotate_plane(A, u, g, -h)) / (2 * h)
    np.testing.assert_allclose(slope, -(G - A @ G.T @ A), atol=1e-8)


def test_rotation_without_a_plane():
    A = np.eye(3)[:, :2]
    np.testing.assert_array_equal(rotate_plane(A, np.zeros(3), np.ones(3), 1.0), A)
    u = np.array([1.0, 2.0, 0.0])
    np.testing.assert_array_equal(rotate_plane(A, u, 3 * u, 1.0), A)


def test_orthonormal_from_skips_what_is_spanned():
    rng = np.random.default_rng(0)
    basis = random_orthonormal(6, 3, rng)
    first = basis[:, :1] @ [[2.0]] + basis[:, 1:2]
    A = orthonormal_from(first, basis, 3)
    np.testing.assert_allclose(A.T @ A, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(A[:, 0], first[:, 0] / np.linalg.norm(first), atol=1e-12)
    np.testing.assert_allclose(basis @ (basis.T @ A), A, atol=1e-7)


def test_basis_of_span_depends_on_the_span_alone():
    rng = np.random.default_rng(0)
    N = random_orthonormal(8, 3, rng)
    turned = N @ random_orthonormal(3, 3, rng)
    np.testing.assert_allclose(basis_of_span(N), basis_of_span(turned), atol=1e-12)
    basis = basis_of_span(N)
    np.testing.assert_allclose(N @ (N.T @ basis), basis, atol=1e-12)


def test_fill_with_axes():
    found = np.zeros((5, 1))
    found[1, 0] = 1.0
    A = fill_with_axes(found, 5)
    np.testing.assert_allclose(A.T @ A, np.eye(5), atol=1e-12)
    np.testing.assert_array_equal(A[:, :1], found)
