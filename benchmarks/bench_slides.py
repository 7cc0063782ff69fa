"""Fits on slides in a memory map that do not read all of it into memory."""

import tempfile

from sklearn.linear_model import LogisticRegression

from bagwise.compose import OnInstances, SampleInstances, SimpleMI
from bagwise.embedding import MiFV, SlicedWassersteinEmbedding
from bagwise.least_squares import SAFE
from bagwise.linear_model import MILogisticRegression
from bagwise.svm import MISVM

from .common import Benchmark, slides

METHODS = {
    "standardize": lambda: OnInstances(),
    "sample 200 per bag": lambda: SampleInstances(200, random_state=0),
    "mean + logistic": lambda: SimpleMI(LogisticRegression(max_iter=2000)),
    "miFV": lambda: MiFV(max_samples=20_000, random_state=0),
    "sliced Wasserstein": lambda: SlicedWassersteinEmbedding(random_state=0),
    "SAFE, linear": lambda: SAFE(kernel="linear", aggregation="mean"),
    "MILR": lambda: MILogisticRegression(n_init=1, max_iter=20, random_state=0),
    "MI-SVM, linear": lambda: MISVM(C=0.1, kernel="linear", max_iter=5),
}


class Slides(Benchmark):
    """20 slides, half precision, 256 features."""

    params = ([200, 4_000], list(METHODS))
    param_names = ("instances per slide", "method")

    def setup(self, size, method):
        """Write the slides, and load what is compiled."""
        super().setup()
        self.folder = tempfile.TemporaryDirectory()
        self.X, self.y = slides(self.folder.name, 20, size, 256)
        self.model = METHODS[method]()
        few = self.X[:6]
        self.model.fit(few.with_data(few.data[:].astype("f4")), self.y[:6])

    def teardown(self, size, method):
        """Remove the slides."""
        del self.X
        self.folder.cleanup()

    def time_fit(self, size, method):
        """Fit all slides."""
        self.model.fit(self.X, self.y)

    peakmem_fit = time_fit
