"""Checks of what a fit is: repeatable, the same in parallel, kept by files."""

import pickle
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
from joblib.externals.loky import ProcessPoolExecutor
from sklearn.base import clone

from bagwise.testing._tools import assert_same, fit, need_classifier, output, skip, toy


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


def check_refit_forgets(estimator):
    """A second fit leaves nothing of the first, also with other numbers of classes."""
    need_classifier(estimator)
    (X3, y3), (X2, y2) = toy(3), toy(2)
    for first, second in (((X3, y3), (X2, y2)), ((X2, y2), (X3, y3))):
        again = fit(estimator, *first)
        if "random_state" in again.get_params(deep=False):
            again.set_params(random_state=0)
        again.fit(*second)
        fresh = fit(estimator, *second)
        kept = {name for name in vars(again) if name.endswith("_")}
        assert kept == {name for name in vars(fresh) if name.endswith("_")}
        np.testing.assert_array_equal(output(again, X2), output(fresh, X2))


def check_kind_of_seed(estimator):
    """An integer of numpy is the same seed as one of Python."""
    if "random_state" not in estimator.get_params(deep=False):
        skip("draws nothing")
    X, y = toy()
    plain = clone(estimator).set_params(random_state=7).fit(X, y)
    other = clone(estimator).set_params(random_state=np.int64(7)).fit(X, y)
    np.testing.assert_array_equal(output(plain, X), output(other, X))


def _fit_and_answer(estimator, X, y):
    return output(fit(estimator, X, y), X)


@cache
def _other_process():
    """Return the one worker for all estimators, apart from those that joblib keeps."""
    # It never ends for want of work: a worker that does may take the next task along.
    return ProcessPoolExecutor(max_workers=1)


def check_fit_in_process(estimator):
    """A fit in another process, which knows nothing of this one, is the same fit."""
    X, y = toy()
    with warnings.catch_warnings():
        # A worker that has grown is replaced, of which loky's own thread warns; where
        # warnings are errors that would end the thread, and no answer came.
        warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
        found = _other_process().submit(_fit_and_answer, estimator, X, y).result(300)
    np.testing.assert_array_equal(_fit_and_answer(estimator, X, y), found)


def check_fit_in_threads(estimator):
    """Fits that run at the same time do not disturb one another."""
    X, y = toy()
    expected = output(fit(estimator, X, y), X)
    with ThreadPoolExecutor(2) as pool:
        models = list(pool.map(lambda _: fit(estimator, X, y), range(2)))
    for model in models:
        np.testing.assert_array_equal(expected, output(model, X))
