"""The bag kernels by name, their limits, and a kernel fitted to training bags."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise._sizes import check_memory
from bagwise.bags import Bags
from bagwise.bags.segments import repeat
from bagwise.kernels._distribution import (
    bag_extremes,
    distribution_kernel,
    fit_distribution,
    fit_statistics,
    ppmm_kernel,
    resolve_ppmm,
    statistics_kernel,
)
from bagwise.kernels._graph import (
    graph_kernel,
    mi_graph_kernel,
    resolve_graph,
    resolve_mi_graph,
)
from bagwise.kernels._set import resolve_set, set_kernel
from bagwise.kernels.box.kernel import raw_box_kernel, resolve_box
from bagwise.kernels.distances import emd_kernel, fit_emd, many_problems
from bagwise.kernels.instance import resolve_gamma, row_blocks

Array = npt.NDArray[np.float64]
BagKernel = Callable[..., Array]

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

# Parameters that a kernel computes from the training bags (widths, a mixture, a grid):
# resolve(X, **params) -> params. Other kernels need no entry.
KERNEL_RESOLVERS: dict[str, Callable[..., dict[str, Any]]] = {
    "set": resolve_set,
    "graph": resolve_graph,
    "mi_graph": resolve_mi_graph,
    "ppmm": resolve_ppmm,
    "box": resolve_box,
}


def bag_kernel(X: Any, Y: Any = None, metric: str = "set", **params: Any) -> Array:
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
    X: Bags,
    metric: str,
    params: dict[str, Any],
    weight: Any = None,
    labels: Any = None,
) -> tuple[Array, dict[str, Any]]:
    """Return the kernel matrix of training bags and the parameters for later ones.

    With the parameters returned, ``bag_kernel(X_test, X, metric, **params)`` does not
    depend on which test bags come together, and agrees with the training matrix. With
    weights of the bags, ``gamma="scale"`` is the width of repeated bags. Labels of the
    bags are used by `ppmm_kernel` alone, and only with ``p="alignment"``.
    """
    kernel = _look_up(metric)
    params = weighted_scale(X, metric, params, weight)
    # Widths that are computed from the same distances or vectors as the matrix.
    if metric == "statistics":
        return fit_statistics(X, **params)
    if metric == "emd":
        return fit_emd(X, **params)
    if metric == "distribution":
        return fit_distribution(X, **params)
    if metric == "ppmm":
        params = resolve_ppmm(X, **params, labels=labels)
    elif metric in KERNEL_RESOLVERS:
        params = KERNEL_RESOLVERS[metric](X, **params)
    return kernel(X, None, **params), dict(params)


def weighted_scale(
    X: Bags, metric: str, params: dict[str, Any], weight: Any
) -> dict[str, Any]:
    """Return the parameters with ``gamma="scale"`` as a number, if weights differ."""
    known = inspect.signature(_look_up(metric)).parameters
    gamma = params.get("gamma", known["gamma"].default if "gamma" in known else None)
    if weight is None or not np.ptp(weight) or gamma != "scale":
        return params
    if metric == "statistics":
        return {**params, "gamma": resolve_gamma("scale", bag_extremes(X), weight)}
    if metric in ("set", "graph", "mi_graph", "distribution"):
        rows = repeat(weight, X.offsets)
        return {**params, "gamma": resolve_gamma("scale", X.data, rows)}
    return params  # the mixture of "ppmm" ignores weights, too


def _look_up(metric: str) -> BagKernel:
    if metric not in BAG_KERNELS:
        known = ", ".join(repr(name) for name in sorted(BAG_KERNELS))
        raise ValueError(f"unknown bag kernel {metric!r}; known are {known}.")
    return BAG_KERNELS[metric]


# Instances whose pairs are compared in about two minutes, with a hundred columns.
_MOST_COMPARED = 150_000
# Instances for which boxes can be counted pair by pair; as in BoxKernelSVC.
_MOST_COUNTED = 20_000


def refuse_hours(X: Bags, metric: str) -> None:
    """Raise where the exact kernel matrix of training bags would take hours.

    Parameters
    ----------
    X : Bags
        The training bags.
    metric : str
        A name of `BAG_KERNELS`. What is cheap at any size passes.
    """
    n = X.n_instances
    reason = hint = None
    if metric == "emd":
        reason = many_problems(len(X) * (len(X) - 1) // 2)
        hint = "Take make_pipeline(SlicedWassersteinEmbedding(), SVC())"
    elif metric in ("graph", "distribution") and n > _MOST_COMPARED:
        reason = (
            f"All pairs of {n:,} instances would be compared, which takes hours (the "
            f"limit is {_MOST_COMPARED:,})."
        )
        hint = (
            'Take kernel="mi_graph" or "set", which beyond 60,000 instances work on '
            "Nystroem features"
        )
    elif metric == "box" and n > _MOST_COUNTED:
        reason = (
            f"boxes would be counted for all pairs of {len(X):,} bags with {n:,} "
            f"instances, which takes hours (the limit is {_MOST_COUNTED:,})."
        )
        hint = "Take make_pipeline(RandomBoxFeatures(1000), LinearSVC())"
    if reason is not None:
        raise ValueError(
            f"{reason} {hint}, or fit on fewer bags; n_components=None computes the "
            "matrix anyway."
        )


class FittedKernel:
    """A kernel between bags, with its widths found on training bags.

    Parameters
    ----------
    kernel : str or callable
        A name of `BAG_KERNELS`, or a function ``K = kernel(X, Y, **params)``.
    gamma : float, str or None
        Width, put among the parameters.
    params : dict or None
        Further parameters.
    """

    def __init__(
        self,
        kernel: str | Callable[..., Any],
        gamma: Any = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        if not callable(kernel) and kernel not in BAG_KERNELS:
            known = ", ".join(repr(name) for name in sorted(BAG_KERNELS))
            raise ValueError(
                f"unknown kernel {kernel!r}; known are {known} or a function of two "
                "Bags."
            )
        self.kernel, self.params = kernel, dict(params or {})
        if gamma is not None:
            if "gamma" in self.params:
                raise ValueError("gamma is given twice, also in kernel_params.")
            self.params["gamma"] = gamma

    def fit(self, X: Bags, weight: Any = None) -> Array:
        """Return the matrix of the (weighted) training bags, keep what others need."""
        check_memory(
            8.0 * 2 * X.n_bags**2,
            f"The kernel matrix of {X.n_bags} bags",
            "Use fewer bags, or an embedding: SlicedWassersteinEmbedding, MiFV.",
        )
        self.bags = X
        if callable(self.kernel):
            return self._call(X)
        K, self.params = fit_bag_kernel(X, self.kernel, self.params, weight)
        return K

    def product(self, X: Bags, coef: Array) -> Array:
        """Return ``K(X, training bags) @ coef``, in blocks of rows."""
        out = np.empty((X.n_bags, *coef.shape[1:]))
        for part in row_blocks(X.n_bags, 8.0 * 2 * self.bags.n_bags):
            out[part] = self.matrix(X[part]) @ coef
        return out

    def matrix(self, X: Bags) -> Array:
        """Return the matrix between bags and the training bags."""
        if callable(self.kernel):
            return self._call(X)
        return bag_kernel(X, self.bags, self.kernel, **self.params)

    def _call(self, X: Bags) -> Array:
        assert callable(self.kernel)
        K = np.asarray(self.kernel(X, self.bags, **self.params), dtype=np.float64)
        if K.shape != (X.n_bags, self.bags.n_bags):
            raise ValueError(
                f"the kernel function returned shape {K.shape} for {X.n_bags} x "
                f"{self.bags.n_bags} bags."
            )
        return K
