"""Rows of a mixture of choices by kernel blocks, and their factors."""

import numpy as np
from scipy.linalg.lapack import dtrtrs

from bagwise.solvers.bordered import BorderedFactor
from bagwise.solvers.margin_distribution import CholeskyFactor, block_of

# Keeping the factor of the negative block pays above this ratio to positive rows.
_PREVAIL = 5
# Up to one change in so many rows, the last factor with a border is cheaper than a new
# one: 2 n^2 operations for each change instead of n^3 / 3 for all.
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
            # Rows whose ridge is another one leave and join again.
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
        # Along the rows of the symmetric block: few columns are wanted.
        out[i:, j:] = self.units.knn[columns[j:, None] - p, rows[i:] - p].T
        return out

    def _new_factor(self, rows, ridge):
        """Factorisation, by elimination when negatives prevail."""
        p = self.units.n_positive
        cut = np.searchsorted(rows, p)
        plus, minus = rows[:cut], rows[cut:] - p
        if len(minus) > _PREVAIL * cut:
            return _BlockFactor(self, plus, minus, ridge, cut)
        block = np.empty((len(rows), len(rows)))
        block[:cut, :cut] = block_of(self.kpp, plus, plus)
        # Nothing below the diagonal is read.
        np.negative(block_of(self.kpn, plus, minus), out=block[:cut, cut:])
        block[cut:, cut:] = block_of(self.units.knn, minus, minus)
        block.flat[:: len(rows) + 1] += ridge
        return CholeskyFactor(block)


class _BlockFactor:
    """Cholesky factorisation with the negative units first.

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
