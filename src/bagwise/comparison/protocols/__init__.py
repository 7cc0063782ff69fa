"""How bags are split into training and test sets."""

from bagwise.comparison.protocols._base import Protocol, protocol_from_dict
from bagwise.comparison.protocols._fixed import TrainTest
from bagwise.comparison.protocols._resampled import Halves, KFold, LeaveOneBagOut

__all__ = [
    "Halves",
    "KFold",
    "LeaveOneBagOut",
    "Protocol",
    "TrainTest",
    "protocol_from_dict",
]
