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

import math
from typing import NamedTuple

import numpy as np

from bagwise._jit import njit

#: Names of all poolings understood by :func:`pool`.
POOLINGS = ("softmax", "max", "mean", "noisy_or", "lse", "gmean", "power")

# Up to here exp(alpha * p) is taken as it is: weights between exp(-32) and 1 neither
# overflow nor vanish, and their rounding errors are below 32 units in the last place.
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
    # The values of one output next to each other: (output, instance, hypothesis).
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
    # Exponentials and logarithms by numpy: vectorised, several times faster than in
    # compiled loops.
    _minus_abs(z, slope)
    np.exp(slope, out=slope)
    if pooling in ("softmax", "lse"):
        p, q = buffers.p, buffers.q
        if pooling == "softmax" and alpha <= _MILD_ALPHA:
            _sigmoid_exponents(z, slope, p, q, alpha)
        else:
            _sigmoid_gaps(z, slope, p, q, offsets, alpha)
        exponential = np.exp if pooling == "softmax" else np.expm1
        exponential(slope, out=slope)
        finish = _softmax if pooling == "softmax" else _lse
        finish(p, q, slope, offsets, alpha, prob, complement)
    elif pooling == "noisy_or":
        np.log1p(slope, out=buffers.p)
        _noisy_or(z, slope, buffers.p, offsets, prob, complement)
    else:
        loop = _LOOPS[pooling]
        loop(z, slope, offsets, alpha, prob, complement)
    return buffers.pooled


# The loops below run over slices of one bag: unlike an index that starts at an offset,
# one that starts at zero is known not to be negative, which is what lets the compiler
# use vector instructions.


@njit(error_model="numpy")
def _minus_abs(z, out):
    for j in range(z.shape[0]):
        out[j] = -abs(z[j])


@njit(error_model="numpy")
def _sigmoid(z, t):
    """Sigmoid of `z` and of `-z`, given ``t = exp(-|z|)``: no digit is lost."""
    s = 1.0 / (1.0 + t)
    c = t * s
    return (s, c) if z >= 0.0 else (c, s)


@njit(error_model="numpy")
def _sigmoid_exponents(z, slope, p, q, alpha):
    """Fill `p`, `q`, and put ``alpha * (p - 1)`` in place of `slope`."""
    for j in range(z.shape[0]):
        p[j], q[j] = _sigmoid(z[j], slope[j])
        slope[j] = -alpha * q[j]


@njit(error_model="numpy")
def _sigmoid_gaps(z, slope, p, q, offsets, alpha):
    """Fill `p`, `q`, and put ``alpha * (p - max p of the bag)`` in place of `slope`."""
    for j in range(z.shape[0]):
        p[j], q[j] = _sigmoid(z[j], slope[j])
    for i in range(offsets.shape[0] - 1):
        bag = slice(offsets[i], offsets[i + 1])
        z_i, p_i, q_i, gap = z[bag], p[bag], q[bag], slope[bag]
        top = _argmax(z_i)
        # p - p_top and q_top - q are the same number; take the one that has digits.
        if z_i[top] > 0.0:
            least = q_i[top]
            for j in range(gap.shape[0]):
                gap[j] = alpha * (least - q_i[j])
        else:
            most = p_i[top]
            for j in range(gap.shape[0]):
                gap[j] = alpha * (p_i[j] - most)


@njit(error_model="numpy")
def _argmax(values):
    top, largest = 0, values[0]
    for j in range(1, values.shape[0]):
        if values[j] > largest:
            top, largest = j, values[j]
    return top


@njit(error_model="numpy")
def _softmax(p, q, slope, offsets, alpha, prob, complement):
    for i in range(offsets.shape[0] - 1):
        bag = slice(offsets[i], offsets[i + 1])
        p_i, q_i, weight = p[bag], q[bag], slope[bag]
        mass = 0.0
        pos = 0.0
        neg = 0.0
        for j in range(weight.shape[0]):
            mass += weight[j]
            pos += weight[j] * p_i[j]
            neg += weight[j] * q_i[j]
        pos /= mass
        share = 1.0 / mass
        for j in range(weight.shape[0]):
            weight[j] *= share * (1.0 + alpha * (p_i[j] - pos)) * p_i[j] * q_i[j]
        prob[i] = pos
        complement[i] = neg / mass


