"""Support vector machines for bags."""

from bagwise.svm._bag_svc import BagSVC
from bagwise.svm._bag_svr import BagSVR
from bagwise.svm._box_svc import BoxKernelSVC, transductive_box_svc
from bagwise.svm._mileage import MILEAGE
from bagwise.svm._miodm import KISVM, MIODM
from bagwise.svm._miss_svm import MissSVM
from bagwise.svm._misvm import MICA, MISVM
from bagwise.svm._misvm_instance import MiSVM
from bagwise.svm._odm import ODM
from bagwise.svm._pcsvm import PCSVM
from bagwise.svm._reg_svm import RegSVM
from bagwise.svm._sparse_mil import SBMIL, SMIL, STMIL

__all__ = [
    "BagSVC",
    "BagSVR",
    "BoxKernelSVC",
    "KISVM",
    "MICA",
    "MILEAGE",
    "MIODM",
    "MISVM",
    "MiSVM",
    "MissSVM",
    "ODM",
    "PCSVM",
    "RegSVM",
    "SBMIL",
    "SMIL",
    "STMIL",
    "transductive_box_svc",
]
