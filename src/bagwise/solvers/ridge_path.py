r"""Kernel ridge solutions for every strength of the penalty, and their leave-one-outs.

With :math:`W` the weights of the rows, ``(K + alpha / W) a = y - b`` becomes
:math:`(M + \alpha) c = z` for :math:`M = \sqrt W K \sqrt W` and
:math:`a = \sqrt W c`. With :math:`A = (M + \alpha)^{-1}` and :math:`s = \sqrt W 1` the
system with a constant has the inverse :math:`P = A - A s s' A / s' A s`; the
coefficients are :math:`P \sqrt W y`, and a row that is left out misses its value by
minus its coefficient over its diagonal entry of :math:`P`.
"""

import numpy as np
from scipy.linalg import eigh

# Eigenvalues below this fraction of the largest are rounding errors and set to zero.
_RANK = 1e-12


class RidgePath:
    """Solutions for all strengths from one eigendecomposition.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix, symmetric and positive semi-definite.
    target : ndarray of shape (n, n_outputs)
        Values.
    weight : ndarray of shape (n,)
        Positive weights.
    fit_intercept : bool
        Whether a constant is fitted, without penalty.
    """

    def __init__(self, K, target, weight, fit_intercept=True):
        self.root = np.sqrt(weight)
        scaled = self.root[:, None] * K
        scaled *= self.root
        values, self.U = eigh(scaled, driver="evd", overwrite_a=True)
        values = np.maximum(values, 0.0)
        values[values < _RANK * values[-1]] = 0.0
        self.values, self.fit_intercept = values, fit_intercept
        # Subtract the mean: values far from zero would lose digits in the products.
        self.level = np.average(target, axis=0, weights=weight)
        if not fit_intercept:
            self.level = np.zeros_like(self.level)
        self.z = self.U.T @ (self.root[:, None] * (target - self.level))
        self.s = self.U.T @ self.root

    def _inverse(self, alpha):
        shrink = 1.0 / (self.values + alpha)
        solved = shrink[:, None] * self.z
        if not self.fit_intercept:
            return shrink, solved, None, np.zeros(self.z.shape[1])
        direction = shrink * self.s
        total = self.s @ direction
        b = (direction @ self.z) / total
        return shrink, solved - np.outer(direction, b), direction / np.sqrt(total), b

    def solve(self, alpha):
        """Return dual coefficients and the constant."""
        _, solved, _, b = self._inverse(alpha)
        return self.root[:, None] * (self.U @ solved), b + self.level

    def leave_one_out(self, alphas):
        """Return prediction minus value of every bag, each left out in turn.

        Parameters
        ----------
        alphas : sequence of float
            Strengths; three products serve them all.

        Returns
        -------
        ndarray of shape (n_alphas, n, n_outputs)
            The errors.
        """
        parts = [self._inverse(alpha) for alpha in alphas]
        shrink = np.column_stack([part[0] for part in parts])
        solved = np.column_stack([part[1] for part in parts])
        diagonal = (self.U * self.U) @ shrink
        if self.fit_intercept:
            diagonal -= (self.U @ np.column_stack([part[2] for part in parts])) ** 2
        diagonal *= self.root[:, None]
        fitted = (self.U @ solved).reshape(len(self.root), len(parts), -1)
        return -(fitted / diagonal[:, :, None]).transpose(1, 0, 2)

    def choose(self, alphas, weight):
        """Return the strength with the smallest weighted leave-one-out error.

        Parameters
        ----------
        alphas : sequence of float
            Strengths.
        weight : ndarray of shape (n,)
            Weights of the errors.

        Returns
        -------
        alpha : float
            The best.
        errors : ndarray of shape (n, n_outputs)
            What every row misses when it is left out.
        scores : ndarray of shape (n_alphas,)
            Weighted mean squared error of every strength.
        """
        share = weight / weight.sum()
        errors = self.leave_one_out(alphas)
        scores = np.array([share @ (e**2).mean(axis=1) for e in errors])
        best = int(np.argmin(scores))
        return float(alphas[best]), errors[best], scores
