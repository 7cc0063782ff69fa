"""Linear models of instances, trained on the labels of bags."""

from bagwise.linear_model._mi_linear_regression import MILinearRegression
from bagwise.linear_model.milr import MILogisticRegression

__all__ = ["MILinearRegression", "MILogisticRegression"]
