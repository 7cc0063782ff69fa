r"""Geometry of matrices with orthonormal columns.

The Stiefel manifold :math:`\{A \in R^{D \times d} : A'A = I\}` with the metric of the
surrounding space. Everything here costs :math:`O(D d^2)` or less.
"""

import numpy as np
from scipy.linalg import qr
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf


def project_tangent(A, Z):
    r"""Project `Z` orthogonally on the tangent space at `A`.

    .. math::
        \Pi_A(Z) = Z - A\, \mathrm{sym}(A'Z)
            = A \tfrac12 (A'Z - Z'A) + (I - AA') Z

    where :math:`\mathrm{sym}(M) = (M + M')/2` (Eq. (7)).
    """
    inner = A.T @ Z
    inner += inner.T.copy()
    inner *= 0.5
    return Z - A @ inner


def retract(A, step):
    r"""Return the orthonormal factor of ``A + step``, with a positive diagonal.

    For a tangent `step` the Gram matrix is :math:`I + step'step`, never
    ill-conditioned, so one Cholesky factorisation gives the QR factor at a third of
    the cost of reflections. The Gram matrix is computed rather than written down as
    above: what was lost to rounding is then repaired, and errors do not pile up.
    """
    B = A + step
    factor, info = dpotrf(B.T @ B, lower=0, clean=0)
    if info != 0:
        raise np.linalg.LinAlgError("the step is not finite")
    # B.T is in Fortran order: solve R' Q' = B' in place of Q R = B.
    return dtrsm(1.0, factor, B.T, lower=0, trans_a=1, overwrite_b=1).T


def rotate_plane(A, u, g, angle):
    r"""Return :math:`e^{-t (g u' - u g')} A` for :math:`t` = `angle`, in O(D d).

    The exponential of a skew matrix of rank two turns the plane of `u` and `g` and
    leaves the rest alone. With :math:`u = Aw` and the rank-one gradient
    :math:`G = g w'`, this is the exact step along :math:`-(G - A G'A)`.
    """
    length = np.linalg.norm(u)
    if length == 0.0:
        return A.copy()
    e1 = u / length
    rest = g - (e1 @ g) * e1
    height = np.linalg.norm(rest)
    if height == 0.0:
        return A.copy()
    e2 = rest / height
    theta = angle * length * height
    a1, a2 = e1 @ A, e2 @ A
    c, s = np.cos(theta) - 1.0, np.sin(theta)
    return A + np.outer(e1, c * a1 + s * a2) + np.outer(e2, c * a2 - s * a1)


def random_orthonormal(n_rows, n_columns, rng):
    """Draw a matrix with orthonormal columns uniformly."""
    Q, R = np.linalg.qr(rng.standard_normal((n_rows, n_columns)))
    return Q * np.where(np.diag(R) < 0, -1.0, 1.0)


def orthonormal_from(first, basis, n_columns):
    """Return orthonormal columns that span those of `first`, then those of `basis`.

    Columns that those before them span are left out; `n_columns` remain whenever
    `basis` has that many independent columns.
    """
    out = np.empty((basis.shape[0], n_columns))
    n_found = 0
    # Not one QR factorisation: where a column adds nothing, its factor is an arbitrary
    # direction, and those after it would be made orthogonal to that.
    for column in np.hstack([first, basis]).T:
        length = np.linalg.norm(column)
        rest = column.copy()
        for _ in range(2):  # once more for what rounding left
            rest -= out[:, :n_found] @ (out[:, :n_found].T @ rest)
        height = np.linalg.norm(rest)
        if height > 1e-7 * length:
            out[:, n_found] = rest / height
            n_found += 1
        if n_found == n_columns:
            break
    return np.ascontiguousarray(out[:, :n_found])


def basis_of_span(N):
    """Return orthonormal columns that depend on the span of those of `N` alone.

    They are made of projected unit vectors, so rounding or a rotation of `N` does not
    change them as it changes the eigenvectors of a repeated eigenvalue.
    """
    n_columns = N.shape[1]
    if n_columns == 0:
        return N
    pivots = qr(N.T, mode="r", pivoting=True)[1][:n_columns]
    return orthonormal_from(N @ N[pivots].T, N, n_columns)


def fill_with_axes(found, n_columns):
    """Append unit vectors, made orthogonal, until there are `n_columns` columns."""
    if found.shape[1] == n_columns:
        return np.ascontiguousarray(found)
    # Axes that the columns found cover least; rounded, so that ties go by position.
    covered = np.round(np.einsum("ij,ij->i", found, found), 8)
    axes = np.argsort(covered, kind="stable")[:n_columns]
    basis = np.zeros((found.shape[0], n_columns))
    basis[axes, np.arange(n_columns)] = 1.0
    return orthonormal_from(found, basis, n_columns)


def fix_signs(A):
    """Return the sign that makes the largest entry of each column positive."""
    largest = np.abs(A).argmax(axis=0)
    return np.where(A[largest, np.arange(A.shape[1])] < 0, -1.0, 1.0)
