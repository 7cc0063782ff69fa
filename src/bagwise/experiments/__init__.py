"""Compare methods honestly: runs, stores, statistics, results."""

from bagwise.experiments._catalogue import Method, catalogue, find_method
from bagwise.experiments._cells import RULE
from bagwise.experiments._compare import compare, make_runs
from bagwise.experiments._data import Problem, freeze, load_problem
from bagwise.experiments._demo import demo
from bagwise.experiments._describe import (
    DataRef,
    Run,
    build_estimator,
    describe_estimator,
    run_key,
)
from bagwise.experiments._evaluate import METRICS
from bagwise.experiments._leaderboard import Leaderboard, leaderboard
from bagwise.experiments._load import as_problem
from bagwise.experiments._models import explain_file, fit_file, predict_file
from bagwise.experiments._papers import list_tables, load_table
from bagwise.experiments._protocols import (
    half_splits,
    leave_one_bag_out,
    repeated_kfold,
    train_test,
    two_way,
)
from bagwise.experiments._rank import RankRow
from bagwise.experiments._reproduce import Reproduction, reproduce
from bagwise.experiments._result import Comparison
from bagwise.experiments._results import write_results_page
from bagwise.experiments._run import Outcome, run_one
from bagwise.experiments._runner import Event, run_all
from bagwise.experiments._select import Choice, choose_methods
from bagwise.experiments._stats import (
    corrected_interval,
    corrected_t_test,
    holm,
)
from bagwise.experiments._store import Store, StoreError
from bagwise.experiments._tune import Fitted, fit_method

__all__ = [
    "METRICS",
    "RULE",
    "Choice",
    "Comparison",
    "DataRef",
    "Event",
    "Fitted",
    "Leaderboard",
    "Method",
    "Outcome",
    "Problem",
    "RankRow",
    "Reproduction",
    "Run",
    "Store",
    "StoreError",
    "as_problem",
    "build_estimator",
    "catalogue",
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
    "half_splits",
    "holm",
    "leaderboard",
    "leave_one_bag_out",
    "list_tables",
    "load_problem",
    "load_table",
    "make_runs",
    "predict_file",
    "repeated_kfold",
    "reproduce",
    "run_all",
    "run_key",
    "run_one",
    "train_test",
    "two_way",
    "write_results_page",
]
