"""Probabilities and prediction sets: calibrators and MAPIE on bags."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV

from bagwise import compare
from bagwise.comparison import CrossValidation
from bagwise.compose import WrapperMI
from bagwise.datasets import make_bags
from bagwise.inspection import instance_scores
from bagwise.io import load, save
from bagwise.least_squares import SAFERegressor
from bagwise.svm import MISVM, BagSVC

METHODS = ["SimpleMI", "MI-SVM"]
QUIET = {
    "methods": METHODS,
    "protocol": CrossValidation(2),
    "grid": "none",
    "n_jobs": 1,
    "time_limit": None,
    "progress": False,
}


@pytest.fixture(scope="module")
def data():
    return make_bags(160, shift=2.0, random_state=0)


@pytest.fixture(scope="module")
def calibrated(data):
    return compare(*data, calibrate=True, **QUIET)


def test_instance_scores_through_a_calibrator(data):
    X, y = data
    whole = CalibratedClassifierCV(MISVM(kernel="linear"), ensemble=False, cv=3)
    whole.fit(X, y)
    inner = whole.calibrated_classifiers_[0].estimator
    found = instance_scores(whole, X).values
    np.testing.assert_array_equal(found, inner.instance_scores(X).values)
    several = CalibratedClassifierCV(MISVM(kernel="linear"), cv=3).fit(X, y)
    parts = [
        one.estimator.instance_scores(X).values
        for one in several.calibrated_classifiers_
    ]
    np.testing.assert_allclose(
        instance_scores(several, X).values, np.mean(parts, axis=0)
    )
    bags_only = CalibratedClassifierCV(BagSVC(kernel="statistics"), cv=2).fit(X, y)
    assert instance_scores(bags_only, X) is None


def test_compare_calibrates_every_method(data, calibrated):
    """Calibration adds probabilities and keeps the order of the bags."""
    X, y = data
    plain, found = compare(X, y, **QUIET), calibrated
    assert not found.failures
    assert found.provenance["calibration"] == "sigmoid, out of fold"
    for name in METHODS:
        raw, made = plain.runs(name), found.runs(name)
        assert all(row["log_loss"] is None for row in raw)
        assert all(row["log_loss"] < np.log(2) for row in made)
        for one, other in zip(raw, made, strict=True):
            assert one["key"] != other["key"]
            score = plain.arrays[one["key"]]["score"]
            p = found.arrays[other["key"]]["probability"]
            order = np.argsort(score)
            assert (np.diff(p[order]) >= -1e-12).all()  # a sigmoid keeps the order
    model = found.fit_best("MI-SVM").model
    assert model.predict_proba(X).shape == (160, 2)
    assert "instances" in found.arrays[found.runs("MI-SVM")[0]["key"]]


@pytest.mark.parametrize("words", [("idle", "active"), ("a", "on")])
def test_calibrated_model_of_a_named_class(data, calibrated, tmp_path, words):
    """Probabilities do not depend on the names and the order of the classes."""
    X, y = data
    no, yes = words
    found = compare(X, np.array(words)[y], calibrate=True, pos_label=yes, **QUIET)
    for name in METHODS:
        model = found.fit_best(name).model
        assert set(model.predict(X)) == {no, yes}
        save(model, tmp_path / "m.bagwise")
        for one in (model, load(tmp_path / "m.bagwise")):
            p = one.predict_proba(X)[:, list(one.classes_).index(yes)]
            expected = calibrated.fit_best(name).model.predict_proba(X)[:, 1]
            # Up to the tolerance of libsvm when classes are exchanged.
            np.testing.assert_allclose(p, expected, atol=1e-3)


def test_calibrated_probabilities_are_near_the_frequencies(data, calibrated):
    y, found = data[1], calibrated
    p = np.concatenate(
        [found.arrays[row["key"]]["probability"] for row in found.runs("MI-SVM")]
    )
    truth = np.concatenate(
        [y[found.arrays[row["key"]]["test"]] for row in found.runs("MI-SVM")]
    )
    high = p > 0.5
    for part in (high, ~high):
        error = np.sqrt((p[part] * (1 - p[part])).sum()) / part.sum()
        assert abs(p[part].mean() - truth[part].mean()) < 4 * error + 0.02


def test_mapie_gives_prediction_sets(data):
    """Cross-conformal sets contain the true label at the nominal rate."""
    mapie = pytest.importorskip("mapie.classification")
    X, y = data
    sets = mapie.CrossConformalClassifier(WrapperMI(), confidence_level=0.9, cv=4)
    sets.fit_conformalize(X[:100], y[:100])
    _, held = sets.predict_set(X[100:])
    covered = held[np.arange(60), y[100:], 0].mean()
    assert held.shape == (60, 2, 1)
    assert covered >= 0.9 - 4 * np.sqrt(0.09 / 60)


def test_mapie_gives_intervals():
    mapie = pytest.importorskip("mapie.regression")
    X, _ = make_bags(140, random_state=1)
    t = np.array([bag[:, 0].mean() + bag[:, 1].max() for bag in X])
    model = mapie.CrossConformalRegressor(
        SAFERegressor(), confidence_level=0.9, cv=4
    ).fit_conformalize(X[:90], t[:90])
    _, band = model.predict_interval(X[90:])
    inside = (band[:, 0, 0] <= t[90:]) & (t[90:] <= band[:, 1, 0])
    assert inside.mean() >= 0.9 - 4 * np.sqrt(0.09 / 50)
    assert (band[:, 1, 0] - band[:, 0, 0]).mean() < 4 * t.std()
