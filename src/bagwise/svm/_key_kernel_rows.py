"""Rows of the key-instance problem: positive instances and negative units.

`KernelUnits` holds kernel values, `FeatureUnits` (its own file) features; both answer
the same questions, so that the solvers do not know which one they are given:

``mixture(choices, weight)``
    operator over the rows of a weighted mixture of choices (see `solve_odm`),
``products(choices, delta, rows)``
    the margins of every choice alone, one column each, of all rows or of some,
``squared_norms(choices, duals)``
    the squared norm of every choice at several dual vectors, one column each,
``ascend(delta, starts)`` and ``enumerate_all(delta)``
    the search for the most violated choice.

Rows are ordered positive bags first, then negative units; a *choice* is an array with
the index of one positive instance for each positive bag.
"""

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.linalg.lapack import dtrtrs
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from bagwise._sizes import check_memory
from bagwise.bags.segments import bag_matrix, segment_argmax
from bagwise.kernels.instance import row_blocks
from bagwise.solvers.margin_distribution import (
    BorderedFactor,
    CholeskyFactor,
    KernelRows,
    block_of,
)
from bagwise.svm._loops import ascend_kernel, enumerate_choices

# Enumerating all choices is exact; above these sizes, coordinate ascent is used.
MAX_CHOICES = 4096
MAX_ENUMERATED_INSTANCES = 512
# Blocks of all current choices are cached up to this size.
MAX_STACK_BYTES = 256e6
# Systems over all instances at once are solved up to this number of instances.
MAX_EVERY_INSTANCE = 5000
# Number of dual vectors whose products with the kernel of the negatives are cached.
_MAX_PULLS = 4
# Number of pairs of opposite choices in the first mixture.
MAX_PAIRS = 10
# Up to this many candidates, all axes cost no more than the main ones.
_DENSE_AXES = 100
# Axes with a smaller fraction of the largest variance are rounding errors.
_NO_VARIANCE = 1e-9


class Units:
    """What both kinds of units share: the geometry of the positive bags."""

    def __init__(self, offsets, n_negative):
        self.offsets = np.asarray(offsets, dtype=np.int64)
        self.n_positive = len(self.offsets) - 1
        self.n_candidates = int(self.offsets[-1])
        self.n_negative = n_negative

    @property
    def n_rows(self):
        """Number of rows: positive bags and negative units."""
        return self.n_positive + self.n_negative

    @property
    def enumerable(self):
        """Whether trying every choice is affordable."""
        sizes = np.diff(self.offsets).astype(np.float64)
        return (
            self.n_candidates <= MAX_ENUMERATED_INSTANCES
            and np.log(sizes).sum() <= np.log(MAX_CHOICES) + 1e-9
        )

    def ends(self, scores):
        """Choices of the highest and of the lowest scores, a pair for each column."""
        signed = np.concatenate([scores.T, -scores.T])
        choices = [segment_argmax(row, self.offsets) for row in signed]
        return np.array(choices, dtype=np.int64).reshape(-1, self.n_positive)

    def split(self, delta):
        """Positive and negative part of a vector over the rows."""
        return delta[: self.n_positive], delta[self.n_positive :]

    def held(self, choices, weight, plus):
        """Dual weight on each candidate under a mixture of choices."""
        shares = np.outer(weight, plus)
        return np.bincount(choices.ravel(), shares.ravel(), self.n_candidates)

    def spread(self, choices, weight):
        """Matrix (positive bags x candidates) of the weight on each instance."""
        # Choices agree on many bags: one entry per instance instead of one per choice.
        values = np.repeat(np.asarray(weight, dtype=np.float64), self.n_positive)
        held = np.bincount(choices.ravel(), values, self.n_candidates)
        used = np.flatnonzero(held)
        parts = (held[used], used, np.searchsorted(used, self.offsets))
        return sparse.csr_matrix(parts, shape=(self.n_positive, self.n_candidates))


