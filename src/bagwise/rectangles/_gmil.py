"""Generalized multi-instance learning: boolean attributes of boxes, and Winnow."""

import warnings
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise._compat import HasMethods, Interval, StrOptions
from bagwise._sizes import check_memory
from bagwise.bags import Bags
from bagwise.base import BinaryBagClassifier
from bagwise.kernels.box.features import (
    AnchorSampler,
    hit_matrix,
    make_grid,
    seed_of,
)
from bagwise.kernels.box.grid import STRATEGIES, BoxGrid
from bagwise.kernels.box.sampling import code_sets
from bagwise.rectangles._loops import count_errors, winnow_pass
from bagwise.solvers.pace import paced

_BLOCK_BYTES = 2**26


class GMIL(BinaryBagClassifier):
    r"""Learn which boxes a positive bag must hit, and which it must not.

    In the generalized model ([1]_, [2]_ Section 3) a bag is positive when at least
    :math:`r` of :math:`k + k'` attributes hold: a point of the bag is near an
    attraction point, or no point is near a repulsion point. Every box :math:`b` of a
    grid gives the attribute :math:`a_b(P) = 1` when it holds a point of the bag
    :math:`P`, and its complement. Winnow learns weights :math:`w_b, \bar w_b` (1 at
    first); a bag is positive iff

    .. math::
        \sum_b w_b\, a_b(P) + \bar w_b\, (1 - a_b(P)) > \theta

    where :math:`\theta` is the number of boxes. On a missed positive bag the weights of
    the attributes that hold are multiplied by :math:`\alpha` (`alpha`), on a false
    alarm they are divided.

    Parameters
    ----------
    grouping : bool, default=True
        Group boxes as in GMIL-2 [3]_: boxes that hold the same cells of training values
        are one box with a multiplicity, and boxes that hit the same training bags share
        one weight. The decisions on training bags are those of GMIL-1
        (``grouping=False``), which keeps every box apart.
    boxes : {"auto", "all", "sampled"}, default="auto"
        "all" uses every box of the grid and refuses grids with more than `max_boxes`.
        "sampled" samples `n_sampled` boxes around training points. "auto" uses all
        boxes if they are at most `max_boxes`, and samples otherwise; see `sampled_`.
    grid : {"width", "integer", "rank", "quantile"}, BoxGrid or None, default=None
        The grid, fitted on the training bags. None: equal width, with as many levels (3
        to 21) as `max_boxes` allows; 11 where boxes are sampled.
    max_boxes : int, default=100_000
        Maximum number of boxes that are enumerated.
    n_sampled : int, default=10_000
        Number of boxes if they are sampled.
    alpha : float, default=1.5
        Factor of the updates.
    max_iter : int, default=200
        Maximum number of passes through the training bags.
    n_iter_no_change : int, default=20
        Passes without a smaller number of training errors after which training ends.
    random_state : int, RandomState instance or None, default=None
        Random seed of the order of the bags and of the sample of boxes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels. With more classes, `estimators_` has one model for each.
    grid_ : BoxGrid
        The fitted grid.
    sampled_ : bool
        Whether boxes were sampled.
    low_, high_ : ndarray of shape (n_boxes, n_features)
        Corners of the boxes in levels; `grid_.bounds` translates them.
    gain_ : ndarray of shape (n_boxes,)
        :math:`w_b - \bar w_b` times the multiplicity: positive for attraction.
    attracting_boxes_, repelling_boxes_ : ndarray of shape (m, n_features, 2)
        The boxes that attract and repel most, at most 20, as intervals of the features:
        ``lower <= x < upper``, infinite at the ends of the grid. One (the smallest) for
        each group of boxes that hit the same training bags.
    attracting_weights_, repelling_weights_ : ndarray of shape (m,)
        Logarithms (base `alpha`) of :math:`w_b / \bar w_b`, and of its inverse.
    n_groups_ : int
        Number of different weights.
    n_iter_ : int
        Number of passes.
    objective_ : int
        Training errors of the weights that were kept, the best after any pass.
    objective_path_ : ndarray of shape (n_iter,)
        Training errors after each pass.

    See Also
    --------
    bagwise.svm.BoxKernelSVC : The same hypotheses in any dimension, by a kernel.

    Notes
    -----
    Differs from [1]_ and [3]_: a tie is negative; the weights with the fewest training
    errors are kept; boxes can be sampled; a box without a training point keeps its
    weight even if a new bag hits it, and the box in the middle of a group of cells
    represents the others on new bags; decision values are logarithms of the sum over
    :math:`\theta`. An instance is scored as a bag of one. Cost: memory of ``n_boxes *
    n_bags`` bytes, time ``O(n_groups * n_bags)`` per pass. The number of boxes is
    :math:`\prod_i \binom{s_i + 2}{2}`: low dimension only.

    References
    ----------
    .. [1] Scott, S., Zhang, J. and Brown, J., "On generalized multiple-instance
       learning", Technical Report UNL-CSE-2003-5, University of Nebraska, 2003.
    .. [2] Tao, Q., Scott, S., Vinodchandran, N. V. and Osugi, T. T., "SVM-based
       generalized multiple-instance learning via approximate box counting", ICML
       2004. :doi:`10.1145/1015330.1015405`
    .. [3] Tao, Q. and Scott, S., "A faster algorithm for generalized multiple-instance
       learning", FLAIRS 2004.

    Examples
    --------
    >>> from bagwise.datasets import make_generalized_bags
    >>> from bagwise.rectangles import GMIL
    >>> X, y = make_generalized_bags(60, random_state=0)
    >>> model = GMIL(random_state=0).fit(X, y)
    >>> model.score(X, y), model.attracting_boxes_.shape[1:]
    (1.0, (2, 2))
    """

    _parameter_constraints: dict = {
        "grouping": ["boolean"],
        "boxes": [StrOptions({"auto", "all", "sampled"})],
        "grid": [StrOptions(set(STRATEGIES)), HasMethods(["fit", "transform"]), None],
        "max_boxes": [Interval(Integral, 1, None, closed="left")],
        "n_sampled": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 1, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        grouping=True,
        *,
        boxes="auto",
        grid=None,
        max_boxes=100_000,
        n_sampled=10_000,
        alpha=1.5,
        max_iter=200,
        n_iter_no_change=20,
        random_state=None,
        pos_label=None,
    ):
        self.grouping = grouping
        self.boxes = boxes
        self.grid = grid
        self.max_boxes = max_boxes
        self.n_sampled = n_sampled
        self.alpha = alpha
        self.max_iter = max_iter
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.pos_label = pos_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "no"
        tags.input_tags.asymmetric = True
        tags.input_tags.respects_standard_assumption = False
        return tags

    def _fit_binary(self, X, t, bag_weight):
        rng = check_random_state(self.random_state)
        self.grid_ = make_grid(self._default_grid(X), X)
        box_set = self._choose_boxes(X, rng)
        check_memory(
            2.0 * len(box_set.low) * X.n_bags,
            f"The attributes of {len(box_set.low)} boxes x {X.n_bags} bags",
            "Lower max_boxes or n_sampled, or take a grid with fewer levels.",
        )
        hits = hit_matrix(self.grid_, X, box_set.low, box_set.high)
        group, patterns = self._groups(hits)
        multiplicity = np.bincount(group, weights=box_set.multiplicity)
        # Boxes without a training point form one more group, which is never hit.
        unseen = max(box_set.total - box_set.multiplicity.sum(), 0.0)
        columns = np.vstack([patterns, np.zeros((1, X.n_bags), dtype=np.uint8)])
        weights = np.append(multiplicity, max(unseen, 1e-300))
        present, absent = self._winnow(
            np.ascontiguousarray(columns.T),
            t,
            weights,
            box_set.total,
            self._order(X),
            rng,
        )
        self._keep(box_set, group, present[:-1], absent[:-1], multiplicity)
        self.base_ = float((absent[:-1] / multiplicity)[group] @ box_set.multiplicity)
        self.base_ += float(absent[-1])
        self.theta_ = float(box_set.total)
        self.n_groups_ = len(multiplicity)
        self._describe(box_set, group, present[:-1], absent[:-1])

    def _default_grid(self, X):
        if self.grid is not None:
            return self.grid
        n_levels = None
        if self.boxes != "sampled":
            varying = int((np.ptp(X.data, axis=0) > 0).sum())
            n_levels = levels_that_fit(max(varying, 1), self.max_boxes)
        return BoxGrid(n_levels=n_levels or 11)

    def _choose_boxes(self, X, rng):
        """All boxes (or cells), or a draw of them."""
        self.sampled_ = self.boxes == "sampled"
        if not self.sampled_:
            top = self.grid_.max_level_
            if self.grouping:
                levels = self.grid_.anchors_
                sides = [cell_intervals(levels[:, j], s) for j, s in enumerate(top)]
            else:
                sides = [intervals(s) for s in top]
            count = count_product(sides)
            if count <= self.max_boxes:
                return product_boxes(sides, float(np.exp(self.grid_.log_n_boxes_)))
            if self.boxes == "all":
                raise ValueError(
                    f"the grid has {count:.3g} boxes, more than max_boxes="
                    f'{self.max_boxes}. Use boxes="sampled", a grid with fewer levels '
                    "(BoxGrid(n_levels=...)), fewer features, or BoxKernelSVC, which "
                    "never lists boxes."
                )
            self.sampled_ = True
        return sampled_boxes(self.grid_, self.n_sampled, rng)

    def _groups(self, hits):
        """Group of each box, and which bags each group hits."""
        if not self.grouping:
            return np.arange(len(hits)), hits
        packed = np.packbits(hits, axis=1)
        _, first, group = np.unique(
            packed, axis=0, return_index=True, return_inverse=True
        )
        return group.ravel(), hits[first]

    def _order(self, X):
        """Order of the bags by content, so that only `random_state` shuffles them."""
        if len(self.grid_.order_) == 0:
            return np.arange(X.n_bags)
        return np.argsort(code_sets(self.grid_, X)[2], kind="stable")

    def _winnow(self, hits, t, weights, theta, order, rng):
        present, absent = weights.copy(), weights.copy()
        best = (len(t) + 1, present, absent)
        path = []
        since = 0
        for _ in paced(range(self.max_iter), "GMIL", "passes"):
            turn = rng.permutation(order)
            winnow_pass(hits, t, turn, present, absent, weights, theta, self.alpha)
            errors = int(count_errors(hits, t, present, absent, theta))
            path.append(errors)
            since += 1
            if errors < best[0]:
                best = (errors, present.copy(), absent.copy())
                since = 0
            if errors == 0 or since >= self.n_iter_no_change:
                break
        else:
            warnings.warn(
                f"GMIL made max_iter={self.max_iter} passes and the training errors "
                f"({best[0]} of {len(t)} bags) may still fall. Raise max_iter.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.n_iter_ = len(path)
        self.objective_ = best[0]
        self.objective_path_ = np.array(path)
        return best[1], best[2]

    def _keep(self, box_set, group, present, absent, multiplicity):
        """Store the boxes whose two weights differ: the others never matter."""
        gain = ((present - absent) / multiplicity)[group] * box_set.multiplicity
        kept = gain != 0.0
        self.low_, self.high_ = box_set.low[kept], box_set.high[kept]
        self.gain_ = gain[kept]

    def _describe(self, box_set, group, present, absent, most=20):
        """Name the boxes with the largest and smallest ratio of weights."""
        ratio = np.log(present / absent) / np.log(self.alpha)
        width = box_set.high.astype(np.float64) - box_set.low
        # the smallest box of a group is the most specific; sort so that it comes first
        by_size = np.lexsort((width.sum(axis=1), group))
        smallest = by_size[np.unique(group[by_size], return_index=True)[1]]
        for sign, name in ((1.0, "attracting"), (-1.0, "repelling")):
            strength = sign * ratio
            top = np.lexsort((width[smallest].sum(axis=1), -strength))[:most]
            top = top[strength[top] > 0.5]
            chosen = smallest[top]
            bounds = self.grid_.bounds(box_set.low[chosen], box_set.high[chosen])
            setattr(self, f"{name}_boxes_", bounds)
            setattr(self, f"{name}_weights_", strength[top])

    def _score_bags(self, X):
        if len(self.gain_) == 0:
            return np.full(X.n_bags, np.log(self.base_ / self.theta_))
        total = np.full(X.n_bags, self.base_)
        step = max(1, _BLOCK_BYTES // (9 * X.n_bags))
        for begin in range(0, len(self.gain_), step):
            part = slice(begin, begin + step)
            hits = hit_matrix(self.grid_, X, self.low_[part], self.high_[part])
            total += self.gain_[part] @ hits
        # The total is a sum of positive weights: clip rounding errors of differences.
        return np.log(np.maximum(total, self.theta_ * 1e-12) / self.theta_)

    def _score_instances(self, X):
        return self._score_bags(Bags(X.data, np.arange(X.n_instances + 1)))


# Boxes --------------------------------------------------------------------------------


class BoxSet(NamedTuple):
    """Boxes by their corners (in levels), and for how many boxes each one stands."""

    low: np.ndarray
    high: np.ndarray
    multiplicity: np.ndarray
    total: float  # number of boxes represented, including unseen ones


def intervals(top):
    """All intervals of the levels 0 to `top`."""
    low, high = np.triu_indices(top + 1)
    return low, high, np.ones(len(low))


def cell_intervals(levels, top):
    """One interval for each set of training levels an interval can hold.

    An interval from the a-th to the b-th occupied level may begin anywhere above the
    level before and end anywhere below the level after: the product of these gaps is
    its multiplicity, and the interval in the middle stands for all. Intervals without
    any occupied level are left out.
    """
    used = np.unique(levels).astype(np.int64)
    before = np.concatenate([[-1], used[:-1]])
    after = np.concatenate([used[1:], [top + 1]])
    a, b = np.triu_indices(len(used))
    gap_low, gap_high = used - before, after - used
    low = (used - (gap_low - 1) // 2)[a]
    high = (used + (gap_high - 1) // 2)[b]
    return low, high, (gap_low[a] * gap_high[b]).astype(np.float64)


def count_product(sides):
    """Number of boxes that a list of intervals per dimension makes, as a float."""
    return float(np.prod([float(len(low)) for low, _, _ in sides]))


def product_boxes(sides, total):
    """All boxes with one interval of the list of each dimension."""
    counts = [len(low) for low, _, _ in sides]
    digits = np.unravel_index(np.arange(int(np.prod(counts))), counts)
    low = np.column_stack([s[0][k] for s, k in zip(sides, digits, strict=True)])
    high = np.column_stack([s[1][k] for s, k in zip(sides, digits, strict=True)])
    weight = np.ones(len(low))
    for side, k in zip(sides, digits, strict=True):
        weight *= side[2][k]
    return BoxSet(low.astype(np.uint16), high.astype(np.uint16), weight, total)


def sampled_boxes(grid, n_boxes, random_state):
    """Distinct boxes drawn around the training points of a grid."""
    if len(grid.order_) == 0:
        top = grid.max_level_[None, :].astype(np.uint16)
        return BoxSet(np.zeros_like(top), top, np.ones(1), 1.0)
    boxes, _ = AnchorSampler(grid, seed_of(random_state)).draw(n_boxes)
    low = np.zeros((n_boxes, len(grid.max_level_)), dtype=np.uint16)
    high = np.tile(grid.max_level_.astype(np.uint16), (n_boxes, 1))
    low[:, grid.order_], high[:, grid.order_] = boxes.low, boxes.high
    corners = np.unique(np.hstack([low, high]), axis=0)
    d = low.shape[1]
    return BoxSet(
        np.ascontiguousarray(corners[:, :d]),
        np.ascontiguousarray(corners[:, d:]),
        np.ones(len(corners)),
        float(len(corners)),
    )


def levels_that_fit(n_features, max_boxes, most=21):
    """Largest number of levels whose boxes are at most `max_boxes`, or None below 3."""
    for n_levels in range(most, 2, -1):
        if n_features * np.log(n_levels * (n_levels + 1) / 2) <= np.log(max_boxes):
            return n_levels
    return None
