"""A bounded grid for box counting: real features become levels 0, 1, .., s."""

from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, StrOptions, _fit_context
from bagwise.bags import Bags
from bagwise.base import BagTransformerMixin, BaseBagEstimator
from bagwise.kernels.box.loops.points import canonical_sets

Array = npt.NDArray[Any]
Levels = npt.NDArray[np.uint16]

STRATEGIES = ("width", "integer", "rank", "quantile")
MAX_LEVEL = 65_535  # levels are 16-bit numbers


class BoxGrid(BagTransformerMixin, BaseBagEstimator):
    r"""Map every feature to the levels of a bounded grid.

    Box counting works on :math:`\mathcal X = \prod_i \{0, \dots, s_i\}` ([1]_, Section
    2). Feature :math:`x_i` becomes the level

    .. math::
        \ell_i(x_i) = \#\{k : e_{ik} \le x_i\} \in \{0, \dots, s_i\}

    where the edges :math:`e_{i1} < \dots < e_{is_i}` come from the training bags and
    depend on `strategy`, and :math:`s_i + 1` is at most `n_levels`. Values outside the
    training range get the first or the last level.

    Parameters
    ----------
    strategy : str or list of str, default="width"
        - "width": `n_levels` intervals of equal width between the smallest and the
          largest training value;
        - "integer": the values themselves, which must be whole numbers;
        - "rank": one level for each distinct training value;
        - "quantile": `n_levels` intervals with about as many training instances each
          (fewer where values repeat).

        A list has one entry per feature.
    n_levels : int or array-like of int of shape (n_features,), default=21
        Number of levels for "width" and "quantile", in all dimensions or in each. The
        other strategies ignore it.

    Attributes
    ----------
    edges_ : list of ndarray
        Lower ends of levels 1, 2, .. of each feature; empty for a constant feature.
    strategies_ : list of str
        The strategy of each feature.
    max_level_ : ndarray of shape (n_features,)
        The highest level :math:`s_i`.
    order_ : ndarray
        Features with more than one level, those that separate instances best first.
    anchors_ : ndarray of shape (n_distinct, n_features)
        Distinct training points, in an order that depends on their values alone;
        random boxes are sampled around them.
    mean_bag_size_ : float
        Mean number of distinct points of a training bag.
    n_features_in_ : int
        Number of features seen in `fit`.

    See Also
    --------
    box_kernel : Counts boxes of this grid.

    Notes
    -----
    Differs from [1]_: the paper does not say how features were made discrete, and calls
    *s* the number of values although its grid has s + 1. Equal width with 10 to 30
    levels, or the integers where the data are integers, work best in our experience;
    two levels are much worse. Cost: ``O(n_instances * n_features * log(n_levels))``,
    and the distinct training points are kept as 16-bit numbers.

    References
    ----------
    .. [1] Tao, Q., Scott, S., Vinodchandran, N. V. and Osugi, T. T., "SVM-based
       generalized multiple-instance learning via approximate box counting", ICML
       2004. :doi:`10.1145/1015330.1015405`

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.kernels import BoxGrid
    >>> bags = [np.array([[0.0, 1.0], [10.0, 3.0]]), np.array([[4.9, 2.0]])]
    >>> grid = BoxGrid(n_levels=5).fit(bags)
    >>> grid.transform([np.array([[-3.0, 2.5], [6.1, 9.0]])])[0]
    array([[0., 3.],
           [3., 4.]])
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "strategy": [StrOptions(set(STRATEGIES)), "array-like"],
        "n_levels": [Interval(Integral, 2, MAX_LEVEL + 1, closed="both"), "array-like"],
    }

    def __init__(self, strategy: Any = "width", *, n_levels: Any = 21) -> None:
        self.strategy = strategy
        self.n_levels = n_levels

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the edges from training bags.

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
        strategies, counts = self._per_feature(X.n_features)
        columns = np.ascontiguousarray(X.data.T)
        self.edges_ = [
            _edges(columns[j], strategies[j], counts[j], j) for j in range(X.n_features)
        ]
        self.max_level_ = np.array([len(e) for e in self.edges_], dtype=np.int64)
        self.strategies_ = list(strategies)
        self._refuse_too_many(strategies)
        levels = self._levels(X.data)
        chosen, _, _ = canonical_sets(levels, np.array([0, len(levels)]))
        self.anchors_ = levels[chosen]
        spread = self.anchors_.std(axis=0) / (self.max_level_ + 1.0)
        order = np.argsort(-spread, kind="stable")
        self.order_ = order[self.max_level_[order] > 0]
        distinct, _, _ = canonical_sets(levels, X.offsets)
        self.mean_bag_size_ = len(distinct) / X.n_bags
        return self

    def _per_feature(self, n_features: int) -> tuple[Any, Array]:
        strategies = self.strategy
        if isinstance(strategies, str):
            strategies = [strategies] * n_features
        if len(strategies) != n_features or not set(strategies) <= set(STRATEGIES):
            raise ValueError(
                f"strategy must be one of {', '.join(STRATEGIES)}, or a list with one "
                f"of them for each of the {n_features} features; got {self.strategy!r}."
            )
        counts = np.asarray(self.n_levels)
        if counts.ndim == 0:
            counts = np.full(n_features, int(counts))
        if (
            counts.shape != (n_features,)
            or counts.dtype.kind not in "iu"
            or counts.min() < 2
            or counts.max() > MAX_LEVEL + 1
        ):
            raise ValueError(
                f"n_levels must be an int from 2 to {MAX_LEVEL + 1}, or one for each "
                f"of the {n_features} features; got {self.n_levels!r}."
            )
        return strategies, counts

    def _refuse_too_many(self, strategies: Any) -> None:
        wrong = np.flatnonzero(self.max_level_ > MAX_LEVEL)
        if wrong.size:
            j = wrong[0]
            raise ValueError(
                f"feature {j} has {self.max_level_[j] + 1} levels with strategy "
                f"{strategies[j]!r}, more than the {MAX_LEVEL + 1} that can be "
                'stored. Use "width" or "quantile" with n_levels.'
            )

    def _levels(self, data: Array) -> Levels:
        """Levels of a dense matrix, 16 bit."""
        columns = np.ascontiguousarray(data.T)
        levels = np.zeros(columns.shape, dtype=np.uint16)
        for j, edges in enumerate(self.edges_):
            if self.strategies_[j] == "integer":
                _refuse_fractions(columns[j], j)
            if len(edges) and self.strategies_[j] == "integer":
                steps = columns[j] - (edges[0] - 1.0)
                levels[j] = np.clip(steps, 0.0, float(len(edges)))
            elif len(edges):
                levels[j] = np.searchsorted(edges, columns[j], side="right")
        return np.ascontiguousarray(levels.T)

    def levels(self, X: Any) -> Levels:
        """Return the levels of all instances as one matrix of 16-bit integers.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_instances, n_features), dtype uint16
            The levels, bag after bag.
        """
        check_is_fitted(self)
        return self._levels(self._check_bags(X, reset=False).data)

    def transform(self, X: Any) -> Bags:
        """Replace features by levels.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Bags
            The same bags with whole numbers from 0 to `max_level_`.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        levels = self._levels(X.data).astype(X.dtype)
        return X.with_data(levels, feature_names=X.feature_names)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features, which stay the same.

        Parameters
        ----------
        input_features : sequence of str, default=None
            Names to take instead of those of the training bags.

        Returns
        -------
        ndarray of str
            The names.
        """
        check_is_fitted(self)
        if input_features is not None:
            return np.asarray(input_features, dtype=object)
        default = [f"x{j}" for j in range(self.n_features_in_)]
        return np.asarray(getattr(self, "feature_names_in_", default), dtype=object)

    def bounds(self, low: npt.ArrayLike, high: npt.ArrayLike) -> Array:
        """Translate boxes of levels into intervals of the original features.

        Parameters
        ----------
        low, high : array-like of int of shape (n_boxes, n_features)
            Corners of the boxes, both included.

        Returns
        -------
        ndarray of shape (n_boxes, n_features, 2)
            A value x lies in the box iff ``lower <= x < upper``. Infinite where the box
            reaches the end of the grid, because values beyond it are clipped.
        """
        check_is_fitted(self)
        low, high = np.atleast_2d(low), np.atleast_2d(high)
        out = np.empty((*low.shape, 2))
        for j, edges in enumerate(self.edges_):
            ends = np.concatenate([[-np.inf], edges, [np.inf]])
            out[:, j, 0] = ends[low[:, j]]
            out[:, j, 1] = ends[high[:, j] + 1]
        return out

    @property
    def log_n_boxes_(self) -> float:
        """Logarithm of the number of boxes of the grid."""
        check_is_fitted(self)
        s = self.max_level_.astype(np.float64)
        return float(np.log((s + 1) * (s + 2) / 2).sum())


def _edges(column: Array, strategy: str, n_levels: int, j: int) -> Array:
    """Lower ends of levels 1, 2, .. of one feature."""
    low, high = float(column.min()), float(column.max())
    if low == high:
        return np.empty(0)
    if strategy == "width":
        steps = np.arange(1, n_levels) / n_levels
        edges = low * (1.0 - steps) + high * steps  # high - low might overflow
    elif strategy == "integer":
        _refuse_fractions(column, j)
        if high - low > MAX_LEVEL:
            raise ValueError(
                f"feature {j} spans {high - low:.0f} whole numbers, more than "
                f'{MAX_LEVEL}. Use "width" with n_levels instead of "integer".'
            )
        return low + np.arange(1.0, high - low + 1.0)
    elif strategy == "rank":
        edges = np.unique(column)[1:]
    else:
        steps = np.arange(1, n_levels) / n_levels
        edges = np.quantile(column, steps)
        if edges[0] <= low:  # a large share of smallest values: they get level 0
            edges = np.append(edges, column[column > low].min())
    edges = np.unique(np.asarray(edges, dtype=np.float64))
    return edges[edges > low]


def _refuse_fractions(column: Array, j: int) -> None:
    broken = column != np.floor(column)
    if broken.any():
        wrong = np.flatnonzero(broken)
        raise ValueError(
            f'the "integer" grid needs whole numbers: feature {j} is '
            f'{column[wrong[0]]!r} in instance {wrong[0]}. Use "width", "rank" or '
            '"quantile".'
        )
