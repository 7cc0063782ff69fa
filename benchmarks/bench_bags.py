"""Slices and segment reductions, next to what NumPy itself needs."""

import numpy as np

from bagwise.bags.segments import segment_max

from .common import Benchmark, gaussian, seconds


class Slicing(Benchmark):
    """80% of the bags, 20 instances each."""

    params = (1_000, 5_000)
    param_names = ("bags",)

    def setup(self, n_bags):
        """Choose bags and, for NumPy, their rows."""
        super().setup()
        self.X, _ = gaussian(n_bags, 20, 166)
        rng = np.random.default_rng(0)
        self.chosen = np.sort(rng.permutation(n_bags)[: int(0.8 * n_bags)])
        self.rows = np.flatnonzero(np.isin(self.X.bag_index, self.chosen))

    def time_chosen_bags(self, n_bags):
        """Copy the chosen bags."""
        self.X[self.chosen]

    def time_view(self, n_bags):
        """Slice bags without a copy."""
        self.X[: int(0.8 * n_bags)]

    def track_chosen_over_numpy(self, n_bags):
        """Chosen bags, over NumPy's indexing of the same rows."""
        own = seconds(lambda: self.X[self.chosen], 5)
        return own / seconds(lambda: self.X.data[self.rows], 5)

    track_chosen_over_numpy.unit = "times"


class Reduction(Benchmark):
    """The largest value of each bag."""

    params = (1_000, 100_000)
    param_names = ("bags",)

    def setup(self, n_bags):
        """Make values, and load the compiled loop."""
        self.values = np.random.default_rng(0).normal(size=n_bags * 5)
        self.offsets = np.arange(0, n_bags * 5 + 1, 5)
        segment_max(self.values, self.offsets)

    def time_segment_max(self, n_bags):
        """Reduce all bags."""
        segment_max(self.values, self.offsets)

    def time_numpy_reduceat(self, n_bags):
        """Reduce them with NumPy."""
        np.maximum.reduceat(self.values, self.offsets[:-1])
