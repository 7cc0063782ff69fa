"""Sums over trees are scikit-learn's own predictions, to the last bit."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge

from bagwise.compose import WrapperMI, WrapperMIRegressor
from bagwise.compose.forests import class_probabilities, decision_values, values
from bagwise.datasets import make_bags


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return np.round(rng.normal(size=(90, 6)), 1)


def targets(rows, n_classes):
    return np.digitize(rows[:, 0] + rows[:, 1] ** 2, np.linspace(0, 3, n_classes - 1))


FORMATS = [
    np.asarray,
    np.float32,
    np.asfortranarray,
    sp.csr_matrix,
    lambda X: X[:1],
    lambda X: X[20:50],
]


@pytest.mark.parametrize("convert", FORMATS)
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("forest", [ExtraTreesClassifier, RandomForestClassifier])
def test_probabilities_are_equal(rows, forest, n_classes, convert):
    weight = np.linspace(0.1, 3.0, len(rows))
    y = targets(rows, n_classes)
    model = forest(13, max_features=2, random_state=0).fit(rows, y, weight)
    data = convert(rows)
    expected = model.predict_proba(data)
    found = class_probabilities(model, data)
    np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape


@pytest.mark.parametrize("convert", FORMATS)
@pytest.mark.parametrize("forest", [ExtraTreesRegressor, RandomForestRegressor])
def test_values_are_equal(rows, forest, convert):
    model = forest(13, random_state=0).fit(rows, rows[:, 0] * rows[:, 1] + 100.0)
    data = convert(rows)
    np.testing.assert_array_equal(values(model, data), model.predict(data))


@pytest.mark.parametrize(
    "convert", [one for one in FORMATS if one is not sp.csr_matrix]
)
@pytest.mark.parametrize("categories", [None, [1]])
def test_boosting_is_equal(rows, convert, categories):
    rows[:, 1] = np.digitize(rows[:, 1], [-1, 0, 1])
    options = {"max_iter": 9, "categorical_features": categories, "random_state": 0}
    two = HistGradientBoostingClassifier(**options).fit(rows, rows[:, 0] > rows[:, 1])
    more = HistGradientBoostingClassifier(**options).fit(rows, targets(rows, 3))
    values_of = HistGradientBoostingRegressor(**options).fit(rows, rows[:, 0] ** 2)
    data = convert(rows)
    for model in (two, more):
        expected = model.decision_function(data)
        np.testing.assert_array_equal(decision_values(model, data), expected)
    np.testing.assert_array_equal(values(values_of, data), values_of.predict(data))
    data[0, 0] = np.nan
    np.testing.assert_array_equal(
        decision_values(two, data), two.decision_function(data)
    )


def test_a_refit_is_noticed(rows):
    few, y = rows[:3], targets(rows, 2)
    for model, predict, expected in (
        (ExtraTreesClassifier(5), class_probabilities, "predict_proba"),
        (
            HistGradientBoostingClassifier(max_iter=5),
            decision_values,
            "decision_function",
        ),
    ):
        for labels in (y, 1 - y):
            found = predict(model.fit(rows, labels), few)
            np.testing.assert_array_equal(found, getattr(model, expected)(few))


def test_missing_values_are_passed_on(rows):
    rows[::4, 2] = np.nan
    model = RandomForestClassifier(5, random_state=0).fit(rows, targets(rows, 2))
    expected = model.predict_proba(rows)
    np.testing.assert_array_equal(class_probabilities(model, rows), expected)


def test_other_models_predict_themselves(rows):
    y = targets(rows, 2)
    both = np.column_stack([y, 1 - y])
    for model in (
        LogisticRegression().fit(rows, y),
        RandomForestClassifier(5, n_jobs=2, random_state=0).fit(rows, y),
    ):
        expected = model.predict_proba(rows)
        np.testing.assert_allclose(class_probabilities(model, rows), expected)
    for model in (
        Ridge().fit(rows, y),
        ExtraTreesRegressor(5, random_state=0).fit(rows, both),
    ):
        np.testing.assert_array_equal(values(model, rows), model.predict(rows))


def test_bad_rows_are_refused_as_by_scikit_learn(rows):
    model = RandomForestClassifier(5).fit(rows, targets(rows, 2))
    with pytest.raises(ValueError, match="5 features"):
        class_probabilities(model, rows[:, :5])
    with pytest.raises(ValueError, match="infinity"):
        class_probabilities(model, np.full((2, 6), np.inf))
    with pytest.raises(NotFittedError):
        class_probabilities(RandomForestClassifier(), rows)


def test_wrapper_methods_use_them():
    X, y = make_bags(20, n_features=3, random_state=0)
    forest = RandomForestClassifier(10, random_state=0)
    model = WrapperMI(forest, threshold="zero").fit(X, y)
    p = model.estimator_.predict_proba(X.data)[:, 1]
    expected = [part.mean() - 0.5 for part in np.split(p, X.offsets[1:-1])]
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-12)
    regressor = WrapperMIRegressor(RandomForestRegressor(10, random_state=0))
    regressor.fit(X, X.sizes.astype(float))
    p = regressor.estimator_.predict(X.data)
    np.testing.assert_array_equal(regressor.instance_scores(X).values, p)
