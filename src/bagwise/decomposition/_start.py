"""Where MIDR begins, and the form in which its result is reported."""

from numbers import Integral

import numpy as np
from scipy.linalg import eigh, qr
from scipy.sparse.linalg import LinearOperator, svds

from bagwise._sizes import check_memory
from bagwise.bags.segments import repeat
from bagwise.linear_model.milr import fit_with_restarts

_FULL_COVARIANCE = 2000


def resolve_n_components(n_components, n_features, n_classes):
    """Return the number of columns that a number or a share of features means."""
    if isinstance(n_components, Integral):
        if n_components > n_features:
            raise ValueError(
                f"n_components={n_components} must not be larger than the number of "
                f"features, {n_features}. A float means a share."
            )
        n_columns = int(n_components)
    else:
        n_columns = max(
            min(n_classes - 1, n_features), round(n_components * n_features)
        )
    check_memory(
        26.0 * 8 * n_features * n_columns,  # L-BFGS keeps 20 such matrices
        f"MIDR with {n_features} features and {n_columns} components",
        "Pass n_components as a small integer.",
    )
    return n_columns


class InstanceCovariance:
    """Covariance of the centered instances, formed only where it is small.

    Instances count with the weight of their bag.
    """

    def __init__(self, data, offsets, mean, weight):
        self.data = data
        self.mean = mean
        share = repeat(weight, offsets)
        self.share = share / share.sum()
        small = isinstance(data, np.ndarray) and data.shape[1] <= _FULL_COVARIANCE
        self.matrix = self._form() if small else None
        # Smaller variances are rounding errors.
        self.negligible = self._total() * float(np.finfo(data.dtype).eps) ** (2 / 3)

    def _total(self):
        if self.matrix is not None:
            return float(np.trace(self.matrix))
        return max(float(self._variances().sum()), 0.0)

    def _form(self):
        dtype = self.data.dtype
        mean, root = self.mean.astype(dtype), np.sqrt(self.share).astype(dtype)
        total = np.zeros((self.data.shape[1],) * 2)
        step = max(1, 2**22 // self.data.shape[1])  # blocks of about 32 MB
        for start in range(0, self.data.shape[0], step):
            block = self.data[start : start + step] - mean
            block *= root[start : start + step, None]
            total += block.T @ block
        return total

    def leading(self, n_components, first=None, *, rng):
        """Return `first`, then the directions of largest variance orthogonal to it."""
        n_rows, n_features = self.data.shape
        if first is None:
            first = np.empty((n_features, 0))
        n_found = n_components - first.shape[1]
        if self.matrix is None:
            n_found = min(n_found, min(n_rows, n_features) - 1)
        if n_found < 1:
            return fill_with_axes(first, n_components)
        if self.matrix is not None:
            span = (n_features - n_found, n_features - 1)
            sizes, columns = eigh(self._deflated(first), subset_by_index=span)
        else:
            start = rng.standard_normal(min(n_rows, n_features))
            _, sizes, rows = svds(self._centered(first), k=n_found, v0=start)
            sizes, columns = sizes**2, rows.T
        # Directions without variance are dropped: those from eigh are arbitrary.
        kept = np.argsort(-sizes)
        columns = columns[:, kept[sizes[kept] > self.negligible]]
        columns = np.hstack([first, columns * fix_signs(columns)])
        return fill_with_axes(columns, n_components)

    def _deflated(self, first):
        """Return the covariance of what the columns of `first` leave over."""
        if first.shape[1] == 0:
            return self.matrix
        half = self.matrix - first @ (first.T @ self.matrix)
        return half - (half @ first) @ first.T

    def _centered(self, first):
        root = np.sqrt(self.share)
        data, mean = self.data, self.mean

        def forward(v):
            v = v.ravel() - first @ (first.T @ v.ravel())
            return root * (data @ v - mean @ v)

        def backward(r):
            weighted = root * r.ravel()
            v = data.T @ weighted - mean * weighted.sum()
            return v - first @ (first.T @ v)

        return LinearOperator(data.shape, forward, backward, dtype=np.float64)

    def times(self, V):
        """Return the covariance matrix times `V`."""
        if self.matrix is not None:
            return self.matrix @ V
        Z = self.data @ V - self.mean @ V
        weighted = (Z.T * self.share).T
        return self.data.T @ weighted - np.multiply.outer(self.mean, weighted.sum(0))

    def _variances(self):
        if self.matrix is not None:
            return np.diag(self.matrix).copy()
        data = self.data
        squares = data * data if isinstance(data, np.ndarray) else data.multiply(data)
        return np.asarray(squares.T @ self.share).ravel() - self.mean**2

    def representative(self, n_components, first):
        """Return `first`, then features that stand for what it leaves over.

        Features are chosen one by one, each with the largest variance that those
        before it do not explain (pivoted Cholesky factorization, from `n_components`
        columns of the covariance), and made orthogonal to `first` and each other.
        """
        n_features = self.data.shape[1]
        product = self.times(first)
        left = self._variances() - 2.0 * (first * product).sum(axis=1)
        left += ((first @ (first.T @ product)) * first).sum(axis=1)
        n_wanted = n_components - first.shape[1]
        factor = np.zeros((n_features, n_wanted))
        chosen = []
        for j in range(n_wanted):
            pivot = int(np.argmax(np.round(left / max(left.max(), 1e-300), 10)))
            if left[pivot] <= self.negligible:
                break
            unit = -first @ first[pivot]
            unit[pivot] += 1.0
            column = self.times(unit)
            column -= first @ (first.T @ column)
            column -= factor[:, :j] @ factor[pivot, :j]
            factor[:, j] = column / np.sqrt(left[pivot])
            left = left - factor[:, j] ** 2
            chosen.append(pivot)
            left[chosen] = 0.0
        axes = np.zeros((n_features, len(chosen)))
        axes[chosen, np.arange(len(chosen))] = 1.0
        columns = np.hstack([first, axes])
        columns = orthonormal_from(columns, columns[:, :0], columns.shape[1])
        return fill_with_axes(columns, n_components)

    def within(self, A):
        """Return the covariance of the instances projected by `A`."""
        if self.matrix is not None:
            return A.T @ self.matrix @ A
        Z = self.data @ A - self.mean @ A
        return (Z * self.share[:, None]).T @ Z


def starts(objective, covariance, n_components, *, init, n_init, tol, rng):
    """Yield `n_init` starts ``(A, W, b)``; those after the first are random."""
    loss = objective.loss
    n_features = loss.data.shape[1]
    options = {"C": 1.0 / objective.ridge, "tol": tol, "random_state": rng}
    for number in range(n_init):
        if number == 0 and init == "milr":
            whole = fit_with_restarts(loss, **options)
            used = leading_directions(whole.coef, n_components)
            if objective.C1 > 0:
                # The penalty turns the other columns towards single features anyway.
                A = covariance.representative(n_components, used)
            else:
                A = covariance.leading(n_components, used, rng=rng)
            yield A, A.T @ whole.coef, whole.intercept
            continue
        if number == 0 and init == "pca":
            A = covariance.leading(n_components, rng=rng)
        else:
            A = random_orthonormal(n_features, n_components, rng)
        Z = np.asarray(loss.data @ A.astype(loss.data.dtype, copy=False))
        inner = fit_with_restarts(loss.on(Z - loss.mean @ A), **options)
        yield A, inner.coef, inner.intercept


def leading_directions(U, n_components):
    """Return at most `n_components` orthonormal columns that span `U` best."""
    left, sizes, _ = np.linalg.svd(U, full_matrices=False)
    used = left[:, sizes > 1e-10 * max(sizes[0], 1e-300)][:, :n_components]
    return used * fix_signs(used)


def canonical_form(A, W, covariance, *, penalized):
    """Return the same solution with columns in a fixed order and fixed signs.

    Without a penalty any rotation of the columns is a solution too: the first ones
    become the directions that the scores use, the rest principal directions of what
    remains. With a penalty only signs and the order are free: columns that the scores
    use most come first, and those of equal use by variance.
    """
    if penalized:
        use = np.linalg.norm(W, axis=1)
        use = np.round(use / max(use.max(), 1e-300), 6)
        order = np.lexsort((-np.diag(covariance.within(A)), -use))
        A, W = A[:, order], W[order]
    else:
        left, sizes, _ = np.linalg.svd(W, full_matrices=True)
        rank = int(np.sum(sizes > 1e-10 * max(sizes[0], 1e-300)))
        rest = A @ left[:, rank:]
        if rest.shape[1] > 0:
            sizes, turn = np.linalg.eigh(covariance.within(rest))
            rest, sizes = rest @ turn[:, ::-1], sizes[::-1]
            flat = sizes <= covariance.negligible
            rest = np.hstack([rest[:, ~flat], basis_of_span(rest[:, flat])])
        rotated = np.hstack([A @ left[:, :rank], rest])
        A, W = rotated, rotated.T @ (A @ W)
    signs = fix_signs(A)
    return A * signs, W * signs[:, None]


def random_orthonormal(n_rows, n_columns, rng):
    """Sample a matrix with orthonormal columns uniformly."""
    Q, R = np.linalg.qr(rng.standard_normal((n_rows, n_columns)))
    return Q * np.where(np.diag(R) < 0, -1.0, 1.0)


def orthonormal_from(first, basis, n_columns):
    """Return orthonormal columns that span those of `first`, then those of `basis`.

    Columns that those before them span are left out; `n_columns` remain whenever
    `basis` has that many independent columns.
    """
    out = np.empty((basis.shape[0], n_columns))
    n_found = 0
    # A single QR factorization would give an arbitrary direction for a linearly
    # dependent column, and make the columns after it orthogonal to that direction.
    for column in np.hstack([first, basis]).T:
        length = np.linalg.norm(column)
        rest = column.copy()
        for _ in range(2):  # twice, to remove rounding errors
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
    # Axes that the columns found cover least; rounded, so that ties keep their order.
    covered = np.round(np.einsum("ij,ij->i", found, found), 8)
    axes = np.argsort(covered, kind="stable")[:n_columns]
    basis = np.zeros((found.shape[0], n_columns))
    basis[axes, np.arange(n_columns)] = 1.0
    return orthonormal_from(found, basis, n_columns)


def fix_signs(A):
    """Return the sign that makes the largest entry of each column positive."""
    largest = np.abs(A).argmax(axis=0)
    return np.where(A[largest, np.arange(A.shape[1])] < 0, -1.0, 1.0)
