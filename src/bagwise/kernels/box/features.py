"""Random boxes: an explicit feature map of the box-counting kernel."""

from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import HasMethods, Interval, StrOptions, _fit_context
from bagwise._sizes import check_memory
from bagwise.bags import Bags
from bagwise.base import BagTransformerMixin, BaseBagEstimator
from bagwise.kernels.box.grid import STRATEGIES, BoxGrid
from bagwise.kernels.box.loops.sampling import (
    draw_boxes,
    pack_levels,
    packed_counts,
    packed_hits,
    plain_counts,
    plain_hits,
    word_offsets,
)
from bagwise.kernels.box.sampling import code_sets

Array = npt.NDArray[Any]

_PACK_BYTES = 2**28  # bit sets above this size are not built


class Boxes(NamedTuple):
    """Boxes in the active dimensions of a grid, both corners included."""

    low: Array
    high: Array


def make_grid(grid: Any, X: Bags) -> BoxGrid:
    """Return a fitted grid: `grid` itself when it is fitted, else one fitted on `X`."""
    if isinstance(grid, str):
        if grid not in STRATEGIES:
            raise ValueError(
                f"unknown grid {grid!r}; known are {', '.join(map(repr, STRATEGIES))}, "
                "or a BoxGrid."
            )
        return BoxGrid(grid).fit(X)
    if grid is None:
        return BoxGrid().fit(X)
    if hasattr(grid, "edges_"):
        return grid
    return clone(grid).fit(X)


def seed_of(random_state: Any) -> np.uint64:
    """64 bits that stand for a random state (None: fresh ones)."""
    high, low = check_random_state(random_state).randint(0, 2**32, 2, dtype=np.uint64)
    return np.uint64((int(high) << 32) | int(low))


class AnchorSampler:
    """Boxes sampled around the training points of a grid.

    A point p is sampled with probability |B(p)| / U, where U is the sum over the
    distinct training points, then a box uniformly from B(p). A box c that holds n(c)
    training points has probability g(c) = n(c) / U, and ``mean(hits both / g(c))`` is
    an unbiased count of the boxes that hit two bags, if one of them was in training.
    With a `share` of boxes that are uniform on all |B| boxes of the grid, g(c) is (1 -
    share) n(c) / U + share / |B|, and the count is unbiased for any two bags.
    """

    def __init__(self, grid: BoxGrid, seed: np.uint64, share: float = 0.0) -> None:
        self.top = grid.max_level_[grid.order_].astype(np.uint16)
        self.points = np.ascontiguousarray(grid.anchors_[:, grid.order_])
        p = self.points.astype(np.float64)
        logs = (np.log(p + 1.0) + np.log(self.top - p + 1.0)).sum(axis=1)
        self.cumulative = np.cumsum(np.exp(logs - logs.max()))
        self.share = share
        self._log_sum = float(logs.max() + np.log(self.cumulative[-1]))
        self._log_all = grid.log_n_boxes_
        # Logarithm of the largest 1 / g(c), which is the unit of values.
        self.log_total = self._log_sum
        if share > 0.0:
            self.log_total = self._log_all - float(np.log(share))
        self.state = seed
        self._hits = HitTester(self.points, np.array([0, len(p)]), self.top)

    def draw(self, n_boxes: int) -> tuple[Boxes, npt.NDArray[np.float64]]:
        """Sample the next boxes of the stream, with their values 1 / g(c) in (0, 1]."""
        low, high, state = draw_boxes(
            self.points, self.cumulative, self.top, self.share, n_boxes, self.state
        )
        self.state = np.uint64(state)  # a plain int would change its compiled type
        counts = self._hits.counts(low, high)
        if self.share == 0.0:
            return Boxes(low, high), 1.0 / counts
        # share / (share + (1 - share) n(c) |B| / U), without overflow of |B| / U
        ratio = np.exp(min(self._log_all - self._log_sum, 700.0))
        odds = (1.0 - self.share) / self.share * counts * ratio
        return Boxes(low, high), 1.0 / (1.0 + odds)


class HitTester:
    """Tests boxes against bags, by bit sets where these are not too large."""

    def __init__(self, rows: Array, offsets: Array, top: Array) -> None:
        self.rows, self.offsets, self.top = rows, offsets, top
        self.words = word_offsets(offsets)
        n_levels = int(top.max()) + 1
        size = 16.0 * rows.shape[1] * n_levels * self.words[-1]
        self.packed = size <= _PACK_BYTES
        if self.packed:
            self.sets = pack_levels(rows, offsets, self.words, n_levels)

    def hits(self, low: Array, high: Array) -> npt.NDArray[np.uint8]:
        """Return the matrix (n_boxes, n_bags) of hits."""
        if self.packed:
            return packed_hits(
                self.sets[0], self.sets[1], self.words, low, high, self.top
            )
        return plain_hits(self.rows, self.offsets, low, high)

    def counts(self, low: Array, high: Array) -> npt.NDArray[np.int64]:
        """Return the number of points in each box."""
        if self.packed:
            return packed_counts(self.sets[0], self.sets[1], low, high, self.top)
        return plain_counts(self.rows, low, high)


