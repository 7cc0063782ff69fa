r"""Interior-point method for grouped hinge rows in a reduced basis, with a free bias.

Chosen for at most 2,000 coordinates: 24 times faster than `smo` on elephant (230
columns), 7 times faster than `sparse_ascent` on 6,129 rows of 50 columns.

Solves the problem of `bagwise.solvers.smo` when the rows have few coordinates:

.. math::
    \min_{w, b, \xi \ge 0} \; \tfrac12 \|w\|^2 + C'\xi
    \quad \text{s.t.} \quad A x + S'\xi - m = s \ge 0, \qquad x = (w, b),

with :math:`S` the groups' indicator. Eliminating everything but :math:`dx` from a
Newton step leaves a matrix of the size of :math:`x`,

.. math::
    M = J + \sum_g \Big[ \sum_{l \in g} D_l (a_l - \bar a_g)(a_l - \bar a_g)'
        + \frac{\sigma_g E_g}{\sigma_g + E_g} \bar a_g \bar a_g' \Big],
    \qquad D = \beta / s, \; E = \lambda / \xi, \; \sigma_g = \sum_{l \in g} D_l,

where :math:`\bar a_g` is the mean of the group's rows weighted by :math:`D`. Written
so, nothing cancels. The cost is O(n_rows rank^2) an iteration and 10 to 40
iterations, whatever `C`; the memory beyond the basis is one block of rows.
"""

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from bagwise.bags.segments import segment_max, segment_sum

_BLOCK = 8192  # rows of the basis processed at once
_MAX_STEPS = 200
_PATIENCE = 8  # number of steps without progress after which the iteration ends
_ROUNDING = 1e-7  # accuracy that remains with weights of very different size
_NEGLIGIBLE = 1e-10  # smallest contribution of a row to M, whose regularizer is 1


class _RowOperator:
    """The rows of the basis as an operator with a bias column, never copied whole."""

    def __init__(self, Z, index, sign, bias, group):
        self.Z, self.index, self.sign, self.bias = Z, index, sign, bias
        n_rows = len(sign)
        self.group = np.arange(n_rows) if group is None else group
        n_groups = int(self.group[-1]) + 1
        self.offsets = np.searchsorted(self.group, np.arange(n_groups + 1))
        self.single = n_groups == n_rows
        squared = row_norms(Z, squared=True) + 1.0
        self.squared = squared if index is None else squared[index]

    def dot(self, x):
        scores = self.Z @ x[:-1]
        if self.index is not None:
            scores = scores[self.index]
        return self.sign * scores + self.bias * x[-1]

    def transposed_dot(self, v):
        signed = self.sign * v
        if self.index is not None:
            signed = np.bincount(self.index, signed, minlength=self.Z.shape[0])
        return np.append(self.Z.T @ signed, self.bias @ v)

    def sums(self, v):
        return v if self.single else segment_sum(v, self.offsets)

    def spread(self, v):
        return v if self.single else v[self.group]

    def block(self, rows):
        """Signed rows with the bias column."""
        taken = self.Z[rows if self.index is None else self.index[rows]]
        if sp.issparse(taken):
            taken = taken.toarray()
        signs = self.sign[rows][:, None]
        return np.hstack([taken * signs, self.bias[rows][:, None]])

    def normal_matrix(self, D, E):
        """Return M: the regularizer and the weighted scatter of the rows."""
        rank = self.Z.shape[1]
        M = np.zeros((rank + 1, rank + 1))
        M[np.arange(rank), np.arange(rank)] = 1.0
        weight = D * E / (D + E) if self.single else D
        # Near the solution most rows are far from their bounds and have no effect.
        rows = np.flatnonzero(weight * self.squared > _NEGLIGIBLE)
        if self.single:
            for start in range(0, len(rows), _BLOCK):
                part = rows[start : start + _BLOCK]
                block = self.block(part)
                block *= np.sqrt(weight[part])[:, None]
                M += block.T @ block
            return M
        groups, offsets = np.unique(self.group[rows], return_index=True)
        offsets = np.append(offsets, len(rows))
        first = 0
        while first < len(groups):
            # Take as many whole groups as fit into a block.
            last = np.searchsorted(offsets, offsets[first] + _BLOCK, "right")
            last = min(max(int(last) - 1, first + 1), len(groups))
            part = rows[offsets[first] : offsets[last]]
            local = offsets[first : last + 1] - offsets[first]
            M += self._group_scatter(part, local, D[part], E[groups[first:last]])
            first = last
        return M

    def _group_scatter(self, rows, offsets, D, E):
        block = self.block(rows)
        total = segment_sum(D, offsets)
        means = segment_sum(block * D[:, None], offsets) / total[:, None]
        block -= np.repeat(means, np.diff(offsets), axis=0)
        block *= np.sqrt(D)[:, None]
        means *= np.sqrt(total * E / (total + E))[:, None]
        return block.T @ block + means.T @ means


