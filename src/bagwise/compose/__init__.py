"""scikit-learn's own estimators on bags."""

from bagwise.compose._encode_columns import EncodeColumns
from bagwise.compose._on_instances import OnInstances
from bagwise.compose._on_neighbors import OnNeighbors
from bagwise.compose._per_label import OneModelPerLabel
from bagwise.compose._sample_instances import SampleInstances
from bagwise.compose._simple_mi import SimpleMI, SimpleMIRegressor
from bagwise.compose._survival import EmbeddedSurvival
from bagwise.compose._wrapper_mi import WrapperMI, WrapperMIRegressor

__all__ = [
    "EmbeddedSurvival",
    "EncodeColumns",
    "OnInstances",
    "OnNeighbors",
    "OneModelPerLabel",
    "SampleInstances",
    "SimpleMI",
    "SimpleMIRegressor",
    "WrapperMI",
    "WrapperMIRegressor",
]