class KernelUnits(Units):
    """Units given by kernel blocks.

    Parameters
    ----------
    kpp : ndarray of shape (n_candidates, n_candidates)
        Kernel between positive instances.
    kpn : ndarray of shape (n_candidates, n_negative)
        Kernel between positive instances and negative units.
    knn : ndarray of shape (n_negative, n_negative)
        Kernel between negative units.
    offsets : ndarray of shape (n_positive + 1,)
        Where each positive bag starts among the candidates.
    """

    def __init__(self, kpp, kpn, knn, offsets):
        super().__init__(offsets, knn.shape[0])
        self.kpp, self.kpn, self.knn = kpp, kpn, knn
        self.release()

    def _blocks(self, choices):
        """Kernel between the chosen instances, one block for each choice."""
        n, p = choices.shape
        if 8 * n * p * p > MAX_STACK_BYTES:
            return (block_of(self.kpp, choice, choice) for choice in choices)
        keys = [choice.tobytes() for choice in choices]
        old_keys, old = self._stack
        if keys != old_keys:
            # Most choices recur in the next call, so that their blocks can be copied.
            known = {key: k for k, key in enumerate(old_keys)}
            stack = np.empty((n, p, p))
            for block, key, choice in zip(stack, keys, choices, strict=True):
                if key in known:
                    block[:] = old[known[key]]
                else:
                    block[:] = self.kpp[choice[:, None], choice]
            self._stack = (keys, stack)
        return self._stack[1]

    def mixture(self, choices, weight):
        """Operator over the rows of the weighted mixture."""
        kept = np.flatnonzero(weight)
        key = (choices[kept].tobytes(), weight[kept].tobytes())
        if self._mixture[0] == key:  # a round starts where the last one ended
            return self._mixture[1]
        self._mixture = (None, None)  # free the old factor first
        blocks = self._blocks(choices)
        if isinstance(blocks, np.ndarray):
            kpp = np.tensordot(weight, blocks, 1)
        else:
            kpp = sum(w * block for w, block in zip(weight, blocks, strict=True))
        kpn = np.asarray(self.spread(choices[kept], weight[kept]) @ self.kpn)
        self._mixture = (key, KernelMixture(self, kpp, kpn))
        return self._mixture[1]

    def release(self):
        """Forget the cached factors, blocks and products."""
        self._negative = self._mixture = (None, None)
        self._stack = ([], None)
        self._pulls = {}

    def _pull(self, minus):
        """Products of a negative part with the candidates and with the negatives.

        A round asks for them at the same few dual vectors again and again.
        """
        key = minus.tobytes()
        if key not in self._pulls:
            if len(self._pulls) == _MAX_PULLS:
                del self._pulls[next(iter(self._pulls))]
            self._pulls[key] = (self.kpn @ minus, self.knn @ minus)
        return self._pulls[key]

    def negative_factor(self, rows, ridge):
        """Cholesky factor of the negative block, which no mixture changes."""
        key = (rows.tobytes(), ridge.tobytes())
        if self._negative[0] != key:
            self._negative = (None, None)  # free the old factor first
            block = block_of(self.knn, rows, rows)
            block.flat[:: len(rows) + 1] += ridge
            self._negative = (key, CholeskyFactor(block).lower)
        return self._negative[1]

    def spanning_choices(self, rng):
        """Both ends of every bag along the main axes (see `FeatureUnits`)."""
        if self.enumerable:  # few rounds at low cost
            return self.ends(np.empty((self.n_candidates, 0)))
        return self.ends(principal_axes(self.kpp, MAX_PAIRS))

    def _tops(self, choices, plus, cross):
        """Margins of the positive bags under every choice, one row each."""
        blocks = self._blocks(choices)
        if isinstance(blocks, np.ndarray):
            return blocks @ plus - cross[choices]
        return np.stack([block @ plus for block in blocks]) - cross[choices]

    def products(self, choices, delta, rows=None):
        """Margins of every choice alone, shape (n_rows, n_choices)."""
        p = self.n_positive
        rows = np.arange(self.n_rows) if rows is None else rows
        cut = np.searchsorted(rows, p)
        bags, units = rows[:cut], rows[cut:] - p
        plus, minus = self.split(delta)
        # Choices agree on many bags, so they contain few of the instances.
        used = np.zeros(self.n_candidates, dtype=bool)
        used[choices] = True
        place = np.cumsum(used) - 1
        used = np.flatnonzero(used)
        chosen = np.zeros((len(choices), len(used)))
        np.put_along_axis(chosen, place[choices], plus[None], axis=1)
        cross, repulsion = self._pull(minus)
        bottom = repulsion[units] - chosen @ block_of(self.kpn, used, units)
        tops = self._tops(choices, plus, cross)
        return np.vstack([tops.T[bags], bottom.T])

    def squared_norms(self, choices, duals):
        """Squared norm of every choice at every dual vector."""
        out = np.empty((len(choices), len(duals)))
        for k, delta in enumerate(duals):
            plus, minus = self.split(delta)
            cross, repulsion = self._pull(minus)
            # Terms that cancel are subtracted first, row by row.
            tops = self._tops(choices, plus, cross)
            out[:, k] = tops @ plus - cross[choices] @ plus + minus @ repulsion
        return out

    def ascend(self, delta, starts):
        """Improve each start by coordinate ascent: choices and squared norms."""
        plus, minus = self.split(delta)
        cross, repulsion = self._pull(minus)
        choices = np.array(starts, dtype=np.int64)
        values = np.array(
            [ascend_kernel(self.kpp, cross, plus, self.offsets, c) for c in choices]
        )
        return choices, values + minus @ repulsion

    def enumerate_all(self, delta):
        """Return the best of all choices and its squared norm."""
        plus, minus = self.split(delta)
        cross, repulsion = self._pull(minus)
        choice, value = enumerate_choices(self.kpp, cross, plus, self.offsets)
        return choice, value + minus @ repulsion

    def candidate_scores(self, choices, weight, delta):
        """Score of every positive instance under the mixture."""
        plus, minus = self.split(delta)
        held = self.held(choices, weight, plus)
        return self.kpp @ held - self._pull(minus)[0]

    def uncoupled(self, delta):
        """Linear gain and squared norm of every candidate, without coupling."""
        return -self._pull(delta[self.n_positive :])[0], self.kpp.diagonal()

    def every_instance(self):
        """Operator over all candidates and negatives, or None if too large."""
        n = self.n_candidates
        if n + self.n_negative > MAX_EVERY_INSTANCE:
            return None
        kernel = np.block([[self.kpp, self.kpn], [self.kpn.T, self.knn]])
        return KernelRows(kernel, np.where(np.arange(len(kernel)) < n, 1.0, -1.0))


