"""Networks on a CPU: epochs of training, and predictions."""

from .common import Benchmark, gaussian


class Network(Benchmark):
    """A network with gated attention, two epochs."""

    params = (20, 400)
    param_names = ("bags",)

    def setup(self, n_bags):
        """Fit once."""
        try:
            from bagwise.neural import NeuralBagClassifier
        except ImportError as error:
            raise NotImplementedError("torch is not installed") from error
        super().setup()
        self.X, self.y = gaussian(n_bags, 50, 64)
        options = {"n_models": 1, "max_epochs": 2, "random_state": 0}
        self.model = NeuralBagClassifier(**options).fit(self.X, self.y)

    def time_fit(self, n_bags):
        """Train."""
        self.model.fit(self.X, self.y)

    def time_predict(self, n_bags):
        """Predict all bags."""
        self.model.predict(self.X)
