"""A 1-norm support vector machine: few columns out of very many."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bagwise.solvers.l1_interior_point import Solved, interior_point

# Working sets: entries of M from which on they pay, columns at first, columns that may
# join in any case, and most rounds.
_LARGE = 1_000_000
_FIRST_COLUMNS, _FEWEST = 100, 100
_MAX_ROUNDS = 100
# Columns without a weight stay beyond this slope.
_NEAR = 0.95

# Costs begin where the steepest column has this slope at w = 0, and grow by the factor
# once the gap is below the third.
_FIRST_SLOPE, _FACTOR, _RUNG = 10.0, 3.0, 0.3

# Working sets are solved to this share of the gap of the whole problem: multipliers
# that are still inside choose better columns than those of a solution that lacks them.
_INNER = 0.3
# Once the gap is below this, the last solution is near enough to start from.
_RELATED = 0.75


def l1_squared_hinge(M, t, cost, *, tol=1e-6):
    r"""Solve min |w|_1 + sum_i cost_i max(0, 1 - t_i (w'm_i + b))^2.

    With :math:`w = p - q`, both non-negative, and :math:`a_i = t_i \alpha_i` the signed
    multipliers of the margins, whose slacks are :math:`z`, the conditions are

    .. math::
        1 - M'a = u \ge 0, \quad 1 + M'a = v \ge 0, \quad 1'a = 0, \quad
        t (M w + b) + \alpha / (2 c) - 1 = z \ge 0, \quad
        p u = q v = \alpha z = 0,

    and Mehrotra's predictor-corrector method follows the products to zero together.
    Large problems are solved on working sets of columns and rows, see `by_parts`.

    Parameters
    ----------
    M : ndarray of shape (n_rows, n_columns)
        The rows m_i.
    t, cost : ndarray of shape (n_rows,)
        Signs, and weights c of the loss; rows without a weight do not count.
    tol : float, default=1e-6
        As in `L1SVC`.

    Returns
    -------
    w, b, objective, n_iter
    """
    counted = cost > 0.0
    if not counted.all():
        M, t, cost = M[counted], t[counted], cost[counted]
    n, k = M.shape
    solve = by_parts if n * k > _LARGE and k >= n else interior_point
    solved = solve(M, t, cost, tol)
    if solved.gap > max(tol, 1e-5):
        warnings.warn(
            f"the 1-norm machine stopped with a relative gap of {solved.gap:.1e} "
            f"(tol={tol:g}). Scale the columns, or decrease C.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return solved.w, solved.b, solved.objective, solved.n_iter


def by_parts(M, t, cost, tol):
    r"""Solve on working sets of columns and rows; n_iter counts all inner steps.

    A column without a weight and a row without a multiplier (its margin is beyond 1) do
    not change the solution of the rest. Leaving columns out restricts the problem,
    leaving rows out restricts its dual, and both values hold for the whole: one product
    M w gives the losses of all rows, one product M'a the slopes of all columns. Rows
    and columns that violate their conditions join until the duality gap of the whole
    problem is below `tol`.

    Costs grow on the way. Where they are small few columns have a weight, and where
    they are large few rows have a loss, so that neither set is large while the other
    is; each solution says where the next one is.
    """
    n, k = M.shape
    w, alpha = np.zeros(k), 2.0 * cost * (1.0 - t * (cost @ t) / cost.sum())
    slope = M.T @ (t * alpha)  # without weights: b is the mean of t
    share = _FIRST_SLOPE / max(np.abs(slope).max(), 1e-300)
    share = share if _FACTOR * share < 1.0 else 1.0
    columns = np.sort(_largest(np.abs(slope), _FIRST_COLUMNS))
    rows = np.arange(n)
    inner, gap, least, n_iter, part = max(tol, _INNER), 1.0, np.inf, 0, None
    for count in range(_MAX_ROUNDS):
        c, block = share * cost, M.T[columns].T
        known = None
        if part is not None and gap < _RELATED:
            known = part._replace(w=w[columns], alpha=alpha[rows])
        problem = np.asfortranarray(block[rows]), t[rows], c[rows], inner
        part = interior_point(*problem, known)
        n_iter += part.n_iter
        if known is not None and part.gap > inner:  # led astray
            part = interior_point(*problem)
            n_iter += part.n_iter
        w[:], alpha[:] = 0.0, 0.0
        w[columns], alpha[rows] = part.w, part.alpha
        margin, slope = t * (block @ part.w + part.b), M.T @ (t * alpha)
        objective, gap = _whole_gap(w, alpha, margin, slope, t, c)
        excess = np.abs(slope) - 1.0
        # Never none: the steepest column stays, and the lowest row of either side.
        near = excess[columns] >= min(_NEAR - 1.0, excess[columns].max())
        lowest = [margin[side].min(initial=np.inf) for side in (t > 0, t < 0)]
        close = margin <= np.maximum(1.0 + np.sqrt(gap), np.where(t > 0, *lowest))
        if gap >= least:  # what was dropped is missing
            near[:], close[rows] = True, True
        least = min(least, gap)
        excess[columns] = -1.0
        violated = np.flatnonzero(excess > 0.0)
        lacking = len(violated) or (np.delete(margin, rows) < 1.0).any()
        done = gap <= tol or (inner <= 0.5 * tol and not lacking)
        if (share == 1.0 and done) or count + 1 == _MAX_ROUNDS:
            break
        most = max(_FEWEST, int(part.selected.sum()))
        worst = violated[_largest(excess[violated], most)]
        columns = np.union1d(columns[part.selected | near], worst)
        rows = np.flatnonzero(close)
        late = 2 * count >= _MAX_ROUNDS
        if share < 1.0 and (gap <= _RUNG or late):
            share = 1.0 if late else min(1.0, _FACTOR * share)
            inner, least = _INNER, np.inf
            continue
        # No more digits than the columns that are still missing are worth.
        inner = min(inner if lacking else 0.1 * inner, _INNER * gap)
        inner = max(0.5 * tol, inner)
    selected = np.zeros(k, dtype=bool)
    selected[columns] = part.selected
    return Solved(w, part.b, objective, alpha, gap, n_iter, selected)


def _largest(values, most):
    """Return where large values are: the largest ones, and a few of all others.

    The steepest columns are neighbours of one another and say the same; ranks that go
    as squares reach the other places as well.
    """
    order = np.argsort(-values, kind="stable")
    if len(order) <= most:
        return order
    rank = np.linspace(0.0, 1.0, most) ** 2 * (len(order) - 1)
    return order[np.maximum(rank.astype(np.intp), np.arange(most))]


def _whole_gap(w, alpha, margin, slope, t, cost):
    """Objective and relative duality gap of the whole, from the solution of a part.

    Shrunk until no column violates its bound, the multipliers are feasible for the
    whole problem; what is left of their balance is taken off.
    """
    objective = float(np.abs(w).sum() + cost @ np.maximum(1.0 - margin, 0.0) ** 2)
    shrink = min(1.0, 1.0 / max(np.abs(slope).max(), 1e-300))
    linear = alpha.sum() - abs(t @ alpha)
    dual = shrink * linear - shrink**2 * (alpha**2 @ (0.25 / cost))
    return objective, max(0.0, objective - dual) / (1.0 + objective)
