"""Kernels between bags, and the instance kernels and bases that they use."""

from bagwise.kernels._distribution import (
    distribution_kernel,
    ppmm_kernel,
    statistics_kernel,
)
from bagwise.kernels._graph import graph_kernel, mi_graph_kernel
from bagwise.kernels._set import set_kernel
from bagwise.kernels.box.features import RandomBoxFeatures
from bagwise.kernels.box.grid import BoxGrid
from bagwise.kernels.box.kernel import (
    box_kernel,
)
from bagwise.kernels.distances import emd_distances, emd_kernel, hausdorff
from bagwise.kernels.registry import bag_kernel

__all__ = [
    "BoxGrid",
    "RandomBoxFeatures",
    "bag_kernel",
    "box_kernel",
    "distribution_kernel",
    "emd_distances",
    "emd_kernel",
    "graph_kernel",
    "hausdorff",
    "mi_graph_kernel",
    "ppmm_kernel",
    "set_kernel",
    "statistics_kernel",
]
