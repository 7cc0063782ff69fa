"""Smallest distances from rows to bags, from a matrix of inner products."""

import numpy as np

from bagwise._jit import njit


@njit(
    shapes={
        "products": "n m",
        "norms_a": "n",
        "norms_b": "m",
        "A": "n d",
        "B": "m d",
        "offsets": "b+1 to m",
        "out": "n b",
    }
)
def nearest_of_bags(products, norms_a, norms_b, A, B, offsets, doubt, out):
    """Lower `out` to the squared distance of each row to the nearest row of each bag.

    One pass over the inner products, in place of one each for the distances, their
    clipping and their minimum. Distances below `doubt`, where the inner products have
    lost too many digits, are computed again from the rows.

    Parameters
    ----------
    products : array of shape (n, m)
        Inner products of the centered rows of `A` and `B`.
    norms_a, norms_b : arrays of shape (n,) and (m,)
        Squared norms of the centered rows.
    A, B : arrays of shape (n, d) and (m, d)
        The rows themselves.
    offsets : array of shape (n_bags + 1,)
        Where the bags begin among the rows of `B`.
    doubt : float
        See above.
    out : array of shape (n, n_bags)
        Changed in place.
    """
    for i in range(products.shape[0]):
        for bag in range(offsets.shape[0] - 1):
            best = np.inf
            for j in range(offsets[bag], offsets[bag + 1]):
                value = norms_b[j] - 2.0 * products[i, j]
                best = min(best, value)
            best += norms_a[i]
            if best < doubt:
                best = _exact(i, products, norms_a, norms_b, A, B, offsets, bag, doubt)
            out[i, bag] = min(out[i, bag], best)


@njit()
def _exact(i, products, norms_a, norms_b, A, B, offsets, bag, doubt):
    best = np.inf
    for j in range(offsets[bag], offsets[bag + 1]):
        value = norms_a[i] + norms_b[j] - 2.0 * products[i, j]
        if value < doubt:
            value = 0.0
            for k in range(A.shape[1]):
                gap = np.float64(A[i, k]) - np.float64(B[j, k])
                value += gap * gap
        best = min(best, value)
    return best


@njit(shapes={"products": "n k", "norms": "n", "offsets": "b+1 to n", "out": "b k"})
def nearest_to_points(products, norms, offsets, out):
    """Fill ``out[i, k] = min_{j in bag i} norms[j] - 2 products[j, k]``.

    With squared norms of the instances this is the squared distance of bag i to point
    k, less the squared norm of the point: one pass over the products.
    """
    for i in range(offsets.shape[0] - 1):
        first = offsets[i]
        for k in range(products.shape[1]):
            out[i, k] = norms[first] - 2.0 * products[first, k]
        for j in range(first + 1, offsets[i + 1]):
            for k in range(products.shape[1]):
                out[i, k] = min(out[i, k], norms[j] - 2.0 * products[j, k])


@njit(
    nogil=True,
    shapes={
        "costs": "n m",
        "row_ends": "r+1 to n",
        "column_ends": "c+1 to m",
        "first": "c",
        "cost": "k k",
        "counts": "k+6 k",
        "duals": "4 k",
        "out": "c r",
    },
)
def transport_costs(
    costs, row_ends, column_ends, first, most, cost, counts, duals, out
):
    """Solve a transport problem for each pair of bags, with equal weights.

    Parameters
    ----------
    costs : array of shape (n, m)
        Costs between the instances of two lists of bags.
    row_ends, column_ends : arrays of shape (n_row_bags + 1,), (n_column_bags + 1,)
        Where the bags begin among the rows and columns of `costs`.
    first : array of shape (n_column_bags,)
        The first row bag that each column bag is paired with.
    most : int
        Pairs with a bag above this size are left out, unless their sizes are equal.
    cost, counts, duals : arrays of shape (k, k), (k + 6, k) and (4, k)
        Memory to work in, for bags of at most k instances.
    out : array of shape (n_column_bags, n_row_bags)
        Receives the least mean cost of each pair, and NaN where it was left out.
    """
    for a in range(len(first)):
        column = column_ends[a]
        width = column_ends[a + 1] - column
        for b in range(first[a], len(row_ends) - 1):
            row = row_ends[b]
            height = row_ends[b + 1] - row
            if height == width or max(height, width) <= most:
                # The larger bag is the rows: fewer columns to search for each.
                for i in range(height):
                    for j in range(width):
                        if height >= width:
                            cost[i, j] = costs[row + i, column + j]
                        else:
                            cost[j, i] = costs[row + i, column + j]
                n, m = max(height, width), min(height, width)
                out[a, b] = _least_cost(n, m, cost, counts, duals)
            else:
                out[a, b] = np.nan


