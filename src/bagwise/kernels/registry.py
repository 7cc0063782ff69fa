"""The bag kernels by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.bags import Bags
from bagwise.kernels._distribution import distribution_kernel, fit_distribution
from bagwise.kernels._graph import graph_kernel, resolve_graph
from bagwise.kernels._mi_graph import mi_graph_kernel, resolve_mi_graph
from bagwise.kernels._mixture import ppmm_kernel, resolve_ppmm
from bagwise.kernels._set import resolve_set, set_kernel
from bagwise.kernels._statistics import fit_statistics, statistics_kernel
from bagwise.kernels.box.kernel import raw_box_kernel, resolve_box
from bagwise.kernels.emd import emd_kernel, fit_emd

BagKernel = Callable[..., npt.NDArray[np.float64]]

#: Bag kernels by name, each ``K = kernel(X, Y=None, **params)``.
BAG_KERNELS: dict[str, BagKernel] = {
    "set": set_kernel,
    "statistics": statistics_kernel,
    "graph": graph_kernel,
    "mi_graph": mi_graph_kernel,
    "emd": emd_kernel,
    "distribution": distribution_kernel,
    "ppmm": ppmm_kernel,
    "box": raw_box_kernel,
}

# What a kernel must remember of the training bags (widths, a mixture, a grid), as
# parameters: resolve(X, **params) -> params. Kernels without such a memory need none.
KERNEL_RESOLVERS: dict[str, Callable[..., dict[str, Any]]] = {
    "set": resolve_set,
    "graph": resolve_graph,
    "mi_graph": resolve_mi_graph,
    "ppmm": resolve_ppmm,
    "box": resolve_box,
}


def bag_kernel(
    X: Any, Y: Any = None, metric: str = "set", **params: Any
) -> npt.NDArray[np.float64]:
    """Kernel matrix between bags, by the name of the kernel.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays or CSR matrices
        The bags of the rows and of the columns; `Y` is `X` by default.
    metric : str, default="set"
        A key of `BAG_KERNELS`.
    **params
        Parameters of the kernel.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix.

    Examples
    --------
    >>> from bagwise.kernels import bag_kernel
    >>> X = [[[0.0], [1.0]], [[2.0]]]
    >>> bag_kernel(X, metric="set", kernel="linear", normalization="average")
    array([[0.25, 1.  ],
           [1.  , 4.  ]])
    """
    return _look_up(metric)(X, Y, **params)


def fit_bag_kernel(
    X: Bags, metric: str, params: dict[str, Any]
) -> tuple[npt.NDArray[np.float64], dict[str, Any]]:
    """Return the kernel matrix of training bags and the parameters for later ones.

    With the parameters returned, ``bag_kernel(X_test, X, metric, **params)`` does not
    depend on which test bags come together, and agrees with the training matrix.
    """
    kernel = _look_up(metric)
    # Widths that are found on the very distances or vectors of the matrix.
    if metric == "statistics":
        return fit_statistics(X, **params)
    if metric == "emd":
        return fit_emd(X, **params)
    if metric == "distribution":
        return fit_distribution(X, **params)
    if metric in KERNEL_RESOLVERS:
        params = KERNEL_RESOLVERS[metric](X, **params)
    return kernel(X, None, **params), dict(params)


def _look_up(metric: str) -> BagKernel:
    if metric not in BAG_KERNELS:
        known = ", ".join(repr(name) for name in sorted(BAG_KERNELS))
        raise ValueError(f"unknown bag kernel {metric!r}; known are {known}.")
    return BAG_KERNELS[metric]
