"""EmbeddedSurvival: against scikit-survival itself, and a risk that is known."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise import Bags
from bagwise.compose import EmbeddedSurvival, OnInstances
from bagwise.datasets import make_survival_bags
from bagwise.embedding import SlicedWassersteinEmbedding
from bagwise.inspection import explain
from bagwise.metrics import concordance_index

pytest.importorskip("sksurv", reason="needs bagwise[survival]")

from sksurv.ensemble import RandomSurvivalForest
from sksurv.linear_model import CoxPHSurvivalAnalysis, IPCRidge


@pytest.fixture(scope="module")
def toy():
    return make_survival_bags(160, n_features=4, random_state=0, return_risk=True)


def test_the_rows_are_those_of_the_bags(toy):
    X, y, _ = toy
    means = np.array([bag.mean(axis=0) for bag in X])
    expected = CoxPHSurvivalAnalysis(alpha=2.0).fit(means, y)
    model = EmbeddedSurvival("mean", CoxPHSurvivalAnalysis(alpha=2.0)).fit(X, y)
    np.testing.assert_allclose(model.predict(X), expected.predict(means), atol=1e-8)
    assert model.score(X, y) == pytest.approx(expected.score(means, y))
    ours = model.predict_survival_function(X[:3], return_array=True)
    theirs = expected.predict_survival_function(means[:3], return_array=True)
    np.testing.assert_allclose(ours, theirs)
    alone = Bags(X.data, np.arange(X.n_instances + 1))
    np.testing.assert_allclose(model.instance_scores(X).values, model.predict(alone))


@pytest.mark.parametrize("kind", ["mean", "distribution"])
def test_it_comes_near_the_true_risk(kind):
    # Statistics are of columns: the spread that counts is that of the only one.
    size = {"n_features": 3 if kind == "mean" else 1, "bag_size": 60}
    X, y, risk = make_survival_bags(
        300, kind=kind, random_state=1, return_risk=True, **size
    )
    train, test = slice(0, 200), slice(200, 300)
    embedding = {"mean": "mean", "distribution": "statistics"}[kind]
    found = EmbeddedSurvival(embedding).fit(X[train], y[train])
    best = concordance_index(y[test], risk[test])
    assert best > 0.8
    assert found.score(X[test], y[test]) > best - 0.03
    if kind == "distribution":  # no mean can tell
        mean = EmbeddedSurvival("mean").fit(X[train], y[train])
        assert mean.score(X[test], y[test]) < best - 0.15


def test_forms_of_y(toy):
    X, y, _ = toy
    expected = EmbeddedSurvival().fit(X, y).predict(X)
    frame = pd.DataFrame({"time": y["time"], "event": y["event"].astype(int)})
    renamed = y.astype([("died", bool), ("days", float)])
    for same in (frame, renamed):
        model = EmbeddedSurvival().fit(X, same)
        np.testing.assert_array_equal(model.predict(X), expected)
        assert model.score(X, same) == model.score(X, y)


def test_models_that_predict_times_are_turned(toy):
    X, y, _ = toy
    late = y.copy()
    late["time"] += 0.1  # it takes logarithms
    model = EmbeddedSurvival("mean", IPCRidge(alpha=1.0)).fit(X, late)
    assert model.score(X, late) > 0.7
    assert not hasattr(model, "predict_survival_function")


def test_any_embedding_and_any_model(toy):
    X, y, _ = toy
    model = EmbeddedSurvival(
        SlicedWassersteinEmbedding(5, n_quantiles=4, random_state=0),
        RandomSurvivalForest(10, random_state=0),
    )
    whole = make_pipeline(OnInstances(StandardScaler()), model).fit(X[:80], y[:80])
    assert whole.score(X[80:], y[80:]) > 0.6
    copy = pickle.loads(pickle.dumps(whole))
    np.testing.assert_array_equal(copy.predict(X), whole.predict(X))
    assert clone(model).get_params()["estimator__n_estimators"] == 10
    grid = {"embedding": ["mean", "minmax"]}
    search = GridSearchCV(EmbeddedSurvival(), grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.6


def test_the_order_of_bags_does_not_matter(toy):
    X, y, _ = toy
    order = np.random.default_rng(0).permutation(len(X))
    one = EmbeddedSurvival().fit(X, y).predict(X)
    two = EmbeddedSurvival().fit(X[order], y[order]).predict(X)
    np.testing.assert_allclose(two, one, atol=1e-6)


def test_explanations_work(toy):
    X, y, _ = toy
    found = explain(EmbeddedSurvival().fit(X, y), X[:4])
    assert len(found.rows()) == X[:4].n_instances


def test_bad_input(toy):
    X, y, _ = toy
    model = EmbeddedSurvival()
    with pytest.raises(ValueError, match="fields 'event' and 'time'"):
        model.fit(X, y["time"])
    with pytest.raises(ValueError, match="entries for 160 bags"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="requires y"):
        model.fit(X, None)
    nobody = y.copy()
    nobody["event"] = False
    with pytest.raises(ValueError, match="no bag has an event"):
        model.fit(X, nobody)
    for wrong in (-1.0, np.nan, np.inf):
        broken = y.copy()
        broken["time"][3] = wrong
        with pytest.raises(ValueError, match="time must be finite.* for bag 3"):
            model.fit(X, broken)
    words = pd.DataFrame({"time": y["time"], "event": "dead"})
    with pytest.raises(ValueError, match=r"true or false \(1 or 0\), got dead"):
        model.fit(X, words)
    gaps = X.data.copy()
    gaps[5, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X.with_data(gaps), y)
    with pytest.raises(ValueError, match="features"):
        EmbeddedSurvival().fit(X, y).predict(Bags(X.data[:, :2], X.offsets))


def test_without_the_package_the_message_names_the_extra(toy, monkeypatch):
    import bagwise.base.survival as found

    X, y, _ = toy
    monkeypatch.setattr(found.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'bagwise\[survival\]'"):
        EmbeddedSurvival().fit(X, y)
    with pytest.raises(ImportError, match=r"bagwise\[survival\]"):
        bagwise.compare(X, y)


@pytest.mark.parametrize(
    "name",
    [
        "CoxPHSurvivalAnalysis",
        "SurvivalTree",
        "RandomSurvivalForest",
        "ExtraSurvivalTrees",
        "GradientBoostingSurvivalAnalysis",
    ],
)
def test_model_files_hold_models_of_scikit_survival(toy, tmp_path, name):
    from sksurv import ensemble, linear_model, tree

    X, y, _ = toy
    modules = (ensemble, linear_model, tree)
    cls = next(getattr(m, name) for m in modules if hasattr(m, name))
    few = {"n_estimators": 3} if hasattr(cls(), "n_estimators") else {}
    model = EmbeddedSurvival("minmax", cls(**few)).fit(X, y)
    bagwise.save(model, tmp_path / "model.bagwise")
    again = bagwise.load(tmp_path / "model.bagwise")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    curves = model.predict_survival_function(X)
    for one, two in zip(again.predict_survival_function(X), curves, strict=True):
        np.testing.assert_array_equal(one.x, two.x)
        np.testing.assert_array_equal(one.y, two.y)


def test_model_files_refuse_other_models_of_scikit_survival(toy, tmp_path):
    from sksurv.svm import FastSurvivalSVM

    X, y, _ = toy
    model = EmbeddedSurvival("mean", FastSurvivalSVM()).fit(X, y)
    with pytest.raises(ValueError, match="FastSurvivalSVM.*not among the classes"):
        bagwise.save(model, tmp_path / "model.bagwise")
    assert not (tmp_path / "model.bagwise").exists()
