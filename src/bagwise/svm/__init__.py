"""Support vector machines for bags."""

from bagwise.svm._kisvm import KISVM
from bagwise.svm._mi_svm_instance import MiSVM
from bagwise.svm._miodm import MIODM
from bagwise.svm._misvm import MISVM
from bagwise.svm._odm import ODM

__all__ = [
    "KISVM",
    "MIODM",
    "MISVM",
    "MiSVM",
    "ODM",
]
