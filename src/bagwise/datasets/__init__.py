"""Data sets of bags: generators and classic benchmarks."""

from bagwise.datasets._digits import load_digit_bags
from bagwise.datasets._fetch import available, fetch
from bagwise.datasets._generators import (
    make_bags,
    make_generalized_bags,
    make_key_instance_bags,
)
from bagwise.datasets._paper_sets import (
    make_multi_site_binding,
    make_safe_toy,
)
from bagwise.datasets._regression import make_regression_bags, make_survival_bags
from bagwise.datasets._repertoires import make_repertoires
from bagwise.datasets._slides import make_slides

__all__ = [
    "available",
    "fetch",
    "load_digit_bags",
    "make_bags",
    "make_generalized_bags",
    "make_key_instance_bags",
    "make_multi_site_binding",
    "make_regression_bags",
    "make_repertoires",
    "make_safe_toy",
    "make_slides",
    "make_survival_bags",
]
