"""Rows of the key-instance problem given by features instead of kernel values."""

import numpy as np
from scipy import sparse

from bagwise.svm._miodm_oracle import ascend_csr, ascend_dense, enumerate_choices
from bagwise.svm._miodm_units import Units
from bagwise.svm._odm_solvers import (
    MAX_FACTOR,
    CholeskyFactor,
    IterativeFactor,
    row_norms,
    scaled_rows,
)


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

    def products(self, choices, delta):
        """Margins of every choice alone, shape (n_rows, n_choices)."""
        directions = self._directions(choices, delta)
        out = np.empty((self.n_rows, len(choices)))
        for k, choice in enumerate(choices):
            out[: self.n_positive, k] = self.positive[choice] @ directions[k]
        out[self.n_positive :] = -(self.negative @ directions.T)
        return out

    def mixed(self, choices, weight, delta):
        """Margins of the mixture and squared norm of every choice."""
        directions = self._directions(choices, delta)
        margins = np.zeros(self.n_rows)
        for share, choice, w in zip(weight, choices, directions, strict=True):
            margins[: self.n_positive] += share * (self.positive[choice] @ w)
        margins[self.n_positive :] = -(self.negative @ (weight @ directions))
        return margins, np.einsum("ij,ij->i", directions, directions)

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
        held = self.spread(choices, weight).T @ plus
        return self.positive.T @ held - self.negative.T @ minus

    def candidate_scores(self, choices, weight, delta):
        """Score of every positive instance under the mixture."""
        return self.positive @ self.direction(choices, weight, delta)

    def uncoupled(self, delta):
        """Linear gain and squared norm of every candidate, without coupling."""
        pull = self.negative.T @ delta[self.n_positive :]
        return -(self.positive @ pull), self.norms


class _FeatureMixture:
    r"""Rows of a mixture: each choice has its own copy of the features.

    The mixed kernel is the kernel of the concatenated features
    :math:`\sqrt{v_k}\,\Psi^{c_k}`, so that Newton systems have the size
    ``n_choices * width`` or the number of selected rows, whichever is smaller.
    """

    def __init__(self, units, choices, root):
        self.units, self.root = units, root
        self.positive = [units.positive[c] for c in choices]

    def matvec(self, delta):
        """Margins of the dual vector."""
        plus, minus = self.units.split(delta)
        return self._apply(
            self._adjoint(plus, minus, self.positive, self.units.negative),
            self.positive,
            self.units.negative,
        )

    def _adjoint(self, plus, minus, positive, negative):
        pull = negative.T @ minus
        parts = [
            r * (z.T @ plus - pull) for r, z in zip(self.root, positive, strict=True)
        ]
        return np.concatenate(parts)

    def _apply(self, stacked, positive, negative):
        parts = np.split(stacked, len(positive))
        top, total = 0.0, 0.0
        for r, z, w in zip(self.root, positive, parts, strict=True):
            top = top + r * (z @ w)
            total = total + r * w
        return np.concatenate([top, -(negative @ total)])

    def factor(self, rows, ridge):
        """Solver for the block of `rows`: primal, dual or iterative by size."""
        p = self.units.n_positive
        cut = np.searchsorted(rows, p)
        positive = [z[rows[:cut]] for z in self.positive]
        negative = self.units.negative
        if len(rows) - cut < negative.shape[0]:
            negative = negative[rows[cut:] - p]
        dims = len(positive) * self.units.width
        if min(dims, len(rows)) > MAX_FACTOR:
            diagonal = np.concatenate(
                [
                    sum(
                        r * r * row_norms(z)
                        for r, z in zip(self.root, positive, strict=True)
                    ),
                    row_norms(negative),
                ]
            )

            def product(x):
                stacked = self._adjoint(x[:cut], x[cut:], positive, negative)
                return self._apply(stacked, positive, negative)

            return IterativeFactor(product, ridge, diagonal)
        if dims <= len(rows):
            return _StackedFactor(self, positive, negative, ridge, cut)
        return CholeskyFactor(self._dual_block(positive, negative, ridge))

    def _dual_block(self, positive, negative, ridge):
        top = sum(
            r * r * _dense(z @ z.T) for r, z in zip(self.root, positive, strict=True)
        )
        mean = sum(r * r * z for r, z in zip(self.root, positive, strict=True))
        cross = -_dense(mean @ negative.T)
        block = np.block([[top, cross], [cross.T, _dense(negative @ negative.T)]])
        block.flat[:: len(ridge) + 1] += ridge
        return block


class _StackedFactor:
    """Primal solver over the concatenated features of a mixture."""

    def __init__(self, mixture, positive, negative, ridge, cut):
        self.mixture, self.ridge, self.cut = mixture, ridge, cut
        self.positive, self.negative = positive, negative
        root = mixture.root
        scale = 1.0 / np.sqrt(ridge)
        stack = [
            r * scaled_rows(z, scale[:cut]) for r, z in zip(root, positive, strict=True)
        ]
        stack = (
            sparse.hstack(stack, format="csr")
            if sparse.issparse(stack[0])
            else np.hstack(stack)
        )
        gram = _dense(stack.T @ stack)
        low = scaled_rows(negative, scale[cut:])
        gram += np.kron(np.outer(root, root), _dense(low.T @ low))
        gram.flat[:: gram.shape[0] + 1] += 1.0
        self.inner = CholeskyFactor(gram)

    def solve(self, rhs):
        """Solve for one or several right-hand sides."""
        if rhs.ndim == 2:
            return np.column_stack([self.solve(column) for column in rhs.T])
        scaled = rhs / self.ridge
        stacked = self.mixture._adjoint(
            scaled[: self.cut], scaled[self.cut :], self.positive, self.negative
        )
        inner = self.inner.solve(stacked)
        back = self.mixture._apply(inner, self.positive, self.negative)
        return scaled - back / self.ridge


def _dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix
