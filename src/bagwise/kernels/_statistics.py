"""The statistics kernel: an ordinary kernel on the extremes of each bag."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bagwise.bags import Bags
from bagwise.bags.segments import segment_max, segment_min
from bagwise.kernels._checks import check_gram_memory, check_pair, resolve_kernel
from bagwise.kernels._tiles import symmetrized
from bagwise.kernels.instance import instance_kernel


def statistics_kernel(
    X: Any,
    Y: Any = None,
    *,
    kernel: str = "rbf",
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 1.0,
) -> npt.NDArray[np.float64]:
    r"""Statistics kernel between bags: a kernel on their smallest and largest values.

    .. math::
        k(B, B') = k_I(s(B), s(B')), \qquad
        s(B) = \bigl(\min_{x \in B} x_1, \dots, \min_{x \in B} x_d,
                     \max_{x \in B} x_1, \dots, \max_{x \in B} x_d\bigr)

    where :math:`k_I` is `kernel`, on vectors of twice the width.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays or CSR matrices
        The bags of the rows and of the columns; `Y` is `X` by default.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        The kernel on :math:`s(B)`. The polynomial one is the minimax kernel of [1]_.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Its width. A name is resolved on the vectors :math:`s(B)` of `Y` (of `X` when
        `Y` is None).
    degree, coef0 : float, default=3 and 1
        Of the polynomial kernel.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix; positive semi-definite when `Y` is None.

    Notes
    -----
    Differs from [1]_, which uses the polynomial kernel only: the default is Gaussian.

    Cost: ``O(n_instances * n_features + n_bags ** 2 * n_features)``.

    References
    ----------
    .. [1] Gärtner, T., Flach, P. A., Kowalczyk, A. and Smola, A. J., "Multi-Instance
       Kernels", International Conference on Machine Learning, 2002.

    Examples
    --------
    >>> from bagwise.kernels import statistics_kernel
    >>> X = [[[0.0], [1.0]], [[2.0]]]
    >>> statistics_kernel(X, kernel="linear")
    array([[1., 2.],
           [2., 8.]])
    """
    X, Y = check_pair(X, Y)
    if Y is None:
        return fit_statistics(
            X, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0
        )[0]
    check_gram_memory(X, Y)
    right = bag_extremes(Y)
    params = resolve_kernel(
        right, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0
    )
    K = instance_kernel(bag_extremes(X), right, **params)
    return K.astype(np.float64, copy=False)


def fit_statistics(
    X: Bags,
    *,
    kernel: str = "rbf",
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 1.0,
) -> tuple[npt.NDArray[np.float64], dict[str, Any]]:
    """Return the kernel matrix of training bags and the width it was made with."""
    check_gram_memory(X, None)
    vectors = bag_extremes(X)
    params = resolve_kernel(
        vectors, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0
    )
    K = instance_kernel(vectors, None, **params)
    return symmetrized(K.astype(np.float64, copy=False)), params


def bag_extremes(X: Bags) -> Any:
    """Return the smallest and the largest value of every column in every bag.

    Shape (n_bags, 2 * n_features), sparse when the instances are.
    """
    if X.is_sparse:
        return _sparse_extremes(X)
    low = segment_min(X.data, X.offsets)
    return np.concatenate([low, segment_max(X.data, X.offsets)], axis=1)


def _sparse_extremes(X: Bags) -> sp.csr_array:
    """Sort the stored values by bag and column; absent ones count as zeros."""
    width = X.n_features
    matrix = X.data
    bag = np.repeat(X.bag_index, np.diff(matrix.indptr))
    key = bag * width + matrix.indices
    order = np.argsort(key, kind="stable")
    cells, first = np.unique(key[order], return_index=True)
    shape = (X.n_bags, 2 * width)
    if cells.size == 0:
        return sp.csr_array(shape, dtype=matrix.dtype)
    offsets = np.append(first, key.size)
    values = matrix.data[order]
    row, column = np.divmod(cells, width)
    has_zero = np.diff(offsets) < X.sizes[row]
    low, high = segment_min(values, offsets), segment_max(values, offsets)
    low = np.where(has_zero, np.minimum(low, 0), low)
    high = np.where(has_zero, np.maximum(high, 0), high)
    entries = np.concatenate([low, high])
    where = (np.concatenate([row, row]), np.concatenate([column, column + width]))
    out = sp.csr_array(sp.coo_array((entries, where), shape=shape))
    out.eliminate_zeros()
    return out