def principal_axes(kernel, n_axes):
    r"""Scores of the rows along the axes in which they vary most, up to scale.

    They are the leading eigenvectors of :math:`HKH`, where :math:`H` subtracts the
    mean, to full accuracy and from a start that permutes with the rows: what is found
    must not depend on their order. Axes without variance are left out.

    Returns
    -------
    ndarray of shape (n_rows, at most n_axes)
    """
    n = len(kernel)
    means = kernel.mean(axis=0)
    if n <= _DENSE_AXES:
        centered = kernel - means - means[:, None] + means.mean()
        values, axes = eigh(centered, subset_by_index=[max(n - n_axes, 0), n - 1])
    else:

        def product(x):
            out = kernel @ (x - x.mean())
            return out - out.mean()

        # The means are zero if the rows are already centered, the squares are not.
        start = np.einsum("ij,ij->i", kernel, kernel)
        start -= start.mean()
        if not start.any():
            return np.empty((n, 0))
        operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
        try:
            values, axes = eigsh(operator, n_axes, which="LA", v0=start, maxiter=20)
        except ArpackNoConvergence as error:  # no axis dominates the others
            values, axes = error.eigenvalues, error.eigenvectors
    scale = np.abs(kernel.diagonal()).sum()
    return axes[:, values > _NO_VARIANCE * scale]


# Above this ratio of negative to positive rows, the factor of the negative block is
# kept.
_PREVAIL = 5
# With up to one change per this many rows, extending the last factor by a border is
# cheaper than a new factor: 2 n^2 operations per change instead of n^3 / 3 in total.
_FEW = 8