# Rows of `counts` before the flow, and of `duals`.
_SENT, _RECEIVED, _ROW_OF, _COLUMN_OF, _LEFT, _QUEUE, _FLOW = range(7)
_U, _V, _FOUND, _NEAR = range(4)


@njit()
def _least_cost(n, m, cost, counts, duals):
    """Return the least mean cost of moving one bag to another.

    Shortest augmenting paths, as in linear assignment, with integer supplies: an
    instance of n sends m / g units, one of m receives n / g, with g = gcd(n, m).
    """
    g, other = n, m
    while other:
        g, other = other, g % other
    for i in range(n):
        counts[_SENT, i] = m // g
        for j in range(m):
            counts[_FLOW + i, j] = 0
    for j in range(m):
        counts[_RECEIVED, j] = n // g
        duals[_V, j] = 0.0
    # Start with moves whose reduced cost is zero.
    for j in range(m):
        best = 0
        for i in range(n):
            if cost[i, j] < cost[best, j]:
                best = i
        duals[_V, j] = cost[best, j]
        _move(best, j, counts)
    for i in range(n):
        best = 0
        for j in range(m):
            if cost[i, j] - duals[_V, j] < cost[i, best] - duals[_V, best]:
                best = j
        duals[_U, i] = cost[i, best] - duals[_V, best]
        _move(i, best, counts)
    for i in range(n):
        while counts[_SENT, i] > 0:
            if not _search(i, n, m, cost, counts, duals):
                return np.inf
    total = 0.0
    for i in range(n):
        for j in range(m):
            total += counts[_FLOW + i, j] * cost[i, j]
    return total / (n * (m // g))


@njit()
def _move(i, j, counts):
    units = min(counts[_SENT, i], counts[_RECEIVED, j])
    counts[_SENT, i] -= units
    counts[_RECEIVED, j] -= units
    counts[_FLOW + i, j] += units


@njit()
def _search(start, n, m, cost, counts, duals):
    """Move units of the row `start` along shortest paths, until one is interrupted.

    Dijkstra's algorithm on reduced costs ``cost[i, j] - u[i] - v[j]``; a column without
    demand leads to the rows that it receives from. Returns False for infinite costs.
    """
    for j in range(m):
        duals[_NEAR, j] = np.inf
        counts[_LEFT, j] = j
    for i in range(n):
        duals[_FOUND, i] = np.inf
    duals[_FOUND, start] = 0.0
    counts[_QUEUE, 0] = start
    reached = 0.0
    n_left, done, n_found = m, 0, 1
    searching = True
    while searching:
        while done < n_found:
            i = counts[_QUEUE, done]
            done += 1
            for k in range(n_left):
                j = counts[_LEFT, k]
                far = reached + cost[i, j] - duals[_U, i] - duals[_V, j]
                if far < duals[_NEAR, j]:
                    duals[_NEAR, j] = far
                    counts[_ROW_OF, j] = i
        place = 0
        reached = np.inf
        for k in range(n_left):
            if duals[_NEAR, counts[_LEFT, k]] < reached:
                place = k
                reached = duals[_NEAR, counts[_LEFT, k]]
        if reached == np.inf:
            return False
        sink = counts[_LEFT, place]
        n_left -= 1
        counts[_LEFT, place] = counts[_LEFT, n_left]
        counts[_LEFT, n_left] = sink
        if counts[_RECEIVED, sink] > 0:
            searching = _augment(start, sink, counts)
        if searching:
            for i in range(n):
                if counts[_FLOW + i, sink] > 0 and duals[_FOUND, i] == np.inf:
                    duals[_FOUND, i] = reached
                    counts[_COLUMN_OF, i] = sink
                    counts[_QUEUE, n_found] = i
                    n_found += 1
    for k in range(n_found):
        i = counts[_QUEUE, k]
        duals[_U, i] += reached - duals[_FOUND, i]
    for k in range(n_left, m):
        j = counts[_LEFT, k]
        duals[_V, j] += duals[_NEAR, j] - reached
    return True


@njit()
def _augment(start, sink, counts):
    """Move units from a row to a column; return whether the search may go on."""
    units = min(counts[_SENT, start], counts[_RECEIVED, sink])
    i = counts[_ROW_OF, sink]
    while i != start:
        j = counts[_COLUMN_OF, i]
        units = min(units, counts[_FLOW + i, j])
        i = counts[_ROW_OF, j]
    counts[_SENT, start] -= units
    counts[_RECEIVED, sink] -= units
    intact = counts[_SENT, start] > 0 and counts[_RECEIVED, sink] == 0
    i = counts[_ROW_OF, sink]
    counts[_FLOW + i, sink] += units
    while i != start:
        j = counts[_COLUMN_OF, i]
        counts[_FLOW + i, j] -= units
        intact = intact and counts[_FLOW + i, j] > 0
        i = counts[_ROW_OF, j]
        counts[_FLOW + i, j] += units
    return intact