def interior_point(
    Z, sign, *, cap, margin=1.0, index=None, group=None, bias=None, tol=1e-6
):
    r"""Solve the grouped hinge problem by Mehrotra's predictor-corrector method.

    Parameters
    ----------
    Z : ndarray or CSR matrix of shape (n, rank)
        Coordinates of the points; a sparse one is made dense block by block.
    sign, cap, margin, group, bias
        As in :func:`bagwise.solvers.smo.smo`.
    index : ndarray of int, shape (n_rows,), optional
        Row of `Z` behind each hinge row.
    tol : float, default=1e-6
        Relative duality gap and relative residuals at the end.

    Returns
    -------
    beta : ndarray of shape (n_rows,)
    w : ndarray of shape (rank,)
    b : float
    n_iter : int
    converged : bool
    """
    sign = np.asarray(sign, dtype=np.float64)
    n_rows = len(sign)
    c = sign if bias is None else np.asarray(bias, dtype=np.float64)
    A = _RowOperator(Z, index, sign, c, group)
    cap = np.array(np.broadcast_to(cap, (len(A.offsets) - 1,)), dtype=np.float64)
    margin = np.array(np.broadcast_to(margin, (n_rows,)), dtype=np.float64)
    point = _start(A, cap, margin)
    rank = Z.shape[1]
    floor = min(1.0, cap.max())  # small caps: small losses, short weights
    n_iter, best_iter = 0, 0
    best, best_error = point, np.inf
    while n_iter < _MAX_STEPS:
        n_iter += 1
        x, xi, s, beta, lam = point
        residual = (
            np.append(x[:-1], 0.0) - A.transposed_dot(beta),
            cap - A.sums(beta) - lam,
            A.dot(x) + A.spread(xi) - margin - s,
        )
        complementarity = s @ beta + xi @ lam
        value = 0.5 * x[:-1] @ x[:-1] + cap @ xi
        errors = (
            complementarity / (floor + abs(value)),
            np.abs(residual[0]).max() / (floor + np.abs(x[:-1]).max(initial=0.0)),
            np.abs(residual[1]).max() / (floor + cap.max()),
            np.abs(residual[2]).max() / (1.0 + np.abs(margin).max()),
        )
        if max(errors) < best_error:
            best, best_error, best_iter = point, max(errors), n_iter
        if best_error < tol or n_iter - best_iter >= _PATIENCE:
            break  # converged, or no further progress in double precision
        point = _newton(A, point, residual, complementarity)
        if point is None:
            break
    x, xi, s, beta, lam = best
    converged = best_error < max(tol, _ROUNDING)
    w = A.transposed_dot(beta)[:rank]
    b = _free_bias(A, w, beta, lam, margin, x[-1])
    return beta, w, b, n_iter, converged


def _start(A, cap, margin):
    """Strictly positive start, primal and group feasible."""
    sizes = np.diff(A.offsets)
    x = np.zeros(A.Z.shape[1] + 1)
    xi = segment_max(margin, A.offsets) + 1.0
    np.maximum(xi, 1.0, out=xi)
    s = A.spread(xi) - margin
    beta = A.spread(0.5 * cap / sizes)
    return x, xi, s, beta, 0.5 * cap


def _newton(A, point, residual, complementarity):
    """One predictor-corrector step; None when the step length vanishes."""
    x, xi, s, beta, lam = point
    r_x, r_group, r_row = residual
    D, E = beta / s, lam / xi
    M = A.normal_matrix(D, E)
    diagonal = np.diag(M).copy()
    np.fill_diagonal(M, diagonal * (1.0 + 1e-14) + 1e-14)
    try:
        factor = scipy.linalg.cho_factor(M, check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    H = A.sums(D) + E

    def direction(r_s, r_xi):
        q = r_s / s + D * r_row
        h = r_group + A.sums(q) + r_xi / xi
        dx = scipy.linalg.cho_solve(
            factor, -r_x - A.transposed_dot(q - D * A.spread(h / H)), check_finite=False
        )
        row = A.dot(dx)
        dxi = -(A.sums(D * row) + h) / H
        ds = row + A.spread(dxi) + r_row
        return dx, dxi, ds, (-r_s - beta * ds) / s, (-r_xi - lam * dxi) / xi

    _, dxi, ds, dbeta, dlam = direction(s * beta, xi * lam)
    step = _longest(point, (dxi, ds, dbeta, dlam))
    count = len(s) + len(xi)
    ahead = (s + step * ds) @ (beta + step * dbeta)
    ahead += (xi + step * dxi) @ (lam + step * dlam)
    target = (ahead / complementarity) ** 3 * complementarity / count
    dx, *rest = direction(
        s * beta + ds * dbeta - target, xi * lam + dxi * dlam - target
    )
    step = min(1.0, 0.995 * _longest(point, rest))
    if not step > 1e-10:
        return None
    dxi, ds, dbeta, dlam = rest
    return (
        x + step * dx,
        xi + step * dxi,
        s + step * ds,
        beta + step * dbeta,
        lam + step * dlam,
    )


def _longest(point, directions):
    """Longest step that keeps every multiplier and slack non-negative."""
    step = 1.0
    for value, change in zip(point[1:], directions, strict=True):
        with np.errstate(divide="ignore"):
            ratio = (-change / value).max()
        if ratio > 1.0 / step:
            step = 1.0 / ratio
    return step


def _free_bias(A, w, beta, lam, margin, fallback):
    """Average over the rows inside their bounds, weighted by how far inside."""
    weight = beta * A.spread(lam) * np.abs(A.bias)
    total = weight.sum()
    if not total > 0:
        return float(fallback)
    needed = A.bias * (margin - A.dot(np.append(w, 0.0)))
    free = weight > 1e-4 * weight.max()
    return float(needed[free] @ weight[free] / weight[free].sum())


# Problems with fewer rows are solved at once.
_SMALL = 4096
_BAND = 0.2  # rows this close to violating their constraint are added as well
# Maximum number of rows on disk that are read at a time, the worst ones first.
_MOST_READ = 2048
_IDLE = 1e-7  # a multiplier below this fraction of its bound counts as zero


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
        chosen[[np.argmax(c), np.argmin(c)]] = True  # both signs determine the bias
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
        whole = len(rows) == n_rows  # a subset is copied: products skip the rest
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
            # Rows whose multiplier is zero do not determine the solution: without them
            # the optimum is the same, and the next one is higher. Rows next to their
            # bound are kept as long as there is room.
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
