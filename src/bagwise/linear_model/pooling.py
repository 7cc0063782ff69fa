r"""From instance scores to bag probabilities, with exact derivatives.

Every instance has a real score :math:`z_j` and the probability
:math:`p_j = 1/(1+e^{-z_j})`. A *pooling* turns the probabilities of one bag into the
probability :math:`P` of the bag. This module is the one home of these functions:
logistic regression, dimensionality reduction and boosting on bags differ only in what
produces the scores.

Three numbers come back for each bag or instance: :math:`P`, its complement
:math:`1 - P` (computed on its own, because ``1 - P`` loses all digits once a bag is
surely positive) and the slope :math:`\partial P / \partial z_j`.
"""

from typing import NamedTuple

import numpy as np

from bagwise.linear_model._loops import (
    minus_abs,
    pool_gmean,
    pool_lse,
    pool_max,
    pool_mean,
    pool_noisy_or,
    pool_power,
    pool_softmax,
    sigmoid_exponents,
    sigmoid_gaps,
)

#: Names of all poolings understood by :func:`pool`.
POOLINGS = ("softmax", "max", "mean", "noisy_or", "lse", "gmean", "power")

# Up to this value exp(alpha * p) is computed directly: weights between exp(-32) and 1
# neither overflow nor vanish, and their rounding errors are below 32 units in the last
# place.
_MILD_ALPHA = 32.0


class PooledBags(NamedTuple):
    """What :func:`pool` returns.

    Attributes
    ----------
    prob : ndarray of shape (n_bags,) or (n_bags, n_outputs)
        Probability of each bag.
    complement : ndarray of the same shape
        One minus `prob`, to full relative precision.
    slope : ndarray of the shape of the scores
        Derivative of the bag's probability with respect to each score.
    """

    prob: np.ndarray
    complement: np.ndarray
    slope: np.ndarray


def pool(z, offsets, pooling="softmax", alpha=3.5, *, n_outputs=1):
    r"""Pool instance scores into bag probabilities.

    With :math:`p_j = \sigma(z_j)` over the :math:`n` values of one bag:

    .. math::
        \text{softmax:}\quad & P = \sum_j p_j e^{\alpha p_j} / \sum_j e^{\alpha p_j} \\
        \text{max, mean:}\quad & P = \max_j p_j, \qquad P = \tfrac1n \sum_j p_j \\
        \text{noisy\_or:}\quad & P = 1 - \prod_j (1 - p_j) \\
        \text{lse:}\quad & P = \tfrac1\alpha \log \tfrac1n \sum_j e^{\alpha p_j} \\
        \text{gmean:}\quad & P = \sigma\bigl(\tfrac1n \sum_j z_j\bigr) \\
        \text{power:}\quad & P = \bigl(\tfrac1n \sum_j p_j^\alpha\bigr)^{1/\alpha}

    where :math:`\alpha` is `alpha`. All of them give :math:`P = p` for a bag of one.
    All but softmax are monotone in every score, and all but noisy_or are unchanged
    when each instance of a bag is repeated.

    Parameters
    ----------
    z : ndarray of shape (n_instances,) or (n_instances, n_columns)
        Scores. With several columns, the first ``n_columns / n_outputs`` belong to the
        first output, and so on; the columns of one output are pooled *together* with
        the instances, as if each were an instance of its own (several hypotheses).
    offsets : ndarray of shape (n_bags + 1,)
        Bag `i` holds the rows ``offsets[i]:offsets[i + 1]``.
    pooling : str, default="softmax"
        One of `POOLINGS`.
    alpha : float, default=3.5
        Sharpness of softmax, lse and power; not used by the others.
    n_outputs : int, default=1
        Number of probabilities per bag.

    Returns
    -------
    PooledBags
        With arrays that are one-dimensional if `z` is.
    """
    n_bags = offsets.shape[0] - 1
    if z.ndim == 1 or z.shape[1] == n_outputs == 1:
        flat = np.ascontiguousarray(z, dtype=np.float64).reshape(-1)
        pooled = pool_flat(flat, offsets, pooling, alpha)
        if z.ndim == 1:
            return pooled
        return PooledBags(*(part[:, None] for part in pooled))
    # Make the values of one output contiguous: (output, instance, hypothesis).
    width = z.shape[1] // n_outputs
    blocks = np.reshape(z, (-1, n_outputs, width)).transpose(1, 0, 2)
    prob = np.empty((n_bags, n_outputs))
    complement = np.empty((n_bags, n_outputs))
    slope = np.empty((z.shape[0], n_outputs, width))
    for k, block in enumerate(blocks):
        flat = np.ascontiguousarray(block, dtype=np.float64).reshape(-1)
        part = pool_flat(flat, offsets * width, pooling, alpha)
        prob[:, k], complement[:, k] = part.prob, part.complement
        slope[:, k] = part.slope.reshape(-1, width)
    return PooledBags(prob, complement, slope.reshape(z.shape))


