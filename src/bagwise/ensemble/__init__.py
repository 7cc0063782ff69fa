"""Ensembles: boosting on bags, stacking, and the default classifier."""

from bagwise.ensemble._bag_classifier import BagClassifier, BagStackingClassifier
from bagwise.ensemble._bag_regressor import BagRegressor
from bagwise.ensemble._mi_boosting import MIBoosting
from bagwise.ensemble._mil_boost import MILBoost

__all__ = [
    "BagClassifier",
    "BagRegressor",
    "BagStackingClassifier",
    "MIBoosting",
    "MILBoost",
]
