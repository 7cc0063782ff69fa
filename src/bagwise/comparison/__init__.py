"""Compare methods honestly: runs, stores, statistics, results."""

from bagwise.comparison._as_problem import as_problem
from bagwise.comparison._choose import Choice, choose_methods
from bagwise.comparison._compare import compare, make_runs
from bagwise.comparison._comparison import Comparison
from bagwise.comparison._demo import demo
from bagwise.comparison._description import (
    DataRef,
    Run,
    build_estimator,
    describe_estimator,
    run_key,
)
from bagwise.comparison._evaluate import METRICS
from bagwise.comparison._many_runs import Event, run_all
from bagwise.comparison._one_run import Outcome, run_one
from bagwise.comparison._own_files import explain_file, fit_file, predict_file
from bagwise.comparison._problem import Problem, freeze, load_problem
from bagwise.comparison._protocols import (
    Halves,
    KFold,
    LeaveOneBagOut,
    Protocol,
    TrainTest,
    TwoWay,
)
from bagwise.comparison._ranking import RankRow
from bagwise.comparison._statistics import (
    corrected_interval,
    corrected_t_test,
    holm,
)
from bagwise.comparison._store import Store, StoreError
from bagwise.comparison._tuning import Fitted, fit_method
from bagwise.comparison.catalogue import Method, find_method, list_methods

__all__ = [
    "METRICS",
    "Choice",
    "Comparison",
    "DataRef",
    "Event",
    "Fitted",
    "Halves",
    "KFold",
    "LeaveOneBagOut",
    "Method",
    "Outcome",
    "Problem",
    "Protocol",
    "RankRow",
    "Run",
    "Store",
    "StoreError",
    "TrainTest",
    "TwoWay",
    "as_problem",
    "build_estimator",
    "choose_methods",
    "compare",
    "corrected_interval",
    "corrected_t_test",
    "demo",
    "describe_estimator",
    "explain_file",
    "find_method",
    "fit_file",
    "fit_method",
    "freeze",
    "holm",
    "list_methods",
    "load_problem",
    "make_runs",
    "predict_file",
    "run_all",
    "run_key",
    "run_one",
]
