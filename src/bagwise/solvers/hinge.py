r"""Convex steps of the SVM family: hinge rows over the training instances.

Every method of this subpackage alternates between choosing rows (witnesses, labels,
signs) and one convex problem,

.. math::
    \min_{f, b} \; \tfrac12 \|f\|^2 + \sum_g C_g
        \max\big(0, \max_{l \in g} (m_l - s_l f(r_l) - c_l b)\big),

where each row :math:`r_l` is a point of the feature space. `GramSpace` holds the points
by their kernel matrix, `BasisSpace` by coordinates (linear kernel, reduced bases).
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from bagwise.bags.segments import segment_max
from bagwise.solvers.interior_point import working_set
from bagwise.solvers.smo import combine_rows, smo
from bagwise.solvers.sparse_ascent import sparse_ascent

# Above this rank the normal matrix costs more than coordinate steps.
_MAX_RANK = 2000
# A step with a relative gap up to the first value is solved, whatever the status of its
# solver. With a gap above the second it is not, unless its solver checks margins (which
# can be right for very small caps while the gap is large).
_SURE, _DOUBTFUL = 1e-3, 1e-2


@dataclass
class HingeRows:
    """The hinge rows of one convex step.

    Attributes
    ----------
    points : ndarray of int, shape (n_rows,) or CSR matrix (n_rows, n_points)
        Point behind each row, or weights of the points.
    sign, margin : ndarray of shape (n_rows,)
        :math:`s_l` and :math:`m_l`.
    cap : ndarray of shape (n_groups,)
        :math:`C_g`.
    group : ndarray of int, shape (n_rows,), optional
        Non-decreasing group of each row; None gives each row its own slack.
    bias : ndarray of shape (n_rows,), optional
        :math:`c_l`; None means `sign`.
    """

    points: object
    sign: np.ndarray
    margin: np.ndarray
    cap: np.ndarray
    group: np.ndarray | None = None
    bias: np.ndarray | None = None

    def hinge_loss(self, values, b):
        """Weighted hinge of the rows with function values `values` (no bias)."""
        c = self.sign if self.bias is None else self.bias
        slack = np.maximum(0.0, self.margin - self.sign * values - c * b)
        if self.group is not None:
            n_groups = len(self.cap)
            offsets = np.searchsorted(self.group, np.arange(n_groups + 1))
            slack = segment_max(slack, offsets)
        return float(self.cap @ slack)


@dataclass
class Solution:
    """A solved convex step.

    Attributes
    ----------
    coef : ndarray
        Weights of the points (`GramSpace`) or of the coordinates (`BasisSpace`).
    b : float
        Bias.
    scores : ndarray of shape (n_points,)
        ``f + b`` at every point.
    beta : ndarray of shape (n_rows,)
        Dual variables (None for a linear program).
    objective, gap : float
        Primal value, and its distance to the dual value.
    converged : bool
        Whether the step was solved, see `judge`.
    """

    coef: np.ndarray
    b: float
    scores: np.ndarray
    beta: np.ndarray | None
    objective: float
    gap: float
    converged: bool = True


def judge(ended, objective, gap, *, by_margins=False):
    """Whether a step is solved, from how its solver ended and from what it reached."""
    relative = abs(gap) / max(abs(objective), np.finfo(float).tiny)
    doubtful = relative > _DOUBTFUL and not by_margins
    return bool(relative <= _SURE or (ended and not doubtful))


class GramSpace:
    """Points known by their kernel matrix, which is never copied.

    Parameters
    ----------
    K : ndarray of shape (n_points, n_points)
        Kernel matrix.
    more : tuple of ndarray, optional
        Further points: their kernel with the others, one row each, and between
        themselves.
    unit : float, default=1.0
        The points are in this unit: the kernel of the problem is ``unit**2 * K``.
    center : ndarray, optional
        Where the origin of the points lies; kept for those who ask.
    """

    def __init__(self, K, more=None, *, unit=1.0, center=None):
        self.K = K
        self.more = more
        self.unit = unit
        self.center = center
        self._last = None

    @property
    def n_points(self):
        """Number of points."""
        return len(self.K) + (0 if self.more is None else len(self.more[0]))

    def with_combinations(self, weights):
        """Append the points ``weights @ points`` (CSR `weights`)."""
        cross = np.asarray(weights @ self.K)
        return self.with_kernel(cross, np.asarray(weights @ cross.T))

    def with_kernel(self, cross, corner):
        """Append points by their kernel with the present ones and themselves."""
        return GramSpace(self.K, (cross, corner), unit=self.unit, center=self.center)

    def direction(self, weights):
        """Inner product of every point with a weighted sum of points."""
        n = len(self.K)
        inner = combine_rows(self.K, weights[:n])
        if self.more is None:
            return inner
        cross, corner = self.more
        outer = cross @ weights[:n] + corner @ weights[n:]
        return np.concatenate([inner + weights[n:] @ cross, outer])

    def solve(self, rows, tol):
        """Solve one convex step, from where the one before ended if it was alike."""
        cap = self.unit**2 * rows.cap
        if isinstance(rows.points, np.ndarray):
            K, index, more = self.K, rows.points, self.more
        else:
            K, index, more = self._combined(rows.points), None, None
        beta, b, _, violation = smo(
            K,
            rows.sign,
            cap=cap,
            margin=rows.margin,
            index=index,
            more=more,
            group=rows.group,
            bias=rows.bias,
            beta=self._warm(rows, cap),
            tol=tol,
        )
        self._last = (rows.sign, beta)
        signed = rows.sign * beta
        coef = _scatter(rows.points, signed, self.n_points)
        scores = self.direction(coef)
        values = scores[index] if index is not None else rows.points @ scores
        squared = signed @ values
        primal = 0.5 * squared / self.unit**2 + rows.hinge_loss(values, b)
        dual = (rows.margin @ beta - 0.5 * squared) / self.unit**2
        gap = primal - dual
        solved = judge(violation < tol, primal, gap, by_margins=True)
        return Solution(coef / self.unit**2, b, scores + b, beta, primal, gap, solved)

    def _combined(self, weights):
        """Kernel matrix of weighted sums of points."""
        n = len(self.K)
        if self.more is None:
            return np.asarray(weights @ np.asarray(weights @ self.K).T)
        near, far = weights[:, :n], weights[:, n:]
        cross, corner = self.more
        mixed = np.asarray(near @ np.asarray(far @ cross).T)
        own = np.asarray(near @ np.asarray(near @ self.K).T)
        return own + mixed + mixed.T + np.asarray(far @ np.asarray(far @ corner).T)

    def _warm(self, rows, cap):
        """Multipliers of the step before, made feasible; None where it was another."""
        if self._last is None or rows.bias is not None:
            return None
        sign, beta = self._last
        if len(sign) != len(rows.sign):
            return None
        beta = np.where(sign == rows.sign, beta, 0.0)
        # The sums over both signs must balance. Few rows of the sign with the larger
        # sum are reduced, so that the others keep their values.
        excess = rows.sign @ beta
        heavy = np.flatnonzero(rows.sign == np.sign(excess))
        heavy = heavy[np.argsort(-beta[heavy], kind="stable")]
        total = np.cumsum(beta[heavy])
        if len(heavy):
            if not total[-1] > abs(excess):
                return None
            last = np.searchsorted(total, abs(excess))
            beta[heavy[:last]] = 0.0
            beta[heavy[last]] = total[last] - abs(excess)
        mass = beta if rows.group is None else np.bincount(rows.group, beta, len(cap))
        return beta if (mass <= cap * (1.0 + 1e-12)).all() else None

    def solve_l1(self, rows):
        """Solve with the sum of absolute coefficients as regularizer."""
        return _l1_program(self.K, rows)


class BasisSpace:
    """Points known by coordinates, dense or CSR.

    Parameters
    ----------
    Z : ndarray, CSR matrix or RowsOnDisk of shape (n_points, rank)
        Coordinates.
    unit : float, default=1.0
        The coordinates are in this unit: those of the problem are ``unit * Z``.
    center : ndarray, optional
        Where the origin of the coordinates lies; kept for those who ask.
    """

    def __init__(self, Z, *, unit=1.0, center=None):
        self.Z = Z
        self.unit = unit
        self.center = center
        self._scores = None

    def with_combinations(self, weights):
        """Append the points ``weights @ points`` (CSR `weights`)."""
        return self.with_coordinates(weights @ self.Z)

    def direction(self, weights):
        """Inner product of every point with a weighted sum of points."""
        return np.asarray(self.Z @ (self.Z.T @ weights))

    def with_coordinates(self, Z):
        """Append points by their coordinates."""
        if hasattr(self.Z, "with_rows"):
            return BasisSpace(self.Z.with_rows(Z), unit=self.unit, center=self.center)
        if sp.issparse(self.Z):
            stacked = sp.csr_array(sp.vstack([self.Z, sp.csr_array(Z)]))
        else:
            stacked = np.vstack([self.Z, Z])
        return BasisSpace(stacked, unit=self.unit, center=self.center)

    def solve(self, rows, tol):
        """Solve one convex step: few coordinates exactly, else by coordinates."""
        Z, index = self.Z, rows.points
        if not isinstance(index, np.ndarray):
            Z, index = index @ self.Z, None
        options = {
            "cap": self.unit**2 * rows.cap,
            "margin": rows.margin,
            "index": index,
            "group": rows.group,
            "bias": rows.bias,
        }
        if Z.shape[1] <= _MAX_RANK:
            # This gap is relative; the tol of an SVM bounds gradients.
            beta, w, b, ended = working_set(
                Z,
                rows.sign,
                tol=min(1e-4, 1e-2 * tol),
                scores=self._known(rows),
                **options,
            )
        else:
            beta, w, b, ended = sparse_ascent(Z, rows.sign, tol=tol, **options)
        scores = np.asarray(self.Z @ w)
        values = scores[index] if index is not None else np.asarray(Z @ w)
        squared = w @ w
        primal = 0.5 * squared / self.unit**2 + rows.hinge_loss(values, b)
        dual = (rows.margin @ beta - 0.5 * squared) / self.unit**2
        gap = primal - dual
        by_margins = Z.shape[1] > _MAX_RANK
        solved = judge(ended, primal, gap, by_margins=by_margins)
        self._scores = scores + b
        return Solution(w / self.unit, b, scores + b, beta, primal, gap, solved)

    def _known(self, rows):
        """Scores of the rows in the step before, to choose where to begin."""
        if self._scores is None or not isinstance(rows.points, np.ndarray):
            return None
        return self._scores[rows.points]

    def solve_l1(self, rows):
        """Solve with the sum of absolute coefficients as regularizer."""
        return _l1_program(self.Z, rows)


def _scatter(points, signed, n_points):
    """Weights of the points from weights of the rows."""
    if isinstance(points, np.ndarray):
        return np.bincount(points, signed, minlength=n_points)
    return np.asarray(points.T @ signed)


def _l1_program(features, rows):
    """Min |u|_1 + C'xi over the columns of `features`, by HiGHS."""
    if isinstance(rows.points, np.ndarray):
        A = features[rows.points]
    else:
        A = rows.points @ features
    A = sp.csr_array(A)
    n_rows, n_columns = A.shape
    n_groups = len(rows.cap)
    A = sp.diags_array(rows.sign) @ A
    c = rows.sign if rows.bias is None else rows.bias
    group = np.arange(n_rows) if rows.group is None else rows.group
    slack = sp.csr_array((np.ones(n_rows), (np.arange(n_rows), group)))
    # Variables: positive and negative part of u, slacks, b.
    left = sp.hstack([-A, A, -slack, sp.csr_array(-c[:, None])]).tocsr()
    cost = np.concatenate([np.ones(2 * n_columns), rows.cap, [0.0]])
    bounds = [(0, None)] * (2 * n_columns + n_groups) + [(None, None)]
    found = linprog(cost, A_ub=left, b_ub=-rows.margin, bounds=bounds, method="highs")
    if found.status != 0:
        raise RuntimeError(f"The linear program was not solved: {found.message}")
    coef = found.x[:n_columns] - found.x[n_columns : 2 * n_columns]
    b = float(found.x[-1])
    scores = np.asarray(features @ coef) + b
    gap = found.fun + found.ineqlin.marginals @ rows.margin
    return Solution(coef, b, scores, None, float(found.fun), float(abs(gap)))
