"""Compare methods on one data set: splits, tuning, statistics, results."""

from bagwise.comparison._compare import compare as compare
from bagwise.comparison._compare import demo as demo
from bagwise.comparison.catalog import Method
from bagwise.comparison.choose import list_methods
from bagwise.comparison.comparison import Comparison
from bagwise.comparison.contributions import contributions
from bagwise.comparison.evaluate import METRICS as METRICS
from bagwise.comparison.inference import difference, interval, selected
from bagwise.comparison.leaderboard import Leaderboard
from bagwise.comparison.protocols import (
    CrossValidation,
    Halves,
    LeaveOneBagOut,
    Protocol,
    TrainTest,
)

__all__ = [
    "Comparison",
    "CrossValidation",
    "Halves",
    "Leaderboard",
    "LeaveOneBagOut",
    "Method",
    "Protocol",
    "TrainTest",
    "contributions",
    "difference",
    "interval",
    "list_methods",
    "selected",
]
