"""Random small problems of SAFE, dense, for comparison with brute force."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from bagwise.least_squares._safe_kernel import DenseOmega, KernelFit, KernelSystem
from bagwise.least_squares.safe_problem import BagDesign, aggregation_weights


def dense_aggregation(design):
    """The aggregation matrix J of a design, written out."""
    J = np.zeros((design.weight.shape[0], design.residual.shape[0]))
    J[
        np.arange(J.shape[0]), np.repeat(np.arange(J.shape[1]), np.diff(design.offsets))
    ] = design.weight
    return J


def solve_bordered_lu(omega, design, gamma, Y):
    """Solve the bordered unsymmetric system by LU, whatever gamma is."""
    n_instances = omega.shape[0]
    J = dense_aggregation(design)
    G = (J * design.residual) @ J.T - gamma * np.diag(design.variance)
    system = np.zeros((n_instances + 1, n_instances + 1))
    system[:-1, :-1] = np.eye(n_instances) + G @ omega
    system[:-1, -1] = G.sum(axis=1)
    system[-1, :-1] = 1.0
    right = np.zeros((n_instances + 1, Y.shape[1]))
    right[:-1] = J @ (design.residual[:, None] * Y)
    solution = np.linalg.solve(system, right)
    alpha, intercept = solution[:-1], solution[-1]
    return KernelFit(alpha, intercept, omega @ alpha + intercept)


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
        bags = dense_aggregation(self.design).T @ e
        return (
            0.5 * theta[:-1] @ theta[:-1]
            - 0.5 * gamma * e @ (self.design.variance * e)
            + 0.5 * self.design.residual @ (bags - y) ** 2
        )

    def hessian_parts(self):
        """Matrices A and C over (w, b), by explicit sums."""
        wide = np.column_stack([self.phi, np.ones(len(self.phi))])
        sums = dense_aggregation(self.design).T @ wide
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


@pytest.fixture(name="solve_directly")
def solve_directly_fixture():
    """Give tests the direct solver, the reference for everything faster."""
    return solve_bordered_lu


@pytest.fixture(name="dense_aggregation")
def dense_aggregation_fixture():
    """Give tests the matrix J."""
    return dense_aggregation
