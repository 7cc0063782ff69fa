"""Base classes of all estimators of bags, for authors of new methods.

A two-class method writes three short methods and gets everything else::

    class MyMethod(WeightedBagClassifier):
        def _fit_binary(self, X, t, bag_weight): ...  # sets attributes ending in _
        def _score_instances(self, X): ...            # one score per instance
        def _score_bags(self, X): ...                 # default: the largest of a bag

A method that knows several classes by itself derives from `MulticlassBagClassifier`, a
regressor from `BaseBagRegressor`, a transformer from `BagTransformerMixin` and
`BaseBagEstimator`. Every split that is made inside the library comes from `bag_folds`,
which keeps groups of bags together.
"""

from bagwise.base._classifiers import (
    BagClassifierMixin,
    BinaryBagClassifier,
    MulticlassBagClassifier,
    ProbabilityMixin,
    WeightedBagClassifier,
)
from bagwise.base._regressors import BaseBagRegressor
from bagwise.base.estimator import (
    BagInputTags,
    BagTransformerMixin,
    BaseBagEstimator,
)
from bagwise.base.folds import bag_folds

__all__ = [
    "BagClassifierMixin",
    "BagInputTags",
    "BagTransformerMixin",
    "BaseBagEstimator",
    "BaseBagRegressor",
    "BinaryBagClassifier",
    "MulticlassBagClassifier",
    "ProbabilityMixin",
    "WeightedBagClassifier",
    "bag_folds",
]
