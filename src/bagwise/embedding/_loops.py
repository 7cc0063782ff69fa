"""Quantiles of projections; sums of posteriors times standardized rows."""

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


@njit(nogil=True, shapes={"ranked": "i k p", "out": "i p q"})
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
            # The part ends in step k, after the fraction `share` of this step.
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


@njit(
    nogil=True,
    shapes={
        "rows": "n d",
        "offsets": "b+1 to n",
        "means": "k d",
        "scale": "k d",
        "level": "k",
        "out": "b 2k d",
    },
)
def fisher_sums(rows, offsets, means, scale, level, out):
    """Add the sums over bags that Fisher vectors are made of.

    With ``u = (row - means[k]) * scale[k]`` and the posteriors q of a row, which go as
    ``exp(level - |u|^2 / 2)``, rows ``2 k`` and ``2 k + 1`` of ``out[i]`` gain the sums
    of ``q u`` and ``q (u^2 - 1)`` over bag i. One pass, sums in double precision,
    whatever the rows are.
    """
    n_parts, n_columns = means.shape
    unit = np.empty((n_parts, n_columns))
    posterior = np.empty(n_parts)
    for i in range(len(offsets) - 1):
        for row in range(offsets[i], offsets[i + 1]):
            top = -np.inf
            for k in range(n_parts):
                # Four independent sums: additions to a single sum are sequential.
                a = b = c = d = 0.0
                for j in range(n_columns):
                    unit[k, j] = (rows[row, j] - means[k, j]) * scale[k, j]
                whole = n_columns - n_columns % 4
                for j in range(0, whole, 4):
                    a += unit[k, j] * unit[k, j]
                    b += unit[k, j + 1] * unit[k, j + 1]
                    c += unit[k, j + 2] * unit[k, j + 2]
                    d += unit[k, j + 3] * unit[k, j + 3]
                for j in range(whole, n_columns):
                    a += unit[k, j] * unit[k, j]
                posterior[k] = level[k] - 0.5 * ((a + b) + (c + d))
                top = max(top, posterior[k])
            total = 0.0
            for k in range(n_parts):
                posterior[k] = np.exp(posterior[k] - top)
                total += posterior[k]
            for k in range(n_parts):
                q = posterior[k] / total
                for j in range(n_columns):
                    part = q * unit[k, j]
                    out[i, 2 * k, j] += part
                    out[i, 2 * k + 1, j] += part * unit[k, j] - q
