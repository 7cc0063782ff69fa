"""`BagClassifier` and `BagRegressor`: fits, and predictions of one and of many bags."""

from bagwise import BagClassifier, BagRegressor
from bagwise.datasets import make_bags, make_regression_bags

from .common import Benchmark


class Fit(Benchmark):
    """One fit on bags of 7 instances with 20 features, no time budget."""

    params = ([20, 200], ["classifier", "regressor"])
    param_names = ("bags", "task")

    def setup(self, n_bags, task):
        """Simulate bags, and load what is compiled."""
        super().setup()
        make, cls = make_bags, BagClassifier
        if task == "regressor":
            make, cls = make_regression_bags, BagRegressor
        self.X, self.y = make(n_bags, n_features=20, bag_size=7, random_state=0)
        self.model = cls(random_state=0, time_budget=None)
        self.model.fit(*make(20, n_features=20, bag_size=7, random_state=1))

    def time_fit(self, n_bags, task):
        """Fit all bags."""
        self.model.fit(self.X, self.y)

    peakmem_fit = time_fit


class Predict(Benchmark):
    """Predictions for bags of 10 instances with 20 features, of equal size or not."""

    params = ([1, 100, 10_000], [50, 200, 1_000], ["equal", "unequal"])
    param_names = ("bags", "training bags", "sizes")
    timeout = 300

    def setup(self, n_bags, n_train, sizes):
        """Fit the model, and predict once: loops are loaded and trees put together."""
        super().setup()
        size = 10 if sizes == "equal" else (5, 15)
        options = {"n_features": 20, "bag_size": size}
        self.model = BagClassifier(random_state=0)
        self.model.fit(*make_bags(n_train, random_state=0, **options))
        self.X, _ = make_bags(n_bags, random_state=1, **options)
        self.model.predict(self.X[:1])

    def time_predict(self, n_bags, n_train, sizes):
        """Predict the bags."""
        self.model.predict(self.X)