class RandomBoxFeatures(BagTransformerMixin, BaseBagEstimator):
    r"""Map bags to random features of the box-counting kernel.

    Boxes :math:`c_1, \dots, c_N` of the grid are sampled with probability :math:`g(c) =
    n(c) / U`, where :math:`n(c)` is the number of distinct training points in the box
    and :math:`U = \sum_p |B(p)|`. The features of a bag :math:`P` are

    .. math::
        \Phi_t(P) = \frac{[c_t \text{ holds a point of } P]}{\sqrt{N\, n(c_t)}},
        \qquad \mathbb E\, \Phi(P) \cdot \Phi(Q) = k_\wedge(P, Q) / U

    where :math:`N` is `n_boxes` and :math:`k_\wedge` is the number of boxes that hit
    both bags ([1]_, Observation 1). A linear classifier on these features scales to
    many bags.

    Parameters
    ----------
    n_boxes : int, default=1000
        Number of boxes, and of features.
    grid : {"width", "integer", "rank", "quantile"}, BoxGrid or None, default=None
        The grid; a `BoxGrid` that is not fitted is cloned and fitted on the training
        bags. None: ``BoxGrid()``.
    random_state : int, RandomState instance or None, default=None
        Random seed of the boxes, which do not depend on the order of bags and
        instances.

    Attributes
    ----------
    grid_ : BoxGrid
        The fitted grid.
    low_, high_ : ndarray of shape (n_boxes, n_features)
        Corners of the boxes, in levels; `grid_.bounds` translates them.
    weights_ : ndarray of shape (n_boxes,)
        Value of each feature when its box is hit.
    log_scale_ : float
        Logarithm of :math:`U`.
    n_features_in_ : int
        Number of features seen in `fit`.

    See Also
    --------
    box_kernel : The kernel itself, pair by pair.

    Notes
    -----
    Differs from [1]_: the paper computes the kernel pair by pair; importance sampling
    of common boxes is an addition made here. It works where typical boxes hit many bags
    (few dimensions, large bags). In many dimensions nearly every box hits a single
    training bag, and the features contain little information. For two bags that were
    both unknown in `fit`, boxes without any training point are missed. Cost:
    ``O(n_boxes * n_features * n_instances / 64)`` word operations.

    References
    ----------
    .. [1] Tao, Q., Scott, S., Vinodchandran, N. V. and Osugi, T. T., "SVM-based
       generalized multiple-instance learning via approximate box counting", ICML
       2004. :doi:`10.1145/1015330.1015405`

    Examples
    --------
    >>> from bagwise.datasets import make_generalized_bags
    >>> from bagwise.kernels import RandomBoxFeatures
    >>> X, y = make_generalized_bags(40, random_state=0)
    >>> RandomBoxFeatures(n_boxes=50, random_state=0).fit_transform(X).shape
    (40, 50)
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "n_boxes": [Interval(Integral, 1, None, closed="left")],
        "grid": [StrOptions(set(STRATEGIES)), HasMethods(["fit", "transform"]), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self, n_boxes: int = 1000, *, grid: Any = None, random_state: Any = None
    ) -> None:
        self.n_boxes = n_boxes
        self.grid = grid
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the grid and sample the boxes.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        X = self._check_bags(X, reset=True)
        self.grid_ = make_grid(self.grid, X)
        seed = seed_of(self.random_state)
        shape = (self.n_boxes, X.n_features)
        self.low_ = np.zeros(shape, dtype=np.uint16)
        self.high_ = np.tile(self.grid_.max_level_.astype(np.uint16), (shape[0], 1))
        self.weights_ = np.full(self.n_boxes, self.n_boxes**-0.5)
        self.log_scale_ = 0.0
        if len(self.grid_.order_):  # otherwise the grid is one point, hit by all bags
            sampler = AnchorSampler(self.grid_, seed)
            boxes, values = sampler.draw(self.n_boxes)
            self.low_[:, self.grid_.order_] = boxes.low
            self.high_[:, self.grid_.order_] = boxes.high
            self.weights_ = np.sqrt(values / self.n_boxes)
            self.log_scale_ = sampler.log_total
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the features of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_boxes)
            One row per bag.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        check_memory(
            9.0 * X.n_bags * len(self.weights_),
            f"The matrix of {X.n_bags} bags x {len(self.weights_)} boxes",
            "Use a smaller n_boxes, or transform the bags in chunks (X.iter_chunks).",
        )
        return hit_matrix(self.grid_, X, self.low_, self.high_).T * self.weights_

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return one name per box.

        Parameters
        ----------
        input_features : sequence of str, default=None
            Not used.

        Returns
        -------
        ndarray of str
            The names.
        """
        check_is_fitted(self)
        return np.array([f"box{t}" for t in range(len(self.weights_))], dtype=object)


def hit_matrix(
    grid: BoxGrid, X: Bags, low: Array, high: Array
) -> npt.NDArray[np.uint8]:
    """Return the matrix (n_boxes, n_bags) of hits, for boxes in all dimensions."""
    order = grid.order_
    if len(order) == 0:
        return np.ones((len(low), X.n_bags), dtype=np.uint8)
    rows, offsets, _ = code_sets(grid, X)
    tester = HitTester(rows, offsets, grid.max_level_[order].astype(np.uint16))
    return tester.hits(
        np.ascontiguousarray(low[:, order]), np.ascontiguousarray(high[:, order])
    )
