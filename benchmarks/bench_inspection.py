"""Explanations, as multiples of one prediction of the same bags."""

import io

import numpy as np

from bagwise import Bags
from bagwise.comparison.choose import find_method
from bagwise.comparison.description import build_estimator
from bagwise.datasets import make_bags
from bagwise.inspection import explain, instance_importance
from bagwise.linear_model import MILogisticRegression

from .common import Benchmark, seconds

METHODS = ["MILR", "SimpleMI", "MI-SVM", "MILES", "SAFE", "MI-Kernel", "EMD + SVC"]


class Importance(Benchmark):
    """Importance of every instance in bags of 10."""

    params = ([20, 200], METHODS)
    param_names = ("bags", "method")

    def setup(self, n_bags, method):
        """Fit the model."""
        super().setup()
        self.X, y = make_bags(n_bags, bag_size=10, n_features=20, random_state=0)
        self.model = build_estimator(find_method(method).spec(), 0).fit(self.X, y)

    def time_single(self, n_bags, method):
        """Score every instance alone."""
        instance_importance(self.model, self.X, "single")

    def time_leave_out(self, n_bags, method):
        """Score every bag without each of its instances."""
        instance_importance(self.model, self.X, "leave_out")

    def track_single_over_prediction(self, n_bags, method):
        """Seconds of "single" over those of one prediction of the bags."""
        once = seconds(lambda: self.model.predict(self.X), 5)
        return seconds(lambda: instance_importance(self.model, self.X, "single")) / once

    track_single_over_prediction.unit = "times"


class HeatMap(Benchmark):
    """A slide scored and drawn: patches of 256 features."""

    params = (1_000, 50_000)
    param_names = ("patches",)

    def setup(self, n_patches):
        """Fit a model, and simulate the slide."""
        super().setup()
        few, y = make_bags(60, n_features=256, random_state=0)
        self.model = MILogisticRegression(random_state=0).fit(few, y)
        rng = np.random.default_rng(0)
        places = np.arange(n_patches)
        self.X = Bags(
            rng.standard_normal((n_patches, 256), dtype=np.float32),
            [0, n_patches],
            coords=np.column_stack([places % 250, places // 250]) * 256.0,
        )

    def time_score_and_draw(self, n_patches):
        """Explain the slide and save the picture."""
        found = explain(self.model, self.X, method="native")
        found.plot_heatmap(0, 256.0).figure.savefig(io.BytesIO(), dpi=120)
