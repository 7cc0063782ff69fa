"""Checks of what a fit is: repeatable, the same in parallel, kept by files."""

import pickle
import tempfile
from pathlib import Path

import numpy as np
from sklearn.base import clone

from bagwise.testing._tools import assert_same, fit, output, skip, toy


def check_same_seed(estimator):
    """The same seed gives the same result, bit by bit."""
    X, y = toy()
    a, b = fit(estimator, X, y), fit(estimator, X, y)
    np.testing.assert_array_equal(output(a, X), output(b, X))


def check_n_jobs(estimator):
    """The number of workers does not change the result."""
    if "n_jobs" not in estimator.get_params(deep=False):
        skip("has no n_jobs")
    X, y = toy()
    one = fit(clone(estimator).set_params(n_jobs=1), X, y)
    two = fit(clone(estimator).set_params(n_jobs=2), X, y)
    assert_same(output(one, X), output(two, X), 1e-12, "n_jobs")


def check_round_trip(estimator):
    """Pickling and `bagwise.save` keep the fitted model."""
    import bagwise

    X, y = toy()
    model = fit(estimator, X, y)
    expected = output(model, X)
    assert_same(expected, output(pickle.loads(pickle.dumps(model)), X), 0.0, "pickle")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bagwise"
        bagwise.save(model, path)
        assert_same(expected, output(bagwise.load(path), X), 0.0, "save and load")


def check_fit_changes_nothing(estimator):
    """`fit` leaves the parameters and the data as they were."""
    X, y = toy()
    data, labels = X.data.copy(), y.copy()
    model = clone(estimator)
    before = {k: repr(v) for k, v in model.get_params().items()}
    model.fit(X, y)
    assert before == {k: repr(v) for k, v in model.get_params().items()}
    np.testing.assert_array_equal(X.data, data)
    np.testing.assert_array_equal(y, labels)
