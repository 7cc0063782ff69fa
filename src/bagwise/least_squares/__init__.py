"""Least-squares models of bags: SAFE, LS-SVM and kernel spectral clustering."""

from bagwise.least_squares._kernel_ridge import BagKernelRidge
from bagwise.least_squares._ksc import KernelSpectralClustering
from bagwise.least_squares._lssvc import LSSVC
from bagwise.least_squares._safe import SAFE
from bagwise.least_squares._safe_cv import SAFECV
from bagwise.least_squares._safe_regressor import SAFERegressor

__all__ = [
    "BagKernelRidge",
    "LSSVC",
    "SAFE",
    "SAFECV",
    "KernelSpectralClustering",
    "SAFERegressor",
]
