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
# Rows on disk are read so many at a time, the worst ones first.
_MOST_READ = 2048
_IDLE = 1e-7  # a multiplier below this share of its bound is one of zero


def working_set(
    Z, sign, *, cap, margin, index=None, group=None, bias=None, tol, scores=None
):
    """Solve as `interior_point` does, on a growing set of rows.

    Parameters
    ----------
    Z, sign, cap, margin, index, group, bias, tol
        As in :func:`bagwise.solvers.interior_point.interior_point`; `Z` may also be
        rows on disk, of which a bounded number is read for every solution.
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
    stored = hasattr(Z, "with_rows")
    if stored and n_rows <= _SMALL:
        Z, index = Z[np.arange(n_rows) if index is None else index], None
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
        step = max(8, n_rows // _MOST_READ) if stored else 8
        chosen = np.arange(n_rows) % step == 0
        chosen[[np.argmax(c), np.argmin(c)]] = True  # both sides hold the bias
        if stored and np.count_nonzero(sign > 0) <= _MOST_READ:
            chosen |= sign > 0
    else:
        slack = margin - sign * scores
        excess = _excess(slack, None, group, offsets)
        chosen = excess > -_BAND
        chosen = _worst(chosen, excess, _MOST_READ) if stored else chosen
    while True:
        if chosen.mean() > 0.6 and not stored:
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
        excess = _excess(slack, chosen, group, offsets)
        new = (excess > -_BAND) & ~chosen
        solved = primal - dual <= 2.0 * tol * (1.0 + abs(primal))
        if solved or not new.any():
            break
        if stored:
            new = _worst(new, excess, _MOST_READ)
            # Rows without a multiplier do not hold the solution: the optimum stays
            # without them, and the next one is above it. Those next to their bound are
            # kept as long as there is room.
            bound = cap[groups if local is None else groups[local]]
            idle = np.zeros(n_rows, dtype=bool)
            idle[rows[part <= _IDLE * bound]] = True
            chosen &= ~idle
            chosen |= _worst(idle, excess, max(0, _MOST_READ - chosen.sum()))
        chosen |= new
    beta = np.zeros(n_rows)
    beta[rows] = part
    return beta, w, b, bool(solved or converged)


def _excess(slack, chosen, group, offsets):
    """How far rows violate the slack that their group has; below zero: not at all."""
    if group is None:
        return slack
    known = slack if chosen is None else np.where(chosen, slack, 0.0)
    level = np.maximum(segment_max(known, offsets), 0.0)
    return slack - level[group]


def _worst(rows, excess, most):
    """Keep the rows that violate most, and no more than are allowed."""
    found = np.flatnonzero(rows)
    if len(found) <= most:
        return rows
    kept = found[np.argsort(-excess[found], kind="stable")[:most]]
    out = np.zeros_like(rows)
    out[kept] = True
    return out
