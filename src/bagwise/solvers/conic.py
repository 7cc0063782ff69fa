"""The convex step of PC-SVM by a general conic solver: an independent check."""

import numpy as np
import scipy.sparse as sp

from bagwise.solvers.dual_coordinate import DualSolution


def conic_step(
    Z,
    index,
    sign,
    *,
    cap,
    margin=1.0,
    bias_scale=0.0,
    group=None,
    balls=None,
    tol=1e-9,
):
    r"""Solve the problem of `dual_coordinate` with Clarabel.

    With :math:`w = c + \sigma u` around the centre :math:`c` of the smallest ball, of
    radius :math:`\sigma`, and one more variable :math:`s \ge |u|^2`, every ball is
    linear,

    .. math::
        s + \tfrac{2}{\sigma} (c - c_i)'u
            + \tfrac{1}{\sigma^2} (|c - c_i|^2 - R_i^2) \le 0,

    so that there is a single second-order cone. Around the origin a ball would be a
    difference of squares, and a thin one, far away, would drown in rounding.

    Parameters
    ----------
    Z, index, sign, cap, margin, group, balls
        As in `dual_coordinate`; `Z` dense.
    bias_scale : float, default=0.0
        As there; infinity leaves the bias free.
    tol : float, default=1e-9
        Relative gap and feasibility.

    Returns
    -------
    DualSolution
    """
    try:
        import clarabel
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "solver='clarabel' needs the package clarabel: pip install bagwise[solvers]"
        ) from error
    A = sign[:, None] * (Z if index is None else Z[index])
    n, r = A.shape
    group = np.arange(n) if group is None else group
    n_slacks = int(group[-1]) + 1
    shared = sp.csr_array((np.ones(n), (np.arange(n), group)))
    cap = np.broadcast_to(cap, (n_slacks,)).astype(float)
    a, G, q = balls or (np.zeros(0), np.zeros((0, r)), np.zeros(0))
    m = len(a)
    centre, width, rows, constant = _around_smallest(a, G, q, r)
    largest = np.maximum(np.abs(rows).max(axis=1, initial=1.0), np.abs(constant))
    # Variables: u (r), b, s, slacks. Rows: hinge (n), slacks >= 0, balls (m).
    penalty = 0.0 if bias_scale in (0.0, np.inf) else 1.0 / bias_scale
    P = sp.diags_array(np.r_[np.zeros(r), penalty, 0.0, np.zeros(n_slacks)]).tocsc()
    cost = np.r_[width * centre, 0.0, 0.5 * width**2, cap]
    blocks = [
        sp.hstack([-width * A, -sign[:, None], np.zeros((n, 1)), -shared]),
        sp.hstack([sp.csr_array((n_slacks, r + 2)), -sp.eye_array(n_slacks)]),
        sp.hstack(
            [
                rows / largest[:, None],
                np.zeros((m, 1)),
                1.0 / largest[:, None],
                sp.csr_array((m, n_slacks)),
            ]
        ),
    ]
    right = [A @ centre - margin, np.zeros(n_slacks), -constant / largest]
    cones = [clarabel.NonnegativeConeT(n + n_slacks + m)]
    # |(2 u, s - 1)| <= s + 1  <=>  |u|^2 <= s.
    corner = np.zeros((r + 2, r + 2))
    corner[:2, r + 1] = -1.0
    corner[2:, :r] = -2.0 * np.eye(r)
    blocks.append(sp.hstack([corner, sp.csr_array((r + 2, n_slacks))]))
    right.append(np.r_[1.0, -1.0, np.zeros(r)])
    cones.append(clarabel.SecondOrderConeT(r + 2))
    if bias_scale == 0.0:  # b = 0
        blocks.append(sp.csr_array(np.eye(1, r + 2 + n_slacks, r)))
        right.append(np.zeros(1))
        cones.append(clarabel.ZeroConeT(1))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_feas = settings.tol_gap_abs = tol
    found = clarabel.DefaultSolver(
        P, cost, sp.vstack(blocks).tocsc(), np.concatenate(right), cones, settings
    ).solve()
    if str(found.status) not in ("Solved", "AlmostSolved"):
        raise RuntimeError(f"Clarabel did not solve the convex step: {found.status}")
    x, z = np.array(found.x), np.array(found.z)
    fixed = 0.5 * centre @ centre
    primal, dual = found.obj_val + fixed, found.obj_val_dual + fixed
    # "Almost" may be far off: judge by what was reached.
    gap = abs(primal - dual) / max(abs(primal), 1.0)
    violation = max(found.r_prim, found.r_dual, gap)
    return DualSolution(
        w=centre + width * x[:r],
        b=float(x[r]) if bias_scale else 0.0,
        beta=z[:n],
        mu=z[n + n_slacks : n + n_slacks + m] / (a * width**2 * largest),
        n_passes=found.iterations,
        violation=violation,
        converged=violation < 1e-6,
        primal=float(primal),
        dual=float(dual),
    )


def _around_smallest(a, G, q, rank):
    """Centre and radius of the smallest ball; all balls in coordinates around it."""
    if not len(a):
        return np.zeros(rank), 1.0, np.zeros((0, rank)), np.zeros(0)
    centres = G / a[:, None]
    squared = np.einsum("ij,ij->i", centres, centres)
    radius = np.maximum(squared - q / a, 1e-14 * squared)
    smallest = radius.argmin()
    centre, width = centres[smallest], float(np.sqrt(radius[smallest]))
    away = centre - centres
    apart = np.einsum("ij,ij->i", away, away)
    return centre, width, 2.0 * away / width, (apart - radius) / width**2