def sharpness(alpha, size):
    """Return `alpha`, or for "auto" what suits bags of that mean size.

    Parameters
    ----------
    alpha : float or "auto"
        The sharpness that was asked for.
    size : float
        Mean number of values that are pooled.

    Returns
    -------
    float
        For "auto" at least 3.5, and enough for one sure instance to bring a bag of
        that size to 4/5.
    """
    if alpha != "auto":
        return float(alpha)
    return float(max(3.5, np.log(4.0 * max(size - 1.0, 1.0))))


def bag_logit(pooled):
    """Return ``log(P / (1 - P))`` for each bag; finite even when `P` is 0 or 1."""
    tiny = np.finfo(np.float64).tiny
    return np.log(np.maximum(pooled.prob, tiny)) - np.log(
        np.maximum(pooled.complement, tiny)
    )


class PoolBuffers:
    """Arrays that `pool_flat` writes into, for callers that pool again and again."""

    def __init__(self, n_values, n_bags):
        self.pooled = PooledBags(np.empty(n_bags), np.empty(n_bags), np.empty(n_values))
        self.p = np.empty(n_values)
        self.q = np.empty(n_values)


def pool_flat(z, offsets, pooling, alpha, buffers=None):
    """Pool one output: `pool` without its checks.

    Parameters
    ----------
    z : float64 ndarray of shape (n_values,)
        Contiguous scores.
    offsets, pooling, alpha : as in `pool`
    buffers : PoolBuffers, default=None
        Where the results go; the next call with the same buffers overwrites them.

    Returns
    -------
    PooledBags
    """
    if buffers is None:
        buffers = PoolBuffers(z.shape[0], offsets.shape[0] - 1)
    prob, complement, slope = buffers.pooled
    alpha = float(alpha)
    # Exponentials and logarithms are computed by NumPy, which is vectorized and several
    # times faster than compiled loops.
    minus_abs(z, slope)
    np.exp(slope, out=slope)
    if pooling in ("softmax", "lse"):
        p, q = buffers.p, buffers.q
        if pooling == "softmax" and alpha <= _MILD_ALPHA:
            sigmoid_exponents(z, slope, p, q, alpha)
        else:
            sigmoid_gaps(z, slope, p, q, offsets, alpha)
        exponential = np.exp if pooling == "softmax" else np.expm1
        exponential(slope, out=slope)
        finish = pool_softmax if pooling == "softmax" else pool_lse
        finish(p, q, slope, offsets, alpha, prob, complement)
    elif pooling == "noisy_or":
        np.log1p(slope, out=buffers.p)
        pool_noisy_or(z, slope, buffers.p, offsets, prob, complement)
    else:
        loop = _LOOPS[pooling]
        loop(z, slope, offsets, alpha, prob, complement)
    return buffers.pooled


_LOOPS = {
    "max": pool_max,
    "mean": pool_mean,
    "gmean": pool_gmean,
    "power": pool_power,
}
