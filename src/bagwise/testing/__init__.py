"""Checks for estimators of bags, of this package and of others."""

from bagwise.testing._assumptions import (
    MILAssumptions,
    check_standard_assumption,
    mil_assumptions,
)
from bagwise.testing._battery import check_bag_estimator
from bagwise.testing._estimators import EXPECTED_FAILURES as EXPECTED_FAILURES
from bagwise.testing._estimators import all_estimators
from bagwise.testing._estimators import make_instance as make_instance
from bagwise.testing._rows_as_bags import rows_as_bags

__all__ = [
    "MILAssumptions",
    "all_estimators",
    "check_bag_estimator",
    "check_standard_assumption",
    "mil_assumptions",
    "rows_as_bags",
]
