"""The convex step of PC-SVM by a general conic solver: an independent check."""

import numpy as np
import scipy.sparse as sp


def conic_step(Z, index, sign, *, cap, margin=1.0, bias_scale=0.0, balls=None):
    r"""Solve the problem of `dual_coordinate` with Clarabel.

    With one more variable :math:`s \ge |w|^2` every ball is linear,
    :math:`a_i s - 2 g_i'w + q_i \le 0`, so that there is a single second-order cone.

    Parameters
    ----------
    Z, index, sign, cap, margin, balls
        As in `dual_coordinate`; `Z` dense.
    bias_scale : float, default=0.0
        As there; infinity leaves the bias free.

    Returns
    -------
    w, b, objective
    """
    try:
        import clarabel
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "solver='clarabel' needs the package clarabel: pip install bagwise[solvers]"
        ) from error
    A = sign[:, None] * Z[index]
    n, r = A.shape
    cap = np.broadcast_to(cap, (n,)).astype(float)
    # Variables: w (r), b, s, slack (n).
    penalty = 0.0 if bias_scale in (0.0, np.inf) else 1.0 / bias_scale
    P = sp.csc_array(sp.diags_array(np.r_[np.zeros(r), penalty, 0.0, np.zeros(n)]))
    cost = np.r_[np.zeros(r), 0.0, 0.5, cap]
    empty = np.zeros((n, 1))
    blocks = [
        sp.hstack([-A, -sign[:, None], empty, -sp.eye_array(n)]),
        sp.hstack([sp.csr_array((n, r + 2)), -sp.eye_array(n)]),
    ]
    right = [-np.broadcast_to(margin, (n,)), np.zeros(n)]
    cones = []
    if bias_scale == 0.0:
        blocks.insert(0, sp.csr_array(np.eye(1, r + 2 + n, r)))
        right.insert(0, np.zeros(1))
        cones.append(clarabel.ZeroConeT(1))
    if balls is not None:
        a, G, q = balls
        m = len(a)
        pad = sp.csr_array((m, n))
        blocks.append(sp.hstack([-2.0 * G, np.zeros((m, 1)), a[:, None], pad]))
        right.append(-q)
    cones.append(clarabel.NonnegativeConeT(sum(len(b) for b in right) - len(cones)))
    # |(2 w, s - 1)| <= s + 1  <=>  |w|^2 <= s.
    rows = np.zeros((r + 2, r + 2))
    rows[0, r + 1] = -1.0
    rows[1, r + 1] = -1.0
    rows[2:, :r] = -2.0 * np.eye(r)
    blocks.append(sp.hstack([rows, sp.csr_array((r + 2, n))]))
    right.append(np.r_[1.0, -1.0, np.zeros(r)])
    cones.append(clarabel.SecondOrderConeT(r + 2))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_feas = settings.tol_gap_abs = 1e-9
    solver = clarabel.DefaultSolver(
        P,
        cost,
        sp.csc_array(sp.vstack(blocks)),
        np.concatenate(right),
        cones,
        settings,
    )
    found = solver.solve()
    if str(found.status) not in ("Solved", "AlmostSolved"):
        raise RuntimeError(f"Clarabel did not solve the convex step: {found.status}")
    x = np.array(found.x)
    return x[:r], float(x[r]), float(found.obj_val)
