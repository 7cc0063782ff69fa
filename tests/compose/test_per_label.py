"""Several labels per bag: a classifier for each."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bagwise
from bagwise import BagClassifier
from bagwise.compose import OneModelPerLabel, SimpleMI, WrapperMI
from bagwise.datasets import make_bags
from bagwise.linear_model import MILinearRegression
from bagwise.svm import MISVM


@pytest.fixture
def toy():
    X, y = make_bags(30, n_features=3, random_state=0)
    return X, np.column_stack([y, X.sizes > np.median(X.sizes)]).astype(int)


def test_columns_are_those_of_one_model_each(toy, tmp_path):
    X, Y = toy
    weight = np.linspace(0.5, 2.0, 30)
    model = OneModelPerLabel(WrapperMI()).fit(X, Y, sample_weight=weight)
    each = [WrapperMI().fit(X, column, sample_weight=weight) for column in Y.T]
    for method in ("predict", "decision_function"):
        expected = np.column_stack([getattr(one, method)(X) for one in each])
        np.testing.assert_array_equal(getattr(model, method)(X), expected)
    expected = np.column_stack([one.predict_proba(X)[:, 1] for one in each])
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    bagwise.save(model, tmp_path / "m")
    again = bagwise.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), expected)
    fitted = OneModelPerLabel.of(each)
    np.testing.assert_array_equal(fitted.predict(X), model.predict(X))


def test_methods_are_those_of_the_estimator(toy):
    X, Y = toy
    model = OneModelPerLabel(SimpleMI())
    assert not hasattr(model, "predict_proba")  # SVC has none
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match="column for each label"):
        model.fit(X, Y[:, 0])
    assert clone(model).get_params(deep=False).keys() == {"estimator"}


@pytest.mark.parametrize("model", [BagClassifier(), SimpleMI()], ids=str)
def test_classifiers_of_one_label_name_the_wrapper(toy, model):
    X, Y = toy
    name = type(model).__name__
    for table in (Y, Y.tolist()):
        with pytest.raises(ValueError, match=rf"OneModelPerLabel\({name}\(\)\)"):
            model.fit(X, table)


def test_classifiers_name_the_wrapper_for_several_labels(toy):
    X, Y = toy
    for model in (BagClassifier(), MISVM()):
        name = type(model).__name__
        with pytest.raises(
            ValueError, match=rf"compose.OneModelPerLabel\({name}\(\)\)"
        ):
            model.fit(X, Y)


def test_regressors_do_not(toy):
    X, Y = toy
    with pytest.raises(ValueError, match="1d array"):
        MILinearRegression().fit(X, Y.astype(float))
