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
from sklearn.svm import SVC, SVR

from bagwise.bags.segments import segment_max
from bagwise.solvers.dual_groups import dual_groups
from bagwise.solvers.smo import smo
from bagwise.solvers.working_set import working_set

# A tube this wide is never left on its far side, see `margin_svm`.
_TUBE = 100.0
_LIBSVM_TOL = 1e-5
# Above this rank the normal matrix costs more than coordinate steps.
_MAX_RANK = 2000


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
    """

    coef: np.ndarray
    b: float
    scores: np.ndarray
    beta: np.ndarray | None
    objective: float
    gap: float


class GramSpace:
    """Points known by their kernel matrix.

    Parameters
    ----------
    K : ndarray of shape (n_points, n_points)
        Kernel matrix.
    """

    def __init__(self, K):
        self.K = K

    def with_combinations(self, weights):
        """Append the points ``weights @ points`` (CSR `weights`)."""
        cross = np.asarray(weights @ self.K)
        corner = np.asarray(weights @ cross.T)
        return GramSpace(np.block([[self.K, cross.T], [cross, corner]]))

    def direction(self, weights):
        """Inner product of every point with a weighted sum of points."""
        return self.K @ weights

    def with_kernel(self, cross, corner):
        """Append points by their kernel with the present ones and themselves."""
        return GramSpace(np.block([[self.K, cross.T], [cross, corner]]))

    def solve(self, rows, tol):
        """Solve one convex step exactly."""
        if isinstance(rows.points, np.ndarray):
            G = self.K[np.ix_(rows.points, rows.points)]
        else:
            G = np.asarray(rows.points @ np.asarray(rows.points @ self.K).T)
        # libsvm shrinks its problem, but caches the kernel in single precision and
        # may never reach a tight tolerance.
        if rows.group is None and rows.bias is None and tol >= _LIBSVM_TOL:
            beta, b = margin_svm(G, rows.sign, rows.margin, rows.cap, tol)
        else:
            beta, b, _, _ = smo(
                G,
                rows.sign,
                cap=rows.cap,
                margin=rows.margin,
                group=rows.group,
                bias=rows.bias,
                tol=tol,
            )
        signed = rows.sign * beta
        values = G @ signed
        coef = _scatter(rows.points, signed, len(self.K))
        squared = signed @ values
        primal = 0.5 * squared + rows.hinge_loss(values, b)
        dual = rows.margin @ beta - 0.5 * squared
        scores = self.K @ coef + b
        return Solution(coef, b, scores, beta, primal, primal - dual)

    def solve_l1(self, rows):
        """Solve with the sum of absolute coefficients as regulariser."""
        return _l1_program(self.K, rows)


class BasisSpace:
    """Points known by coordinates, dense or CSR.

    Parameters
    ----------
    Z : ndarray or CSR matrix of shape (n_points, rank)
        Coordinates.
    """

    def __init__(self, Z):
        self.Z = Z
        self._scores = None

    def with_combinations(self, weights):
        """Append the points ``weights @ points`` (CSR `weights`)."""
        return self.with_coordinates(weights @ self.Z)

    def direction(self, weights):
        """Inner product of every point with a weighted sum of points."""
        return np.asarray(self.Z @ (self.Z.T @ weights))

    def with_coordinates(self, Z):
        """Append points by their coordinates."""
        if sp.issparse(self.Z):
            return BasisSpace(sp.csr_array(sp.vstack([self.Z, sp.csr_array(Z)])))
        return BasisSpace(np.vstack([self.Z, Z]))

    def solve(self, rows, tol):
        """Solve one convex step: few coordinates exactly, else by coordinates."""
        Z, index = self.Z, rows.points
        if not isinstance(index, np.ndarray):
            Z, index = index @ self.Z, None
        options = {
            "cap": rows.cap,
            "margin": rows.margin,
            "index": index,
            "group": rows.group,
            "bias": rows.bias,
        }
        if Z.shape[1] <= _MAX_RANK:
            # The gap is relative there; an SVM's tol bounds gradients.
            beta, w, b = working_set(
                Z,
                rows.sign,
                tol=min(1e-4, 1e-2 * tol),
                scores=self._known(rows),
                **options,
            )
        else:
            beta, w, b = dual_groups(Z, rows.sign, tol=tol, **options)
        scores = np.asarray(self.Z @ w)
        values = scores[index] if index is not None else np.asarray(Z @ w)
        squared = w @ w
        primal = 0.5 * squared + rows.hinge_loss(values, b)
        dual = rows.margin @ beta - 0.5 * squared
        self._scores = scores + b
        return Solution(w, b, scores + b, beta, primal, primal - dual)

    def _known(self, rows):
        """Scores of the rows in the step before, to choose where to begin."""
        if self._scores is None or not isinstance(rows.points, np.ndarray):
            return None
        return self._scores[rows.points]

    def solve_l1(self, rows):
        """Solve with the sum of absolute coefficients as regulariser."""
        return _l1_program(self.Z, rows)


def _scatter(points, signed, n_points):
    """Weights of the points from weights of the rows."""
    if isinstance(points, np.ndarray):
        return np.bincount(points, signed, minlength=n_points)
    return np.asarray(points.T @ signed)


def margin_svm(G, sign, margin, cap, tol):
    r"""Hinge rows with their own margins and slacks, by libsvm.

    Equal margins are a support vector classifier. Other margins are support vector
    *regression* on targets :math:`s_l (m_l + E)` with a tube of half-width :math:`E`:
    the near side is the hinge, and the far side is never reached for a large
    :math:`E`, so that it is the same quadratic program.

    Parameters
    ----------
    G : ndarray of shape (n_rows, n_rows)
        Gram matrix of the unsigned rows.
    sign, margin, cap : ndarray of shape (n_rows,)
        :math:`s_l`, :math:`m_l`, :math:`C_l`.
    tol : float
        Tolerance on the gradient.

    Returns
    -------
    beta : ndarray of shape (n_rows,)
    b : float
    """
    scale = float(cap.mean())
    options = {"C": scale, "kernel": "precomputed", "tol": tol, "cache_size": 500}
    weight = cap / scale
    level = margin[0]
    if level > 0 and np.all(margin == level) and abs(sign.sum()) < len(sign):
        # f / m has unit margins: solve for it and scale back.
        options["C"] = scale / level
        model = SVC(**options).fit(G, sign, sample_weight=weight)
    else:
        level = 1.0
        tube = _TUBE * max(1.0, np.abs(margin).max())
        model = SVR(epsilon=tube, **options)
        model.fit(G, sign * (margin + tube), sample_weight=weight)
    beta = np.zeros(len(sign))
    beta[model.support_] = np.abs(model.dual_coef_[0]) * level
    return beta, float(model.intercept_[0]) * level


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
