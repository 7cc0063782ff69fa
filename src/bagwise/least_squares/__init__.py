"""Least-squares machines for bags: SAFE, LS-SVM and kernel spectral clustering."""

from bagwise.least_squares._ksc import KernelSpectralClustering
from bagwise.least_squares._lssvc import LSSVC
from bagwise.least_squares._safe import SAFE

__all__ = ["LSSVC", "SAFE", "KernelSpectralClustering"]
