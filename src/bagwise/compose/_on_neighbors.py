"""OnNeighbors: statistics of the neighbors of each instance as further columns."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, StrOptions, _fit_context
from bagwise._sizes import check_memory
from bagwise.bags.neighbors import neighbor_pairs
from bagwise.base import BagTransformerMixin, BaseBagEstimator

# Feature values of neighbors that are held in memory at once.
_VALUES = 2**22

AGGREGATES = ("mean", "min", "max", "std")


class OnNeighbors(BagTransformerMixin, BaseBagEstimator):
    r"""Append statistics of the neighbors of each instance to its features.

    The neighbors N(j) of an instance are the `k` nearest others of its bag, by the
    Euclidean distance of their coordinates (``Bags.coords``), or by their order if the
    bags have none; with `radius`, those within this distance. An instance becomes

    .. math:: \bigl(x_j, \; \tfrac{1}{|N(j)|} \sum_{i \in N(j)} x_i\bigr)

    with ``aggregate="mean"``. Any method that follows can use the neighborhood of an
    instance.

    Parameters
    ----------
    k : int or None, default=8
        Maximum number of neighbors of an instance. None takes all within `radius`,
        which is then required.
    radius : float or None, default=None
        Maximum distance of a neighbor, in the units of the coordinates (positions for
        an order). None has no limit.
    aggregate : {"mean", "min", "max", "std"} or tuple of them, default="mean"
        The statistics of each feature over the neighbors, in this order. Without a
        neighbor they are the features of the instance, and zero for "std".

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    uses_coords_ : bool
        Whether the bags had coordinates.

    See Also
    --------
    bagwise.neural.NeuralBagClassifier : Its `smoothness` smooths attention over
        neighbors.

    Notes
    -----
    Bags keep their ids, groups and coordinates. The transformation of a bag depends on
    no other bag, so that nothing is learned from the training bags. Standardize
    features before the method that follows, not here. Costs O(n log n + n k d) time
    for n instances of d features, and memory for the new columns and for a block of
    neighbors; neighbors are found bag by bag with a k-d tree.

    Examples
    --------
    >>> from bagwise.compose import OnNeighbors
    >>> bags = [[[0.0], [1.0], [5.0]]]  # no coordinates: the order counts
    >>> OnNeighbors(radius=1).fit_transform(bags)[0]
    array([[0. , 1. ],
           [1. , 2.5],
           [5. , 1. ]])
    """

    _parameter_constraints: dict = {
        "k": [Interval(Integral, 1, None, closed="left"), None],
        "radius": [Interval(Real, 0, None, closed="neither"), None],
        "aggregate": [StrOptions(set(AGGREGATES)), tuple, list],
    }

    def __init__(self, k=8, radius=None, *, aggregate="mean"):
        self.k = k
        self.radius = radius
        self.aggregate = aggregate

    def _names(self):
        """Return the names of the statistics, or raise an error."""
        one = isinstance(self.aggregate, str)
        names = (self.aggregate,) if one else tuple(self.aggregate)
        unknown = [name for name in names if name not in AGGREGATES]
        if unknown or not names or len(set(names)) < len(names):
            raise ValueError(
                f"aggregate={self.aggregate!r} must name one or more different "
                f"statistics of {', '.join(AGGREGATES)}."
            )
        return names

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Check the parameters and the number of features; nothing is learned.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        if self.k is None and self.radius is None:
            raise ValueError("k=None needs a radius: give k, radius, or both.")
        self._names()
        X = self._check_bags(X, reset=True)
        self.uses_coords_ = X.coords is not None
        self.k_, self.radius_ = self.k, self.radius
        self.aggregates_ = list(self._names())
        return self

    def transform(self, X):
        """Append the statistics of the neighbors.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags, with coordinates if those of `fit` had them.

        Returns
        -------
        Bags
            The same bags with ``n_features * (1 + number of statistics)`` columns.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        if self.uses_coords_ != (X.coords is not None):
            had, has = ("", "no ") if self.uses_coords_ else ("no ", "")
            raise ValueError(
                f"The bags of fit had {had}coordinates, these have {has}coordinates. "
                "Pass coords= to Bags for both, or for neither."
            )
        width = X.n_features
        kind = np.result_type(X.dtype, np.float32)
        columns = width * (1 + len(self.aggregates_))
        check_memory(
            float(X.n_instances) * columns * kind.itemsize,
            f"the columns of OnNeighbors for {X.n_instances:,} instances",
            "Reduce the features first, for example with OnInstances(PCA(50)), or"
            " sample instances with SampleInstances.",
        )
        out = np.empty((X.n_instances, columns), dtype=kind)
        out[:, :width] = X.data
        most = max(1, _VALUES // width)
        for rows, counts, neighbors in neighbor_pairs(X, self.k_, self.radius_, most):
            for i, name in enumerate(self.aggregates_):
                into = out[rows, (i + 1) * width : (i + 2) * width]
                _aggregate(name, out[:, :width], rows, counts, neighbors, into)
        names = None
        if X.feature_names is not None:
            names = self.get_feature_names_out()
        return X.with_data(out, feature_names=names)

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the features; those seen in `fit` by default.

        Returns
        -------
        ndarray of str
            The features, then "mean of x" and so on for the neighbors.
        """
        check_is_fitted(self)
        if input_features is None:
            input_features = getattr(self, "feature_names_in_", None)
        if input_features is None:
            input_features = [f"x{i}" for i in range(self.n_features_in_)]
        names = [str(name) for name in input_features]
        more = [f"neighbors_{a}_{name}" for a in self.aggregates_ for name in names]
        return np.asarray([*names, *more], dtype=object)


def _aggregate(name, data, rows, counts, neighbors, out):
    """Write a statistic of the neighbors of some rows into `out`."""
    some = counts > 0
    own = data[rows]
    out[~some] = 0.0 if name == "std" else own[~some]
    if not some.any():
        return
    counts = counts[some]
    starts = np.cumsum(counts) - counts
    near = data[neighbors]
    if name in ("min", "max"):
        reduce = np.minimum if name == "min" else np.maximum
        out[some] = reduce.reduceat(near, starts, axis=0)
        return
    size = counts[:, None]
    mean = np.add.reduceat(near, starts, axis=0, dtype=np.float64) / size
    if name == "std":
        off = near - np.repeat(mean, counts, axis=0)
        mean = np.sqrt(np.add.reduceat(off * off, starts, axis=0) / size)
    out[some] = mean
