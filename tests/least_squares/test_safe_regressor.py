"""SAFERegressor: against scikit-learn, a direct minimum, and exact properties."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict

from bagwise.bags import Bags
from bagwise.bags.segments import segment_mean, segment_sum
from bagwise.least_squares import SAFE, SAFERegressor


def draw(seed=0, n_bags=40, largest=6):
    rng = np.random.default_rng(seed)
    X = Bags.from_list(
        [rng.normal(size=(rng.integers(1, largest + 1), 3)) for _ in range(n_bags)]
    )
    y = segment_mean(X.data[:, 0] ** 2 - X.data[:, 1], X.offsets)
    return X, y + 0.1 * rng.normal(size=n_bags) + 5.0


OPTIONS = {
    "exact": {"gamma": 0.3},
    "exact variance": {"gamma": 0.3, "variance_weight": 0.6},
    "linear": {"kernel": "linear", "variance_weight": 0.4},
    "landmarks": {
        "gamma": 0.3,
        "landmarks": np.random.default_rng(0).normal(size=(8, 3)),
        "variance_weight": 0.4,
    },
    "fourier": {"n_components": 9, "approximation": "rff", "random_state": 0},
    "largest": {"gamma": 0.3, "aggregation": "max"},
    "huber": {"gamma": 0.3, "loss": "huber", "delta": 0.5},
}


def test_bags_of_one_are_ridge_regression():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(50, 4)), rng.normal(size=50) + 3.0
    X = Bags(rows, np.arange(51))
    options = {"rho_scale": "absolute", "core": "kpca"}
    for aggregation in ("mean", "sum", "max"):
        model = SAFERegressor(
            2.0, kernel="linear", aggregation=aggregation, **options
        ).fit(X, y)
        ridge = Ridge(alpha=0.5).fit(rows, y)
        np.testing.assert_allclose(model.coef_[0], ridge.coef_, rtol=1e-9)
        assert model.intercept_[0] == pytest.approx(ridge.intercept_, rel=1e-9)
    # The intercept of the kernel model is free: subtract it and it is kernel ridge.
    model = SAFERegressor(2.0, gamma=0.2, **options).fit(X, y)
    b = model.intercept_[0]
    other = KernelRidge(alpha=0.5, kernel="rbf", gamma=0.2).fit(rows, y - b)
    np.testing.assert_allclose(model.predict(X), other.predict(rows) + b, rtol=1e-9)


def test_mean_aggregation_is_ridge_on_means():
    X, y = draw()
    model = SAFERegressor(3.0, kernel="linear", rho_scale="absolute").fit(X, y)
    ridge = Ridge(alpha=1.0 / 3.0).fit(segment_mean(X.data, X.offsets), y)
    np.testing.assert_allclose(model.coef_[0], ridge.coef_, rtol=1e-9)
    np.testing.assert_allclose(
        model.instance_scores(X).values, ridge.predict(X.data), rtol=1e-9
    )


@pytest.mark.parametrize("aggregation", ["mean", "sum"])
def test_variance_weight_minimises_the_documented_objective(aggregation):
    X, y = draw(1, n_bags=25)
    model = SAFERegressor(
        0.7,
        rho_scale="absolute",
        kernel="linear",
        core="kpca",
        aggregation=aggregation,
        variance_weight=0.5,
    ).fit(X, y)
    gamma = model.variance_weight_abs_
    assert gamma == pytest.approx(0.5 * model.gamma_max_)
    middle = y.mean() if aggregation == "mean" else 0.0
    pool = segment_mean if aggregation == "mean" else segment_sum

    def objective(theta):
        e = X.data @ theta[:-1] + theta[-1]
        gap = pool(e, X.offsets) - y
        return (
            theta[:-1] @ theta[:-1] / 2
            - gamma / 2 * np.sum((e - middle) ** 2)
            + 0.7 / 2 * gap @ gap
        )

    found = np.append(model.coef_, model.intercept_)
    best = minimize(objective, np.zeros(4), tol=1e-12)
    assert objective(found) <= best.fun + 1e-9
    np.testing.assert_allclose(found, best.x, atol=1e-4)


@pytest.mark.parametrize("name", OPTIONS)
def test_shift_and_scale_of_y(name):
    X, y = draw(2)
    options = OPTIONS[name]
    plain = SAFERegressor(**options).fit(X, y)
    shifted = SAFERegressor(**options).fit(X, y + 100.0)
    np.testing.assert_allclose(shifted.predict(X), plain.predict(X) + 100.0, rtol=1e-7)
    if "delta" in options:  # it has the units of y
        options = {**options, "delta": 7.0 * options["delta"]}
    scaled = SAFERegressor(**options).fit(X, 7.0 * y)
    np.testing.assert_allclose(scaled.predict(X), 7.0 * plain.predict(X), rtol=1e-6)
    assert scaled.gamma_max_ == pytest.approx(plain.gamma_max_, rel=1e-8)


def test_labels_minus_one_and_one_are_the_classifier():
    X, y = draw(3)
    t = np.where(y > np.median(y), 1.0, -1.0)
    for options in ({"variance_weight": 0.5}, {"kernel": "linear"}):
        classifier = SAFE(aggregation="sum", **options).fit(X, t)
        regressor = SAFERegressor(aggregation="sum", **options).fit(X, t)
        np.testing.assert_allclose(
            regressor.predict(X), classifier.decision_function(X), rtol=1e-10
        )
        assert regressor.gamma_max_ == pytest.approx(classifier.gamma_max_, rel=1e-10)


@pytest.mark.parametrize("name", OPTIONS)
def test_several_outputs_are_single_ones(name):
    X, y = draw(4)
    Y = np.column_stack([y, -2.0 * y + X.sizes, np.sin(y)])
    model = SAFERegressor(**OPTIONS[name]).fit(X, Y)
    assert model.predict(X).shape == (40, 3)
    assert model.instance_scores(X).values.shape == (X.n_instances, 3)
    for k in range(3):
        one = SAFERegressor(**OPTIONS[name]).fit(X, Y[:, k])
        np.testing.assert_allclose(model.predict(X)[:, k], one.predict(X), rtol=1e-6)


@pytest.mark.parametrize("name", ["linear", "landmarks", "fourier"])
def test_a_stream_equals_fit(name):
    X, y = draw(5)
    options = {**OPTIONS[name], "gamma": 0.3}
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    whole = SAFERegressor(**options).fit(X, y, sample_weight=weight)
    stream = SAFERegressor(**options)
    for part in (slice(0, 15), slice(15, 30), slice(30, 40)):
        stream.partial_fit(X[part], y[part], sample_weight=weight[part])
    np.testing.assert_allclose(stream.predict(X), whole.predict(X), rtol=1e-9)
    assert stream.gamma_max_ == pytest.approx(whole.gamma_max_, rel=1e-9)
    with pytest.raises(ValueError, match=r"y has 2 column\(s\), earlier bags had 1"):
        stream.partial_fit(X, np.column_stack([y, y]))


def test_repeated_instances_change_nothing_under_mean_and_max():
    X, y = draw(6)
    twice = Bags(np.repeat(X.data, 2, axis=0), 2 * X.offsets)
    for aggregation in ("mean", "max"):
        options = {"aggregation": aggregation, "gamma": 0.3}
        one = SAFERegressor(**options).fit(X, y)
        two = SAFERegressor(**options).fit(twice, y)
        np.testing.assert_allclose(one.predict(X), two.predict(twice), rtol=1e-6)


def test_weights_are_repetition():
    X, y = draw(7)
    count = np.random.default_rng(1).integers(0, 3, len(y))
    bags = np.repeat(np.arange(len(y)), count)
    one = SAFERegressor(variance_weight=0.4).fit(X, y, sample_weight=count)
    two = SAFERegressor(variance_weight=0.4).fit(X[bags], y[bags])
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-6)


def test_key_instances_have_the_largest_share():
    X, y = draw(8)
    for sign in (1.0, -1.0):
        model = SAFERegressor(kernel="linear").fit(X, sign * y)
        scores = model.instance_scores(X)
        best = [np.argmax(sign * part) for part in scores]
        np.testing.assert_array_equal(model.key_instances(X), best)
    model = SAFERegressor(kernel="linear", aggregation="max").fit(X, -y)
    best = [np.argmax(part) for part in model.instance_scores(X)]
    np.testing.assert_array_equal(model.key_instances(X), best)


def test_gamma_beyond_the_border_is_refused():
    X, y = draw(9)
    bound = SAFERegressor().fit(X, y).gamma_max_
    with pytest.raises(ValueError, match="saddle point"):
        SAFERegressor(variance_weight_abs=1.01 * bound).fit(X, y)


def test_a_smooth_function_of_instances_is_learned():
    X, y = draw(10, n_bags=200)
    new, y_new = draw(11, n_bags=200)
    assert SAFERegressor(rho=300.0).fit(X, y).score(new, y_new) > 0.8


def test_composes_with_scikit_learn():
    X, y = draw(12)
    model = SAFERegressor(kernel="linear")
    logged = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp)
    out = cross_val_predict(logged, X, y, cv=3)
    assert out.shape == y.shape
    assert (out > 0).all()
    search = GridSearchCV(SAFERegressor(), {"rho": [3.0, 300.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"rho": 300.0}
    stack = StackingRegressor([("a", model), ("b", SAFERegressor(rho=300.0))], cv=3)
    assert stack.fit(X, y).score(X, y) > 0.5
