"""scikit-learn's own estimators on bags."""

from bagwise.compose._on_instances import OnInstances
from bagwise.compose._regressors import SimpleMIRegressor, WrapperMIRegressor
from bagwise.compose._sample_instances import SampleInstances
from bagwise.compose._simple_mi import SimpleMI
from bagwise.compose._survival import EmbeddedSurvival
from bagwise.compose._wrapper_mi import WrapperMI

__all__ = [
    "EmbeddedSurvival",
    "OnInstances",
    "SampleInstances",
    "SimpleMI",
    "SimpleMIRegressor",
    "WrapperMI",
    "WrapperMIRegressor",
]