@njit(error_model="numpy")
def _lse(p, q, slope, offsets, alpha, prob, complement):
    for i in range(offsets.shape[0] - 1):
        bag = slice(offsets[i], offsets[i + 1])
        p_i, q_i, slope_i = p[bag], q[bag], slope[bag]
        n = slope_i.shape[0]
        excess = 0.0
        top = 0
        for j in range(n):
            excess += slope_i[j]  # exp(gap) - 1, zero for the largest
            if slope_i[j] == 0.0:
                top = j
        shift = math.log1p(excess / n) / alpha
        share = 1.0 / (n + excess)
        for j in range(n):
            slope_i[j] = share * (slope_i[j] + 1.0) * p_i[j] * q_i[j]
        prob[i] = p_i[top] + shift
        complement[i] = q_i[top] - shift


@njit(error_model="numpy")
def _max(z, slope, offsets, alpha, prob, complement):
    for i in range(offsets.shape[0] - 1):
        bag = slice(offsets[i], offsets[i + 1])
        z_i, slope_i = z[bag], slope[bag]
        top = _argmax(z_i)
        prob[i], complement[i] = _sigmoid(z_i[top], slope_i[top])
        slope_i[:] = 0.0
        # A subgradient where the maximum is not unique.
        slope_i[top] = prob[i] * complement[i]


@njit(error_model="numpy")
def _mean(z, slope, offsets, alpha, prob, complement):
    for i in range(offsets.shape[0] - 1):
        bag = slice(offsets[i], offsets[i + 1])
        z_i, slope_i = z[bag], slope[bag]
        n = z_i.shape[0]
        pos = 0.0
        neg = 0.0
        for j in range(n):
            p, q = _sigmoid(z_i[j], slope_i[j])
            pos += p
            neg += q
            slope_i[j] = p * q / n
        prob[i] = pos / n
        complement[i] = neg / n


@njit(error_model="numpy")
def _noisy_or(z, slope, log1p, offsets, prob, complement):
    for i in range(offsets.shape[0] - 1):
        bag = slice(offsets[i], offsets[i + 1])
        z_i, slope_i, log1p_i = z[bag], slope[bag], log1p[bag]
        # log(1 - p) = -softplus(z): the product itself underflows in big bags.
        log_none = 0.0
        for j in range(z_i.shape[0]):
            log_none -= max(z_i[j], 0.0) + log1p_i[j]
        none = math.exp(log_none)
        for j in range(z_i.shape[0]):
            slope_i[j] = none * _sigmoid(z_i[j], slope_i[j])[0]
        prob[i] = -math.expm1(log_none)
        complement[i] = none


@njit(error_model="numpy")
def _gmean(z, slope, offsets, alpha, prob, complement):
    for i in range(offsets.shape[0] - 1):
        z_i = z[offsets[i] : offsets[i + 1]]
        n = z_i.shape[0]
        mean = 0.0
        for j in range(n):
            mean += z_i[j]
        mean /= n
        prob[i], complement[i] = _sigmoid(mean, math.exp(-abs(mean)))
        slope[offsets[i] : offsets[i + 1]] = prob[i] * complement[i] / n


@njit(error_model="numpy")
def _power(z, slope, offsets, alpha, prob, complement):
    for i in range(offsets.shape[0] - 1):
        n = offsets[i + 1] - offsets[i]
        top = 0.0
        for j in range(offsets[i], offsets[i + 1]):
            top = max(top, _sigmoid(z[j], slope[j])[0])
        total = 0.0
        missing = 0.0  # sum of 1 - p**alpha, which has digits where P is near 1
        for j in range(offsets[i], offsets[i + 1]):
            p, q = _sigmoid(z[j], slope[j])
            if p > 0.0:
                total += (p / top) ** alpha
            missing += -math.expm1(alpha * math.log1p(-q)) if q < 1.0 else 1.0
        pos = top * (total / n) ** (1.0 / alpha)
        prob[i] = pos
        complement[i] = 1.0 - pos
        if pos > 0.5:
            complement[i] = -math.expm1(math.log1p(-missing / n) / alpha)
        for j in range(offsets[i], offsets[i + 1]):
            p, q = _sigmoid(z[j], slope[j])
            slope[j] = 0.0
            if p > 0.0:
                slope[j] = (p / pos) ** (alpha - 1.0) * p * q / n


_LOOPS = {
    "max": _max,
    "mean": _mean,
    "gmean": _gmean,
    "power": _power,
}
