"""Hausdorff distances between bags, and from instances to bags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.bags import Bags
from bagwise.bags.segments import segment_max, segment_sum
from bagwise.kernels._checks import check_gram_memory, check_option, check_pair
from bagwise.kernels._nearest import bags_in
from bagwise.kernels.backends import active

Array = npt.NDArray[Any]

HAUSDORFF_MODES = ("min", "max", "mean")


def hausdorff(X: Any, Y: Any = None, mode: str = "min") -> npt.NDArray[np.float64]:
    r"""Hausdorff distances between bags.

    With :math:`d(a, B) = \min_{b \in B} |a - b|`, the distance of `A` and `B` is

    .. math::
        \min_{a \in A} d(a, B), \qquad
        \max\Bigl(\max_{a \in A} d(a, B), \max_{b \in B} d(b, A)\Bigr), \qquad
        \frac{\sum_{a \in A} d(a, B) + \sum_{b \in B} d(b, A)}{|A| + |B|}

    where `mode` is "min", "max" and "mean", in this order.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays or CSR matrices
        The bags of the rows and of the columns; `Y` is `X` by default.
    mode : {"min", "max", "mean"}, default="min"
        Which distance. "max" is the classical Hausdorff distance, a metric on sets;
        the other two break the triangle inequality.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The distances. A bag has distance zero to itself, exactly.

    Notes
    -----
    Differs from [1]_, which defines "min" and "max": "mean" is the average of
    [2]_, in which the larger bag weighs more.

    Cost: ``O(n_instances_X * n_instances_Y * n_features)`` as matrix products (half of
    it for "min" with `Y` None, twice for "max" and "mean" with `Y` given). Memory: the
    result, one tile of 512 x 512 and, for "max" and "mean", 512 x n_bags.

    References
    ----------
    .. [1] Wang, J. and Zucker, J.-D., "Solving the Multiple-Instance Problem: A Lazy
       Learning Approach", International Conference on Machine Learning, 2000.
    .. [2] Zhang, M.-L. and Zhou, Z.-H., "Multi-instance clustering with applications
       to multi-instance prediction", Applied Intelligence 31, 2009.
       :doi:`10.1007/s10489-007-0111-x`

    Examples
    --------
    >>> from bagwise.kernels import hausdorff
    >>> X = [[[0.0], [1.0]], [[3.0]]]
    >>> hausdorff(X, mode="max")
    array([[0., 3.],
           [3., 0.]])
    """
    check_option("mode", mode, HAUSDORFF_MODES)
    X, Y = check_pair(X, Y)
    X, Y = _in_double(X), None if Y is None else _in_double(Y)
    check_gram_memory(X, Y, 1 if mode == "min" else 2)
    if mode == "min":
        return np.sqrt(active().smallest_squared(X, Y))
    reduce = segment_max if mode == "max" else segment_sum
    there = _directed(X, X if Y is None else Y, reduce)
    back = there.T if Y is None else _directed(Y, X, reduce).T
    if mode == "max":
        return np.maximum(there, back)
    sizes = X.sizes if Y is None else Y.sizes
    return np.asarray((there + back) / (X.sizes[:, None] + sizes[None, :]))


def nearest_in_bags(data: Any, Y: Bags) -> Iterator[tuple[slice, Array]]:
    """Give squared distances of instances to the nearest instance of each bag.

    Blocks of rows of `data` at a time: the slice of the rows, and an array of shape
    (rows, n_bags_Y).
    """
    return active().nearest_blocks(data, Y)


def _in_double(X: Bags) -> Bags:
    """Give sparse rows of single precision the digits that dense ones have."""
    if not X.is_sparse or X.data.dtype == np.float64:
        return X
    return X.with_data(X.data.astype(np.float64))


def _directed(X: Bags, Y: Bags, reduce: Any) -> Array:
    """Reduce d(a, B) over the instances a of each bag of `X`, for each B of `Y`."""
    out = np.zeros((X.n_bags, Y.n_bags))  # distances are not negative: 0 is neutral
    for part, squared in nearest_in_bags(X.data, Y):
        bags, offsets = bags_in(X.offsets, part)
        inside = reduce(np.sqrt(squared), offsets)
        if reduce is segment_max:
            np.maximum(out[bags], inside, out=out[bags])
        else:
            out[bags] += inside
    return out
