"""Instance kernels and reduced bases against scikit-learn and the full matrix."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise

from bagwise._sizes import check_memory, memory_budget
from bagwise.kernels.basis import fit_basis
from bagwise.kernels.instance import (
    INSTANCE_KERNELS,
    instance_kernel,
    kernel_diagonal,
    resolve_gamma,
    row_blocks,
    squared_distances,
)

REFERENCE = {
    "rbf": lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.3),
    "linear": pairwise.linear_kernel,
    "poly": lambda A, B: pairwise.polynomial_kernel(A, B, 3, gamma=0.3, coef0=1.0),
    "laplacian": lambda A, B: pairwise.laplacian_kernel(A, B, gamma=0.3),
}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 5)), rng.normal(size=(15, 5))


@pytest.mark.parametrize("kernel", INSTANCE_KERNELS)
def test_instance_kernel(rows, kernel):
    A, B = rows
    expected = REFERENCE[kernel](A, B)
    got = instance_kernel(A, B, kernel=kernel, gamma=0.3)
    np.testing.assert_allclose(got, expected, atol=1e-12)
    sparse = instance_kernel(
        sp.csr_matrix(A), sp.csr_matrix(B), kernel=kernel, gamma=0.3
    )
    np.testing.assert_allclose(sparse, expected, atol=1e-12)
    diagonal = kernel_diagonal(A, kernel=kernel, gamma=0.3)
    np.testing.assert_allclose(diagonal, np.diag(REFERENCE[kernel](A, A)), atol=1e-12)


def test_distances_far_from_the_origin():
    rng = np.random.default_rng(1)
    A = 1e6 + rng.normal(size=(30, 4))
    exact = ((A[:, None] - A[None]) ** 2).sum(-1)
    D = squared_distances(A)
    np.testing.assert_allclose(D, exact, rtol=1e-7, atol=1e-9)
    assert (np.diag(D) == 0).all()
    assert (D >= 0).all()


def test_unknown_names_list_the_known_ones(rows):
    with pytest.raises(ValueError, match="rbf, linear, poly, laplacian"):
        instance_kernel(rows[0], kernel="sigmoid")
    with pytest.raises(ValueError, match="scale"):
        resolve_gamma("wide", rows[0])


def test_resolve_gamma(rows):
    A, _ = rows
    assert resolve_gamma(0.7, A) == 0.7
    assert resolve_gamma("auto", A) == 1 / 5
    assert resolve_gamma("scale", A) == pytest.approx(1 / (5 * A.var()))
    assert resolve_gamma("scale", sp.csr_matrix(A)) == pytest.approx(1 / (5 * A.var()))
    D = ((A[:, None] - A[None]) ** 2).sum(-1)[np.triu_indices(40, 1)]
    assert resolve_gamma("median", A) == pytest.approx(1 / np.median(D))
    assert resolve_gamma("median", np.ones((5, 2))) == 1.0
    assert resolve_gamma("scale", np.ones((5, 2))) == 1.0


@pytest.mark.parametrize(
    ("convert", "offset"), [(np.asarray, 0.0), (np.asarray, 1e8), (sp.csr_matrix, 0.0)]
)
def test_weights_in_gamma_are_repeated_rows(rows, convert, offset):
    A = rows[0] + offset
    times = np.arange(len(A)) % 3
    repeated = np.repeat(A, times, axis=0)
    expected = 1 / (5 * repeated.var())
    assert resolve_gamma("scale", convert(A), times) == pytest.approx(expected)


@pytest.mark.parametrize("method", ["eigh", "cholesky"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
def test_exact_bases(rows, method, kernel):
    A, B = rows
    params = {"kernel": kernel, "gamma": 0.3}
    basis = fit_basis(A, method=method, **params)
    K = instance_kernel(A, **params)
    np.testing.assert_allclose(basis.Z @ basis.Z.T, K, atol=1e-6 * K.max())
    np.testing.assert_allclose(basis.transform(A), basis.Z, atol=1e-6 * K.max() ** 0.5)
    # New rows: the inner product with the training span is the kernel itself.
    cross = instance_kernel(B, A, **params)
    np.testing.assert_allclose(
        basis.transform(B) @ basis.Z.T, cross, atol=1e-6 * K.max()
    )
    assert basis.without_rows().Z is None


@pytest.mark.parametrize("method", ["eigh", "cholesky", "nystroem"])
def test_rank_is_cut(rows, method):
    A = np.repeat(rows[0][:6], 4, axis=0)
    basis = fit_basis(A, gamma=0.3, method=method, n_components=24, random_state=0)
    assert basis.rank == 6
    np.testing.assert_allclose(
        basis.Z @ basis.Z.T, instance_kernel(A, gamma=0.3), atol=1e-8
    )
    few = fit_basis(rows[0], gamma=0.3, method=method, n_components=4, random_state=0)
    assert few.rank == 4


def test_cholesky_of_the_matrix_and_column_by_column(rows, monkeypatch):
    """Equal points give one column, with and without room for the whole matrix."""
    A = np.vstack([rows[0], rows[0][:7]])
    K = instance_kernel(A, gamma=0.3)
    for budget in ("1GB", "20KB"):
        monkeypatch.setenv("BAGWISE_MEMORY", budget)
        basis = fit_basis(A, gamma=0.3, method="cholesky")
        assert basis.rank == 40
        np.testing.assert_allclose(basis.Z @ basis.Z.T, K, atol=1e-8)
        np.testing.assert_allclose(basis.transform(A), basis.Z, atol=1e-6)


@pytest.mark.parametrize("method", ["cholesky", "eigh"])
def test_weights_of_columns_become_weights_of_landmarks(rows, method):
    A, B = rows
    basis = fit_basis(A, gamma=0.3, method=method)
    w = np.random.default_rng(1).normal(size=basis.rank)
    a = basis.expand(w)
    values = REFERENCE["rbf"](B, basis.landmarks) @ a
    np.testing.assert_allclose(basis.transform(B) @ w, values, atol=1e-8)
    np.testing.assert_allclose(basis.projection @ w, a, atol=1e-8 * np.abs(a).max())
    np.testing.assert_allclose(basis.expand(w), basis.projection @ w)


def test_linear_basis_is_the_data_itself(rows):
    sparse = sp.csr_matrix(rows[0])
    assert fit_basis(sparse, kernel="linear").Z is sparse
    assert fit_basis(rows[0], kernel="linear").rank == 5


def test_memory_budget(monkeypatch):
    for text, n_bytes in (("2GB", 2e9), ("500 MB", 5e8), ("1000", 1000.0)):
        monkeypatch.setenv("BAGWISE_MEMORY", text)
        assert memory_budget() == n_bytes
    with pytest.raises(ValueError, match=r"0\.002 MB.*Use less"):
        check_memory(2000, "The matrix", "Use less.")
    check_memory(999, "The matrix", "Use less.")
    monkeypatch.setenv("BAGWISE_MEMORY", "1KB")
    with pytest.raises(ValueError, match="n_components"):
        fit_basis(np.ones((20, 2)), method="eigh")


def test_row_blocks_cover_everything():
    blocks = list(row_blocks(1000, 2**20 * 10))
    covered = np.concatenate([np.arange(1000)[b] for b in blocks])
    np.testing.assert_array_equal(covered, np.arange(1000))
    assert all(b.stop - b.start <= 102 for b in blocks)
