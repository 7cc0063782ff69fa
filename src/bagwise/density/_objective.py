r"""The negative log diverse density as a function of a point and its scales.

With d_ij = sum_k s_k^2 (x_ijk - h_k)^2 an instance is positive with probability
p_ij = exp(-d_ij). At the start d is of the order of hundreds, so p is zero in floating
point and so are naive gradients; `bagwise.density._loops` goes around it.
"""

import numpy as np
import scipy.sparse as sp

from bagwise.bags.segments import segment_argmax
from bagwise.density import _loops as compiled
from bagwise.solvers.lbfgs import minimize


def density_objective(data, offsets, positive, weight, mode):
    """Return the objective of a labelled set of bags, for dense or sparse instances.

    Parameters
    ----------
    data : ndarray or CSR matrix of shape (n_instances, n_features)
        The instances.
    offsets, positive, weight
        Where bags begin, their labels and their weights.
    mode : {"noisy_or", "max"}
        How the instances of a bag are combined.
    """
    kind = _Sparse if sp.issparse(data) else _Dense
    return kind(data, offsets, positive, weight, mode)


class _Objective:
    """What both kinds share: bags, and the choice of an instance for each."""

    def __init__(self, data, offsets, positive, weight, mode):
        self.data = data
        self.bags = (
            np.array(offsets, dtype=np.intp),
            np.array(positive, dtype=bool),
            np.array(weight, dtype=np.float64),
        )
        self.mode = mode

    def select(self, theta):
        """Return the row of the nearest instance of each bag."""
        return segment_argmax(-self.distances(theta), self.bags[0])

    def only(self, chosen):
        """Return the objective of one instance for each bag."""
        _, positive, weight = self.bags
        ones = np.arange(len(chosen) + 1)
        return type(self)(self.data[chosen], ones, positive, weight, "max")


class _Dense(_Objective):
    """Instances in memory twice, by rows and by columns; descents are compiled."""

    def __init__(self, data, offsets, positive, weight, mode):
        super().__init__(
            np.asarray(data, dtype=np.float64), offsets, positive, weight, mode
        )
        n, n_features = self.data.shape
        rows = np.zeros((n + -n % 4, n_features))  # loops take four at a time
        rows[:n] = self.data
        self.both = rows, np.ascontiguousarray(self.data.T).view()
        for each in self.both:  # of one kind, to be compiled for
            each.flags.writeable = False
        self.room = np.zeros((2, len(rows)))

    def distances(self, theta):
        """Scaled squared distances of all instances."""
        d = np.empty(len(self.data))
        compiled.distances(self.both[1], theta, d)
        return d

    def __call__(self, theta):
        """Value and gradient at theta = (h, s)."""
        gradient = np.empty(len(theta))
        value = compiled.evaluate(
            *self.both, self.bags, self.mode == "noisy_or", theta, gradient, self.room
        )
        return value, gradient

    def descend(self, descent, max_iter):
        """Go on with a descent by L-BFGS until `max_iter` iterations in all."""
        if not descent.converged and descent.n_iter < max_iter:
            descent.status = compiled.descend(
                *self.both,
                self.bags,
                self.mode == "noisy_or",
                descent.vectors,
                descent.numbers,
                self.room,
                max_iter,
            )
        return descent


class _Sparse(_Objective):
    """Four products of a sparse matrix with a vector make an evaluation."""

    def __init__(self, data, offsets, positive, weight, mode):
        super().__init__(data, offsets, positive, weight, mode)
        self.squares = data.multiply(data).tocsr()
        self.terms = compiled.noisy_or if mode == "noisy_or" else compiled.nearest

    def distances(self, theta):
        """Scaled squared distances of all instances."""
        point, scale = np.split(theta, 2)
        s2 = scale * scale
        d = self.squares @ s2
        d -= 2.0 * (self.data @ (s2 * point))
        d += s2 @ (point * point)
        return np.maximum(d, compiled.SMALLEST)

    def __call__(self, theta):
        """Value and gradient at theta = (h, s)."""
        point, scale = np.split(theta, 2)
        g = np.empty(self.data.shape[0])
        value = self.terms(self.distances(theta), *self.bags, g)
        total, first, second = g.sum(), self.data.T @ g, self.squares.T @ g
        on_point = 2.0 * scale**2 * (point * total - first)
        on_scale = 2.0 * scale * (second - 2.0 * point * first + point**2 * total)
        return value, np.concatenate([on_point, on_scale])

    def descend(self, descent, max_iter):
        """Go on with a descent by L-BFGS until `max_iter` iterations in all."""
        return minimize(self, descent, max_iter)
