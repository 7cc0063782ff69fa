"""Stacks: contributions of members, and faithfulness of instance scores."""

import csv

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.compose import OnInstances, SimpleMI, WrapperMI
from bagwise.datasets import make_bags
from bagwise.ensemble import BagStackingClassifier
from bagwise.inspection import (
    explain,
    faithfulness,
    instance_importance,
    member_contributions,
)


@pytest.fixture(scope="module")
def data():
    return make_bags(60, random_state=0)


def stack(**params):
    members = [("simple", SimpleMI()), ("wrapper", WrapperMI())]
    return BagStackingClassifier(members, cv=2, random_state=0, **params)


def test_parts_and_intercept_are_the_score(data):
    X, y = data
    model = make_pipeline(OnInstances(StandardScaler()), stack()).fit(X, y)
    found = member_contributions(model, X)
    assert found.names == ["simple", "wrapper"]
    total = found.values.sum(axis=1) + found.intercept
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-10)
    weights = list(model[-1].member_weights_.values())
    alone = np.corrcoef(
        found.values[:, 1] / weights[1],
        model[-1].members_["wrapper"].decision_function(model[0].transform(X)),
    )
    assert alone[0, 1] > 0.9


def test_named_class(data):
    X, y = data
    words = np.array(["active", "idle"])[y]
    model = stack().fit(X, words)
    idle = member_contributions(model, X)
    active = member_contributions(model, X, pos_label="active")
    np.testing.assert_allclose(active.values, -idle.values)
    np.testing.assert_allclose(active.scores, -idle.scores)
    X3, y3 = make_bags(45, n_classes=3, random_state=0)
    three = stack().fit(X3, y3)
    with pytest.raises(ValueError, match="pass one"):
        member_contributions(three, X3)
    one = member_contributions(three, X3, pos_label=2)
    total = one.values.sum(axis=1) + one.intercept
    np.testing.assert_allclose(total, three.decision_function(X3)[:, 2], atol=1e-10)


def test_others_have_none_and_explanations_hold_them(data, tmp_path):
    X, y = data
    assert member_contributions(WrapperMI().fit(X, y), X) is None
    found = explain(stack().fit(X, y), X)
    path = found.write(tmp_path, n_bags=1)["members"]
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["bag", "simple", "wrapper", "score"]
    parts = np.array([[float(r["simple"]), float(r["wrapper"])] for r in rows])
    np.testing.assert_allclose(parts, found.members.values)


def test_instance_scores_of_a_stack_are_faithful(data):
    """Faithfulness of instance scores on held-out bags."""
    X, y = data
    model = stack().fit(X[:30], y[:30])
    native = instance_importance(model, X[30:], "native")
    assert faithfulness(model, X[30:], native).verdict == "faithful"
