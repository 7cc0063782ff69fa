"""Random small problems of SAFE, dense, for comparison with brute force."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from bagwise.least_squares.safe._design import BagDesign, aggregation_weights
from bagwise.least_squares.safe._kernel_system import DenseOmega, KernelSystem


@dataclass
class Problem:
    """Features, kernel, design and labels of one small problem."""

    phi: np.ndarray
    omega: np.ndarray
    design: BagDesign
    Y: np.ndarray

    @property
    def system(self):
        """The fast solver of this problem."""
        return KernelSystem(DenseOmega(self.omega), self.design)

    def objective(self, theta, gamma, y):
        """Value of the primal objective at (w, b) = theta."""
        e = self.phi @ theta[:-1] + theta[-1]
        bags = self.design.dense().T @ e
        return (
            0.5 * theta[:-1] @ theta[:-1]
            - 0.5 * gamma * e @ (self.design.variance * e)
            + 0.5 * self.design.residual @ (bags - y) ** 2
        )

    def hessian_parts(self):
        """Matrices A and C over (w, b), by explicit sums."""
        wide = np.column_stack([self.phi, np.ones(len(self.phi))])
        sums = self.design.dense().T @ wide
        A = (sums.T * self.design.residual) @ sums
        A[:-1, :-1] += np.eye(self.phi.shape[1])
        return A, (wide.T * self.design.variance) @ wide


def build_problem(
    seed=0, core="kpca", aggregation="sum", rho=0.7, sizes=None, n_targets=2
):
    """Draw features with positive degrees, bags and labels."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=14) if sizes is None else np.asarray(sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    phi = rng.standard_normal((offsets[-1], 5)) + [1.5, 0, 0, 0, 0]
    phi[:, 0] = np.abs(phi[:, 0]) + 2.0
    omega = phi @ phi.T
    v = np.ones(len(phi)) if core == "kpca" else 1.0 / omega.sum(axis=1)
    assert v.min() > 0
    residual = np.full(len(sizes), rho)
    weight = aggregation_weights(aggregation, offsets)
    Y = rng.choice([-1.0, 1.0], size=(len(sizes), n_targets))
    return Problem(phi, omega, BagDesign(offsets, weight, residual, v), Y)


@pytest.fixture(name="build_problem")
def build_problem_fixture():
    """Give tests the factory of problems."""
    return build_problem
