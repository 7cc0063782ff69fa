"""Checks that what no method can use is refused, with the culprit named."""

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from bagwise.testing._tools import (
    assert_same,
    fit,
    need_classifier,
    output,
    raises,
    skip,
    toy,
)


def check_bad_bags(estimator):
    """What no method can use is refused with a message that names the culprit."""
    X, y = toy()
    bags = X.to_list()
    fit = lambda bags, labels=y: clone(estimator).fit(bags, labels)  # noqa: E731
    wrong = (ValueError, TypeError)
    raises(lambda: fit([], []), wrong, "empty")
    raises(lambda: fit([bags[0], bags[1][:0], *bags[2:]]), wrong, "bag 1", "empty")
    raises(lambda: fit([*bags[:-1], bags[-1][:, :2]]), wrong, "bag 23", "features")
    raises(lambda: fit(X.data), wrong, "bag_ids")
    raises(lambda: fit("abc"), wrong, "bags")
    if not get_tags(estimator).input_tags.allow_nan:
        for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
            spoilt = [b.copy() for b in bags]
            spoilt[5][1, 2] = value
            message = ("bag 5", "instance 1", "column 2", word)
            raises(lambda spoilt=spoilt: fit(spoilt), wrong, *message)
    text = [*bags[:-1], np.full(bags[-1].shape, "red", dtype=object)]
    raises(lambda: fit(text), wrong, "numeric")


def check_bad_labels(estimator):
    """Labels that do not fit the bags are refused."""
    need_classifier(estimator)
    X, y = toy()
    raises(lambda: clone(estimator).fit(X, y[:-1]), ValueError, "23", "24")
    raises(lambda: clone(estimator).fit(X, np.zeros(len(X))), ValueError, "class")
    per_row = np.repeat(y, X.sizes)
    raises(lambda: clone(estimator).fit(X, per_row), ValueError, "per instance")


def check_bad_prediction(estimator):
    """Prediction before `fit`, or on other features, is refused."""
    X, y = toy()
    raises(lambda: output(clone(estimator), X), NotFittedError, "fit")
    model = fit(estimator, X, y)
    narrow = X.with_data(X.data[:, :3])
    raises(lambda: output(model, narrow), ValueError, "3", "4", "features")
    named = X.with_data(X.data, feature_names=["a", "b", "c", "d"])
    other = X.with_data(X.data, feature_names=["a", "b", "c", "e"])
    model = fit(estimator, named, y)
    raises(lambda: output(model, other), ValueError, "'d'", "'e'")
    wide = X.with_data(
        np.column_stack([X.data, X.data[:, 0]]), feature_names=[*"abcd", "label"]
    )
    raises(lambda: output(model, wide), ValueError, "not seen in fit: label")


def check_other_values(estimator):
    """What numpy would turn into other numbers is refused before any work."""
    X, y = toy()
    wrong = (ValueError, TypeError)
    fit_on = lambda bags: clone(estimator).fit(bags, y)  # noqa: E731
    bags = X.to_list()
    mask = np.zeros(bags[2].shape, dtype=bool)
    mask[0, 1] = True
    masked = [*bags[:2], np.ma.array(bags[2], mask=mask), *bags[3:]]
    raises(lambda: fit_on(masked), wrong, "bag 2", "masked", "[0, 1]")
    raises(lambda: fit_on([b + 1j for b in bags]), wrong, "complex")
    dates = np.full(bags[0].shape, np.datetime64("NaT", "s"))
    raises(lambda: fit_on([dates, *bags[1:]]), wrong, "bag 0", "dates")
    if get_tags(estimator).target_tags.required:
        model = clone(estimator)
        hidden = np.ma.array(y, mask=np.arange(len(y)) == 2)
        raises(lambda: model.fit(X, hidden), ValueError, "y is a masked", "[2]")
    if is_classifier(estimator):
        words = np.where(y == y[2], None, "word").astype(object)
        raises(lambda: clone(estimator).fit(X, words), ValueError, "label of bag")
    if not get_tags(estimator).input_tags.allow_nan:
        for factor in (1e160, 1e-160):
            raises(lambda f=factor: fit_on(X.with_data(X.data * f)), wrong, "scale")


def check_bags_without_weight(estimator):
    """A bag without weight is a bag that is not there, whatever it holds."""
    if not has_fit_parameter(estimator, "sample_weight"):
        skip("takes no sample_weight")
    X, y = toy()
    weight = np.ones(len(X))
    weight[[2, 5, 9]] = 0.0
    rows = np.repeat(weight == 0.0, X.sizes)
    far = X.with_data(np.where(rows[:, None], 1e3, X.data))
    model = clone(estimator)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=0)
    model.fit(far, y, sample_weight=weight)
    used = np.flatnonzero(weight)
    expected = output(fit(estimator, X[used], y[used]), X)
    assert_same(expected, output(model, X), 1e-9, "bags without weight")


def check_bad_weights(estimator):
    """Negative and absurd weights are refused, with the bag named."""
    if not has_fit_parameter(estimator, "sample_weight"):
        skip("takes no sample_weight")
    X, y = toy()
    for value, word in ((-1.0, "negative"), (1e300, "exceed"), (1e12, "exceed")):
        weight = np.ones(len(X))
        weight[3] = value
        model = clone(estimator)
        raises(
            lambda m=model, w=weight: m.fit(X, y, sample_weight=w),
            ValueError,
            word,
            "bag 3",
        )
    weight = np.ma.array(np.ones(len(X)), mask=np.arange(len(X)) == 3)
    model = clone(estimator)
    raises(lambda: model.fit(X, y, sample_weight=weight), ValueError, "masked", "[3]")
