r"""Likelihood of bag labels as a function of instance scores, and its gradient.

With :math:`p_{ij} = \sigma(F_{ij})` pooled into a probability :math:`P_i` of the bag,

.. math::
    L(F) = \sum_i v_i \bigl[ y_i \log P_i + (1 - y_i) \log (1 - P_i) \bigr],
    \qquad w_{ij} = \frac{\partial L}{\partial F_{ij}} .

The gradients :math:`w_{ij}` are the weights of boosting. Noisy-or and ISR are written
in logarithms here, because :math:`1 - P_i` underflows in bags of a thousand instances
while :math:`\log (1 - P_i)` and the weights do not.
"""

import numpy as np
from scipy.special import expit

from bagwise.bags.segments import (
    repeat,
    segment_logsumexp,
    segment_softmax,
    segment_sum,
)
from bagwise.linear_model.pooling import pool

#: Poolings that boosting offers; "power" is the generalised mean.
BOOSTING_POOLINGS = ("noisy_or", "power", "lse", "isr")

_TINY = np.finfo(np.float64).tiny


def _softplus(z):
    return np.logaddexp(0.0, z)


def log_probabilities(F, offsets, pooling, alpha):
    """Return ``log P`` and ``log(1 - P)`` of every bag."""
    if pooling == "noisy_or":
        log_none = -segment_sum(_softplus(F), offsets)
        with np.errstate(divide="ignore"):
            log_any = np.log(-np.expm1(log_none))
        # All scores so low that nothing is left of the sum: log P = log sum e^F.
        lost = ~np.isfinite(log_any)
        if lost.any():
            log_any[lost] = segment_logsumexp(F, offsets)[lost]
        return log_any, log_none
    if pooling == "isr":
        log_odds = segment_logsumexp(F, offsets)
        return -_softplus(-log_odds), -_softplus(log_odds)
    pooled = pool(F, offsets, pooling, alpha)
    yes = np.log(np.maximum(pooled.prob, _TINY))
    return yes, np.log(np.maximum(pooled.complement, _TINY))


def bag_log_odds(F, offsets, pooling, alpha):
    """Return ``log(P / (1 - P))`` of every bag."""
    yes, no = log_probabilities(F, offsets, pooling, alpha)
    return yes - no


class BagLikelihood:
    """Log-likelihood of weighted bag labels under one pooling.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Where bags begin.
    positive : ndarray of bool of shape (n_bags,)
        The labels.
    weight : ndarray of shape (n_bags,)
        The weights :math:`v_i`.
    pooling : str
        One of `BOOSTING_POOLINGS`.
    alpha : float
        Sharpness of "power" and "lse".
    """

    def __init__(self, offsets, positive, weight, pooling, alpha):
        self.offsets = offsets
        self.positive = positive
        self.weight = weight
        self.pooling = pooling
        self.alpha = alpha

    def value(self, F):
        """Return L."""
        yes, no = log_probabilities(F, self.offsets, self.pooling, self.alpha)
        return float(self.weight @ np.where(self.positive, yes, no))

    def gradient(self, F):
        """Return the derivative of L by every instance score."""
        if self.pooling == "noisy_or":
            # (y - P) / P * p: -p in negative bags.
            log_none = -segment_sum(_softplus(F), self.offsets)
            some = np.maximum(-np.expm1(log_none), _TINY)
            share = np.where(self.positive, np.exp(log_none) / some, -1.0)
            return repeat(self.weight * share, self.offsets) * expit(F)
        if self.pooling == "isr":
            log_odds = segment_logsumexp(F, self.offsets)
            wanted = np.where(self.positive, expit(-log_odds), -expit(log_odds))
            softmax = segment_softmax(F, self.offsets)
            return repeat(self.weight * wanted, self.offsets) * softmax
        pooled = pool(F, self.offsets, self.pooling, self.alpha)
        share = np.where(
            self.positive,
            1.0 / np.maximum(pooled.prob, _TINY),
            -1.0 / np.maximum(pooled.complement, _TINY),
        )
        return repeat(self.weight * share, self.offsets) * pooled.slope
