"""Where MIDR begins, and the form in which its result is reported."""

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, svds

from bagwise.bags.segments import repeat
from bagwise.decomposition._stiefel import orthonormal_from, random_orthonormal
from bagwise.linear_model._milr import fit_with_restarts

_FULL_COVARIANCE = 2000


class InstanceCovariance:
    """Covariance of the centred instances, formed only where it is small.

    Instances count with the weight of their bag.
    """

    def __init__(self, data, offsets, mean, weight):
        self.data = data
        self.mean = mean
        share = repeat(weight, offsets)
        self.share = share / share.sum()
        small = isinstance(data, np.ndarray) and data.shape[1] <= _FULL_COVARIANCE
        self.matrix = self._form() if small else None

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

    def leading(self, n_components, rng):
        """Return the directions of largest variance as columns."""
        n_rows, n_features = self.data.shape
        if self.matrix is not None:
            span = (n_features - n_components, n_features - 1)
            return eigh(self.matrix, subset_by_index=span)[1][:, ::-1]
        n_found = min(n_components, min(n_rows, n_features) - 1)
        start = rng.standard_normal(min(n_rows, n_features))
        found = np.empty((n_features, 0))
        if n_found > 0:
            _, sizes, rows = svds(self._centred(), k=n_found, v0=start)
            rows = rows[np.argsort(-sizes)]
            found = rows.T
        if n_found == n_components:
            return found
        # More directions were asked for than there are instances.
        rest = random_orthonormal(n_features, n_components, rng)
        return orthonormal_from(found, rest, n_components)

    def _centred(self):
        root = np.sqrt(self.share)
        data, mean = self.data, self.mean

        def forward(v):
            return root * (data @ v.ravel() - mean @ v.ravel())

        def backward(r):
            weighted = root * r.ravel()
            return data.T @ weighted - mean * weighted.sum()

        return LinearOperator(data.shape, forward, backward, dtype=np.float64)

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
        if number > 0 or init == "random":
            A = random_orthonormal(n_features, n_components, rng)
        else:
            A = covariance.leading(n_components, rng)
        if number == 0 and init == "milr":
            whole = fit_with_restarts(loss, **options)
            A = span_directions(whole.coef, A)
            yield A, A.T @ whole.coef, whole.intercept
            continue
        Z = np.asarray(loss.data @ A.astype(loss.data.dtype, copy=False))
        inner = fit_with_restarts(loss.on(Z - loss.mean @ A), **options)
        yield np.ascontiguousarray(A), inner.coef, inner.intercept


def span_directions(U, basis):
    """Return orthonormal columns: those of `U` that matter most, then `basis`."""
    left, sizes, _ = np.linalg.svd(U, full_matrices=False)
    n_kept = int(np.sum(sizes > 1e-10 * max(sizes[0], 1e-300)))
    if sizes[0] == 0.0:
        n_kept = 0
    n_components = basis.shape[1]
    return orthonormal_from(left[:, : min(n_kept, n_components)], basis, n_components)


def canonical_form(A, W, covariance, *, penalised):
    """Return the same solution with columns in a fixed order and fixed signs.

    Without a penalty any rotation of the columns is a solution too: the first ones
    become the directions that the scores use, the rest principal directions of what
    remains. With a penalty only signs and the order are free: columns that the scores
    use most come first, and those of equal use by variance.
    """
    if penalised:
        use = np.linalg.norm(W, axis=1)
        use = np.round(use / max(use.max(), 1e-300), 6)
        order = np.lexsort((-np.diag(covariance.within(A)), -use))
        A, W = A[:, order], W[order]
    else:
        left, sizes, _ = np.linalg.svd(W, full_matrices=True)
        rank = int(np.sum(sizes > 1e-10 * max(sizes[0], 1e-300)))
        rest = A @ left[:, rank:]
        if rest.shape[1] > 1:
            rest = rest @ np.linalg.eigh(covariance.within(rest))[1][:, ::-1]
        rotated = np.hstack([A @ left[:, :rank], rest])
        A, W = rotated, rotated.T @ (A @ W)
    largest = np.abs(A).argmax(axis=0)
    signs = np.where(A[largest, np.arange(A.shape[1])] < 0, -1.0, 1.0)
    return np.ascontiguousarray(A * signs), W * signs[:, None]
