"""A Gaussian kernel between the mean embeddings of bags: distribution regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.bags import Bags
from bagwise.kernels._checks import check_pair
from bagwise.kernels._set import (
    instance_params,
    inverse_norms,
    resolve_set,
    set_kernel,
)
from bagwise.kernels._tiles import stack_of

Array = npt.NDArray[np.float64]


def distribution_kernel(
    X: Any,
    Y: Any = None,
    *,
    kernel: str = "rbf",
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 1.0,
    outer_gamma: float | str = "mean",
) -> Array:
    r"""Gaussian kernel between the mean embeddings of bags.

    .. math::
        k(B, B') = e^{-h \|\mu_B - \mu_{B'}\|^2}, \qquad
        \mu_B = \frac{1}{|B|} \sum_{x \in B} k_I(x, \cdot)

    where :math:`k_I` is the instance kernel `kernel` and :math:`h` is `outer_gamma`. A
    linear machine on the set kernel sees bags through linear functions of
    :math:`\mu_B` only; this second level makes it universal over distributions [1]_.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays or CSR matrices
        The bags of the rows and of the columns; `Y` is `X` by default.
    kernel, gamma, degree, coef0
        The instance kernel, as in `set_kernel`.
    outer_gamma : "mean" or float, default="mean"
        The width :math:`h`; "mean" is one over the mean of the squared distances
        between the bags of `Y` (of `X` when `Y` is None).

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix; positive semi-definite when `Y` is None.

    Notes
    -----
    Differs from [1]_: nothing. Costs what `set_kernel` costs.

    References
    ----------
    .. [1] Szabo, Z., Sriperumbudur, B. K., Poczos, B. and Gretton, A., "Learning theory
       for distribution regression", Journal of Machine Learning Research, 2016.

    Examples
    --------
    >>> from bagwise.kernels import distribution_kernel
    >>> X = [[[0.0], [1.0]], [[3.0]]]
    >>> distribution_kernel(X, gamma=1.0, outer_gamma=1.0).round(3)
    array([[1.   , 0.189],
           [0.189, 1.   ]])
    """
    params = {"kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0}
    if Y is None:
        return fit_distribution(X, **params, outer_gamma=outer_gamma)[0]
    X, Y = check_pair(X, Y)
    assert Y is not None
    if isinstance(outer_gamma, str):
        outer_gamma = fit_distribution(Y, **params, outer_gamma=outer_gamma)[1][
            "outer_gamma"
        ]
    D = _squared_distances(X, Y, _resolved(Y, params))
    D *= -_check_width(outer_gamma)
    return np.exp(D, out=D)


def fit_distribution(
    X: Any, *, outer_gamma: float | str = "mean", **params: Any
) -> tuple[Array, dict[str, Any]]:
    """Return the kernel matrix of training bags and the widths it was made with."""
    X, _ = check_pair(X)
    resolved = _resolved(X, params)
    D = _squared_distances(X, None, resolved)
    if isinstance(outer_gamma, str):
        if outer_gamma != "mean":
            raise ValueError(
                f"outer_gamma must be 'mean' or a positive number, got {outer_gamma!r}."
            )
        n = len(D)
        mean = D.sum() / max(1, n * (n - 1))
        outer_gamma = float(1.0 / mean) if mean > 0 else 1.0
    width = _check_width(outer_gamma)
    D *= -width
    given = {k: resolved[k] for k in ("kernel", "gamma", "degree", "coef0")}
    return np.exp(D, out=D), {**given, "outer_gamma": width}


def _resolved(X: Bags, params: dict[str, Any]) -> dict[str, Any]:
    return resolve_set(X, **params, normalization="average")


def _squared_distances(X: Bags, Y: Bags | None, resolved: dict[str, Any]) -> Array:
    """Squared distances of mean embeddings, never below zero."""
    K = set_kernel(X, Y, **resolved)
    rows = np.diagonal(K).copy() if Y is None else _self_products(X, resolved)
    cols = rows if Y is None else _self_products(Y, resolved)
    D = rows[:, None] + cols[None, :] - 2.0 * K
    np.maximum(D, 0.0, out=D)
    if Y is None:
        np.fill_diagonal(D, 0.0)
    return D


def _self_products(X: Bags, resolved: dict[str, Any]) -> Array:
    """Squared norms of mean embeddings."""
    scale = inverse_norms(stack_of(X), instance_params(resolved), "feature")
    norms = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    return (norms / X.sizes) ** 2


def _check_width(value: Any) -> float:
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"outer_gamma must be a positive number, got {value!r}.")
    return float(value)
