"""Orthonormal bases of the starts of MIDR."""

import numpy as np

from bagwise.decomposition._start import (
    basis_of_span,
    fill_with_axes,
    orthonormal_from,
    random_orthonormal,
)


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
