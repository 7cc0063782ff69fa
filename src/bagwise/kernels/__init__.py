"""Kernels between bags, and the instance kernels and bases they stand on."""

from bagwise.kernels._basis import KernelBasis, fit_basis
from bagwise.kernels._instance import (
    INSTANCE_KERNELS,
    instance_kernel,
    resolve_gamma,
    squared_distances,
)

__all__ = [
    "INSTANCE_KERNELS",
    "KernelBasis",
    "fit_basis",
    "instance_kernel",
    "resolve_gamma",
    "squared_distances",
]
