"""Checks for estimators of bags, of this package and of others."""

from bagwise.testing._assumptions import (
    MILAssumptions,
    check_standard_assumption,
    mil_assumptions,
)
from bagwise.testing._battery import check_bag_estimator
from bagwise.testing._estimators import (
    EXPECTED_FAILURES,
    all_estimators,
    make_instance,
)
from bagwise.testing._rows_as_bags import rows_as_bags

__all__ = [
    "EXPECTED_FAILURES",
    "MILAssumptions",
    "all_estimators",
    "check_bag_estimator",
    "check_standard_assumption",
    "make_instance",
    "mil_assumptions",
    "rows_as_bags",
]
