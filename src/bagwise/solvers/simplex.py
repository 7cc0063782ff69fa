"""Small problems on the simplex: a linear minimum over a ball, a quadratic form."""

import numpy as np
from scipy.linalg.lapack import dgesv

from bagwise._jit import njit

_DONE, _NO_DIRECTION, _REFRESH = -1, -2, -3  # reasons why the moves ended
_FRESH = 1000  # moves between two recomputations of all scores


def max_min_ball(B, c, p, tol, max_iter):
    """Maximize ``min_i (B_i'u - c_i)`` over the unit ball.

    The dual is ``min_p |B'p| - c'p`` over the simplex, with ``u = B'p / |B'p|``. Each
    step moves weight from the support to the row with the smallest value, by an exact
    line search; few rows end with weight, and only their products with the others are
    ever computed.

    Parameters
    ----------
    B : array of shape (n_rows, rank)
        The rows.
    c : array of shape (n_rows,)
        Their offsets.
    p : array of shape (n_rows,)
        Where to start on the simplex. Changed in place.
    tol : float
        Stop at this difference of the primal and the dual value.
    max_iter : int
        Maximum number of steps.

    Returns
    -------
    gap : float
        Difference of the two values at the end.
    """
    n_rows, n_known, step = len(c), 0, 0
    products = np.empty((min(n_rows, 32), n_rows))  # rows of B B', computed as needed
    place = np.full(n_rows, -1)
    scores = B @ (p @ B)
    # Products of matrices are not compiled, as their compilation takes seconds.
    while True:
        reason, step, gap = _moves(
            c, p, scores, products, place, tol, step, int(max_iter)
        )
        if reason == _NO_DIRECTION:
            return np.inf
        if reason == _DONE:
            return gap
        if reason == _REFRESH:
            scores = B @ (p @ B)  # removes the rounding errors of the updates
            continue
        if n_known == len(products):
            wider = np.empty((min(n_rows, 2 * n_known), n_rows))
            wider[:n_known] = products
            products = wider
        products[n_known] = B @ B[reason]
        place[reason] = n_known
        n_known += 1


@njit(shapes={"c": "m", "p": "m", "scores": "m", "products": "k m", "place": "m"})
def _moves(c, p, scores, products, place, tol, step, max_iter):
    """Move weights until a row is met whose products are not known: that row."""
    gap = np.inf
    while step < max_iter:
        squared = 0.0
        for k in range(len(p)):
            squared += p[k] * scores[k]
        if squared <= 0.0:
            return _NO_DIRECTION, step, gap  # opposite rows
        length = np.sqrt(squared)
        low, high, mean = -1, -1, 0.0
        smallest, largest = np.inf, -np.inf
        for k in range(len(p)):
            slope = scores[k] / length - c[k]
            if slope < smallest:
                low, smallest = k, slope
            if p[k] > 0.0:
                mean += p[k] * slope
                if slope > largest:
                    high, largest = k, slope
        gap = mean - smallest
        if gap <= tol or low == high:
            break
        if place[low] < 0:
            return low, step, gap
        if place[high] < 0:
            return high, step, gap
        up, down = products[place[low]], products[place[high]]
        curvature = up[low] - 2.0 * up[high] + down[high]
        move = _line_search(
            squared, scores[low] - scores[high], curvature, c[low] - c[high], p[high]
        )
        p[low] += move
        p[high] = 0.0 if move == p[high] else p[high] - move
        step += 1
        if step % _FRESH == 0:
            return _REFRESH, step, gap
        for k in range(len(p)):
            scores[k] += move * (up[k] - down[k])
    return _DONE, step, gap


@njit()
def _line_search(a, b, e, linear, limit):
    """Minimize sqrt(a + 2 b t + e t^2) - linear t over 0 <= t <= limit.

    With s = b + e t the root is sqrt(s^2 / e + h), h = a - b^2 / e, and the slope
    vanishes where s^2 (1 - linear^2 / e) = linear^2 h, with the sign of `linear`.
    """
    if e <= 0.0 or linear * linear >= e:
        return limit
    rest = max(a - b * b / e, 0.0)
    s = linear * np.sqrt(rest / (1.0 - linear * linear / e))
    return min(max((s - b) / e, 0.0), limit)


def simplex_quadratic(hessian, linear, start):
    """Minimize ``x'Hx/2 + linear'x`` over the simplex, exactly.

    A primal active-set method: solve on the support of the present point, walk there
    as far as all weights stay non-negative, drop the weight that ends the walk or add
    the one that lowers the value most. With a positive definite `hessian` the minimum
    is unique, and rounding can change the way but not the end.

    Parameters
    ----------
    hessian : ndarray of shape (n, n)
        Positive definite.
    linear, start : ndarray of shape (n,)
        The linear part, and a point of the simplex.

    Returns
    -------
    ndarray of shape (n,)
        Exact zeros off the support.
    """
    x = np.array(start, dtype=np.float64)
    n = len(x)
    support = x > 0.0
    scale = np.abs(hessian @ x + linear).max() + np.finfo(float).tiny
    for _ in range(20 * n + 100):
        chosen = np.flatnonzero(support)
        goal, level = _on_support(hessian, linear, chosen)
        here = x[chosen]
        falling = goal < 0.0
        if falling.any():
            share = here[falling] / (here[falling] - goal[falling])
            first = share.argmin()
            x[chosen] = np.maximum(here + share[first] * (goal - here), 0.0)
            out = chosen[falling][first]
            x[out], support[out] = 0.0, False
            continue
        x[chosen] = goal
        gradient = hessian @ x + linear
        gradient[chosen] = np.inf
        add = gradient.argmin()
        if gradient[add] >= level - 1e-13 * scale:
            break
        support[add] = True
    return x


def _on_support(hessian, linear, chosen):
    """Minimum with the sum of one and no other constraint; its gradient level."""
    # Solve the whole system instead of two systems with the Hessian: their solutions
    # cancel where it is nearly singular.
    size = len(chosen)
    system = np.zeros((size + 1, size + 1), order="F")
    system[:size, :size] = hessian[np.ix_(chosen, chosen)]
    system[:size, size] = -1.0
    system[size, :size] = -1.0
    right = np.append(-linear[chosen], -1.0)
    _, _, solved, info = dgesv(system, right, overwrite_a=1, overwrite_b=1)
    if info != 0:
        raise np.linalg.LinAlgError("the quadratic form is not positive definite.")
    return solved[:size], solved[size]
