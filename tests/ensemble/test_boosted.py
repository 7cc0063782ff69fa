"""What boosting methods share: numbers of rounds are scored along one run."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from bagwise.bags import Bags
from bagwise.ensemble import MIBoosting, MILBoost

ROUNDS = [8, 1, 3, 20]
MODELS = [
    MILBoost(),
    MILBoost(
        estimator=DecisionTreeClassifier(max_depth=2, max_features=1), random_state=0
    ),
    MIBoosting(random_state=0),
    MIBoosting(estimator="stump"),
    MIBoosting(
        estimator=DecisionTreeClassifier(max_depth=2, max_features=1), random_state=3
    ),
]


def bags(n_classes):
    """Draw bags whose instances say something of the class."""
    rng = np.random.default_rng(7)
    y = np.arange(45) % n_classes
    data = [rng.normal(size=(rng.integers(2, 6), 3)) for _ in y]
    for bag, label in zip(data, y, strict=True):
        bag[:, label] += 0.8
    return Bags.from_list(data), y


@pytest.mark.filterwarnings("ignore:No weak learner")  # of a single round
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_rounds_along_one_run_score_as_fits_of_their_own(model, n_classes):
    X, y = bags(n_classes)
    scoring = "accuracy" if n_classes > 2 else "roc_auc"
    splits = list(StratifiedKFold(3).split(y, y))
    candidates = [{"n_estimators": n} for n in ROUNDS]
    plain = GridSearchCV(
        model, {"n_estimators": ROUNDS}, scoring=scoring, cv=splits, refit=False
    ).fit(X, y)
    shared = model._score_candidates(candidates, X, y, splits, scoring)
    expected = plain.cv_results_["mean_test_score"]
    assert len(set(expected)) > 1
    np.testing.assert_allclose(shared, expected, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_run_that_is_shortened_is_the_shorter_run(n_classes):
    X, y = bags(n_classes)
    long = MIBoosting(20, random_state=0).fit(X, y)._after(3)
    short = MIBoosting(3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(long.decision_function(X), short.decision_function(X))
    assert long.n_iter_ == short.n_iter_ == 3
    for one, two in zip(long._parts(), short._parts(), strict=True):
        np.testing.assert_array_equal(one.objective_path_, two.objective_path_)
        assert one.objective_ == two.objective_


def test_a_grid_of_rounds_costs_one_run_a_fold(monkeypatch):
    X, y = bags(2)
    splits = list(StratifiedKFold(3).split(y, y))
    fitted = []
    whole = MILBoost.fit
    monkeypatch.setattr(
        MILBoost,
        "fit",
        lambda self, *args: fitted.append(self.n_estimators) or whole(self, *args),
    )
    candidates = [{"n_estimators": n} for n in ROUNDS]
    MILBoost()._score_candidates(candidates, X, y, splits, "accuracy")
    assert fitted == [20, 20, 20]


@pytest.mark.parametrize(
    ("model", "candidates"),
    [
        (MILBoost(n_iter_no_change=2), [{"n_estimators": 3}]),
        (MILBoost(random_state=np.random.RandomState(0)), [{"n_estimators": 3}]),
        (MILBoost(), [{"n_estimators": 3, "alpha": 2.0}]),
        (MILBoost(), [{"alpha": 2.0}]),
    ],
)
def test_what_is_no_part_of_one_run_is_fitted_by_itself(model, candidates):
    X, y = bags(2)
    splits = list(StratifiedKFold(3).split(y, y))
    assert model._score_candidates(candidates, X, y, splits, "accuracy") is None
