"""Networks inside what the rest of the library offers, and what they assume."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import bagwise
from bagwise import Bags
from bagwise.comparison.choose import find_method
from bagwise.comparison.protocols import CrossValidation
from bagwise.compose import OnInstances, SimpleMI
from bagwise.datasets import make_bags
from bagwise.ensemble import BagStackingClassifier
from bagwise.inspection import measured_assumptions
from bagwise.testing import check_standard_assumption

pytest.importorskip("torch")

from bagwise.neural import NeuralBagClassifier, NeuralBagRegressor

SMALL = {
    "hidden": 8,
    "attention": 4,
    "n_models": 2,
    "learning_rate": 0.03,
    "max_epochs": 6,
    "random_state": 0,
}


def toy(n_bags=24, **options):
    return make_bags(n_bags, n_features=4, bag_size=(2, 5), random_state=1, **options)


def test_pipeline_and_search():
    X, y = toy()
    pipeline = make_pipeline(
        OnInstances(StandardScaler()), NeuralBagClassifier(**SMALL)
    )
    grid = {"neuralbagclassifier__learning_rate": [1e-9, 0.03]}
    search = GridSearchCV(pipeline, grid, cv=2, scoring="roc_auc").fit(X, y)
    assert search.best_params_ == {"neuralbagclassifier__learning_rate": 0.03}
    best = search.best_estimator_
    scaled = best[0].transform(X)
    np.testing.assert_array_equal(search.predict(X), best[-1].predict(scaled))


def test_member_of_a_stack(tmp_path):
    X, y = toy()
    members = [("network", NeuralBagClassifier(**SMALL)), ("simple", SimpleMI())]
    stack = BagStackingClassifier(members, cv=2, random_state=0).fit(X, y)
    assert isinstance(stack.members_["network"], NeuralBagClassifier)
    assert stack.score(X, y) > 0.6
    assert len(stack.instance_scores(X).values) == X.n_instances
    # Out of fold: the scores are not those of the member that saw the bags.
    own = stack.members_["network"].decision_function(X)
    assert not np.allclose(stack.oof_scores_[:, 0], own)
    bagwise.save(stack, tmp_path / "stack.bagwise")
    again = bagwise.load(tmp_path / "stack.bagwise")
    np.testing.assert_array_equal(again.predict_proba(X), stack.predict_proba(X))


def test_compare_by_name():
    X, y = toy(20)
    small = {k: v for k, v in SMALL.items() if k != "random_state"}
    method = find_method("NeuralBagClassifier").with_params(**small)
    assert method.name == "Attention network"
    methods = [method, "SimpleMI"]
    quick = {"n_jobs": 1, "progress": False, "time_limit": None}  # in this process
    found = bagwise.compare(X, y, methods=methods, protocol=CrossValidation(2), **quick)
    names = {row.method for row in found.ranking}
    assert names == {"Attention network", "SimpleMI"}


@pytest.mark.parametrize(
    ("make", "target"),
    [
        (NeuralBagClassifier, lambda y: np.array(["a", "b", "c"])[y]),
        (NeuralBagClassifier, lambda y: np.column_stack([y > 0, y > 1]).astype(int)),
        (NeuralBagRegressor, lambda y: 10.0 + y),
    ],
    ids=["classes", "labels", "values"],
)
def test_saved_and_loaded_with_groups(make, target, tmp_path):
    X, y = toy(24, n_classes=3)
    X = Bags(X.data, X.offsets, groups=np.arange(24) // 3)
    model = make(**SMALL).fit(X, target(y))
    bagwise.save(model, tmp_path / "model.bagwise")
    again = bagwise.load(tmp_path / "model.bagwise")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        again.instance_scores(X).values, model.instance_scores(X).values
    )
    np.testing.assert_array_equal(again.attention_.values, model.attention_.values)


class TestAssumptions:
    @pytest.mark.parametrize("pooling", ["gated", "attention", "mean", "max"])
    @pytest.mark.parametrize("head", ["additive", "pooled"])
    def test_tags_are_what_was_measured(self, pooling, head):
        name = f"{pooling}, pooled head" if head == "pooled" else pooling
        measured = measured_assumptions()[f"Network ({name})"]
        tags = get_tags(NeuralBagClassifier(pooling, head=head)).input_tags
        assert tags.respects_standard_assumption is measured.respects
        assert measured.draws >= 5

    def test_who_promises_keeps_it(self):
        model = NeuralBagClassifier("max", **{**SMALL, "hidden": 32})
        model.set_params(learning_rate=0.01, weight_decay=0.1, max_epochs=30)
        model.set_params(validation_fraction=0)
        assert get_tags(model).input_tags.respects_standard_assumption
        check_standard_assumption(model)

    def test_a_maximum_never_falls_when_an_instance_joins(self):
        X, y = toy()
        model = NeuralBagClassifier("max", **SMALL).fit(X, y)
        rng = np.random.default_rng(0)
        more = Bags.from_list([np.vstack([b, 3 * rng.normal(size=(1, 4))]) for b in X])
        change = model.decision_function(more) - model.decision_function(X)
        assert change.min() >= 0
        assert change.max() > 0
