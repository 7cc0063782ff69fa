"""The set kernel: an instance kernel summed over all pairs of instances."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from bagwise.bags import Bags
from bagwise.bags.segments import segment_sum
from bagwise.kernels._checks import (
    check_gram_memory,
    check_option,
    check_pair,
    resolve_kernel,
)
from bagwise.kernels._tiles import (
    StackedRows,
    scale_both,
    stack_of,
    symmetrized,
)
from bagwise.kernels.backends import active
from bagwise.kernels.instance import kernel_diagonal, row_products

Array = npt.NDArray[Any]

NORMALIZATIONS = ("feature", "average", None)

# If the image of a bag in feature space is this small (squared, relative to its
# instances), its instances cancel: only rounding errors are left to normalize.
_VANISHED = 1e-12


def set_kernel(
    X: Any,
    Y: Any = None,
    *,
    kernel: str = "rbf",
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 1.0,
    power: int = 1,
    normalization: str | None = "feature",
) -> npt.NDArray[np.float64]:
    r"""Set kernel between bags, also known as MI-Kernel and normalized set kernel.

    .. math::
        k(B, B') = \frac{1}{N_B N_{B'}} \sum_{x \in B} \sum_{x' \in B'} k_I(x, x')^p

    where :math:`k_I` is the instance kernel `kernel` and :math:`p` is `power`.
    `normalization` is :math:`N_B`: ``"feature"`` is :math:`\sqrt{s(B)}` with
    :math:`s(B)` the double sum of `B` with itself, so that :math:`k(B, B) = 1`;
    ``"average"`` is the number of instances :math:`|B|`; None is 1.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays or CSR matrices
        The bags of the rows and of the columns; `Y` is `X` by default.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        The instance kernel.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Its width. A name is resolved on `Y` (on `X` when `Y` is None), so that
        ``set_kernel(X_test, X_train)`` agrees with ``set_kernel(X_train)``.
    degree, coef0 : float, default=3 and 1
        Parameters of the polynomial instance kernel.
    power : int, default=1
        The power :math:`p >= 1` of the instance kernel.
    normalization : {"feature", "average", None}, default="feature"
        See above.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix; positive semi-definite when `Y` is None.

    Notes
    -----
    Differs from [1]_: nothing in the formula. An image of norm zero (instances that
    cancel out under a linear kernel) has kernel 0 with every bag instead of 0 / 0. A
    power of each of the four instance kernels is again one of them, and is evaluated as
    such.

    Cost: one evaluation of the instance kernel per pair of instances, half of that
    when `Y` is None; ``O(n_instances * n_features + n_bags ** 2 * n_features)`` for
    the linear kernel. Memory: the result and one tile of 512 x 512.

    References
    ----------
    .. [1] Gärtner, T., Flach, P. A., Kowalczyk, A. and Smola, A. J., "Multi-Instance
       Kernels", International Conference on Machine Learning, 2002.

    Examples
    --------
    >>> from bagwise.kernels import set_kernel
    >>> X = [[[0.0, 0.0], [1.0, 0.0]], [[0.0, 1.0]]]
    >>> set_kernel(X, kernel="linear", normalization=None)
    array([[1., 0.],
           [0., 1.]])
    """
    X, Y = check_pair(X, Y)
    reference = X if Y is None else Y
    resolved = resolve_set(
        reference,
        kernel=kernel,
        gamma=gamma,
        degree=degree,
        coef0=coef0,
        power=power,
        normalization=normalization,
    )
    params = instance_params(resolved)
    check_gram_memory(X, Y)
    rows = stack_of(X)
    cols = None if Y is None else stack_of(Y)
    K = pair_sums(rows, cols, params)
    diagonal = np.diagonal(K).copy() if Y is None else None
    left = inverse_norms(rows, params, normalization, squared=diagonal)
    right = left if cols is None else inverse_norms(cols, params, normalization)
    return scale_both(K, left, right)


def resolve_set(
    X: Bags,
    *,
    kernel: str = "rbf",
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 1.0,
    power: int = 1,
    normalization: str | None = "feature",
) -> dict[str, Any]:
    """Return the parameters of `set_kernel` with the width as a number."""
    check_option("normalization", normalization, NORMALIZATIONS)
    if not isinstance(power, Integral) or power < 1:
        raise ValueError(
            f"power must be an integer of at least 1, got {power!r} (other powers do "
            "not give a positive semi-definite kernel)."
        )
    params = resolve_kernel(
        X.data, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0
    )
    return {**params, "power": power, "normalization": normalization}


def instance_params(resolved: dict[str, Any]) -> dict[str, Any]:
    """Return the instance kernel to the given power, which is again one of the four."""
    names = ("kernel", "gamma", "degree", "coef0")
    params = {name: resolved[name] for name in names}
    power = resolved["power"]
    if power == 1:
        return params
    if params["kernel"] in ("rbf", "laplacian"):
        return {**params, "gamma": params["gamma"] * power}
    if params["kernel"] == "poly":
        return {**params, "degree": params["degree"] * power}
    return {"kernel": "poly", "gamma": 1.0, "degree": power, "coef0": 0.0}


def pair_sums(
    rows: StackedRows, cols: StackedRows | None, params: dict[str, Any]
) -> Array:
    """Sum an instance kernel over the pairs of instances of two bags."""
    if params["kernel"] == "linear":  # the product of the sums
        left = _weighted_totals(rows)
        right = left if cols is None else _weighted_totals(cols)
        K = row_products(left, right)
        return symmetrized(K) if cols is None else K
    return active().pair_sums(rows, cols, params)


def inverse_norms(
    stack: StackedRows,
    params: dict[str, Any],
    normalization: str | None,
    *,
    squared: Array | None = None,
) -> Array:
    """Return 1 / N_B of each bag; `squared` is s(B) where it is known already."""
    if normalization is None:
        return np.ones(stack.n_bags)
    if normalization == "average":
        return 1.0 / segment_sum(stack.weight, stack.offsets)
    if squared is None:
        squared = _self_similarity(stack, params)
    roots = stack.weight * np.sqrt(np.maximum(kernel_diagonal(stack.data, **params), 0))
    bound = segment_sum(roots, stack.offsets) ** 2  # s(B) never exceeds it
    return _inverse_root(squared, bound)


def _inverse_root(squared: Array, bound: Array) -> Array:
    alive = squared > _VANISHED * bound
    return np.where(alive, 1.0 / np.sqrt(np.where(alive, squared, 1.0)), 0.0)


def _self_similarity(stack: StackedRows, params: dict[str, Any]) -> Array:
    if params["kernel"] == "linear":
        return np.asarray(row_norms(_weighted_totals(stack), squared=True))
    return active().self_sums(stack, params)


def _weighted_totals(stack: StackedRows) -> Any:
    """Sum of the weighted rows of each bag; stays sparse when the rows are."""
    shape = (stack.n_bags, stack.n_rows)
    weights = np.asarray(stack.weight, dtype=np.float64)
    sums = sp.csr_array((weights, np.arange(shape[1]), stack.offsets), shape=shape)
    return sums @ stack.data
