"""Rows of the key-instance problem given by features instead of kernel values."""

import numpy as np
from scipy import sparse

from bagwise.bags.segments import bag_matrix
from bagwise.solvers.margin_distribution import (
    MAX_FACTOR,
    CholeskyFactor,
    FeatureRows,
    IterativeFactor,
    row_norms,
    scaled_rows,
    with_constant,
)
from bagwise.svm._key_kernel_rows import MAX_PAIRS, Units, kernel_units
from bagwise.svm._loops import ascend_csr, ascend_dense, enumerate_choices

# Up to this many rows the full kernel matrix is cheaper than features: Newton systems
# then have one equation per row.
MAX_KERNEL_ROWS = 5000
# Number of power iterations to find the directions of the first choices.
_POWER_STEPS = 5


class FeatureUnits(Units):
    """Units given by features: cost linear in their number.

    Parameters
    ----------
    positive : ndarray or CSR of shape (n_candidates, n_components)
        Positive instances.
    negative : ndarray or CSR of shape (n_negative, n_components)
        Negative units.
    offsets : ndarray of shape (n_positive + 1,)
        Where each positive bag starts among the candidates.
    """

    def __init__(self, positive, negative, offsets):
        super().__init__(offsets, negative.shape[0])
        self.positive, self.negative = positive, negative
        self.norms = row_norms(positive)
        self.width = positive.shape[1]

    def mixture(self, choices, weight):
        """Operator over the rows of the weighted mixture."""
        kept = np.flatnonzero(weight)
        return _FeatureMixture(self, choices[kept], np.sqrt(weight[kept]))

    def _directions(self, choices, delta):
        """Weight vector of every choice alone, shape (n_choices, width)."""
        plus, minus = self.split(delta)
        pull = self.negative.T @ minus
        return np.stack([self.positive[c].T @ plus - pull for c in choices])

    def products(self, choices, delta, rows=None):
        """Margins of every choice alone, shape (n_rows, n_choices)."""
        directions = self._directions(choices, delta)
        out = np.empty((self.n_rows, len(choices)))
        for k, choice in enumerate(choices):
            out[: self.n_positive, k] = self.positive[choice] @ directions[k]
        out[self.n_positive :] = -(self.negative @ directions.T)
        return out if rows is None else out[rows]

    def squared_norms(self, choices, duals):
        """Squared norm of every choice at every dual vector."""
        directions = [self._directions(choices, delta) for delta in duals]
        return np.stack([np.einsum("ij,ij->i", w, w) for w in directions], axis=1)

    def ascend(self, delta, starts):
        """Improve each start by coordinate ascent: choices and squared norms."""
        plus, minus = self.split(delta)
        pull = np.asarray(self.negative.T @ minus, dtype=np.float64)
        choices = np.array(starts, dtype=np.int64)
        rest = (self.norms, plus, self.offsets, pull)
        z = self.positive
        if sparse.issparse(z):
            values = [
                ascend_csr(z.data, z.indices, z.indptr, *rest, c) for c in choices
            ]
        else:
            values = [ascend_dense(z, *rest, c) for c in choices]
        return choices, np.array(values)

    def enumerate_all(self, delta):
        """Return the best of all choices and its squared norm."""
        plus, minus = self.split(delta)
        gram = self.positive @ self.positive.T
        gram = gram.toarray() if sparse.issparse(gram) else gram
        pull = self.negative.T @ minus
        choice, value = enumerate_choices(
            gram, self.positive @ pull, plus, self.offsets
        )
        return choice, value + pull @ pull

    def direction(self, choices, weight, delta):
        """Weight vector of the mixture in the space of the features."""
        plus, minus = self.split(delta)
        held = self.held(choices, weight, plus)
        return self.positive.T @ held - self.negative.T @ minus

    def candidate_scores(self, choices, weight, delta):
        """Score of every positive instance under the mixture."""
        return self.positive @ self.direction(choices, weight, delta)

    def uncoupled(self, delta):
        """Linear gain and squared norm of every candidate, without coupling."""
        pull = self.negative.T @ delta[self.n_positive :]
        return -(self.positive @ pull), self.norms

    def spanning_choices(self, rng):
        """Both ends of every bag along the directions in which instances vary most.

        A mixture of the highest and the lowest instances along a direction gives
        every positive bag half of its own width as a margin, while the two weight
        vectors cancel on the negatives: long bags make such pairs nearly optimal for
        the relaxation, and finding them one by one takes most of the rounds.
        """
        n_pairs = min(MAX_PAIRS, self.width, MAX_FACTOR // (4 * self.width))
        directions = rng.standard_normal((self.width, max(n_pairs, 1)))
        mean = np.asarray(self.positive.mean(axis=0)).ravel()
        for _ in range(_POWER_STEPS):  # subspace iteration on the covariance
            directions = np.linalg.qr(directions)[0]
            scores = self.positive @ directions
            directions = self.positive.T @ scores - np.outer(mean, scores.sum(axis=0))
        return self.ends(self.positive @ directions)

    def every_instance(self):
        """Operator over all candidates and negatives."""
        stack = sparse.vstack if sparse.issparse(self.positive) else np.vstack
        rows = stack([self.positive, -self.negative])
        return FeatureRows(rows.tocsr() if sparse.issparse(rows) else rows)


class _FeatureMixture:
    r"""Rows of a mixture: each choice has its own copy of the features.

    The mixed kernel is the kernel of the concatenated features
    :math:`\sqrt{v_k}\,\Psi^{c_k}`, so that Newton systems have the size
    ``n_choices * width`` or the number of selected rows, whichever is smaller. Only
    the positive rows are stored side by side; the negative ones are the same for all.
    """

    def __init__(self, units, choices, root):
        self.units, self.root = units, root
        parts = [r * units.positive[c] for r, c in zip(root, choices, strict=True)]
        if sparse.issparse(parts[0]):
            self.stack = sparse.hstack(parts, format="csr")
        else:
            self.stack = np.hstack(parts)

    def adjoint(self, plus, minus, stack, negative):
        """Weight vectors of a dual vector over some rows, one after the other."""
        return stack.T @ plus - np.kron(self.root, negative.T @ minus)

    def apply(self, stacked, stack, negative):
        """Margins of weight vectors over some rows."""
        total = self.root @ stacked.reshape(len(self.root), -1)
        return np.concatenate([stack @ stacked, -(negative @ total)])

    def matvec(self, delta):
        """Margins of the dual vector."""
        return self._product(delta, self.stack, self.units.negative)

    def _product(self, delta, stack, negative):
        cut = stack.shape[0]
        stacked = self.adjoint(delta[:cut], delta[cut:], stack, negative)
        return self.apply(stacked, stack, negative)

    def factor(self, rows, ridge):
        """Solver for the block of `rows`: primal, dual or iterative by size."""
        p = self.units.n_positive
        cut = np.searchsorted(rows, p)
        stack, negative = self.stack[rows[:cut]], self.units.negative
        if len(rows) - cut < negative.shape[0]:
            negative = negative[rows[cut:] - p]
        if 0 < cut <= min(stack.shape[1], MAX_FACTOR) and (
            self.units.width <= min(negative.shape[0], MAX_FACTOR)
        ):
            return _EliminatedFactor(self, stack, negative, ridge)
        if min(stack.shape[1], len(rows)) > MAX_FACTOR:
            diagonal = np.concatenate([row_norms(stack), row_norms(negative)])
            return IterativeFactor(
                lambda x: self._product(x, stack, negative), ridge, diagonal
            )
        if stack.shape[1] <= len(rows):
            return _StackedFactor(self, stack, negative, ridge)
        return CholeskyFactor(self._dual_block(stack, negative, ridge))

    def folded(self, stack):
        """Mean features of the positive rows: what they share with the negatives."""
        spread = sparse.kron(self.root[:, None], sparse.eye_array(self.units.width))
        return stack @ spread

    def _dual_block(self, stack, negative, ridge):
        n, cut = len(ridge), stack.shape[0]
        block = np.empty((n, n))
        block[:cut, :cut] = _dense(stack @ stack.T)
        block[:cut, cut:] = -_dense(self.folded(stack) @ negative.T)
        block[cut:, :cut] = block[:cut, cut:].T
        block[cut:, cut:] = _dense(negative @ negative.T)
        block.flat[:: n + 1] += ridge
        return block


class _EliminatedFactor:
    r"""Solver that eliminates the negative rows in the space of the features.

    All copies of a negative row are the same, so that the negatives :math:`N` take a
    system of the width of the features, however many choices are mixed. With
    :math:`G = I + \rho N'R_-^{-1}N`, :math:`\rho` the sum of the weights, and
    :math:`T` the mean features of the positive rows :math:`S`, what remains has the
    size of the positive rows:

    .. math:: SS' + R_+ - \tfrac1\rho\,T(I - G^{-1})T'.
    """

    def __init__(self, mixture, stack, negative, ridge):
        self.negative, cut = negative, stack.shape[0]
        self.ridge = ridge[cut:]
        self.cut, self.total = cut, mixture.root @ mixture.root
        lower = scaled_rows(negative, np.sqrt(self.total / self.ridge))
        gram = _dense(lower.T @ lower)
        gram.flat[:: gram.shape[0] + 1] += 1.0
        self.inner = CholeskyFactor(gram)
        self.mean = _dense(mixture.folded(stack))
        schur = _dense(stack @ stack.T)
        damped = self.mean.T - self.inner.solve(self.mean.T)
        schur = schur - (self.mean @ damped) / self.total
        schur.flat[:: cut + 1] += ridge[:cut]
        self.schur = CholeskyFactor(0.5 * (schur + schur.T))

    def solve(self, rhs):
        """Solve for one or several right-hand sides."""
        ridge = self.ridge if rhs.ndim == 1 else self.ridge[:, None]
        plus, minus = rhs[: self.cut], rhs[self.cut :]
        pull = self.negative.T @ (minus / ridge)
        plus = self.schur.solve(plus + self.mean @ self.inner.solve(pull))
        push = self.inner.solve(self.mean.T @ plus - self.total * pull)
        return np.concatenate([plus, (minus + self.negative @ push) / ridge])


class _StackedFactor:
    """Primal solver over the concatenated features of a mixture."""

    def __init__(self, mixture, stack, negative, ridge):
        self.mixture, self.stack, self.negative = mixture, stack, negative
        self.ridge = ridge
        cut, root = stack.shape[0], mixture.root
        scale = 1.0 / np.sqrt(ridge)
        upper = scaled_rows(stack, scale[:cut])
        lower = scaled_rows(negative, scale[cut:])
        gram = _dense(upper.T @ upper)
        gram += np.kron(np.outer(root, root), _dense(lower.T @ lower))
        gram.flat[:: gram.shape[0] + 1] += 1.0
        self.inner = CholeskyFactor(gram)

    def solve(self, rhs):
        """Solve for one or several right-hand sides."""
        if rhs.ndim == 2:
            return np.column_stack([self.solve(column) for column in rhs.T])
        cut, scaled = self.stack.shape[0], rhs / self.ridge
        stacked = self.mixture.adjoint(
            scaled[:cut], scaled[cut:], self.stack, self.negative
        )
        inner = self.inner.solve(stacked)
        back = self.mixture.apply(inner, self.stack, self.negative)
        return scaled - back / self.ridge


def _dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix


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
