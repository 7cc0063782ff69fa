"""Kernels between bags, and the instance kernels and bases they stand on."""

from bagwise.kernels._distribution import (
    distribution_kernel,
    ppmm_kernel,
    statistics_kernel,
)
from bagwise.kernels._graph import graph_kernel, mi_graph_kernel
from bagwise.kernels._set import set_kernel
from bagwise.kernels.basis import KernelBasis, fit_basis
from bagwise.kernels.box.features import RandomBoxFeatures
from bagwise.kernels.box.grid import BoxGrid
from bagwise.kernels.box.kernel import (
    BoxKernelReport,
    box_kernel,
    count_common_boxes,
    raw_box_kernel,
)
from bagwise.kernels.distances import emd_distances, emd_kernel, hausdorff
from bagwise.kernels.instance import (
    INSTANCE_KERNELS,
    instance_kernel,
    resolve_gamma,
    squared_distances,
)
from bagwise.kernels.registry import BAG_KERNELS, bag_kernel

__all__ = [
    "BAG_KERNELS",
    "BoxGrid",
    "BoxKernelReport",
    "INSTANCE_KERNELS",
    "KernelBasis",
    "RandomBoxFeatures",
    "bag_kernel",
    "box_kernel",
    "count_common_boxes",
    "distribution_kernel",
    "emd_distances",
    "emd_kernel",
    "fit_basis",
    "graph_kernel",
    "hausdorff",
    "instance_kernel",
    "mi_graph_kernel",
    "ppmm_kernel",
    "raw_box_kernel",
    "resolve_gamma",
    "set_kernel",
    "squared_distances",
    "statistics_kernel",
]
