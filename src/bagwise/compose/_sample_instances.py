"""SampleInstances: a random sample of the instances of large bags."""

from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, _fit_context
from bagwise.bags import Bags
from bagwise.base import BagTransformerMixin, BaseBagEstimator


class SampleInstances(BagTransformerMixin, BaseBagEstimator):
    """Keep at most a number of instances of each bag.

    Bags with up to `max_instances` instances stay as they are; of larger ones that many
    are sampled without replacement, all with the same probability. Use it before a
    method whose cost or memory grows too fast with the number of instances.

    Parameters
    ----------
    max_instances : int, default=500
        Maximum number of instances of a bag. May be changed after `fit`, as nothing is
        learned.
    random_state : int, RandomState or None, default=None
        Seeds the sample. With an int, a bag with the same size and the same position
        among the bags always gives the same instances, whatever the other bags are.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Instances keep their order, names and coordinates. From a memory map only the
    sampled rows are read, so that a folder of slides of any size becomes bags in
    memory. New bags are sampled as well when a model predicts: their scores are those
    of the sampled instances. Costs one pass over the bag sizes and reading the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.compose import SampleInstances
    >>> bags = [np.zeros((900, 2)), np.ones((3, 2))]
    >>> SampleInstances(100, random_state=0).fit_transform(bags).sizes
    array([100,   3])
    """

    _parameter_constraints: dict = {
        "max_instances": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    _prediction_parameters = ("max_instances",)

    def __init__(self, max_instances=500, *, random_state=None):
        self.max_instances = max_instances
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.chunked = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Check the features; there is nothing to learn.

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
        self._check_bags(X, reset=True)
        return self

    def transform(self, X):
        """Sample the instances.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Bags
            The same bags, with at most `max_instances` instances each.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        rows, sizes = self._sample(X)
        if len(rows) == X.n_instances and not X.on_disk:
            return X
        return Bags(
            X.take_rows(rows),
            np.concatenate([[0], np.cumsum(sizes)]),
            ids=X.ids,
            feature_names=X.feature_names,
            groups=X.groups,
            instance_ids=None if X.instance_ids is None else X.instance_ids[rows],
            coords=None if X.coords is None else X.coords[rows],
            instance_types=None if X.instance_types is None else X.instance_types[rows],
            bag_rows=X.bag_rows,
        )

    def _sample(self, X):
        """Return the rows that are kept and how many of each bag."""
        rng = check_random_state(self.random_state)
        seeds = rng.randint(np.iinfo(np.int32).max, size=X.n_bags)
        rows = []
        for first, size, seed in zip(X.offsets, X.sizes, seeds, strict=False):
            if size <= self.max_instances:
                rows.append(np.arange(first, first + size))
                continue
            order = np.random.default_rng(seed).permutation(size)
            rows.append(first + np.sort(order[: self.max_instances]))
        return np.concatenate(rows), np.minimum(X.sizes, self.max_instances)

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns, which do not change.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; those seen in `fit` by default.

        Returns
        -------
        ndarray of str
            One name per column.
        """
        check_is_fitted(self)
        if input_features is None:
            input_features = getattr(self, "feature_names_in_", None)
        if input_features is None:
            input_features = [f"x{i}" for i in range(self.n_features_in_)]
        return np.asarray(input_features, dtype=object)
