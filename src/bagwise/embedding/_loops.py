"""Distance of bags to points, from inner products."""

from bagwise._jit import njit


@njit()
def nearest_in_bags(products, norms, offsets, out):
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
