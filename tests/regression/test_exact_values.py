"""Exact properties of every exported regressor, and of the stack on its own folds."""

import numpy as np
import pytest
from sklearn.base import is_regressor
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import get_tags

from bagwise import BagRegressor, Bags
from bagwise.compose import SimpleMIRegressor
from bagwise.datasets import make_regression_bags
from bagwise.least_squares import BagKernelRidge, SAFERegressor
from bagwise.linear_model import MILinearRegression
from bagwise.neighbors import BagKNeighborsRegressor
from bagwise.svm import BagSVR
from bagwise.testing import all_estimators, make_instance
from bagwise.testing._battery import BATTERY

REGRESSORS = [cls for _, cls in all_estimators() if is_regressor(make_instance(cls))]
POOLINGS = ["mean", "max", "min", "softmax", "prime"]
MEMBERS = [("means", SimpleMIRegressor()), ("kernel", BagKernelRidge())]


@pytest.fixture(scope="module")
def toy():
    return make_regression_bags(24, n_features=3, random_state=0)


def test_the_batteries_know_every_regressor():
    names = {cls.__name__ for cls in REGRESSORS} - {"NeuralBagRegressor"}
    assert names == {
        "BagKNeighborsRegressor",
        "BagKernelRidge",
        "BagRegressor",
        "BagSVR",
        "MILinearRegression",
        "SAFERegressor",
        "SimpleMIRegressor",
        "WrapperMIRegressor",
    }
    assert len(BATTERY) > 20


@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_pooling_shifts_and_scales_with_y(pooling, toy):
    # Squared errors and the penalty are of one degree: nothing forbids it.
    X, y = toy
    model = MILinearRegression(pooling, C=5.0, n_init=2, random_state=0)
    plain = model.fit(X, y).predict(X)
    np.testing.assert_allclose(model.fit(X, y + 64.0).predict(X), plain + 64.0)
    np.testing.assert_allclose(model.fit(X, 8.0 * y).predict(X), 8.0 * plain)


@pytest.mark.parametrize("pooling", ["mean", "max", "min", "softmax"])
def test_predictions_are_pooled_values_of_instances(pooling, toy):
    X, y = toy
    model = MILinearRegression(pooling, random_state=0).fit(X, y)
    values = model.instance_scores(X)
    if pooling == "softmax":
        sharp = model.alpha / np.std(y)

        def pool(v):
            share = np.exp(sharp * (v - v.max()))
            return share @ v / share.sum()
    else:
        pool = {"mean": np.mean, "max": np.max, "min": np.min}[pooling]
    np.testing.assert_allclose(model.predict(X), [pool(v) for v in values])
    keys = model.key_instances(X)
    best = np.argmin if pooling == "min" else np.argmax
    np.testing.assert_array_equal(keys, [best(v) for v in values])


def test_the_stack_shifts_and_scales_with_y(toy):
    X, y = toy
    model = BagRegressor(MEMBERS, cv=3, random_state=0)
    plain = model.fit(X, y).predict(X)
    moved = model.fit(X, y - 300.0).predict(X)
    np.testing.assert_allclose(moved, plain - 300.0, atol=1e-6)
    scaled = model.fit(X, 16.0 * y).predict(X)
    np.testing.assert_allclose(scaled, 16.0 * plain, rtol=1e-8)


def test_the_stack_is_as_good_as_its_best_member_out_of_fold(toy):
    X, y = toy
    model = BagRegressor(MEMBERS, cv=4, random_state=0).fit(X, y)
    weights = np.array(list(model.member_weights_.values()))
    assert (weights >= 0).all()
    # Members learn values with mean zero.
    stack = (model.oof_predictions_ - y.mean()) @ weights + model.intercept_
    assert stack.mean() == pytest.approx(y.mean())
    errors = np.mean((model.oof_predictions_ - y[:, None]) ** 2, axis=0)
    # The ridge on the weights is 0.01 of the variance, and a member alone weighs one.
    assert np.mean((stack - y) ** 2) <= errors.min() + 0.01 * y.var()


@pytest.mark.parametrize(
    "model",
    [SimpleMIRegressor(), BagSVR(), BagKNeighborsRegressor(2), MILinearRegression()],
    ids=str,
)
def test_several_outputs_natively_or_by_one_model_each(model, toy):
    X, y = toy
    both = np.column_stack([y, y[::-1]])
    found = MultiOutputRegressor(model).fit(X, both).predict(X)
    if get_tags(model).target_tags.multi_output:
        np.testing.assert_allclose(model.fit(X, both).predict(X), found)
    else:
        with pytest.raises(ValueError, match="1d array"):
            model.fit(X, both)
    np.testing.assert_allclose(found[:, 0], model.fit(X, y).predict(X))
    np.testing.assert_allclose(found[:, 1], model.fit(X, y[::-1]).predict(X))


@pytest.mark.parametrize("cls", REGRESSORS)
def test_targets_that_are_no_numbers(cls, toy):
    X, y = toy
    model = make_instance(cls)
    with pytest.raises(ValueError, match="needs real numbers as y"):
        model.fit(X, np.where(y > 0, "high", "low"))
    for wrong in (np.nan, np.inf):
        holes = y.copy()
        holes[4] = wrong
        with pytest.raises(ValueError, match=r"bag 4 \(position 4\)"):
            model.fit(X, holes)
    with pytest.raises(ValueError, match="entries for 24 bags"):
        model.fit(X, y[:-1])


def test_duplicating_every_instance_changes_nothing_under_a_mean(toy):
    X, y = toy
    doubled = Bags(np.repeat(X.data, 2, axis=0), 2 * X.offsets)
    for model in (SimpleMIRegressor(), BagKernelRidge(gamma=0.3), SAFERegressor()):
        one = model.fit(X, y).predict(X)
        two = model.fit(doubled, y).predict(X)
        np.testing.assert_allclose(two, one, atol=1e-6)


def test_whole_numbers_are_no_classes_for_the_stack(toy):
    # Folds that kept the share of each value would have no place for a rare one.
    X, _ = toy
    y = np.repeat([7.0, 8.0, 9.0], [1, 9, 14])
    model = BagRegressor(MEMBERS, cv=4, random_state=0)
    whole = model.fit(X, y).oof_predictions_
    halves = model.fit(X, 0.5 * y + 0.3).oof_predictions_  # surely real values
    np.testing.assert_allclose(halves, 0.5 * whole + 0.3)
