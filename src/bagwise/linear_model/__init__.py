"""Linear models of instances, trained on the labels of bags."""

from bagwise.linear_model._milr import MILogisticRegression

__all__ = ["MILogisticRegression"]
