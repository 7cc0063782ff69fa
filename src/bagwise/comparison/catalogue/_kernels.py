"""Entries of the catalogue: support vector machines on kernels between bags."""

from __future__ import annotations

from bagwise.comparison.catalogue._grids import (
    ZHOU_GRAPH,
    bag_kernel_method,
    fours,
    tens,
)
from bagwise.comparison.catalogue._method import Method

__all__ = ["KERNELS"]

KERNELS: list[Method] = [
    bag_kernel_method(
        "MI-Kernel",
        "set",
        grid={"C": tens(0, 6), "gamma": fours(-6, 2)},
        large_grid={"C": tens(-1, 7), "gamma": fours(-7, 3)},
        paper="Gaertner, Flach, Kowalczyk and Smola, Multi-instance kernels, ICML 2002",
        note="An SVM on the mean similarity of instances; hard to beat.",
        aliases=("NSK", "set kernel"),
        larger="MI-Kernel (features)",
    ),
    Method(
        "MI-Kernel (features)",
        "bagwise.svm.BagSVC",
        params={"kernel": "set", "n_components": 300},
        grid={"C": tens(0, 4), "gamma": fours(-4, 1)},
        kind="kernel",
        max_bags=20_000,
        paper="Gaertner, Flach, Kowalczyk and Smola, Multi-instance kernels, ICML 2002",
        note="MI-Kernel on 300 Nystroem features, for many instances.",
        default=False,
    ),
    bag_kernel_method(
        "Statistics kernel",
        "statistics",
        grid={"C": tens(-2, 3)},
        cost="bags",
        paper="Gaertner, Flach, Kowalczyk and Smola, Multi-instance kernels, ICML 2002",
        note="An SVM on minima and maxima of the features.",
        default=False,
    ),
    bag_kernel_method(
        "miGraph",
        "mi_graph",
        grid={"C": tens(-1, 3), "gamma": fours(-4, 3, of="median")},
        paper=ZHOU_GRAPH,
        note="MI-Kernel with instances weighted down in crowds.",
    ),
    bag_kernel_method(
        "MIGraph",
        "graph",
        paper=ZHOU_GRAPH,
        note="Nodes and edges of a graph over each bag; slow on large bags.",
        default=False,
    ),
    bag_kernel_method(
        "EMD + SVC",
        "emd",
        max_bags=800,
        max_instances=12_000,
        cost="bags",
        paper="Zhang, Marszalek, Lazebnik and Schmid, Local features and kernels, IJCV"
        " 2007",
        note="Earth mover's distance between bags: the best single method on average.",
        aliases=("EMD",),
    ),
    Method(
        "Box kernel SVC",
        "bagwise.svm.BoxKernelSVC",
        grid={"C": tens(0, 4)},
        kind="kernel",
        scale="none",
        cost="bags",
        max_bags=1_000,
        max_instances=10_000,
        paper="Tao, Scott, Vinodchandran and Osugi, SVM-based generalized"
        " multiple-instance learning via approximate box counting, ICML 2004",
        note="Counts the boxes two bags have in common; several instances may decide.",
        aliases=("k_wedge", "box kernel"),
    ),
]
