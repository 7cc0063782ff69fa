"""What the bag kernels check of their arguments before any work is done."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise._sizes import check_memory
from bagwise.bags import Bags, check_bags
from bagwise.kernels.instance import INSTANCE_KERNELS, resolve_gamma


def check_pair(X: Any, Y: Any = None) -> tuple[Bags, Bags | None]:
    """Return both sides as valid bags of the same width; `Y` may stay None."""
    X = check_bags(X, accept_sparse=True)
    if Y is None:
        return X, None
    Y = check_bags(Y, accept_sparse=True)
    if X.n_features != Y.n_features:
        raise ValueError(
            f"X has {X.n_features} features and Y has {Y.n_features}: bags can only be "
            "compared when their instances have the same columns."
        )
    return X, Y


def check_gram_memory(X: Bags, Y: Bags | None, n_arrays: int = 1) -> None:
    """Refuse a bag matrix beyond the memory budget, before it is allocated."""
    n_cols = X.n_bags if Y is None else Y.n_bags
    check_memory(
        8.0 * n_arrays * X.n_bags * n_cols,
        f"The matrix of {X.n_bags} x {n_cols} bags",
        "Use fewer reference bags, or explicit features: "
        'BagSVC(kernel="set", n_components=...).',
    )


def positive_gamma(gamma: float | str, data: Any, name: str = "gamma") -> float:
    """Return a named or given width as a positive number."""
    value = resolve_gamma(gamma, data)
    if not (np.isfinite(value) and value > 0):
        raise ValueError(
            f"{name} must be a positive number or 'scale', 'auto', 'median', got "
            f"{gamma!r}."
        )
    return value


def resolve_kernel(
    data: Any,
    *,
    kernel: str,
    gamma: float | str,
    degree: float,
    coef0: float,
) -> dict[str, Any]:
    """Return the parameters of an instance kernel as numbers."""
    check_option("kernel", kernel, INSTANCE_KERNELS)
    if kernel == "linear":  # has no width
        width = 1.0
    else:
        width = positive_gamma(gamma, data)
    return {"kernel": kernel, "gamma": width, "degree": degree, "coef0": coef0}


def check_option(name: str, value: Any, known: tuple[Any, ...]) -> None:
    """Refuse an unknown option and list the known ones."""
    if value not in known:
        listed = ", ".join(repr(k) for k in known)
        raise ValueError(f"unknown {name} {value!r}; known are {listed}.")