class KernelMixture:
    """Rows of a mixture of choices, by kernel blocks."""

    def __init__(self, units, kpp, kpn):
        self.units, self.kpp, self.kpn = units, kpp, kpn
        self._known = (None, None, None)  # rows, ridge and factor

    def matvec(self, delta):
        """Margins of the dual vector."""
        plus, minus = self.units.split(delta)
        return np.concatenate(
            [
                self.kpp @ plus - self.kpn @ minus,
                self.units.knn @ minus - plus @ self.kpn,
            ]
        )

    def factor(self, rows, ridge):
        """Solver for the block of `rows`, from the last one where few rows differ."""
        old, old_ridge, factor = self._known
        if factor is not None:
            # Rows whose ridge has changed are removed and added again.
            before, after = np.zeros((2, self.units.n_rows))
            before[old], after[rows] = old_ridge, ridge
            stays, joins = after[old] == old_ridge, before[rows] != ridge
            n_changes = np.count_nonzero(~stays) + np.count_nonzero(joins)
            if n_changes == 0:
                return factor
            if _FEW * n_changes <= len(rows):
                new = rows[joins]
                corner = self._block(new, new)
                corner.flat[:: len(new) + 1] += ridge[joins]
                border = self._block(old, new)
                return BorderedFactor(factor, stays, joins, border, corner)
        factor = self._new_factor(rows, ridge)
        self._known = (rows, ridge, factor)
        return factor

    def _block(self, rows, columns):
        """Block of the mixed kernel, without the ridge."""
        p = self.units.n_positive
        i, j = np.searchsorted(rows, p), np.searchsorted(columns, p)
        out = np.empty((len(rows), len(columns)))
        out[:i, :j] = self.kpp[rows[:i, None], columns[:j]]
        out[:i, j:] = -self.kpn[rows[:i, None], columns[j:] - p]
        out[i:, :j] = -self.kpn[columns[:j, None], rows[i:] - p].T
        # Read along the rows of the symmetric block: few columns are needed.
        out[i:, j:] = self.units.knn[columns[j:, None] - p, rows[i:] - p].T
        return out

    def _new_factor(self, rows, ridge):
        """Factorization, by elimination when negatives prevail."""
        p = self.units.n_positive
        cut = np.searchsorted(rows, p)
        plus, minus = rows[:cut], rows[cut:] - p
        if len(minus) > _PREVAIL * cut:
            return _BlockFactor(self, plus, minus, ridge, cut)
        block = np.empty((len(rows), len(rows)))
        block[:cut, :cut] = block_of(self.kpp, plus, plus)
        # Entries below the diagonal are not read.
        np.negative(block_of(self.kpn, plus, minus), out=block[:cut, cut:])
        block[cut:, cut:] = block_of(self.units.knn, minus, minus)
        block.flat[:: len(rows) + 1] += ridge
        return CholeskyFactor(block)


class _BlockFactor:
    """Cholesky factorization with the negative units first.

    The negative block depends on the selected rows only, not on the mixture: its
    factor is kept between mixtures and the remaining Schur complement is as small as
    the number of positive bags.
    """

    def __init__(self, mixture, plus, minus, ridge, cut):
        self.cut = cut
        self.lower = mixture.units.negative_factor(minus, ridge[cut:])
        cross = -block_of(mixture.kpn, plus, minus).T
        self.coupling = self._forward(cross)
        schur = block_of(mixture.kpp, plus, plus)
        schur -= self.coupling.T @ self.coupling
        schur.flat[:: cut + 1] += ridge[:cut]
        self.schur = CholeskyFactor(schur) if cut else None

    def _forward(self, rhs, trans=0):
        if self.lower.size == 0:
            return rhs
        return dtrtrs(self.lower, rhs, lower=1, trans=trans)[0]

    def solve(self, rhs):
        """Solve for one or several right-hand sides."""
        inner = self._forward(rhs[self.cut :])
        if self.schur is None:
            return self._forward(inner, 1)
        plus = self.schur.solve(rhs[: self.cut] - self.coupling.T @ inner)
        minus = self._forward(inner - self.coupling @ plus, 1)
        return np.concatenate([plus, minus])


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
