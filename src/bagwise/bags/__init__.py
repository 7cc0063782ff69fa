"""The container of bags, its conversions, checks and segment reductions."""

from bagwise.bags._bags import Bags
from bagwise.bags._check import as_bags, check_bags
from bagwise.bags._check import with_columns as with_columns
from bagwise.bags.segmented import Ragged

__all__ = [
    "Bags",
    "Ragged",
    "as_bags",
    "check_bags",
]
