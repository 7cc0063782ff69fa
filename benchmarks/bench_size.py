"""Time and memory of methods for large data, as the number of instances grows."""

from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from bagwise.compose import SimpleMI, WrapperMI
from bagwise.decomposition import MIDR
from bagwise.embedding import MILES, MiFV, MiVLAD
from bagwise.ensemble import MILBoost
from bagwise.least_squares import SAFE
from bagwise.linear_model import MILogisticRegression
from bagwise.svm import MIODM, MISVM, PCSVM, SBMIL, BagSVC, MiSVM

from .common import Benchmark, gaussian

BASIS = {"gamma": 0.01, "n_components": 100, "random_state": 0}
METHODS = {
    "SimpleMI": lambda: SimpleMI(),
    "WrapperMI": lambda: WrapperMI(),
    "MILR": lambda: MILogisticRegression(n_init=1, random_state=0),
    "MIDR + MILR": lambda: make_pipeline(
        MIDR(n_components=5, random_state=0), MILogisticRegression(random_state=0)
    ),
    "SAFE, 100 landmarks": lambda: SAFE(**BASIS),
    "MI-SVM, linear": lambda: MISVM(kernel="linear"),
    "MI-SVM, basis of 100": lambda: MISVM(**BASIS),
    "mi-SVM, basis of 100": lambda: MiSVM(**BASIS),
    "sbMIL, basis of 100": lambda: SBMIL(**BASIS),
    "PC-SVM, basis of 100": lambda: PCSVM(rho=0.3, **BASIS),
    "MI-ODM, linear": lambda: MIODM(
        level="bag", kernel="linear", threshold="train", random_state=0
    ),
    "MI-Kernel, basis of 100": lambda: BagSVC("set", C=1.0, **BASIS),
    "miFV": lambda: make_pipeline(MiFV(random_state=0), LinearSVC(dual=False)),
    "miVLAD": lambda: make_pipeline(MiVLAD(random_state=0), LinearSVC(dual=False)),
    "MILES, 500 prototypes": lambda: MILES(max_prototypes=500, random_state=0),
    "MILBoost": lambda: MILBoost(50),
}


class Size(Benchmark):
    """One fit on bags of 24 instances with 100 features."""

    params = ([960, 9_600], list(METHODS))
    param_names = ("instances", "method")

    def setup(self, n_instances, method):
        """Simulate bags, and load what is compiled."""
        super().setup()
        self.X, self.y = gaussian(n_instances // 24, 24, 100)
        self.model = METHODS[method]()
        self.model.fit(self.X[:20], self.y[:20])

    def time_fit(self, n_instances, method):
        """Fit all bags."""
        self.model.fit(self.X, self.y)

    peakmem_fit = time_fit
