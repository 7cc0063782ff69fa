"""Compare methods on one data set: splits, tuning, statistics, results."""

from bagwise.comparison._compare import compare, demo
from bagwise.comparison.catalog import Method
from bagwise.comparison.choose import find_method, list_methods
from bagwise.comparison.comparison import Comparison
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.protocols import (
    CrossValidation,
    Halves,
    LeaveOneBagOut,
    Protocol,
    TrainTest,
)
from bagwise.comparison.statistics import (
    corrected_interval,
    corrected_t_test,
    holm,
)

__all__ = [
    "METRICS",
    "Comparison",
    "CrossValidation",
    "Halves",
    "LeaveOneBagOut",
    "Method",
    "Protocol",
    "TrainTest",
    "compare",
    "corrected_interval",
    "corrected_t_test",
    "demo",
    "find_method",
    "holm",
    "list_methods",
]
