r"""Grouped hinge rows in a reduced basis, solved on the rows that matter.

Leaving rows out relaxes the problem, and multipliers of zero for them are feasible in
the dual of the whole. Hence the primal value on all rows minus the dual value on the
chosen ones is a duality gap of the whole problem: rows are added until it is small.
"""

import numpy as np

from bagwise.bags.segments import segment_max
from bagwise.solvers.interior_point import interior_point

# Fewer rows are solved at once.
_SMALL = 4096
_BAND = 0.2  # rows this close to violating their constraint are taken as well


def working_set(
    Z, sign, *, cap, margin, index=None, group=None, bias=None, tol, scores=None
):
    """Solve as `interior_point` does, on a growing set of rows.

    Parameters
    ----------
    Z, sign, cap, margin, index, group, bias, tol
        As in :func:`bagwise.solvers.interior_point.interior_point`.
    scores : ndarray of shape (n_rows,), optional
        Values ``f(r_l) + b`` of a related problem, to choose the first rows.

    Returns
    -------
    beta : ndarray of shape (n_rows,)
    w : ndarray of shape (rank,)
    b : float
    converged : bool
    """
    n_rows = len(sign)
    options = {"cap": cap, "margin": margin, "index": index, "group": group}
    if n_rows <= _SMALL:
        beta, w, b, _, converged = interior_point(
            Z, sign, bias=bias, tol=tol, **options
        )
        return beta, w, b, converged
    c = sign if bias is None else bias
    offsets = None
    if group is not None:
        offsets = np.searchsorted(group, np.arange(len(cap) + 1))
    points = np.arange(n_rows) if index is None else index
    if scores is None:
        chosen = np.arange(n_rows) % 8 == 0
        chosen[[np.argmax(c), np.argmin(c)]] = True  # both sides hold the bias
    else:
        chosen = _near(margin - sign * scores, None, group, offsets)
    while True:
        if chosen.mean() > 0.6:
            chosen[:] = True
        rows = np.flatnonzero(chosen)
        groups, local = rows, None
        if group is not None:
            groups, local = np.unique(group[rows], return_inverse=True)
        whole = len(rows) == n_rows  # fewer rows are copied: products skip the rest
        part, w, b, _, converged = interior_point(
            Z if whole else Z[points[rows]],
            sign[rows],
            cap=cap[groups],
            margin=margin[rows],
            index=index if whole else None,
            group=local,
            bias=c[rows],
            tol=tol,
        )
        slack = margin - sign * np.asarray(Z @ w)[points] - c * b
        loss = slack if group is None else segment_max(slack, offsets)
        primal = 0.5 * w @ w + cap @ np.maximum(loss, 0.0)
        dual = margin[rows] @ part - 0.5 * w @ w
        new = _near(slack, chosen, group, offsets) & ~chosen
        solved = primal - dual <= 2.0 * tol * (1.0 + abs(primal))
        if solved or not new.any():
            break
        chosen |= new
    beta = np.zeros(n_rows)
    beta[rows] = part
    return beta, w, b, bool(solved or converged)


def _near(slack, chosen, group, offsets):
    """Rows that violate, or nearly, the slack that their group has."""
    if group is None:
        return slack > -_BAND
    known = slack if chosen is None else np.where(chosen, slack, 0.0)
    level = np.maximum(segment_max(known, offsets), 0.0)
    return slack > level[group] - _BAND
