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
