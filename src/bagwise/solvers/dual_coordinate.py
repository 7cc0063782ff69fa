r"""Dual coordinate ascent for hinge rows and ball constraints.

One problem serves linear and reduced-basis support vector machines and their
relatives with norm-ball constraints. With rows :math:`A_l = y_l z_l`,

.. math::
    \min_{w, b} \; \tfrac12 \|w\|^2 + \frac{b^2}{2 B}
        + \sum_l C_l \max(0, m_l - A_l' w - y_l b)
    \quad \text{s.t.} \quad a_i \|w\|^2 - 2 g_i' w + q_i \le 0,

where :math:`B` is `bias_scale` (0: no bias), :math:`C_l` is `cap`, :math:`m_l` is
`margin` (rows of a `group` may share one slack) and :math:`(a_i, g_i, q_i)` are the
`balls`. Every Hessian is a multiple of the identity, so the dual keeps one vector
:math:`v` and one scalar :math:`\kappa`:

.. math::
    \max_{0 \le \beta \le C,\; \mu \ge 0} \; m'\beta + q'\mu
        - \frac{\|v\|^2}{4 \kappa} - \frac{B}{2} (y'\beta)^2, \qquad
    v = \sum_l \beta_l A_l + 2 \sum_i \mu_i g_i, \quad
    \kappa = \tfrac12 + a'\mu,

with :math:`w = v / (2 \kappa)` and :math:`b = B\, y'\beta`. Both coordinate steps have
a closed form and cost one inner product. Rows that share a slack share the bound of
their multipliers, :math:`\sum_{l \in g} \beta_l \le C_g`: a visit to such a group
moves one of them, or passes weight from one to another.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from bagwise.bags.segments import segment_max
from bagwise.solvers.coordinate_loops import ascend_csr, ascend_dense, ascend_groups


@dataclass
class DualSolution:
    """What `dual_coordinate` found.

    Attributes
    ----------
    w : ndarray of shape (rank,)
        Primal weights.
    b : float
        Bias, 0 without `bias_scale`.
    beta : ndarray of shape (n_rows,)
        Dual variables of the rows.
    mu : ndarray of shape (n_balls,)
        Multipliers of the balls.
    n_passes : int
        Passes over the active coordinates.
    violation : float
        Largest projected gradient or relative ball violation of the last full pass.
    converged : bool
        Whether `violation` is below the tolerance.
    primal, dual : float
        Objective values; they bracket the optimum when `w` is feasible.
    """

    w: np.ndarray
    b: float
    beta: np.ndarray
    mu: np.ndarray
    n_passes: int
    violation: float
    converged: bool
    primal: float
    dual: float


def dual_coordinate(
    Z,
    index,
    sign,
    *,
    cap,
    margin=1.0,
    bias_scale=0.0,
    group=None,
    balls=None,
    beta=None,
    mu=None,
    tol=1e-3,
    max_passes=3000,
    seed=0,
):
    r"""Solve the hinge problem of this module by dual coordinate ascent.

    Parameters
    ----------
    Z : ndarray of shape (n, rank) or CSR matrix
        Coordinates of the points; CSR only without `balls`.
    index : ndarray of int, shape (n_rows,) or None
        Row of `Z` behind each hinge row; None takes all rows in order.
    sign : ndarray of shape (n_rows,)
        :math:`y_l`, -1 or +1.
    cap, margin : float or ndarray of shape (n_rows,)
        :math:`C_l` and :math:`m_l`; with `group`, a cap for each group.
    bias_scale : float, default=0.0
        :math:`B`: the bias is penalised by ``b**2 / (2 * bias_scale)``.
    group : ndarray of int, shape (n_rows,), optional
        Non-decreasing group numbers 0, 1, ...; the rows of a group share one slack.
        Dense coordinates only.
    balls : tuple (a, G, q), optional
        ``a > 0`` of shape (n_balls,), `G` of shape (n_balls, rank), `q` of shape
        (n_balls,). The balls must have a common point.
    beta, mu : ndarray, optional
        Warm start, clipped into the feasible box. Not written to.
    tol : float, default=1e-3
        Stop when a pass over *all* coordinates has no larger projected gradient and
        no larger relative ball violation.
    max_passes : int, default=3000
        Cap on the number of passes.
    seed : int, default=0
        Order of the coordinates.

    Returns
    -------
    DualSolution
    """
    sign = np.array(sign, dtype=np.float64)
    n_rows = sign.shape[0]
    index = np.arange(n_rows) if index is None else np.array(index, dtype=np.int64)
    # Fresh contiguous arrays: one compiled version serves all callers.
    n_groups = n_rows if group is None else int(group[-1]) + 1
    cap = np.array(np.broadcast_to(cap, (n_groups,)), dtype=np.float64)
    margin = np.array(np.broadcast_to(margin, (n_rows,)), dtype=np.float64)
    rank = Z.shape[1]
    a, G, q = _check_balls(balls, rank)
    if beta is None:
        beta = np.zeros(n_rows)
    elif group is None:
        beta = np.clip(beta, 0.0, cap)
    else:
        beta = np.maximum(beta, 0.0)
        mass = np.bincount(group, beta, n_groups)
        beta *= np.minimum(1.0, cap / np.maximum(mass, 1e-300))[group]
    mu = np.zeros(len(a)) if mu is None else np.maximum(mu, 0.0)
    order = np.random.default_rng(seed).permutation(n_groups)
    options = (float(bias_scale), float(tol), int(max_passes), int(seed))
    if sp.issparse(Z):
        if len(a) or group is not None:
            what = "Balls" if len(a) else "Groups"
            raise ValueError(f"{what} need dense coordinates; got a sparse matrix.")
        Z = sp.csr_array(Z)
        csr, v = (Z.data, Z.indices, Z.indptr), np.zeros(rank)
        passes, violation = ascend_csr(
            *csr, index, sign, margin, cap, order, beta, v, *options
        )
        kappa = 0.5
    else:
        Z = np.ascontiguousarray(Z, dtype=np.float64)
        problem = (Z, index, sign, margin, cap, order, beta, a, G, q, mu)
        if group is None:
            v, kappa, passes, violation = ascend_dense(*problem, *options)
        else:
            start = np.searchsorted(group, np.arange(n_groups + 1))
            v, kappa, passes, violation = ascend_groups(*problem, start, *options)
    w = v / (2.0 * kappa)
    total = sign @ beta
    b = bias_scale * total
    slack = np.maximum(0.0, margin - sign * (_scores(Z, w)[index] + b))
    if group is not None:
        slack = segment_max(slack, np.searchsorted(group, np.arange(n_groups + 1)))
    primal = 0.5 * w @ w + 0.5 * b * total + cap @ slack
    dual = margin @ beta + q @ mu - kappa * (w @ w) - 0.5 * b * total
    return DualSolution(
        w, b, beta, mu, passes, violation, violation < tol, primal, dual
    )


def _scores(Z, w):
    return np.asarray(Z @ w)


def _check_balls(balls, rank):
    if balls is None:
        return np.zeros(0), np.zeros((0, rank)), np.zeros(0)
    a, G, q = (np.ascontiguousarray(part, dtype=np.float64) for part in balls)
    if G.shape != (len(a), rank) or q.shape != a.shape:
        raise ValueError(
            f"Balls need a (m,), G (m, {rank}) and q (m,); got {a.shape}, {G.shape} "
            f"and {q.shape}."
        )
    if np.any(a <= 0):
        raise ValueError("A ball constraint with a <= 0 never binds: leave it out.")
    return a, G, q
