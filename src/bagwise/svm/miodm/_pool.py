"""From training bags to units, and negatives that join only when they matter.

At instance level every instance of a negative bag is a row, but most rows have no
loss at the optimum. `NegativePool` starts with a few of them and adds those that the
current solution violates; the gap counts the loss of the rows left out, so that the
answer is the one of the full problem.
"""

import numpy as np
from scipy import sparse

from bagwise._sizes import check_memory
from bagwise.bags.segments import bag_matrix
from bagwise.kernels.instance import row_blocks
from bagwise.solvers.margin_distribution import with_constant
from bagwise.svm.miodm._features import FeatureUnits
from bagwise.svm.miodm._solvers import Relaxation, solve_relaxation
from bagwise.svm.miodm._units import KernelUnits

# Up to this many rows the whole kernel is cheaper than features (Newton systems have
# the size of the rows) and than a growing set of negatives.
MAX_KERNEL_ROWS = 5000
MAX_EAGER_NEGATIVES = 2000
_FIRST_NEGATIVES = 1000


def kernel_units(positive, negative, offsets, kernel):
    """Units of all kernel values; `kernel` is a function of two sets of rows."""
    n, m = positive.shape[0], negative.shape[0]
    check_memory(
        8.0 * (n * n + n * m + 2.0 * m * m),
        f"The kernel between {n} positive instances and {m} negative units",
        'Set n_components for a reduced basis, or use level="bag".',
    )
    return KernelUnits(
        kernel(positive, positive),
        kernel(positive, negative),
        kernel(negative, negative),
        offsets,
    )


def mean_units(positive, negative, offsets, negative_offsets, kernel):
    """Units whose negatives are means of bags in the feature space of a kernel.

    Kernel values between instances are averaged block by block and never stored
    together.
    """
    n, m, q = positive.shape[0], negative.shape[0], len(negative_offsets) - 1
    check_memory(
        8.0 * (n * n + n * q + 2.0 * q * q),
        f"The kernel between {n} positive instances and {q} negative bags",
        "Set n_components for a reduced basis.",
    )
    average = bag_matrix(negative_offsets, mean=True)
    kpn = np.empty((n, q))
    for rows in row_blocks(n, 64.0 * m):
        kpn[rows] = (average @ kernel(positive[rows], negative).T).T
    knn = np.zeros((q, q))
    by_row = average.T.tocsr()
    for rows in row_blocks(m, 64.0 * m):
        block = average @ kernel(negative[rows], negative).T
        knn += (by_row[rows].T @ block.T).T
    knn = 0.5 * (knn + knn.T)
    return KernelUnits(kernel(positive, positive), kpn, knn, offsets)


def feature_units(positive, negative, offsets, negative_offsets, bias):
    """Units of a linear kernel, by features when there are many of them.

    `negative_offsets` averages the negatives over bags; None keeps instances.
    """
    if negative_offsets is not None:
        negative = bag_matrix(negative_offsets, mean=True) @ negative
    positive, negative = with_constant(positive, bias), with_constant(negative, bias)
    if positive.shape[0] + negative.shape[0] <= MAX_KERNEL_ROWS:
        return kernel_units(positive, negative, offsets, _inner_products)
    return FeatureUnits(positive, negative, offsets)


def _inner_products(a, b):
    block = a @ b.T
    return block.toarray() if sparse.issparse(block) else block


class NegativePool:
    """Kernel blocks over a growing set of negative instances.

    Parameters
    ----------
    positive, negative : array or CSR of shape (n, n_features)
        All instances of the positive and of the negative bags.
    offsets : ndarray
        Where each positive bag starts.
    kernel : callable
        Kernel matrix of two sets of rows.
    first : int, optional
        Number of negatives to start with (1,000), spread evenly over the rows.
    """

    def __init__(self, positive, negative, offsets, kernel, first=None):
        self.positive, self.negative, self.kernel = positive, negative, kernel
        self.offsets = offsets
        n = negative.shape[0]
        first = _FIRST_NEGATIVES if first is None else first
        self.active = np.unique(np.linspace(0, n - 1, min(first, n)).astype(np.intp))
        rows = negative[self.active]
        self.units = kernel_units(positive, rows, offsets, kernel)

    @property
    def waiting(self):
        """Negatives that have not joined."""
        return np.setdiff1d(np.arange(self.negative.shape[0]), self.active)

    def rows(self):
        """Row numbers of the units in the full problem."""
        p = self.units.n_positive
        return np.concatenate([np.arange(p), p + self.active])

    def margins(self, mixture, waiting):
        """Margins of waiting negatives under a mixture, block by block."""
        units = self.units
        plus, minus = units.split(mixture.delta)
        held = units.held(mixture.choices, mixture.weight, plus)
        chosen, joined = np.flatnonzero(held), np.flatnonzero(minus)
        positive = self.positive[chosen]
        negative = self.negative[self.active[joined]]
        out = np.empty(len(waiting))
        for block in row_blocks(len(waiting), 16.0 * (len(chosen) + len(joined))):
            rows = self.negative[waiting[block]]
            out[block] = self.kernel(rows, negative) @ minus[joined]
            out[block] -= self.kernel(rows, positive) @ held[chosen]
        return out

    def missing_loss(self, mixture, loss):
        """Loss of the waiting negatives; `loss` covers the full problem."""
        waiting = self.waiting
        outside = loss.subset(self.units.n_positive + waiting)
        return outside.value(self.margins(mixture, waiting))

    def join(self, new):
        """Add negatives; old blocks are copied, only new kernel values computed."""
        old, n = self.units, self.units.n_negative
        m = n + len(new)
        check_memory(
            16.0 * m * m,
            f"The kernel between {m} negative instances",
            'Set n_components for a reduced basis, or use level="bag".',
        )
        old.release()
        rows = self.negative[new]
        knn = np.empty((m, m))
        knn[:n, :n] = old.knn
        old.knn = None
        knn[n:, :n] = self.kernel(rows, self.negative[self.active])
        knn[:n, n:] = knn[n:, :n].T
        knn[n:, n:] = self.kernel(rows, rows)
        kpn = np.hstack([old.kpn, self.kernel(self.positive, rows)])
        self.active = np.concatenate([self.active, new])
        self.units = KernelUnits(old.kpp, kpn, knn, self.offsets)


def solve_with_pool(pool, loss, *, tol, **settings):
    """Solve the relaxation over all negatives of a pool.

    `loss` covers the rows of the full problem. Rows left out have no dual weight:
    their loss is exactly what they add to the gap.
    """
    start, path = None, []
    while True:
        found = solve_relaxation(
            pool.units, loss.subset(pool.rows()), tol=tol, start=start, **settings
        )
        path += found.path
        mixture, waiting = found.mixture, pool.waiting
        outside = loss.subset(pool.units.n_positive + waiting)
        margins = pool.margins(mixture, waiting)
        missing = outside.value(margins)
        gap = found.gap + missing
        scale = max(1.0, abs(mixture.objective))
        if missing <= 0.1 * tol * scale:
            converged = found.converged or gap <= tol * scale
            return Relaxation(mixture, gap, found.certified, converged, path)
        weighted = outside.weight * outside.rowwise(margins)
        order = np.argsort(-weighted, kind="stable")
        violated = order[: np.count_nonzero(weighted)]
        most = max(_FIRST_NEGATIVES, len(pool.active))
        new = waiting[violated[:most]]
        pool.join(new)
        delta = np.concatenate([mixture.delta, np.zeros(len(new))])
        start = (mixture.choices, mixture.weight, delta)
