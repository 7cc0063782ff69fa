"""Axis-parallel rectangles that hold an instance of every positive bag."""

from numbers import Real

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from bagwise._compat import Interval, StrOptions
from bagwise.bags import Bags
from bagwise.bags.segments import segment_max, segment_min
from bagwise.base import BinaryBagClassifier
from bagwise.base.thresholds import best_threshold
from bagwise.kernels.box.loops.points import canonical_sets
from bagwise.rectangles._loops import cover, eliminate, grow


class IAPR(BinaryBagClassifier):
    r"""Axis-parallel rectangles: a bag is positive iff an instance lies in a box.

    The hypothesis is a box over chosen features :math:`F` ([1]_),

    .. math::
        y(B) = \Big[\, \exists x \in B : l_f \le x_f \le u_f \text{ for all } f \in F
        \,\Big]

    where :math:`l` is `lower_`, :math:`u` is `upper_` and :math:`F` is `features_`.

    Parameters
    ----------
    method : {"iapr", "gfs", "all"}, default="iapr"
        - "all": the bounding box of all positive instances.
        - "gfs": from that box, move one side at a time past a negative instance, always
          the side that costs fewest positive instances, until none is inside.
        - "iapr": iterated discrimination. *Grow* the smallest box with an instance of
          every positive bag, choose the features that *discriminate* negative
          instances from it, repeat on these features until they stay the same; then
          *expand* the box by a kernel density estimate.
    margin : float or "auto", default="auto"
        A feature discriminates a negative instance strongly if the instance is outside
        of the box by at least this distance. "auto" is the mean standard deviation of
        the features. The paper has 1 Angstrom, 100 in the units of the Musk data.
    tau : float in (0, 1), default=0.999
        Width of the density kernels: one at the center of the box has this mass inside.
    epsilon : float in (0, 1), default=0.01
        Mass of the density that may lie outside of the box, half on each side.
    threshold : {"train", "zero", "cv"}, default="train"
        Decision threshold. "zero" is the box itself; "train" widens or narrows it
        in proportion, to the best accuracy on the training bags; "cv" does so on
        out-of-fold scores.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels. With more classes, `estimators_` has one model for each.
    lower_, upper_ : ndarray of shape (n_features,)
        The box; infinite for features that do not matter.
    features_ : ndarray
        Positions of the features of the box.
    grown_lower_, grown_upper_ : ndarray of shape (n_features,)
        The box before its expansion (`method` "iapr").
    chosen_ : ndarray of shape (n_positive_bags, n_features)
        The instances that define the last grown box (`method` "iapr").
    n_iter_ : int
        Rounds of growing and discriminating, or steps of elimination.

    Notes
    -----
    Differs from [1]_: `threshold` adjusts the size of the box, which has little effect
    on Musk and helps if the smallest box is too small; ends of the expanded box are
    found by root finding instead of small steps; `margin` follows the spread of the
    data; negative instances inside the grown box on every feature cannot be
    discriminated and are ignored. Features are used as they are: scaling changes the
    size of boxes, and so the result. The box is meant to be small in all columns: the
    method assumes that the key instances of the positive bags are close to one another,
    as conformers of Musk are. If only some columns matter, the grown box depends on the
    other columns as well, and instances are outside of it by chance. On simulated bags
    whose key instances are shifted along one column, the accuracy was about 0.5 with 4
    to 100 columns; other methods had 0.74 to 0.86. Choose the columns first, or use
    another method. Scores are minus the largest violation, relative to half the width
    of the box: a score above 0 is inside, 1 is the center. Cost: ``O(n_positive_bags *
    n_instances * n_features)`` to grow a box; backfitting repeats parts of it, and up
    to ``n_instances ** 2`` was measured in large bags.

    References
    ----------
    .. [1] Dietterich, T. G., Lathrop, R. H. and Lozano-Perez, T., "Solving the
       multiple-instance problem with axis-parallel rectangles", Artificial
       Intelligence 89, 1997, pp. 31-71. :doi:`10.1016/S0004-3702(96)00034-3`

    Examples
    --------
    >>> from bagwise.rectangles import IAPR
    >>> X = [[[0.0], [5.0]], [[5.2], [9.0]], [[0.1], [9.1]], [[1.0]]]
    >>> model = IAPR(margin=0.5, threshold="zero").fit(X, [1, 1, 0, 0])
    >>> model.grown_lower_, model.grown_upper_
    (array([5.]), array([5.2]))
    >>> model.predict([[[5.1]], [[4.0], [7.0]]])
    array([1, 0])
    """

    # As in the papers. A sigmoid is worse here, because scores have a long lower tail.
    _find_threshold = staticmethod(best_threshold)

    _parameter_constraints: dict = {
        "method": [StrOptions({"all", "gfs", "iapr"})],
        "margin": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "tau": [Interval(Real, 0, 1, closed="neither")],
        "epsilon": [Interval(Real, 0, 1, closed="neither")],
        "threshold": [StrOptions({"zero", "train", "cv"})],
    }

    def __init__(
        self,
        method="iapr",
        *,
        margin="auto",
        tau=0.999,
        epsilon=0.01,
        threshold="train",
        pos_label=None,
    ):
        self.method = method
        self.margin = margin
        self.tau = tau
        self.epsilon = epsilon
        self.threshold = threshold
        self.pos_label = pos_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Bags are sets, with two exceptions: "gfs" counts the instances it loses, and
        # the automatic margin and the density depend on how often an instance occurs.
        tags.input_tags.duplicate_invariant = self.method == "all" or None
        tags.input_tags.asymmetric = True
        return tags

    def _fit_binary(self, X, t, bag_weight):
        # No negative zeros: equal values have equal bits.
        data = X.data.astype(np.float64) + 0.0
        X = Bags(data, X.offsets)
        self.scale_ = np.where(np.ptp(data, axis=0) > 0, data.std(axis=0), 1.0)
        self.scale_ = np.where(self.scale_ > 0, self.scale_, 1.0)
        positive, negative = X[t > 0], X[t < 0]
        self.features_ = np.arange(X.n_features)
        self.lower_, self.upper_ = _bounding_box(positive.data)
        self.n_iter_ = 1
        if self.method == "gfs":
            self.n_iter_ = int(
                eliminate(positive.data, negative.data, self.lower_, self.upper_)
            )
        elif self.method == "iapr":
            self._iterate(positive, negative.data)

    def _iterate(self, positive, negative):
        """Grow and discriminate until the features stay the same, then expand."""
        margin = self.margin
        if margin == "auto":
            margin = float(self.scale_.mean())
        ordered = _canonical(positive)
        features = np.arange(positive.n_features)
        self.n_iter_ = 0
        while True:
            self.n_iter_ += 1
            part = np.ascontiguousarray(ordered.data[:, features])
            chosen, low, high = grow(
                part, ordered.offsets, _start(part, ordered.offsets), True
            )
            outside = np.maximum(
                low - negative[:, features], negative[:, features] - high
            )
            kept = cover(np.maximum(outside, 0.0), margin)
            if kept.all() or not kept.any():
                break
            features = features[kept]
        self.features_ = features
        self.chosen_ = ordered.data[chosen]
        self.grown_lower_ = np.full(positive.n_features, -np.inf)
        self.grown_upper_ = -self.grown_lower_
        self.grown_lower_[features], self.grown_upper_[features] = low, high
        self.lower_, self.upper_ = self.grown_lower_.copy(), self.grown_upper_.copy()
        self._expand(positive.data)

    def _expand(self, data):
        """Move each side until the density beyond it is epsilon / 2."""
        F = self.features_
        low, high = self.grown_lower_[F], self.grown_upper_[F]
        inside = ((data[:, F] >= low) & (data[:, F] <= high)).all(axis=1)
        quantile = norm.ppf((1.0 + self.tau) / 2.0)
        for f in F:
            lo, hi = self.grown_lower_[f], self.grown_upper_[f]
            width = (hi - lo) / 2.0 / quantile
            if not width > 0.0:
                continue
            x = data[inside, f]
            self.upper_[f] = hi + width * _reach((x - hi) / width, self.epsilon / 2.0)
            self.lower_[f] = lo - width * _reach((lo - x) / width, self.epsilon / 2.0)

    def _score_instances(self, X):
        F = self.features_
        low, high = self.lower_[F], self.upper_[F]
        half = (high - low) / 2.0
        half = np.where(half > 0.0, half, self.scale_[F])
        x = X.data[:, F]
        violation = (np.maximum(low - x, x - high) / half).max(axis=1)
        # The box is closed: a point on its surface is inside and scores above 0.
        return np.where(violation <= 0.0, 1e-12 - violation, -violation)


def _bounding_box(data):
    return data.min(axis=0), data.max(axis=0)


def _canonical(X):
    """Distinct instances of each bag and the bags in an order of their content alone.

    The greedy search breaks ties by position; this makes positions a property of the
    data.
    """
    rows, offsets, keys = canonical_sets(X.data.view(np.uint64), X.offsets)
    distinct = Bags(X.data[rows], offsets)
    return distinct[np.argsort(keys, kind="stable")]


def _start(data, offsets):
    """Instance nearest to the center of the minimax box.

    That box reaches from the smallest of the bags' maxima to the largest of their
    minima: it touches every bag in every single feature.
    """
    low = segment_max(data, offsets).min(axis=0)
    high = segment_min(data, offsets).max(axis=0)
    return int(((data - (low + high) / 2.0) ** 2).sum(axis=1).argmin())


def _reach(z, mass):
    """How far (in kernel widths) an end moves out until `mass` lies beyond; at least 0.

    `z` are the centers of the kernels relative to the end, all of them at most 0.
    """

    def beyond(step):
        return norm.sf(step - z).mean() - mass

    if beyond(0.0) <= 0.0:
        return 0.0
    return brentq(beyond, 0.0, norm.isf(mass / 2.0) + 1.0, xtol=1e-12)
