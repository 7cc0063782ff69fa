"""Compare methods honestly: runs, stores, statistics, results."""

from bagwise.comparison._compare import compare
from bagwise.comparison._demo import demo
from bagwise.comparison._tuning import Fitted
from bagwise.comparison.catalogue import (
    Method,
    find_method,
    list_methods,
    missing_methods,
)
from bagwise.comparison.choose import Choice, choose_methods
from bagwise.comparison.comparison import Comparison
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.own_files import explain_file, fit_file, predict_file
from bagwise.comparison.problem import Problem, as_problem
from bagwise.comparison.protocols import (
    Halves,
    KFold,
    LeaveOneBagOut,
    Protocol,
    TrainTest,
)
from bagwise.comparison.ranking import RankRow
from bagwise.comparison.runner import Event
from bagwise.comparison.statistics import (
    corrected_interval,
    corrected_t_test,
    holm,
)
from bagwise.comparison.store import Store, StoreError

__all__ = [
    "METRICS",
    "Choice",
    "Comparison",
    "Event",
    "Fitted",
    "Halves",
    "KFold",
    "LeaveOneBagOut",
    "Method",
    "Problem",
    "Protocol",
    "RankRow",
    "Store",
    "StoreError",
    "TrainTest",
    "as_problem",
    "choose_methods",
    "compare",
    "corrected_interval",
    "corrected_t_test",
    "demo",
    "explain_file",
    "find_method",
    "fit_file",
    "holm",
    "list_methods",
    "missing_methods",
    "predict_file",
]
