import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bagwise.linear_model._mi_linear_regression import dense_ridge


@pytest.mark.parametrize("shape", [(30, 4), (6, 20)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_against_scikit_learn(shape, fit_intercept):
    rng = np.random.default_rng(0)
    Z, t = rng.normal(size=shape) + 3.0, rng.normal(size=shape[0]) + 50.0
    weight = rng.uniform(0.5, 2.0, size=shape[0])
    expected = Ridge(0.7, fit_intercept=fit_intercept, solver="svd")
    expected.fit(Z, t, sample_weight=weight)
    coef, constant = dense_ridge(Z, t, weight, 0.7, fit_intercept)
    np.testing.assert_allclose(coef, expected.coef_, atol=1e-9)
    assert constant == pytest.approx(expected.intercept_)


def test_ridge_without_a_penalty_to_speak_of():
    Z = np.repeat(np.arange(6.0)[:, None], 3, axis=1)  # one column, three times
    coef, constant = dense_ridge(Z, 3.0 * Z[:, 0] + 1.0, np.ones(6), 1e-300, True)
    np.testing.assert_allclose(coef, 1.0)
    assert constant == pytest.approx(1.0)
