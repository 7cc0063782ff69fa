r"""The negative log diverse density, in logarithms throughout.

With d_ij = sum_k s_k^2 (x_ijk - h_k)^2 an instance is positive with probability
p_ij = exp(-d_ij). At the start d is of the order of hundreds, so p is zero in floating
point and so are naive gradients. Here nothing leaves the logarithms before it must: far
away from everything the gradient is a softmax of -d, and it never vanishes.
"""

import numpy as np
import scipy.sparse as sp

from bagwise.bags.segments import (
    repeat,
    segment_argmax,
    segment_logsumexp,
    segment_min,
)

# d is kept away from zero, where log(1 - exp(-d)) is minus infinity.
_SMALLEST = 1e-10
# Beyond this, exp(-d) is below the precision of 1.
_FAR = 30.0


def log_one_minus_exp(d):
    """Return log(1 - exp(-d)) for d > 0 without cancellation."""
    return np.where(
        d > 0.7, np.log1p(-np.exp(-np.maximum(d, 0.7))), np.log(-np.expm1(-d))
    )


def noisy_or_terms(d, offsets, positive, weight):
    """Value and derivative by d of the noisy-or negative log-likelihood.

    Parameters
    ----------
    d : ndarray of shape (n_instances,)
        Scaled squared distances, positive.
    offsets : ndarray of shape (n_bags + 1,)
        Where bags begin.
    positive : ndarray of bool of shape (n_bags,)
        Labels.
    weight : ndarray of shape (n_bags,)
        Weights of the bags.

    Returns
    -------
    value : float
    slope : ndarray of shape (n_instances,)
    """
    log_q = log_one_minus_exp(d)  # log(1 - p), one per instance
    # log(-log_q), which is -d as soon as p is tiny.
    log_loss = np.where(d > _FAR, -d, np.log(-np.where(d > _FAR, -1.0, log_q)))
    log_a = segment_logsumexp(log_loss, offsets)  # a = -sum_j log(1 - p_ij)
    a = np.exp(np.minimum(log_a, 700.0))
    tiny = log_a < -_FAR
    safe = np.where(tiny, 1.0, a)
    log_pr = np.where(tiny, log_a, log_one_minus_exp(safe))
    value = -weight[positive] @ log_pr[positive] + weight[~positive] @ a[~positive]
    # d(-log Pr)/dd_j = exp(-log expm1(a) - log expm1(d_j)); log expm1(d) = d + log_q.
    log_expm1_a = np.where(tiny, log_a, safe + log_one_minus_exp(safe))
    log_expm1_d = d + log_q
    on_positive = np.exp(np.minimum(-repeat(log_expm1_a, offsets) - log_expm1_d, 700.0))
    on_negative = -np.exp(-log_expm1_d)
    slope = np.where(repeat(positive, offsets), on_positive, on_negative)
    return float(value), slope * repeat(weight, offsets)


def max_terms(d, offsets, positive, weight):
    """Value and derivative by d when the nearest instance speaks for its bag."""
    rows = segment_argmax(-d, offsets)
    near = d[rows]
    log_q = log_one_minus_exp(near)
    value = weight[positive] @ near[positive] - weight[~positive] @ log_q[~positive]
    slope = np.zeros_like(d)
    slope[rows] = weight * np.where(positive, 1.0, -np.exp(-(near + log_q)))
    return float(value), slope


TERMS = {"noisy_or": noisy_or_terms, "max": max_terms}


class DensityObjective:
    """The negative log diverse density of a labelled set of bags.

    One evaluation is four products of a matrix with a vector.

    Parameters
    ----------
    data : ndarray or CSR matrix of shape (n_instances, n_features)
        The instances.
    offsets, positive, weight
        The bags, as in `noisy_or_terms`.
    mode : {"noisy_or", "max"}
        How the instances of a bag are combined.
    """

    def __init__(self, data, offsets, positive, weight, mode):
        self.data = data
        self.squares = data.multiply(data).tocsr() if sp.issparse(data) else data * data
        self.offsets = offsets
        self.positive = positive
        self.weight = weight
        self.terms = TERMS[mode]

    def distances(self, point, scale):
        """Scaled squared distances of all instances."""
        s2 = scale * scale
        d = self.squares @ s2
        d -= 2.0 * (self.data @ (s2 * point))
        d += s2 @ (point * point)
        return np.maximum(d, _SMALLEST)

    def __call__(self, theta):
        """Value and gradient at theta = (h, s)."""
        point, scale = np.split(theta, 2)
        value, g = self.terms(
            self.distances(point, scale), self.offsets, self.positive, self.weight
        )
        total, first, second = g.sum(), self.data.T @ g, self.squares.T @ g
        on_point = 2.0 * scale**2 * (point * total - first)
        on_scale = 2.0 * scale * (second - 2.0 * point * first + point**2 * total)
        return value, np.concatenate([on_point, on_scale])

    def select(self, theta):
        """Return the row of the nearest instance of each bag."""
        return segment_argmax(-self.distances(*np.split(theta, 2)), self.offsets)

    def nearest(self, theta):
        """Return the distance of the nearest instance of each bag."""
        return segment_min(self.distances(*np.split(theta, 2)), self.offsets)
