"""A bag kernel that remembers its training bags: what kernel regressors share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise._sizes import check_memory
from bagwise.bags import Bags
from bagwise.kernels.instance import row_blocks
from bagwise.kernels.registry import BAG_KERNELS, bag_kernel, fit_bag_kernel

Array = npt.NDArray[np.float64]


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
        given = dict(params or {})
        if gamma is not None:
            if "gamma" in given:
                raise ValueError("gamma is given twice, also in kernel_params.")
            given["gamma"] = gamma
        self.kernel, self.params = kernel, given

    def fit(self, X: Bags) -> Array:
        """Return the matrix of the training bags and keep what others need."""
        check_memory(
            8.0 * 2 * X.n_bags**2,
            f"The kernel matrix of {X.n_bags} bags",
            "Use fewer bags, or an embedding: SlicedWassersteinEmbedding, MiFV.",
        )
        self.bags = X
        if callable(self.kernel):
            return self._call(X)
        K, self.params = fit_bag_kernel(X, self.kernel, self.params)
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
