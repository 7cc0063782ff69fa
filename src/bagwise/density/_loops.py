"""Negative log diverse density of distances, and its slope, in one pass over bags.

Nothing leaves the logarithms before it must: far away from everything p = exp(-d) is
zero in floating point, while the slope is a softmax of -d and never vanishes.
"""

import numpy as np

from bagwise._jit import njit

# Beyond this, exp(-d) is below the precision of 1.
FAR = 30.0


@njit()
def log_one_minus_exp(d):
    """Return log(1 - exp(-d)) for d > 0 without cancellation."""
    if d > 0.7:
        return np.log1p(-np.exp(-d))
    return np.log(-np.expm1(-d))


@njit()
def noisy_or(d, offsets, positive, weight):
    """Value and slope for P = 1 - prod_j (1 - p_j)."""
    slope = np.empty(d.shape[0])
    value = 0.0
    for i in range(positive.shape[0]):
        start, stop = offsets[i], offsets[i + 1]
        if not positive[i]:
            for j in range(start, stop):
                log_q = log_one_minus_exp(d[j])
                value -= weight[i] * log_q
                slope[j] = -weight[i] * np.exp(-(d[j] + log_q))
            continue
        # log a = log sum_j (-log(1 - p_j)); a single term is -d as soon as p is tiny.
        top = -np.inf
        for j in range(start, stop):
            term = -d[j] if d[j] > FAR else np.log(-log_one_minus_exp(d[j]))
            slope[j] = term
            top = max(top, term)
        total = 0.0
        for j in range(start, stop):
            total += np.exp(slope[j] - top)
        log_a = top + np.log(total)
        if log_a < -FAR:
            log_pr = log_a
            log_expm1_a = log_a
        else:
            a = np.exp(min(log_a, 700.0))
            log_pr = log_one_minus_exp(a)
            log_expm1_a = a + log_pr
        value -= weight[i] * log_pr
        # d(-log Pr)/dd_j = exp(-log expm1(a) - log expm1(d_j)).
        for j in range(start, stop):
            log_expm1_d = d[j] + log_one_minus_exp(d[j])
            slope[j] = weight[i] * np.exp(min(-log_expm1_a - log_expm1_d, 700.0))
    return value, slope


@njit()
def nearest(d, offsets, positive, weight):
    """Value and slope for P = max_j p_j: the nearest instance speaks for its bag."""
    slope = np.zeros(d.shape[0])
    value = 0.0
    for i in range(positive.shape[0]):
        best = offsets[i]
        for j in range(offsets[i] + 1, offsets[i + 1]):
            if d[j] < d[best]:
                best = j
        if positive[i]:
            value += weight[i] * d[best]
            slope[best] = weight[i]
        else:
            log_q = log_one_minus_exp(d[best])
            value -= weight[i] * log_q
            slope[best] = -weight[i] * np.exp(-(d[best] + log_q))
    return value, slope
