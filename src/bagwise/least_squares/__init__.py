"""Least-squares machines for bags: SAFE, LS-SVM and kernel spectral clustering."""

from bagwise.least_squares._safe import SAFE

__all__ = ["SAFE"]
