"""Quantiles of projections."""

import numpy as np

from bagwise._jit import njit


def mean_quantiles(projected, offsets, out):
    """Fill ``out[i, p, q]`` with the mean of part q of a quantile function.

    The quantile function of the values ``projected[j, p]`` of bag i is a step function
    on equal intervals; part q of it is (q / Q, (q + 1) / Q). Bags of one size are
    sorted together: NumPy's sort is much faster than one that is compiled here.
    """
    sizes = np.diff(offsets)
    for size in np.unique(sizes):
        bags = np.flatnonzero(sizes == size)
        rows = offsets[bags][:, None] + np.arange(size)
        means = np.empty((len(bags), *out.shape[1:]))
        part_means(np.sort(projected[rows], axis=1), means)
        out[bags] = means


@njit(nogil=True)
def part_means(ranked, out):
    """Fill ``out[i, p, q]`` from sorted values ``ranked[i, k, p]``."""
    n_bags, n, n_columns = ranked.shape
    n_parts = out.shape[2]
    total = np.zeros((n + 1, n_columns))  # integral up to step k, times n
    for i in range(n_bags):
        for k in range(n):
            for p in range(n_columns):
                total[k + 1, p] = total[k, p] + ranked[i, k, p]
        for q in range(n_parts):
            # The end of the part lies in step k, a share of it past its start.
            k, rest = divmod((q + 1) * n, n_parts)
            share = rest / n_parts
            for p in range(n_columns):
                upto = total[k, p]
                if rest > 0:
                    upto += ranked[i, k, p] * share
                out[i, p, q] = upto
        for p in range(n_columns):
            before = 0.0
            for q in range(n_parts):
                upto = out[i, p, q]
                out[i, p, q] = (upto - before) * n_parts / n
                before = upto
