"""The base of regressors, on a method of three lines."""

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.utils.estimator_checks import estimator_checks_generator

from bagwise.bags import Bags
from bagwise.bags.segments import segment_mean
from bagwise.base import BaseBagRegressor
from bagwise.testing import rows_as_bags


class MeanRegression(BaseBagRegressor):
    """Least squares on bag means: what an instance alone would give is its value."""

    _parameter_constraints: dict = {}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _fit_bags(self, X, y, weight):
        rows = segment_mean(X.data, X.offsets)
        self.model_ = LinearRegression().fit(rows, y, sample_weight=weight)

    def _predict_bags(self, X):
        return self.model_.predict(segment_mean(X.data, X.offsets))

    def _score_instances(self, X):
        return self.model_.predict(X.data)


class OneOutput(MeanRegression):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


def _problem(rng, n_outputs=None):
    X = Bags.from_list([rng.normal(size=(n, 3)) for n in rng.integers(1, 5, 40)])
    coef = rng.normal(size=3 if n_outputs is None else (3, n_outputs))
    return X, segment_mean(X.data, X.offsets) @ coef + 2.0


@pytest.mark.parametrize("cls", [MeanRegression, OneOutput])
def test_scikit_learn_battery(cls):
    for estimator, check in estimator_checks_generator(rows_as_bags(cls)()):
        check(estimator)


@pytest.mark.parametrize("n_outputs", [None, 1, 2])
def test_predictions_and_instances_are_in_units_of_y(rng, n_outputs):
    X, y = _problem(rng, n_outputs)
    model = MeanRegression().fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-10)
    assert model.score(X, y) == pytest.approx(1.0)
    values = model.instance_scores(X)
    np.testing.assert_allclose(segment_mean(values.values, X.offsets), y, atol=1e-10)
    keys = model.key_instances(X)
    assert keys.shape == y.shape
    for i, bag in enumerate(values.to_list()):
        np.testing.assert_array_equal(keys[i], bag.argmax(axis=0))


def test_weight_zero_is_a_bag_that_is_not_there(rng):
    X, y = _problem(rng)
    weight = np.ones(40)
    weight[30:] = 0.0
    spoilt = np.where(weight > 0, y, 1e3)
    a = MeanRegression().fit(X, spoilt, sample_weight=weight)
    b = MeanRegression().fit(X[:30], y[:30])
    np.testing.assert_allclose(a.predict(X), b.predict(X), atol=1e-8)
    with pytest.raises(ValueError, match="positive weight|non-zero"):
        MeanRegression().fit(X, y, sample_weight=np.zeros(40))
    with pytest.raises(ValueError, match="negative, got -1.0 for bag 3"):
        MeanRegression().fit(X, y, sample_weight=np.where(np.arange(40) == 3, -1, 1))


def test_targets_that_are_refused(rng):
    X, y = _problem(rng)
    spoilt = y.copy()
    spoilt[7] = np.nan
    with pytest.raises(ValueError, match="bag 7 .*has nan"):
        MeanRegression().fit(X, spoilt)
    with pytest.raises(ValueError, match="needs real numbers as y"):
        MeanRegression().fit(X, np.array(["low", "high"])[(y > 2).astype(int)])
    with pytest.raises(ValueError, match="39 entries for 40"):
        MeanRegression().fit(X, y[:-1])
    with pytest.raises(ValueError, match="per instance"):
        MeanRegression().fit(X, np.zeros(X.n_instances))
    with pytest.raises(ValueError, match="1d array"):
        OneOutput().fit(X, np.column_stack([y, y]))
    constant = MeanRegression().fit(X, np.full(40, 3.0))
    np.testing.assert_allclose(constant.predict(X), 3.0)


def test_composes_with_scikit_learn(rng):
    X, y = _problem(rng)
    model = TransformedTargetRegressor(
        MeanRegression(), func=np.arcsinh, inverse_func=np.sinh
    )
    assert is_regressor(MeanRegression())
    assert cross_val_predict(clone(model), X, y, cv=3).shape == y.shape
    search = GridSearchCV(model, {"regressor": [MeanRegression()]}, cv=3).fit(X, y)
    assert search.best_score_ < 1.0
