"""Prediction sets: the quantile, the coverage, and agreement with MAPIE."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import bagwise
from bagwise.bags import Bags
from bagwise.compose import SimpleMI, SimpleMIRegressor
from bagwise.inspection import prediction_sets
from bagwise.inspection.conformal import conformal_quantile
from bagwise.io.record import ModelRecord


def with_record(model, X, y, groups=None, **about):
    """Give a model held-out predictions, of bags that it was not fitted to."""
    if hasattr(model, "classes_"):
        truth = np.searchsorted(model.classes_, y)
        held = {"probability": model.predict_proba(X)[:, 1], "truth": truth}
    else:
        held = {"prediction": model.predict(X), "truth": np.asarray(y)}
    if groups is not None:
        held["group"] = np.asarray(groups)
    model.training_record_ = ModelRecord(about, held, {})
    return model


def simulated(rng, n_groups, real=False):
    """Return bags in groups of different sizes that share their level."""
    count = rng.integers(1, 6, n_groups)
    group = np.repeat(np.arange(n_groups), count)
    center = rng.normal(size=(n_groups, 2))[group] + 0.6 * rng.normal(
        size=(len(group), 2)
    )
    sizes = rng.integers(2, 6, len(group))
    data = np.repeat(center, sizes, axis=0) + rng.normal(size=(sizes.sum(), 2))
    X = Bags(data, np.append(0, np.cumsum(sizes)), groups=group)
    signal = center[:, 0] + 0.7 * rng.normal(size=n_groups)[group]
    signal = signal + 0.5 * rng.normal(size=len(group))
    return X, signal if real else (signal > 0).astype(int), group


def test_the_quantile_is_that_of_split_conformal_prediction():
    rng = np.random.default_rng(0)
    for n in (9, 19, 39, 199):
        scores = rng.normal(size=n)
        for alpha in (0.05, 0.1, 0.3):
            k = (n + 1) * (1 - alpha)
            if k > n:
                assert conformal_quantile(scores, alpha) == np.inf
            elif abs(k - round(k)) < 1e-9:
                expected = np.sort(scores)[round(k) - 1]
                assert conformal_quantile(scores, alpha) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "alpha"), [(9, 0.15), (15, 0.1), (30, 0.1), (57, 0.07)])
def test_the_quantile_of_uniform_scores_covers_what_is_asked(n, alpha):
    draws = np.random.default_rng(n).random((20_000, n))
    covered = np.array([conformal_quantile(scores, alpha) for scores in draws])
    error = covered.std() / np.sqrt(len(draws))
    assert abs(covered.mean() - (1 - alpha)) < 4 * error


def test_a_tied_score_is_not_excluded_by_rounding():
    for n in range(3, 60):
        for k in range(1, n + 1):
            scores = np.repeat([0.1, 0.7], [k - 1, n + 1 - k])
            assert conformal_quantile(scores, 1 - k / (n + 1)) >= 0.7


def test_groups_count_once():
    scores = np.array([5.0, 5.0, 5.0, 1.0, 2.0, 3.0])
    groups = np.array(["a", "a", "a", "b", "c", "d"])
    # Four groups: thresholds 1, 2, 3 reach 1/5, 2/5 and 3/5, and 5 reaches 4/5.
    assert conformal_quantile(scores, 0.4, groups) == 3.0
    assert conformal_quantile(scores, 0.2, groups) == 5.0
    assert conformal_quantile(scores, 0.1, groups) == np.inf


def test_sets_are_those_of_mapie():
    classification = pytest.importorskip("mapie.classification")
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(400, 2))
    y = (rows[:, 0] + rng.normal(size=400) > 0).astype(int)
    X = Bags(rows, np.arange(401))
    plain = LogisticRegression().fit(rows[:200], y[:200])
    mapie = classification.SplitConformalClassifier(
        plain, confidence_level=0.9, conformity_score="lac", prefit=True
    ).conformalize(rows[200:299], y[200:299])
    _, theirs = mapie.predict_set(rows[300:])
    model = SimpleMI(LogisticRegression()).fit(X[:200], y[:200])
    ours = prediction_sets(with_record(model, X[200:299], y[200:299]), X[300:])
    np.testing.assert_allclose(
        model.predict_proba(X[300:]), plain.predict_proba(rows[300:]), atol=1e-9
    )
    np.testing.assert_array_equal(ours.member, theirs[:, :, 0])


@pytest.mark.parametrize("real", [False, True])
def test_bags_of_new_groups_are_covered(real):
    """The mean over draws; studies/scripts/prediction_sets.py has many more."""
    covered = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y, group = simulated(rng, 160, real)
        train, held, new = group < 30, (group >= 30) & (group < 80), group >= 80
        kind = SimpleMIRegressor() if real else SimpleMI(LogisticRegression())
        model = kind.fit(X[train], y[train])
        with_record(model, X[held], y[held], group[held])
        covered.append(prediction_sets(model, X[new]).covers(y[new]).mean())
    assert 0.87 < np.mean(covered) < 0.95


def test_each_class_is_covered_on_request():
    rng = np.random.default_rng(3)
    by_class, overall = [], []
    for _ in range(10):
        rows = rng.normal(size=(900, 1))
        y = (rows[:, 0] + rng.normal(size=900) > 1.6).astype(int)  # rare
        X = Bags(rows, np.arange(901))
        model = SimpleMI(LogisticRegression()).fit(X[:300], y[:300])
        with_record(model, X[300:600], y[300:600])
        rare = y[600:] == 1
        for out, per_class in ((by_class, True), (overall, False)):
            found = prediction_sets(model, X[600:], per_class=per_class)
            out.append(found.covers(y[600:])[rare].mean())
    assert np.mean(by_class) > 0.86 > 0.6 > np.mean(overall)


def test_decision_values_of_any_two_labels_and_of_many():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(300, 2))
    X = Bags(rows, np.arange(301))
    y = np.where(rows[:, 0] + 0.5 * rng.normal(size=300) > 0, "a", "b")
    out = []
    for labels, positive in ((y, "a"), (np.where(y == "a", "z", "b"), "z")):
        result = bagwise.compare(
            X[:200],
            labels[:200],
            methods=["MI-SVM"],
            grid="none",
            n_jobs=1,
            time_limit=None,
            progress=False,
            pos_label=positive,
            conformal=0.2,
        )
        found = prediction_sets(result.fit_best().model, X[200:])
        assert found.alpha == 0.2
        out.append(found.covers(labels[200:]))
        assert found.labels[0][0] in ("a", "b", "z")
    np.testing.assert_array_equal(*out)
    many = np.digitize(rows[:, 0], [-0.5, 0.5])
    model = SimpleMI(LogisticRegression()).fit(X[:100], many[:100])
    held = {"probability": model.predict_proba(X[100:200]), "truth": many[100:200]}
    model.training_record_ = ModelRecord({}, held, {})
    found = prediction_sets(model, X[200:])
    assert found.member.shape == (100, 3)
    assert 0.8 < found.covers(many[200:]).mean() < 1.0


def test_what_has_no_sets_is_refused():
    X = Bags(np.arange(40.0)[:, None], np.arange(41))
    y = np.arange(40) % 2
    model = SimpleMI(LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="no held-out|none: models of"):
        prediction_sets(model, X)
    with_record(model, X, y)
    with pytest.raises(ValueError, match="between 0 and 1"):
        prediction_sets(model, X, alpha=1.5)
    model.training_record_ = ModelRecord({}, {}, {})
    with pytest.raises(ValueError, match="held-out training bags"):
        prediction_sets(model, X)
