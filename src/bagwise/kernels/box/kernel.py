"""The box-counting kernel: how many boxes hold a point of both bags."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import prod
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from bagwise.bags import Bags
from bagwise.kernels._checks import check_gram_memory, check_option, check_pair
from bagwise.kernels.box.features import AnchorSampler, HitTester, make_grid, seed_of
from bagwise.kernels.box.grid import BoxGrid
from bagwise.kernels.box.loops.points import (
    HOW_BOUNDS,
    HOW_BOXES,
    HOW_EXACT,
    HOW_FAILED,
)
from bagwise.kernels.box.loops.points import HOW_SAMPLED as HOW_SAMPLED
from bagwise.kernels.box.loops.sampling import add_common_boxes, add_own_boxes, settle
from bagwise.kernels.box.sampling import (
    PAIR_METHODS,
    STOP_RULES,
    CodedBags,
    PairCounts,
    code_bags,
    count_all,
)

Point = tuple[int, ...]
Box = tuple[Point, Point]


def count_common_boxes(
    P: npt.ArrayLike, Q: npt.ArrayLike, max_level: npt.ArrayLike
) -> int:
    r"""Count the boxes of a grid that hold a point of both sets, exactly.

    With :math:`B(P)` the boxes that hold a point of :math:`P`,

    .. math::
        |B(P \wedge Q)| = |B(P)| + |B(Q)| - |B(P \cup Q)|, \qquad
        |B(P)| = \sum_i N(\{p_i\}, \{p_1, \dots, p_{i-1}\})

    where :math:`N(A, R)`, the number of boxes that contain :math:`A` and no point of
    :math:`R`, is 0 if a point of :math:`R` lies in :math:`A` and otherwise
    :math:`|B(A)| - \sum_i N(\mathrm{bbox}(A, r_i), \{r_1, \dots, r_{i-1}\})`.

    Parameters
    ----------
    P, Q : array-like of int of shape (n_points, n_features)
        Points of the grid, levels from 0 to `max_level`.
    max_level : int or array-like of int of shape (n_features,)
        The highest level of each dimension.

    Returns
    -------
    int
        The count, of any size.

    Notes
    -----
    Differs from [1]_: the paper has no exact algorithm. The count is #P-complete; the
    cost is ``O(2 ** (n_P + n_Q))`` in the worst case, and fine up to about 14 points in
    any dimension, or 30 in at most five. `box_kernel` with ``method="exact"`` does the
    same in floats, without the cancellation of the first formula.

    References
    ----------
    .. [1] Tao, Q., Scott, S., Vinodchandran, N. V. and Osugi, T. T., "SVM-based
       generalized multiple-instance learning via approximate box counting", ICML
       2004. :doi:`10.1145/1015330.1015405`

    Examples
    --------
    >>> from bagwise.kernels.box.kernel import count_common_boxes
    >>> count_common_boxes([[0, 0]], [[1, 0], [1, 1]], max_level=1)
    2
    """
    p, q = _points(P), _points(Q)
    d = len(next(iter(p)))
    top = tuple(int(v) for v in np.broadcast_to(np.asarray(max_level), (d,)))
    for point in p | q:
        if len(point) != d or any(
            not 0 <= v <= s for v, s in zip(point, top, strict=False)
        ):
            raise ValueError(
                f"the point {point} does not lie on the grid of levels 0 to {top}."
            )
    return _union(p, top) + _union(q, top) - _union(p | q, top)


def _points(P: npt.ArrayLike) -> frozenset[Point]:
    array = np.asarray(P)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(
            f"points must be a matrix with at least one row, got shape {array.shape}."
        )
    if not np.array_equal(array, np.floor(array)):
        raise ValueError("points must be whole numbers.")
    return frozenset(tuple(int(v) for v in row) for row in array)


def _union(points: Iterable[Point], top: Point) -> int:
    """|B(P)|: boxes that hold at least one of the points."""
    order = sorted(points)
    avoiding = _avoider(order, top)
    return sum(avoiding((p, p), i) for i, p in enumerate(order))


def _avoider(order: list[Point], top: Point) -> Any:
    """Return N(A, first i points), remembering what it has counted."""

    @cache
    def avoiding(box: Box, i: int) -> int:
        low, high = box
        for r in order[:i]:
            if all(a <= v <= b for a, v, b in zip(low, r, high, strict=True)):
                return 0
        count = prod(
            (a + 1) * (s - b + 1) for a, b, s in zip(low, high, top, strict=True)
        )
        for k in range(i):
            grown = (
                tuple(map(min, low, order[k])),
                tuple(map(max, high, order[k])),
            )
            count -= avoiding(grown, k)
        return count

    return avoiding


Array = npt.NDArray[Any]

# "auto" uses random boxes in very few dimensions, or in few if bags are large.
_VERY_FEW, _FEW, _LARGE_BAGS = 3, 12, 32
_BLOCK, _MAX_BOXES = 1024, 65_536
_ANYWHERE = 0.1  # share of random boxes that need not contain a training point


class BoxCounter:
    """Fills matrices of log counts on one grid, with one precision and seed."""

    def __init__(
        self,
        grid: BoxGrid,
        epsilon: float,
        delta: float,
        stop: str,
        max_samples: int,
        random_state: Any,
        n_jobs: int | None,
    ) -> None:
        self.grid = grid
        self.stop = stop
        self.target = (float(epsilon), float(delta), float(norm.isf(delta / 2)))
        self.max_samples = max_samples
        self.seed = seed_of(random_state)
        self.n_jobs = n_jobs

    def count(self, X: Bags, Y: Bags | None, method: str) -> tuple[Array, ...]:
        """Return log counts, how, draws, errors and capped, as matrices."""
        shape = (X.n_bags, X.n_bags if Y is None else Y.n_bags)
        if len(self.grid.order_) == 0:  # one grid point, one box
            return _new_matrices(shape)
        both = X if Y is None else Bags.concatenate([_plain(X), _plain(Y)])
        coded = code_bags(self.grid, both)
        if self._prefer_boxes(method):
            out, missing = self._common_boxes(coded, shape, Y is None)
            method = "coverage"
        else:
            out, missing = _new_matrices(shape), np.ones(shape, dtype=bool)
        rows, cols = np.nonzero(np.triu(missing) if Y is None else missing)
        shift = 0 if Y is None else X.n_bags
        result = self._pairs(coded, method, rows, cols + shift)
        for matrix, values in zip(out, result, strict=True):
            matrix[rows, cols] = values
            if Y is None:
                matrix[cols, rows] = values
        return out

    def count_self(self, X: Bags, method: str) -> Array:
        """Return the diagonal of the matrix of `X`, bit by bit, without the rest."""
        if len(self.grid.order_) == 0:
            return np.zeros(X.n_bags)
        coded = code_bags(self.grid, X)
        every = np.arange(X.n_bags)
        if not self._prefer_boxes(method):
            return self._pairs(coded, method, every, every).log_counts
        out, missing = self._common_boxes(coded, (X.n_bags, 1), True)
        logs: Array = out[0][:, 0]
        rows = every[missing[:, 0]]
        logs[rows] = self._pairs(coded, "coverage", rows, rows).log_counts
        return logs

    def _prefer_boxes(self, method: str) -> bool:
        # Depends on the grid only: sub-matrices must use the same method.
        d, size = len(self.grid.order_), self.grid.mean_bag_size_
        suited = 1 < d <= _VERY_FEW or (1 < d <= _FEW and size >= _LARGE_BAGS)
        return method == "random_boxes" or (method == "auto" and suited)

    def _pairs(
        self, coded: CodedBags, method: str, left: Array, right: Array
    ) -> PairCounts:
        """Count the boxes of pairs of bags, each pair for itself."""
        return count_all(
            coded,
            left,
            right,
            method=method,
            stop=self.stop,
            target=self.target,
            max_samples=self.max_samples,
            seed=self.seed,
            n_jobs=self.n_jobs,
        )

    def _common_boxes(
        self, coded: CodedBags, shape: tuple[int, int], symmetric: bool
    ) -> tuple[tuple[Array, ...], Array]:
        """Estimate all entries from common boxes; which ones stay open is returned.

        A symmetric matrix of one column stands for the diagonal.
        """
        sampler = AnchorSampler(self.grid, self.seed, _ANYWHERE)
        tester = HitTester(coded.rows, coded.offsets, coded.top)
        totals, squares = np.zeros(shape), np.zeros(shape)
        means, errors = np.ones(shape), np.zeros(shape)
        draws = np.zeros(shape, dtype=np.int64)
        rule = STOP_RULES[self.stop]
        limit = min(_MAX_BOXES, self.max_samples)
        n, check, look, still_open = 0, 0, _BLOCK, 1
        while still_open and n < limit:
            boxes, values = sampler.draw(_BLOCK)
            hits = tester.hits(boxes.low, boxes.high)
            left = np.ascontiguousarray(hits[:, : shape[0]])
            right = left if symmetric else np.ascontiguousarray(hits[:, shape[0] :])
            if symmetric and shape[1] == 1 < shape[0]:
                add_own_boxes(left, values, totals, squares)
            else:
                add_common_boxes(left, right, values, totals, squares)
            n += _BLOCK
            if n >= look:
                check += 1
                look = 2 * n
                still_open = settle(
                    totals, squares, n, check, rule, self.target, means, errors, draws
                )
        done = draws > 0
        out = (
            sampler.log_total + np.log(means),
            np.full(shape, HOW_BOXES, dtype=np.int8),
            draws,
            errors,
            np.zeros(shape, dtype=bool),
        )
        return out, ~done


def _new_matrices(shape: tuple[int, int]) -> tuple[Array, ...]:
    """Matrices for a grid of one point: the count is 1 everywhere, exactly."""
    return (
        np.zeros(shape),
        np.full(shape, HOW_EXACT, dtype=np.int8),
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape),
        np.zeros(shape, dtype=bool),
    )


def _plain(X: Bags) -> Bags:
    """Bags without names, so that two sets of them can be joined."""
    return Bags(X.data, X.offsets)


METHODS = (*PAIR_METHODS, "random_boxes")
_HOW = {HOW_EXACT: "exact", HOW_BOUNDS: "bounds", HOW_SAMPLED: "sampled"}
_HOW[HOW_BOXES] = "random_boxes"


@dataclass(frozen=True)
class BoxKernelReport:
    """How the entries of a box-counting kernel matrix were obtained.

    Parameters
    ----------
    grid : BoxGrid
        The fitted grid, to be passed on for further bags.
    method : str
        The method asked for.
    how : ndarray of str of shape (n_bags_X, n_bags_Y)
        "exact", "bounds" (the bounds agreed within epsilon: nothing was drawn),
        "sampled" (pair by pair) or "random_boxes".
    n_samples : ndarray of int of shape (n_bags_X, n_bags_Y)
        Boxes drawn for each entry.
    relative_error : ndarray of shape (n_bags_X, n_bags_Y)
        Estimated relative standard error of sampled entries, half the distance of the
        bounds for "bounds", 0 for "exact", NaN where the method has no estimate.
    n_capped : int
        Pairs that came to the sample cap before the stopping rule was satisfied: the
        (epsilon, delta) promise does not hold for them.
    guaranteed : bool
        Whether the relative error of every single entry is proven to be at most epsilon
        with probability at least 1 - delta.
    """

    grid: BoxGrid
    method: str
    how: Array
    n_samples: Array
    relative_error: Array
    n_capped: int
    guaranteed: bool

    def counts(self) -> dict[str, int]:
        """Return the number of entries obtained in each way."""
        names, numbers = np.unique(self.how, return_counts=True)
        return dict(zip(names.tolist(), numbers.tolist(), strict=True))

    def __str__(self) -> str:
        """Return the report in one line."""
        parts = ", ".join(f"{n} {name}" for name, n in self.counts().items())
        capped = f"; {self.n_capped} pairs at the sample cap" if self.n_capped else ""
        return f"box kernel ({self.method}): {parts}{capped}"


def box_kernel(
    X: Any,
    Y: Any = None,
    *,
    grid: Any = "width",
    epsilon: float = 0.1,
    delta: float = 0.01,
    method: str = "auto",
    stop: str = "clt",
    max_samples: int = 1_000_000,
    random_state: Any = 0,
    n_jobs: int | None = None,
    return_report: bool = False,
) -> Any:
    r"""Logarithms of the box-counting kernel.

    Bags are sets of points of a bounded grid. The kernel is the number of axis-parallel
    boxes of the grid that hold a point of both ([1]_, Observation 1),

    .. math::
        k_\wedge(P, Q) = |B(P \wedge Q)|
        = \Big| \bigcup_{p \in P,\, q \in Q} B(p \wedge q) \Big|, \qquad
        |B(p \wedge q)| = \prod_i (\min(p_i, q_i) + 1)(s_i - \max(p_i, q_i) + 1)

    where :math:`s_i` is the highest level of dimension :math:`i` in `grid`. Counting it
    is #P-complete ([1]_, Theorem 2); it is estimated within a relative error
    :math:`\varepsilon` (`epsilon`) with probability :math:`1 - \delta` (`delta`) for
    each entry.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays
        The bags of the rows and of the columns; `Y` is `X` by default.
    grid : {"width", "integer", "rank", "quantile"} or BoxGrid, default="width"
        A name or an unfitted `BoxGrid` is fitted on the reference bags: `Y` if it is
        given, else `X`. Pass a fitted grid to compare matrices.
    epsilon, delta : float in (0, 1), default=0.1, 0.01
        Required precision.
    method : str, default="auto"
        - "exact": inclusion and exclusion over bounding boxes; small bags only.
        - "coverage": sample a box from the union with multiplicity, average 1 / (number
          of point pairs it holds).
        - "indicator": as [1]_, average the indicator that the sampled pair is the first
          that the box contains. Never more precise than "coverage".
        - "self_adjusting": the self-adjusting coverage algorithm of [2]_; `stop` is
          not used. Guaranteed, and slow.
        - "random_boxes": common boxes for all pairs, most of them around the points the
          grid was fitted on, the others anywhere; pairs that stay imprecise are then
          sampled by "coverage".
        - "auto": random boxes in at most 3 dimensions, and for large bags (32 distinct
          points on average) in at most 12; else for each pair the middle of lower and
          upper bound when these agree within `epsilon`, an exact count when it is
          small, and "coverage".
    stop : {"clt", "bernstein"}, default="clt"
        When the sampling for an entry ends. "bernstein" uses an empirical Bernstein
        bound and has the (epsilon, delta) guarantee. "clt" uses a normal approximation
        and has *no guarantee*: it needs several times fewer samples, and the error
        exceeds epsilon in about delta to 2 delta of the entries in practice.
    max_samples : int, default=1_000_000
        Maximum number of boxes sampled for one pair. A pair that reaches it has no
        guarantee, which is reported by a warning.
    random_state : int, RandomState instance or None, default=0
        Seed of all random streams. Every pair of bags has its own stream, seeded by the
        content of both.
    n_jobs : int, default=None
        Processes that share the pairs; as in scikit-learn.
    return_report : bool, default=False
        Return a `BoxKernelReport` as well, which says how each entry was obtained.

    Returns
    -------
    log_counts : ndarray of shape (n_bags_X, n_bags_Y)
        Natural logarithms of the counts, which may exceed the range of floats.
    report : BoxKernelReport
        Only when `return_report`.

    Notes
    -----
    Differs from [1]_: bags are sets (multisets only inflate the sum of the sizes);
    1 / coverage replaces the indicator; pairs of points that together hold less than
    epsilon / 100 of the largest pair are excluded and accounted for; k(P, P) uses the
    sets B(p) instead of all pairs.
    With the same fitted `grid` and an int `random_state`, an entry is bitwise the same
    whatever `n_jobs`, the other bags, the order of bags, the order of instances,
    duplicates, and which of the two bags comes first. An estimated matrix need not be
    positive semi-definite.
    Cost of a pair: ``O(n_P * n_Q * n_features)`` for the sizes of the sets, plus
    ``O((n_P + n_Q) * n_features)`` per draw.

    References
    ----------
    .. [1] Tao, Q., Scott, S., Vinodchandran, N. V. and Osugi, T. T., "SVM-based
       generalized multiple-instance learning via approximate box counting", ICML
       2004. :doi:`10.1145/1015330.1015405`
    .. [2] Karp, R. M., Luby, M. and Madras, N., "Monte-Carlo approximation algorithms
       for enumeration problems", Journal of Algorithms 10, 1989, pp. 429-448.
       :doi:`10.1016/0196-6774(89)90038-2`

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.kernels import box_kernel
    >>> bags = [np.array([[0.0], [2.0]]), np.array([[1.0]])]
    >>> np.exp(box_kernel(bags, grid="integer")).round()
    array([[5., 3.],
           [3., 4.]])
    """
    _check_settings(epsilon, delta, method, stop, max_samples)
    X, Y = check_pair(X, Y)
    check_gram_memory(X, Y, 4)
    fitted = make_grid(grid, X if Y is None else Y)
    counter = BoxCounter(
        fitted, epsilon, delta, stop, max_samples, random_state, n_jobs
    )
    logs, how, draws, errors, capped = counter.count(X, Y, method)
    if method == "exact" and (how == HOW_FAILED).any():
        i, j = np.argwhere(how == HOW_FAILED)[0]
        raise ValueError(
            f"the boxes of bags {i} and {j} are too many to count exactly "
            f"({X.sizes[i]} and {(X if Y is None else Y).sizes[j]} instances). Use "
            'method="coverage" or "auto".'
        )
    n_capped = int(capped.sum())
    if n_capped:
        warnings.warn(
            f"{n_capped} entries reached max_samples={max_samples} boxes before the "
            f"precision epsilon={epsilon}: the (epsilon, delta) guarantee does not "
            "hold for them. Raise max_samples or epsilon.",
            ConvergenceWarning,
            stacklevel=2,
        )
    if not return_report:
        return logs
    proven = stop == "bernstein" or method in ("self_adjusting", "exact")
    proven = proven or bool(np.isin(how, (HOW_EXACT, HOW_BOUNDS)).all())
    names = np.array([_HOW.get(k, "") for k in range(5)])[how]
    report = BoxKernelReport(
        fitted, method, names, draws, errors, n_capped, proven and not n_capped
    )
    return logs, report


def _check_settings(
    epsilon: float, delta: float, method: str, stop: str, max_samples: int
) -> None:
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if not isinstance(value, Real) or not 0 < value < 1:
            raise ValueError(
                f"{name} must lie in the open interval (0, 1), got {value!r}."
            )
    check_option("method", method, METHODS)
    check_option("stop", stop, tuple(STOP_RULES))
    if max_samples < 1:
        raise ValueError(f"max_samples must be at least 1, got {max_samples!r}.")


def raw_box_kernel(
    X: Any,
    Y: Any = None,
    *,
    grid: Any = "width",
    log_scale: float | None = None,
    **params: Any,
) -> npt.NDArray[np.float64]:
    """Box counts themselves, in units of the largest count of a reference bag.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays
        The bags of the rows and of the columns; `Y` is `X` by default.
    grid : {"width", "integer", "rank", "quantile"} or BoxGrid, default="width"
        As in `box_kernel`.
    log_scale : float, default=None
        Logarithm of the unit; by default the largest log count of a reference bag
        (of `Y`, or of `X` without one) with itself, so that no entry exceeds 1 by more
        than its error.
    **params
        Further parameters of `box_kernel`.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix.

    Notes
    -----
    Differs from `box_kernel`: no logarithm. In many dimensions the diagonal exceeds
    everything else by many orders of magnitude, a matrix no support vector machine
    learns from; this is a warning. `BoxKernelSVC` takes a power of the counts instead.
    """
    X, Y = check_pair(X, Y)
    reference = X if Y is None else Y
    fitted = make_grid(grid, reference)
    logs = box_kernel(X, Y, grid=fitted, **params)
    if log_scale is None and Y is None:
        log_scale = float(np.diag(logs).max())
    elif log_scale is None:
        log_scale = float(log_self_counts(Y, grid=fitted, **params).max())
    if Y is None:
        _warn_dominant(logs)
    return np.asarray(np.exp(logs - log_scale))


def resolve_box(X: Bags, *, grid: Any = "width", **params: Any) -> dict[str, Any]:
    """Fix what the raw kernel remembers of training bags: the grid and the unit."""
    fitted = make_grid(grid, X)
    if params.get("log_scale") is None:
        rest = {k: v for k, v in params.items() if k != "log_scale"}
        scale = float(log_self_counts(X, grid=fitted, **rest).max())
        params = {**params, "log_scale": scale}
    return {**params, "grid": fitted}


def log_self_counts(
    X: Bags,
    *,
    grid: BoxGrid,
    epsilon: float = 0.1,
    delta: float = 0.01,
    method: str = "auto",
    stop: str = "clt",
    max_samples: int = 1_000_000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Array:
    """Return the log count of each bag with itself: the diagonal of `box_kernel`."""
    _check_settings(epsilon, delta, method, stop, max_samples)
    counter = BoxCounter(grid, epsilon, delta, stop, max_samples, random_state, n_jobs)
    return counter.count_self(X, method)


def _warn_dominant(logs: Array) -> None:
    """Warn when typical bags are far less similar to each other than to themselves."""
    if len(logs) < 3:
        return
    half = np.diag(logs) / 2.0
    normed = logs - half[:, None] - half[None, :]
    off = normed[~np.eye(len(logs), dtype=bool)]
    typical = -float(np.median(off))
    if typical > np.log(1e3):
        warnings.warn(
            "the diagonal of the box-counting kernel dominates: two bags typically "
            f"share 1e{-typical / np.log(10):.0f} of the boxes of one. A support "
            "vector machine learns nothing from such a matrix; use "
            "bagwise.svm.BoxKernelSVC, or a coarser grid.",
            UserWarning,
            stacklevel=3,
        )
