"""Quantiles of projections."""

import numpy as np

from bagwise._jit import njit


@njit(nogil=True)
def mean_quantiles(projected, offsets, out):
    """Fill ``out[i, p, q]`` with the mean of part q of a quantile function.

    The quantile function of the values ``projected[j, p]`` of bag i is a step function
    on equal intervals; part q of it is (q / Q, (q + 1) / Q).
    """
    n_parts = out.shape[2]
    for i in range(offsets.shape[0] - 1):
        n = offsets[i + 1] - offsets[i]
        total = np.empty(n + 1)  # integral of the step function up to step k, times n
        for p in range(out.shape[1]):
            ranked = np.sort(projected[offsets[i] : offsets[i + 1], p])
            total[0] = 0.0
            for k in range(n):
                total[k + 1] = total[k] + ranked[k]
            before = 0.0
            for q in range(n_parts):
                # The end of the part lies in step k, a share of it past its start.
                k, rest = divmod((q + 1) * n, n_parts)
                upto = total[k]
                if rest > 0:
                    upto += ranked[k] * (rest / n_parts)
                out[i, p, q] = (upto - before) * n_parts / n
                before = upto
