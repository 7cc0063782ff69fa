"""Data, fits and assertions that the checks share."""

from unittest import SkipTest

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier

from bagwise.bags import Bags
from bagwise.datasets import make_bags


def skip(reason):
    """Skip a check with a reason, which pytest shows."""
    raise SkipTest(reason)


def need_classifier(estimator):
    """Skip a check that is about labels, unless the estimator is a classifier."""
    if not is_classifier(estimator):
        skip("not a classifier")


def toy(n_classes=2, seed=0):
    return make_bags(
        24, n_features=4, n_classes=n_classes, bag_size=(2, 5), random_state=seed
    )


def fit(estimator, X, y):
    model = clone(estimator)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=0)
    return model.fit(X, y)


def output(model, X):
    """Return scores, predicted values or transformed data."""
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    if not hasattr(model, "transform"):
        return model.predict(X)
    out = model.transform(X)
    out = out.data if isinstance(out, Bags) else out
    return out.toarray() if sp.issparse(out) else np.asarray(out)


def assert_same(a, b, rtol, what):
    scale = max(1.0, float(np.abs(a).max(initial=0.0)))
    worst = float(np.abs(a - b).max(initial=0.0))
    assert a.shape == b.shape, f"{what}: shape {a.shape} became {b.shape}"
    assert worst <= rtol * scale, f"{what}: off by {worst:.2e} at scale {scale:.2e}"


def gives_bags(model, X):
    """Return whether the output has one row per instance instead of one per bag."""
    if hasattr(model, "decision_function") or not hasattr(model, "transform"):
        return False
    return isinstance(model.transform(X), Bags)


def rows_of(X, bags):
    """Return the rows of some bags, in their order."""
    return np.concatenate([np.arange(X.offsets[i], X.offsets[i + 1]) for i in bags])


def raises(function, error, *words):
    try:
        function()
    except error as caught:
        text = str(caught).lower()
        for word in words:
            assert word.lower() in text, f"{word!r} is missing in the message: {caught}"
    else:
        raise AssertionError(f"no error was raised that mentions {words}")
