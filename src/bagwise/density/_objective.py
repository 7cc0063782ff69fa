r"""The negative log diverse density as a function of a point and its scales.

With d_ij = sum_k s_k^2 (x_ijk - h_k)^2 an instance is positive with probability
p_ij = exp(-d_ij). At the start d is of the order of hundreds, so p is zero in floating
point and so are naive gradients; `bagwise.density._loops` stays in logarithms.
"""

import numpy as np
import scipy.sparse as sp

from bagwise.bags.segments import segment_argmax
from bagwise.density import _loops as compiled

# d is kept away from zero, where log(1 - exp(-d)) is minus infinity.
SMALLEST = 1e-10

TERMS = {"noisy_or": compiled.noisy_or, "max": compiled.nearest}


class DensityObjective:
    """The negative log diverse density of a labelled set of bags.

    One evaluation is four products of a matrix with a vector.

    Parameters
    ----------
    data : ndarray or CSR matrix of shape (n_instances, n_features)
        The instances.
    offsets, positive, weight
        Where bags begin, their labels and their weights.
    mode : {"noisy_or", "max"}
        How the instances of a bag are combined.
    """

    def __init__(self, data, offsets, positive, weight, mode):
        self.data = data
        self.squares = data.multiply(data).tocsr() if sp.issparse(data) else data * data
        self.offsets = offsets
        self.positive = positive
        self.weight = np.asarray(weight, dtype=np.float64)
        self.terms = TERMS[mode]

    def distances(self, point, scale):
        """Scaled squared distances of all instances."""
        s2 = scale * scale
        d = self.squares @ s2
        d -= 2.0 * (self.data @ (s2 * point))
        d += s2 @ (point * point)
        return np.maximum(d, SMALLEST)

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
