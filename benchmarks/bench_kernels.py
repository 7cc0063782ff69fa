"""Matrices of bag kernels and bag distances, next to one `rbf_kernel`."""

from sklearn.metrics.pairwise import rbf_kernel

from bagwise.kernels import (
    box_kernel,
    emd_distances,
    graph_kernel,
    mi_graph_kernel,
    set_kernel,
    statistics_kernel,
)

from .common import Benchmark, classic, seconds

KERNELS = {
    "set": set_kernel,
    "statistics": statistics_kernel,
    "graph": graph_kernel,
    "mi_graph": mi_graph_kernel,
    "emd": emd_distances,
    "box": box_kernel,
}


class Matrix(Benchmark):
    """One matrix of all pairs of bags."""

    params = (["musk1", "elephant", "musk2"], list(KERNELS))
    param_names = ("data", "kernel")

    def setup(self, data, kernel):
        """Load the data, and what is compiled."""
        super().setup()
        self.X, _ = classic(data)
        self.kernel = KERNELS[kernel]
        self.kernel(self.X[:4])

    def time_matrix(self, data, kernel):
        """Compute the matrix."""
        self.kernel(self.X)

    peakmem_matrix = time_matrix

    def track_over_rbf_kernel(self, data, kernel):
        """Seconds of the matrix over those of `rbf_kernel` on all instances."""
        rows = self.X.data
        one = seconds(lambda: rbf_kernel(rows, gamma=1.0 / self.X.n_features))
        return seconds(lambda: self.kernel(self.X), 1) / one

    track_over_rbf_kernel.unit = "times"
