"""SimpleMI and WrapperMI for real values: any scikit-learn regressor on bags."""

from numbers import Real

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from bagwise._compat import HasMethods, Interval, StrOptions
from bagwise.bags import Bags
from bagwise.bags.segments import repeat, segment_mean
from bagwise.base import BaseBagRegressor
from bagwise.compose._simple_mi import POOLINGS, pool


class SimpleMIRegressor(BaseBagRegressor):
    r"""Predict a value from the average, or another summary, of each bag.

    A bag :math:`B` becomes one vector, by default :math:`\bar x(B) = \frac{1}{|B|}
    \sum_{x \in B} x`, and any regressor of rows learns from the vectors: the baseline
    of every comparison ([1]_).

    Parameters
    ----------
    estimator : regressor, default=None
        Any scikit-learn regressor; ridge regression by default.
    pooling : str or callable, default="mean"
        The summary: "mean", "max", "min", "minmax", "midpoint", "mean+std" or
        "statistics". "statistics" is mean, standard deviation, minimum and maximum of
        every feature and the log of the bag's size. A callable gets the `Bags` and
        returns one row per bag.

    Attributes
    ----------
    estimator_ : regressor
        The fitted regressor.

    Notes
    -----
    `instance_scores` is the prediction for a bag that holds the instance alone. Pooling
    costs one pass over the instances; sparse data stay sparse.

    Differs from [1]_: real values in place of classes.

    References
    ----------
    .. [1] Dong, L., "A comparison of multi-instance learning algorithms", Master's
       thesis, University of Waikato, 2006.

    Examples
    --------
    >>> from bagwise.compose import SimpleMIRegressor
    >>> X = [[[0.0], [1.0]], [[2.0], [0.5]], [[3.0]], [[1.0], [0.0]]]
    >>> y = [0.5, 1.2, 3.0, 0.5]
    >>> SimpleMIRegressor().fit(X, y).score(X, y) > 0.9
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "pooling": [StrOptions(set(POOLINGS)), callable],
    }

    def __init__(self, estimator=None, *, pooling="mean"):
        self.estimator = estimator
        self.pooling = pooling

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.units = "absolute"
        inner = get_tags(self._inner())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.target_tags.multi_output = inner.target_tags.multi_output
        fixed = callable(self.pooling) or self.pooling == "statistics"
        tags.input_tags.duplicate_invariant = None if fixed else True
        return tags

    def _inner(self):
        return Ridge() if self.estimator is None else self.estimator

    def _fit_bags(self, X, y, weight):
        base = self._inner()
        options = {}
        if not (weight == weight[0]).all():
            options = _weight_option(base, weight)
        self.estimator_ = clone(base).fit(pool(X, self.pooling), y, **options)

    def _predict_bags(self, X):
        return self.estimator_.predict(pool(X, self.pooling))

    def _score_instances(self, X):
        return self._predict_bags(Bags(X.data, np.arange(X.n_instances + 1)))


class WrapperMIRegressor(BaseBagRegressor):
    r"""Predict a value for every instance and average.

    Every instance inherits the value of its bag and the weight :math:`1/|B|`. A
    regressor of rows learns :math:`g(x)`, and a bag has the mean, the median or the
    trimmed mean of the values of its instances: instance-MIR ([1]_).

    Parameters
    ----------
    estimator : regressor, default=None
        Any scikit-learn regressor with `sample_weight`; ridge regression by default.
    pooling : {"mean", "median", "trimmed"}, default="mean"
        How the values of instances make the value of a bag. "trimmed" leaves out the
        smallest and the largest.
    trim : float, default=0.2
        Share of the instances that "trimmed" leaves out at each end.

    Attributes
    ----------
    estimator_ : regressor
        The fitted regressor of instances.

    Notes
    -----
    Weights sum to one in each bag: repeating every instance of a bag changes nothing.
    Costs what the regressor costs on `n_instances` rows. Shifting and scaling y does
    to predictions what it does to those of `estimator`. Differs from [1]_: nothing.

    References
    ----------
    .. [1] Wang, Z., Radosavljevic, V., Han, B., Obradovic, Z. and Vucetic, S., "Aerosol
       optical depth prediction from satellite observations by multiple instance
       regression", SDM, 2008. :doi:`10.1137/1.9781611972788.15`

    Examples
    --------
    >>> from bagwise.compose import WrapperMIRegressor
    >>> X = [[[0.0], [1.0]], [[2.0], [1.5]], [[3.0]], [[1.0], [0.0]]]
    >>> model = WrapperMIRegressor().fit(X, [0.5, 1.8, 3.0, 0.5])
    >>> model.instance_scores(X).values.shape
    (7,)
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "pooling": [StrOptions({"mean", "median", "trimmed"})],
        "trim": [Interval(Real, 0, 0.5, closed="left")],
    }

    def __init__(self, estimator=None, *, pooling="mean", trim=0.2):
        self.estimator = estimator
        self.pooling = pooling
        self.trim = trim

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.units = "absolute"
        tags.input_tags.sparse = get_tags(self._inner()).input_tags.sparse
        # Of a doubled bag the same share is trimmed, though not of the same rows.
        tags.input_tags.duplicate_invariant = self.pooling != "trimmed" or None
        return tags

    def _inner(self):
        return Ridge() if self.estimator is None else self.estimator

    def _fit_bags(self, X, y, weight):
        base = self._inner()
        options = _weight_option(base, repeat(weight / X.sizes, X.offsets))
        values = repeat(y, X.offsets)
        self.estimator_ = clone(base).fit(X.data, values, **options)

    def _score_instances(self, X):
        return np.asarray(self.estimator_.predict(X.data), dtype=np.float64)

    def _predict_bags(self, X):
        scores = self._score_instances(X)
        if self.pooling == "mean":
            return segment_mean(scores, X.offsets)
        trim = 0.5 if self.pooling == "median" else self.trim
        bounds = zip(X.offsets[:-1], X.offsets[1:], strict=True)
        return np.array([_trimmed(scores[a:b], trim) for a, b in bounds])


def _trimmed(values, share):
    """Mean of what is left when a share is cut off at each end; 0.5 is the median."""
    if share == 0.5:
        return np.median(values)
    ranked = np.sort(values)
    cut = int(share * len(ranked))
    return ranked[cut : len(ranked) - cut].mean()


def _weight_option(base, weight):
    """Return the keyword that weighs a regressor, or the end of a pipeline."""
    if has_fit_parameter(base, "sample_weight"):
        return {"sample_weight": weight}
    steps = getattr(base, "steps", None)
    if steps and has_fit_parameter(steps[-1][1], "sample_weight"):
        return {f"{steps[-1][0]}__sample_weight": weight}
    raise ValueError(f"{type(base).__name__} does not take sample_weight.")
