"""KI-SVM in its own form, and as the limit of MI-ODM."""

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.optimize import minimize, nnls
from sklearn.metrics.pairwise import rbf_kernel

from bagwise import Bags
from bagwise.base import bag_folds
from bagwise.compose import OnInstances
from bagwise.datasets import make_key_instance_bags
from bagwise.svm import KISVM, MIODM


@pytest.fixture(scope="module")
def data():
    return make_key_instance_bags(24, n_features=3, bag_size=(2, 4), random_state=1)


@pytest.mark.parametrize("level", ["instance", "bag"])
def test_equals_the_special_case(data, level):
    X, y = data
    p, q = (y == 1).sum(), (y == 0).sum()
    settings = {"gamma": 0.5, "tol": 1e-7, "level": level, "random_state": 0}
    settings["threshold"] = "zero"
    one = KISVM(4.0, **settings).fit(X, y)
    two = MIODM(2.0 * p, 2.0 * q, theta=0.0, nu=0.0, **settings).fit(X, y)
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-9)
    np.testing.assert_allclose(
        one.decision_function(X), two.decision_function(X), atol=1e-9
    )


@pytest.mark.parametrize("intercept", [True, False])
def test_equals_the_special_case_on_real_folds(benchmark, intercept):
    """The same problem on Musk1, and its value by another solver.

    For the mixture found, beta = argmin 1/2 beta' (K + I / C) beta - sum(beta) over
    beta >= 0 is a problem of non-negative least squares, and J is sum(beta) / 2.
    """
    data, C = benchmark("musk1"), 10.0
    for train, test in bag_folds(data.X, data.y, 5, random_state=0)[:2]:
        y, scaler = data.y[train], OnInstances().fit(data.X[train])
        X, held_out = scaler.transform(data.X[train]), scaler.transform(data.X[test])
        p, q = int(y.sum()), int((1 - y).sum())
        settings = {"level": "bag", "threshold": "zero", "random_state": 0}
        settings["fit_intercept"] = intercept
        one = KISVM(C, **settings).fit(X, y)
        two = MIODM(C / 2 * p, C / 2 * q, theta=0.0, nu=0.0, **settings).fit(X, y)
        np.testing.assert_allclose(
            one.decision_function(held_out), two.decision_function(held_out), atol=1e-6
        )
        plus, minus = X[y == 1], X[y == 0]
        mean = np.repeat(np.eye(q) / minus.sizes[:, None], minus.sizes, axis=1)
        K = np.eye(p + q) / C
        for share, keys in zip(two.assignment_weight_, two.assignments_, strict=True):
            chosen = np.eye(plus.n_instances)[plus.offsets[:-1] + keys]
            rows = block_diag(chosen, -mean)
            every = np.concatenate([plus.data, minus.data])
            values = rbf_kernel(every, gamma=two.gamma_) + intercept
            K += share * (rows @ values @ rows.T)
        root = np.linalg.cholesky(K)
        beta, _ = nnls(root.T, np.linalg.solve(root, np.ones(p + q)))
        assert two.objective_ == pytest.approx(beta.sum() / 2, rel=1e-6)


def test_value_in_the_form_with_a_free_margin():
    """With bags of one, the primal with rho is -1 / (4 J) and rho is 1 / sum(delta)."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(16, 3))
    y = (rows[:, 0] + 0.3 * rng.normal(size=16) > 0).astype(int)
    C = 3.0
    model = KISVM(C, kernel="linear", fit_intercept=False, tol=1e-9)
    model.fit(Bags(rows, np.arange(17)), y)
    signed = rows * np.where(y == 1, 1.0, -1.0)[:, None]

    def primal(x):
        slack = np.maximum(x[3] - signed @ x[:3], 0)
        value = 0.5 * x[:3] @ x[:3] - x[3] + 0.5 * C * slack @ slack
        slope = np.append(x[:3] - C * signed.T @ slack, -1 + C * slack.sum())
        return value, slope

    best = minimize(primal, np.zeros(4), jac=True, method="BFGS", tol=1e-10)
    assert best.fun == pytest.approx(-0.25 / model.objective_, rel=1e-7)
    assert best.x[3] == pytest.approx(model.rho_, rel=1e-4)
    np.testing.assert_allclose(best.x[:3], model.coef_ * model.rho_, atol=1e-5)


def test_theta_rescales_when_no_margin_is_too_large(data):
    """With w = (1 - theta) w', only margins above 1 + theta differ between the two."""
    X, y = data
    p, q = (y == 1).sum(), (y == 0).sum()
    theta, C = 0.2, 0.02  # weak enough that no margin gets large
    settings = {"gamma": 0.5, "tol": 1e-8, "random_state": 0, "threshold": "zero"}
    odm = MIODM(C * p, C * q, theta=theta, nu=0.5, **settings).fit(X, y)
    assert (-odm.instance_scores(X[y == 0]).values < 1 + theta).all()
    # F(w) = (1 - theta)^2 [ |w'|^2 / 2 + C / (1 - theta)^2 * squared hinge ]
    svm = KISVM(2 * C / (1 - theta) ** 2, **settings).set_params(level="instance")
    svm.fit(X, y)
    np.testing.assert_allclose(
        odm.decision_function(X), (1 - theta) * svm.decision_function(X), atol=1e-5
    )
    assert odm.objective_ == pytest.approx((1 - theta) ** 2 * svm.objective_, rel=1e-6)


def test_multi_class_and_parameter_range(data):
    X, y = data
    three = np.where(np.arange(len(y)) % 3 == 0, 2, y)
    model = KISVM(random_state=0).fit(X, three)
    assert model.decision_function(X).shape == (len(X), 3)
    assert len(model.estimators_) == 3
    with pytest.raises(ValueError, match="'C'"):
        KISVM(0.0).fit(X, y)
