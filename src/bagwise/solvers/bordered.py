"""Solve for some rows of a matrix with the factor of nearly the same rows."""

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs


class BorderedFactor:
    r"""Solver for a block whose rows differ a little from those of a known factor.

    Let :math:`A` be the factored block. The unknowns of rows that leave it are held at
    zero by multipliers :math:`\mu` (:math:`E` has a unit column for each of them), rows
    that join have unknowns :math:`y`, columns :math:`B` and a block :math:`C`:

    .. math::
        \begin{pmatrix} A & E & B \\ E' & 0 & 0 \\ B' & 0 & C \end{pmatrix}
        \begin{pmatrix} x \\ \mu \\ y \end{pmatrix} =
        \begin{pmatrix} b \\ 0 \\ c \end{pmatrix}.

    Eliminating :math:`x` leaves a system as large as the number of changes. It is
    regular whenever the block of all rows, old and new, is positive definite.

    Parameters
    ----------
    factor : object with a method solve
        Solver for the block of the old rows.
    stays, joins : bool ndarray of shape (n_old,), (n_new,)
        Old rows that stay, and new rows that the old ones do not contain. The others
        are in the same order in both.
    border : ndarray of shape (n_old, n_joining)
        Columns :math:`B`.
    corner : ndarray of shape (n_joining, n_joining)
        Block :math:`C`.
    """

    def __init__(self, factor, stays, joins, border, corner):
        self.factor, self.stays, self.joins, self.border = factor, stays, joins, border
        self.leaving = np.flatnonzero(~stays)
        cut = len(self.leaving)
        sides = np.zeros((len(stays), cut + len(corner)))
        sides[self.leaving, np.arange(cut)] = 1.0
        sides[:, cut:] = border
        self.response = factor.solve(sides)
        small = np.concatenate([self.response[self.leaving], border.T @ self.response])
        small[cut:, cut:] -= corner
        self.lu, self.pivots, info = dgetrf(small, overwrite_a=1)
        if info != 0:
            raise np.linalg.LinAlgError("the bordered system is singular.")

    def solve(self, rhs):
        """Solve for one or several right-hand sides."""
        inner = np.zeros((len(self.stays), *rhs.shape[1:]))
        inner[self.stays] = rhs[~self.joins]
        inner = self.factor.solve(inner)
        misfit = np.concatenate(
            [inner[self.leaving], self.border.T @ inner - rhs[self.joins]]
        )
        change = dgetrs(self.lu, self.pivots, misfit, overwrite_b=1)[0]
        inner -= self.response @ change
        out = np.empty(rhs.shape)
        out[~self.joins] = inner[self.stays]
        out[self.joins] = change[len(self.leaving) :]
        return out
