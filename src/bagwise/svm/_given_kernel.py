"""The kernel that a user gives: a name, a function of bags or a matrix."""

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import column_or_1d

from bagwise.bags.validation import refuse_masked
from bagwise.kernels import BAG_KERNELS
from bagwise.kernels.additive import ADDITIVE_KERNELS


def check_kernel(kernel, n_components):
    """Refuse an unknown kernel, and explicit features of one that has none."""
    if callable(kernel):
        return
    known = {*BAG_KERNELS, "precomputed"}
    if kernel not in known:
        listed = ", ".join(repr(name) for name in sorted(known))
        message = f"unknown kernel {kernel!r}; known are {listed} or a "
        raise ValueError(message + "function of two Bags.")
    if n_components not in (None, "auto") and kernel not in ADDITIVE_KERNELS:
        names = " or ".join(f"kernel={name!r}" for name in ADDITIVE_KERNELS)
        raise ValueError(
            f"n_components needs {names}, the kernels with explicit features; got "
            f"kernel={kernel!r}."
        )


def call_kernel(function, X, Y, params):
    """Return the matrix of a user's function, which must have the right shape."""
    K = np.asarray(function(X, Y, **params), dtype=np.float64)
    if K.shape != (X.n_bags, Y.n_bags):
        raise ValueError(
            f"the kernel function returned shape {K.shape} for {X.n_bags} x "
            f"{Y.n_bags} bags."
        )
    return K


def check_square(K, y):
    """Return a kernel matrix of the training bags, and their labels."""
    refuse_masked(K, "X")
    refuse_masked(y, "y")
    K = check_array(K, dtype=np.float64)
    y = column_or_1d(y, warn=True)
    if K.shape != (len(y), len(y)):
        raise ValueError(
            f"a precomputed kernel matrix must be square with one row for each of "
            f"the {len(y)} labels, got shape {K.shape}."
        )
    return K, y


def check_new_rows(K, n_trained):
    """Return a kernel matrix of new bags, with a column for each training bag."""
    refuse_masked(K, "X")
    K = check_array(K, dtype=np.float64)
    if K.shape[1] != n_trained:
        raise ValueError(
            f"X has {K.shape[1]} columns, but the machine was fitted on "
            f"{n_trained} bags: a kernel matrix needs one column for "
            "each of them."
        )
    return K
