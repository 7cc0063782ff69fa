"""Support vector machines for bags."""

from bagwise.svm._bag_svc import BagSVC
from bagwise.svm._bag_svr import BagSVR
from bagwise.svm._box_svc import BoxKernelSVC, transductive_box_svc
from bagwise.svm._mica import MICA
from bagwise.svm._mileage import MILEAGE
from bagwise.svm._miss_svm import MissSVM
from bagwise.svm._misvm import MISVM
from bagwise.svm._misvm_instance import MiSVM
from bagwise.svm._odm import ODM
from bagwise.svm._reg_svm import RegSVM
from bagwise.svm._sbmil import SBMIL
from bagwise.svm._sparse_mil import SMIL, STMIL
from bagwise.svm.miodm._kisvm import KISVM
from bagwise.svm.miodm._miodm import MIODM
from bagwise.svm.pcsvm._pcsvm import PCSVM

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
