"""Features far from the origin, or in odd units: nothing changes, or it is said."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from bagwise.datasets import make_bags
from bagwise.svm import (
    KISVM,
    MICA,
    MILEAGE,
    MIODM,
    MISVM,
    PCSVM,
    SBMIL,
    SMIL,
    STMIL,
    BagSVC,
    MissSVM,
    MiSVM,
    RegSVM,
)

FREE_BIAS = [MISVM, MiSVM, SMIL, STMIL, SBMIL, MissSVM, MICA, MILEAGE]
FAMILY = [*FREE_BIAS, RegSVM, PCSVM, MIODM, KISVM]
PLACES = [(1e6, 1e4), (0.0, 1e-6), (0.0, 1e6)]


@pytest.fixture(scope="module")
def data():
    X, y = make_bags(n_bags=30, random_state=0)
    return X.with_data((X.data - X.data.mean(axis=0)) / X.data.std(axis=0)), y


@pytest.mark.parametrize("method", FAMILY)
def test_a_width_that_follows_the_data_makes_no_difference(data, method):
    X, y = data
    options = {"random_state": 0}
    if method is MissSVM:
        options["C"] = 10.0  # its optimum is constant with a smaller one
    scores = method(**options).fit(X, y).decision_function(X)
    for offset, scale in ((1e6, 1e4), (0.0, 1e-6)):
        moved = X.with_data(scale * X.data + offset)
        other = method(**options).fit(moved, y)
        np.testing.assert_allclose(other.decision_function(moved), scores, atol=1e-3)


@pytest.mark.parametrize("method", FREE_BIAS)
@pytest.mark.parametrize("wide", [False, True])
def test_a_free_bias_takes_up_an_offset(data, method, wide):
    """The linear problem is the same, and so is the answer."""
    X, y = data
    if wide:  # more columns than rows: by the kernel matrix
        X = X.with_data(np.hstack([X.data] + 12 * [0.1 * X.data]))
    options = {"kernel": "linear", "random_state": 0, "threshold": "zero"}
    model = method(**options).fit(X, y)
    moved = X.with_data(X.data + 1e6)
    other = method(**options).fit(moved, y)
    np.testing.assert_allclose(
        other.decision_function(moved), model.decision_function(X), atol=2e-4
    )


@pytest.mark.parametrize("method", FAMILY)
@pytest.mark.parametrize(("offset", "scale"), PLACES)
def test_a_linear_machine_is_solved_or_says_so(data, method, offset, scale):
    X, y = data
    moved = X.with_data(scale * X.data + offset)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = method(kernel="linear", random_state=0).fit(moved, y)
        except ValueError as error:
            refused = str(error)
        else:
            refused = ""
    if refused:
        assert "standardize" in refused
    elif not said:
        assert abs(model.duality_gap_) <= 0.02 * model.objective_


def test_an_offset_does_not_cost_the_answer():
    """Columns with mean 1e6 and deviation 1e4, and a large C."""
    X, y = make_bags(n_bags=40, random_state=1)
    near = X.with_data((X.data - X.data.mean(axis=0)) / X.data.std(axis=0))
    X = X.with_data(1e4 * near.data + 1e6)
    model = MISVM(C=100.0, kernel="linear")
    expected = MISVM(C=100.0, kernel="linear").fit(near, y).score(near, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.score(X, y) >= expected >= 0.95


def test_sparse_rows_far_away_warn_that_they_are_not_solved(data):
    X, y = data
    moved = X.with_data(sp.csr_array(1e3 * X.data + 1e6))
    with pytest.warns(ConvergenceWarning, match="Standardize the features"):
        MiSVM(C=1e3, kernel="linear").fit(moved, y)


@pytest.mark.parametrize("method", [*FAMILY, BagSVC])
@pytest.mark.parametrize("scale", [1e160, 1e-160])
def test_squares_out_of_range_are_refused(data, method, scale):
    X, y = data
    with pytest.raises(ValueError, match="range of floats|squares underflow"):
        method().fit(X.with_data(scale * X.data), y)
