"""The box-counting kernel: how many boxes hold a point of both bags."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from bagwise.bags import Bags
from bagwise.kernels._checks import check_gram_memory, check_option, check_pair
from bagwise.kernels.box._counter import BoxCounter
from bagwise.kernels.box.features import make_grid
from bagwise.kernels.box.grid import BoxGrid
from bagwise.kernels.box.loops.screen import (
    HOW_BOUNDS,
    HOW_BOXES,
    HOW_EXACT,
    HOW_FAILED,
)
from bagwise.kernels.box.loops.screen import HOW_SAMPLED as HOW_SAMPLED
from bagwise.kernels.box.sampling import PAIR_METHODS, STOP_RULES

Array = npt.NDArray[Any]

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
        """Say it in one line."""
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
        The precision asked for.
    method : str, default="auto"
        - "exact": inclusion and exclusion over bounding boxes; small bags only.
        - "coverage": draw a box from the union with multiplicity, average 1 / (number
          of point pairs it holds).
        - "indicator": as [1]_, average the indicator that the drawn pair is the first
          that the box holds. Never more precise than "coverage".
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
        When the draws for an entry are enough. "bernstein" uses an empirical Bernstein
        bound and carries the (epsilon, delta) guarantee. "clt" trusts a normal interval
        and *promises nothing*: it needs several times fewer draws and misses epsilon
        in about delta to 2 delta of the entries in practice.
    max_samples : int, default=1_000_000
        Most boxes drawn for one pair. A pair that gets there has no guarantee: this is
        a warning.
    random_state : int, RandomState instance or None, default=0
        Seed of all streams. Every pair of bags has a stream of its own, seeded by the
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
    epsilon / 100 of the largest pair are left out and accounted for; k(P, P) uses the
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
            f"{n_capped} entries came to max_samples={max_samples} boxes before they "
            f"were precise to epsilon={epsilon}: the (epsilon, delta) guarantee is "
            "void for them. Raise max_samples or epsilon.",
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
