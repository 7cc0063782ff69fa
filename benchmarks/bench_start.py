"""What a new process waits for: the import, and the first call of a fresh install."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import bagwise
from bagwise import BagClassifier
from bagwise.datasets import make_bags
from bagwise.svm import MISVM

from .common import Benchmark

FIRST_CALL = """
import time, warnings
warnings.simplefilter("ignore")
from bagwise.datasets import make_bags
from bagwise.comparison import find_method
from bagwise.comparison.description import build_estimator
model = build_estimator(find_method({name!r}).spec(), 0)
X, y = make_bags(20, random_state=0)
times = []
for _ in range(2):
    start = time.process_time()
    model.fit(X, y).predict(X)
    times.append(time.process_time() - start)
print(times[0] - times[1])
"""
SERVE = """
import sys, time
import numpy as np
import bagwise
X = np.random.default_rng(0).normal(size=(100, 10, 20))
bagwise.load(sys.argv[1]).predict(X)
print(time.process_time())
"""
IMPORT = """
import time
start = time.process_time()
import bagwise
print(time.process_time() - start)
"""


def _printed(code, *arguments, **env):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


class Start(Benchmark):
    """Processor seconds of the import."""

    def track_import(self):
        """Import bagwise in a process that has imported nothing."""
        return _printed(IMPORT)

    track_import.unit = "seconds"


class Serve(Benchmark):
    """Processor seconds of a process that loads a model and predicts 100 bags."""

    params = ["MISVM", "BagClassifier"]
    param_names = ("model",)

    def setup(self, model):
        """Save a model that was fitted on 200 bags of 5 to 15 instances."""
        super().setup(model)
        fitted = {"MISVM": MISVM, "BagClassifier": BagClassifier}[model]()
        fitted.fit(*make_bags(200, n_features=20, bag_size=(5, 15), random_state=0))
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "model.bagwise")
        bagwise.save(fitted, self.path)

    def teardown(self, model):
        """Delete the model."""
        self.folder.cleanup()

    def track_process(self, model):
        """Import, load and predict."""
        return _printed(SERVE, self.path)

    track_process.unit = "seconds"


class FirstCall(Benchmark):
    """Processor seconds that compilation adds to the first call."""

    params = ["SimpleMI", "MI-SVM", "BagClassifier", "PC-SVM", "IAPR", "Box kernel SVC"]
    param_names = ("method",)

    def track_compilation(self, method):
        """First call less second call, with an empty cache of compiled loops."""
        with tempfile.TemporaryDirectory() as empty:
            return _printed(FIRST_CALL.format(name=method), NUMBA_CACHE_DIR=empty)

    track_compilation.unit = "seconds"
