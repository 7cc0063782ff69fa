"""`compare`: all methods, the cost of the runner itself, and resuming."""

import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from bagwise.comparison import CrossValidation, Method, compare

from .common import Benchmark, gaussian


class Constant(ClassifierMixin, BaseEstimator):
    """A classifier that takes no time: it always predicts the first class."""

    def fit(self, X, y):
        """Store the classes."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        """Return -1 for every bag."""
        return -np.ones(len(X))

    def predict(self, X):
        """Return the first class for every bag."""
        return np.repeat(self.classes_[0], len(X))


class Compare(Benchmark):
    """`compare` with its default methods and grids."""

    params = [[(20, 5, 5), (100, 10, 50)]]
    param_names = ("bags, instances, features",)
    timer = staticmethod(time.perf_counter)
    repeat = 1
    timeout = 1800.0

    def setup(self, shape):
        """Simulate bags; the smallest case has two methods and two folds."""
        super().setup()
        self.X, self.y = gaussian(*shape, shift=2.0)
        self.options = {"progress": False, "n_jobs": 1}
        if shape[0] < 100:
            methods = ["SimpleMI", "MI-SVM (linear)"]
            self.options |= {"protocol": CrossValidation(2), "methods": methods}

    def time_compare(self, shape):
        """Compare all methods."""
        compare(self.X, self.y, **self.options)


class Runner(Benchmark):
    """Runs of a method that takes no time: what is left is the runner."""

    params = (1, 50)
    param_names = ("repeats of 10 folds",)
    timer = staticmethod(time.perf_counter)

    def setup(self, n_repeats):
        """Fill one store, to resume from."""
        super().setup()
        self.folder = tempfile.TemporaryDirectory()
        self.X, self.y = gaussian(40, 3, 4)
        self.number_of_stores = 0
        self.options = {
            "methods": [Method("constant", f"{__name__}.Constant", scale="none")],
            "protocol": CrossValidation(10, n_repeats),
            "grid": "none",
            "progress": False,
            "n_jobs": 1,
            "time_limit": None,
        }
        self.full = Path(self.folder.name, "full.sqlite")
        compare(self.X, self.y, store=self.full, **self.options)

    def teardown(self, n_repeats):
        """Remove the stores."""
        self.folder.cleanup()

    def time_runs(self, n_repeats):
        """Run everything into a new store."""
        self.number_of_stores += 1
        store = Path(self.folder.name, f"{self.number_of_stores}.sqlite")
        compare(self.X, self.y, store=store, **self.options)

    def time_resume(self, n_repeats):
        """Read everything from a store."""
        compare(self.X, self.y, store=self.full, **self.options)
