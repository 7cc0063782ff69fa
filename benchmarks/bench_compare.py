"""`compare`: all methods, the cost of the runner, resuming, intervals and tests."""

import dataclasses
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


class Noisy(Constant):
    """A classifier that knows the first feature of the first instance, with noise."""

    def __init__(self, noise=1.0):
        self.noise = noise

    def decision_function(self, X):
        """Return the feature with noise."""
        value = X.data[X.offsets[:-1], 0]
        rng = np.random.default_rng(round(1000 * self.noise))
        return value - 0.5 + self.noise * rng.standard_normal(len(X))

    def predict(self, X):
        """Return the second class for positive decision values."""
        return self.classes_[(self.decision_function(X) > 0).astype(np.int64)]


class Inference(Benchmark):
    """Intervals, tests, corrected figure and sample size of stored predictions."""

    params = [[(2, 40, 2), (20, 400, 10), (16, 2000, 5)]]
    param_names = ("methods, bags, folds",)
    timeout = 600.0

    def setup(self, shape):
        """Run methods that take no time."""
        super().setup()
        n_methods, n_bags, n_folds = shape
        X, y = gaussian(n_bags, 3, 4)
        path = f"{__name__}.Noisy"
        methods = [
            Method(str(k), path, params={"noise": 1 + k / 20}, scale="none")
            for k in range(n_methods)
        ]
        self.result = compare(
            *(X, y),
            methods=methods,
            protocol=CrossValidation(n_folds),
            grid="none",
            progress=False,
            n_jobs=1,
            time_limit=None,
        )

    def time_inference(self, shape):
        """Rank, test, correct, and estimate the number of bags that is needed."""
        result = dataclasses.replace(self.result)  # nothing is cached
        assert len(result.ranking) == shape[0]
        assert result.winner is not None
        assert result.cautions
