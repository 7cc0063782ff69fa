"""Distances between bags: the earth mover's and Hausdorff distances."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.exceptions import ConvergenceWarning

from bagwise.bags import Bags
from bagwise.bags.segments import segment_max, segment_sum
from bagwise.kernels._checks import check_gram_memory, check_option, check_pair
from bagwise.kernels._loops import transport_costs
from bagwise.kernels._tiles import TILE, bag_groups, bags_in, exact_squared_distances
from bagwise.kernels.backends import active

Array = npt.NDArray[Any]

_MAX_ITER = 1_000_000
# Different sizes up to this one are solved here, larger ones by POT.
_SMALL = 40
_OPTIMAL = 1  # return code of POT's network simplex
_ROWS = 64  # rows of small bags in one distance matrix
_MANY = 2_000_000  # transport problems that take minutes; more take hours


def emd_distances(
    X: Any, Y: Any = None, *, max_instances: int | None = 40, n_jobs: int | None = None
) -> npt.NDArray[np.float64]:
    r"""Earth mover's distances between bags.

    .. math::
        \mathrm{EMD}(A, B) = \min_{F \ge 0} \sum_{a, b} F_{ab} |a - b|
        \quad\text{subject to}\quad
        \sum_b F_{ab} = \tfrac{1}{|A|}, \; \sum_a F_{ab} = \tfrac{1}{|B|}

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays or CSR matrices
        The bags of the rows and of the columns; `Y` is `X` by default.
    max_instances : int or None, default=40
        Larger bags are reduced to this number of instances; None keeps all. The choice
        is random but depends only on the content of the bag: neither on the order of
        its instances nor on the other bags, and it is the same in every call.
    n_jobs : int, default=None
        Processes that share the rows; as in scikit-learn.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The distances, a metric between uniform distributions on the instances.

    Notes
    -----
    Differs from [1]_: the instances themselves, with equal weights, replace clusters
    weighted by their size.

    Cost: one transport problem per pair of bags, half of them when `Y` is None. A
    problem of n x n instances grows like ``n ** 3``, which `max_instances` bounds.
    Solved exactly, by shortest augmenting paths for bags of equal size or of at most 40
    instances (2 microseconds for 10 x 10), by the network simplex of POT for others.

    References
    ----------
    .. [1] Zhang, J., Marszałek, M., Lazebnik, S. and Schmid, C., "Local Features and
       Kernels for Classification of Texture and Object Categories", International
       Journal of Computer Vision 73, 2007. :doi:`10.1007/s11263-006-9794-4`

    Examples
    --------
    >>> from bagwise.kernels import emd_distances
    >>> X = [[[0.0], [1.0]], [[3.0]]]
    >>> emd_distances(X)
    array([[0. , 2.5],
           [2.5, 0. ]])
    """
    X, Y = check_pair(X, Y)
    if max_instances is not None and max_instances < 1:
        raise ValueError(f"max_instances must be at least 1, got {max_instances}.")
    check_gram_memory(X, Y)
    n_problems = len(X) * (len(X) - 1) // 2 if Y is None else len(X) * len(Y)
    reason = many_problems(n_problems)
    if reason is not None:
        warnings.warn(
            f"{reason} Work on fewer bags, or with SlicedWassersteinEmbedding and a "
            "linear SVM, whose cost does not grow with pairs.",
            UserWarning,
            stacklevel=2,
        )
    X = thin_bags(X, max_instances)
    other = X if Y is None else thin_bags(Y, max_instances)
    # The groups do not depend on the number of workers: results are exactly equal.
    groups = list(bag_groups(X.offsets, _ROWS))
    cuts = _row_parts(len(groups), effective_n_jobs(n_jobs), triangle=Y is None)
    parts = [groups[cut.start : cut.stop] for cut in cuts]
    if len(parts) == 1:
        blocks = [_emd_rows(X, other, parts[0], Y is None)]
    else:
        blocks = Parallel(n_jobs=n_jobs)(
            delayed(_emd_rows)(X, other, part, Y is None) for part in parts
        )
    if any(failed for _, failed in blocks):
        warnings.warn(
            "A transport problem did not reach its optimum; lower max_instances.",
            ConvergenceWarning,
            stacklevel=2,
        )
    D = np.concatenate([rows for rows, _ in blocks])
    if Y is None:
        D += D.T  # rows hold the upper triangle
    return D


def emd_kernel(
    X: Any,
    Y: Any = None,
    *,
    gamma: float | str = "mean",
    scale: float = 1.0,
    max_instances: int | None = 40,
    n_jobs: int | None = None,
) -> npt.NDArray[np.float64]:
    r"""Kernel of the earth mover's distance between bags.

    .. math:: k(A, B) = e^{-\gamma\, s\, \mathrm{EMD}(A, B)}

    where :math:`\gamma` is `gamma` and :math:`s` is `scale`.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays or CSR matrices
        The bags of the rows and of the columns; `Y` is `X` by default.
    gamma : "mean" or float, default="mean"
        The width. "mean" is one over the mean distance of two different bags of `Y`
        (of `X` when `Y` is None); this costs all distances inside `Y`.
    scale : float, default=1.0
        Multiplies `gamma`.
    max_instances, n_jobs
        As in `emd_distances`.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix. It is symmetric but not positive semi-definite in general:
        support vector machines can use it, other solvers need its eigenvalues clipped.

    Notes
    -----
    Differs from [1]_: see `emd_distances`. Cost: that of `emd_distances`.

    References
    ----------
    .. [1] Zhang, J., Marszałek, M., Lazebnik, S. and Schmid, C., "Local Features and
       Kernels for Classification of Texture and Object Categories", International
       Journal of Computer Vision 73, 2007. :doi:`10.1007/s11263-006-9794-4`

    Examples
    --------
    >>> from bagwise.kernels import emd_kernel
    >>> X = [[[0.0], [1.0]], [[3.0]]]
    >>> emd_kernel(X, gamma=0.4).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """
    params = {"max_instances": max_instances, "n_jobs": n_jobs}
    if Y is None:
        return fit_emd(X, gamma=gamma, scale=scale, **params)[0]
    if isinstance(gamma, str):
        _check_gamma(gamma)
        gamma = _mean_gamma(emd_distances(Y, **params))
    _check_positive(gamma, scale)
    D = emd_distances(X, Y, **params)
    D *= -gamma * scale
    return np.exp(D, out=D)


def fit_emd(
    X: Any,
    *,
    gamma: float | str = "mean",
    scale: float = 1.0,
    max_instances: int | None = 40,
    n_jobs: int | None = None,
) -> tuple[Array, dict[str, Any]]:
    """Return the kernel matrix of training bags and the width it was made with."""
    _check_gamma(gamma)
    if not isinstance(gamma, str):
        _check_positive(gamma, scale)
    D = emd_distances(X, max_instances=max_instances, n_jobs=n_jobs)
    width = _mean_gamma(D) if isinstance(gamma, str) else float(gamma)
    _check_positive(width, scale)
    D *= -width * scale
    resolved = {
        "gamma": width,
        "scale": scale,
        "max_instances": max_instances,
        "n_jobs": n_jobs,
    }
    return np.exp(D, out=D), resolved


def many_problems(n_problems: int) -> str | None:
    """Describe why there are too many transport problems; None where they are not."""
    if n_problems <= _MANY:
        return None
    return (
        f"{n_problems:,} transport problems, one for each pair of bags, take many "
        f"minutes or hours (more than {_MANY:,} do)."
    )


def thin_bags(X: Bags, max_instances: int | None) -> Bags:
    """Keep at most `max_instances` of each bag, spread evenly along a direction.

    Of a large bag, sorted by one fixed random projection, the middle of each of
    `max_instances` equal parts is kept: an even sample that is a function of the set of
    instances alone, and that rounding hardly changes.
    """
    if max_instances is None or X.sizes.max() <= max_instances:
        return X
    direction = np.random.default_rng(0).normal(size=X.n_features)
    direction = direction.astype(X.dtype)
    keep = []
    for i in range(X.n_bags):
        start, stop = int(X.offsets[i]), int(X.offsets[i + 1])
        rows = np.arange(start, stop)
        if rows.size > max_instances:
            order = np.argsort(X.data[start:stop] @ direction, kind="stable")
            middle = (np.arange(max_instances) + 0.5) * rows.size / max_instances
            rows = rows[order[middle.astype(np.intp)]]
        keep.append(rows)
    sizes = np.minimum(X.sizes, max_instances)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Bags(X.data[np.concatenate(keep)], offsets)


def _emd_rows(
    X: Bags, Y: Bags, groups: list[slice], triangle: bool
) -> tuple[Array, bool]:
    """Distances of some bags of `X` to those of `Y`; right of the diagonal only."""
    above = groups[0].start
    out = np.zeros((groups[-1].stop - above, Y.n_bags))
    failed = False
    k = min(_SMALL, int(max(X.sizes.max(), Y.sizes.max())))
    k = int(np.intersect1d(X.sizes, Y.sizes).max(initial=k))
    memory = np.empty((k, k)), np.empty((k + 6, k), dtype=np.int64), np.empty((4, k))
    for few in groups:
        rows, mine = _stacked(X, few)
        lowest = few.start + 1 if triangle else 0
        for group in bag_groups(Y.offsets[lowest:], TILE):
            start, stop = group.start + lowest, group.stop + lowest
            others, ends = _stacked(Y, slice(start, stop))
            # Bags of Y are the rows, so that the costs of each pair are contiguous.
            costs = np.sqrt(exact_squared_distances(others, rows))
            costs = costs.astype(np.float64, copy=False)
            first = np.zeros(few.stop - few.start, dtype=np.int64)
            if triangle:
                first = np.maximum(np.arange(few.start, few.stop) + 1 - start, 0)
            part = np.zeros((len(first), stop - start))
            transport_costs(costs, ends, mine, first, _SMALL, *memory, part)
            for k, j in np.argwhere(np.isnan(part)):
                M = costs[ends[j] : ends[j + 1], mine[k] : mine[k + 1]]
                part[k, j], bad = _solver()(np.ascontiguousarray(M))
                failed |= bad
            out[few.start - above : few.stop - above, start:stop] = part
    return out, failed


def _stacked(X: Bags, bags: slice) -> tuple[Any, Array]:
    """Return the instances of some bags and where each bag begins among them."""
    ends = X.offsets[bags.start : bags.stop + 1]
    return X.data[ends[0] : ends[-1]], ends - ends[0]


@functools.cache
def _solver() -> Callable[[Array], tuple[float, bool]]:
    # Imported on first use: POT imports every array library it finds, torch included.
    def masses(M: Array) -> Iterator[Array]:
        return (np.full(n, 1.0 / n) for n in M.shape)

    try:  # the compiled solver without the checks of ot.emd2, a private function
        from ot.lp.emd_wrap import emd_c as _emd_c
    except ImportError:
        try:
            import ot
        except ImportError as error:
            raise ImportError(
                f"the earth mover's distance between bags of different size, one above "
                f"{_SMALL} instances, needs POT, which is not installed: "
                "pip install POT."
            ) from error

        return lambda M: (float(ot.emd2(*masses(M), M, numItermax=_MAX_ITER)), False)

    def solve(M: Array) -> tuple[float, bool]:
        result = _emd_c(*masses(M), M, _MAX_ITER, 1)
        return result[1], result[-1] != _OPTIMAL

    return solve


def _row_parts(n_bags: int, n_jobs: int, *, triangle: bool) -> list[range]:
    """Cut the rows for the workers, several parts each when the work is uneven."""
    n_parts = 1 if n_jobs == 1 else min(n_bags, n_jobs * (4 if triangle else 1))
    edges = np.linspace(0, n_bags, n_parts + 1).astype(int)
    pairs = zip(edges[:-1], edges[1:], strict=True)
    return [range(int(a), int(b)) for a, b in pairs if b > a]


def _mean_gamma(D: Array) -> float:
    n = D.shape[0]
    mean = D.sum() / max(1, n * (n - 1))
    return 1.0 / mean if mean > 0 else 1.0


def _check_gamma(gamma: float | str) -> None:
    if isinstance(gamma, str) and gamma != "mean":
        raise ValueError(f"gamma must be 'mean' or a positive number, got {gamma!r}.")


def _check_positive(gamma: float, scale: float) -> None:
    for name, value in (("gamma", gamma), ("scale", scale)):
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a positive number, got {value!r}.")


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
        the other two violate the triangle inequality.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The distances. A bag has distance zero to itself, exactly.

    Notes
    -----
    Differs from [1]_, which defines "min" and "max": "mean" is the average of
    [2]_, in which the larger bag has more weight.

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
