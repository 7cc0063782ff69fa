"""The methods that can be compared, with their grids.

A method is added by one entry in the list of its task.
"""

from bagwise.comparison.catalog._classification import CLASSIFIERS
from bagwise.comparison.catalog._method import Method
from bagwise.comparison.catalog._regression import REGRESSORS, SURVIVAL

__all__ = ["METHODS", "Method"]

METHODS: list[Method] = [*CLASSIFIERS, *REGRESSORS, *SURVIVAL]
