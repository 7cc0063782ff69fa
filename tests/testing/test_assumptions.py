"""The assumption tests: known rules get the correct labels."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils import get_tags

from bagwise.bags.segments import segment_max, segment_sum
from bagwise.testing import (
    all_estimators,
    check_standard_assumption,
    make_instance,
    mil_assumptions,
)
from bagwise.testing._assumptions import (
    DISTANCE,
    N_FEATURES,
    TESTS,
    draw,
    label_of,
    respects,
    verdict_of,
)


def concepts(seed):
    """Return the concept points of simulated data, from the first random numbers."""
    rng = np.random.RandomState(seed)
    directions, _ = np.linalg.qr(rng.standard_normal((N_FEATURES, 4)))
    return dict(zip("cdpq", DISTANCE * directions.T, strict=True))


def near(X, point):
    return (np.linalg.norm(X.data - point, axis=1) < 2.5).astype(float)


class Rule(ClassifierMixin, BaseEstimator):
    """Scores bags by a fixed rule with the true concepts; nothing is learned."""

    def __init__(self, rule="presence", random_state=None):
        self.rule = rule
        self.random_state = random_state

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        points = concepts(self.random_state)
        count = {k: segment_sum(near(X, v), X.offsets) for k, v in points.items()}
        if self.rule == "presence":
            return segment_max(near(X, points["c"]), X.offsets)
        if self.rule == "unless negative":  # positive unless p or q is seen
            return count["c"] - 10 * count["p"] - count["q"]
        if self.rule == "constant":
            return np.zeros(len(X))
        if self.rule == "share":  # decreases with every added instance
            return count["c"] / X.sizes
        both = np.minimum(count["c"], 1) + np.minimum(count["d"], 1)  # generalized
        return both + (count["d"] == 0) * np.maximum(count["c"] - 1, 0)

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0.5).astype(int)]


@pytest.mark.parametrize(
    ("rule", "label", "respected"),
    [
        ("presence", "standard", True),
        ("both", "generalized", True),
        ("unless negative", "neither", False),
        ("constant", "cannot learn it", None),
    ],
)
def test_label_of_known_rules(rule, label, respected):
    found = mil_assumptions(Rule(rule), n_repeats=2, n_bags=80)
    assert found.label == label
    assert found.respects_standard_assumption is respected


def test_inverted_verdicts_and_areas():
    found = mil_assumptions(Rule("unless negative"), n_repeats=1, n_bags=80)
    assert found["presence"].verdict == "passes"
    assert found["distractors"].auroc == pytest.approx(0.0, abs=1e-12)
    assert found["distractors"].verdict == "inverted"
    with pytest.raises(KeyError, match="presence"):
        found["nothing"]


def test_monotone_is_exact():
    rising = mil_assumptions(Rule("presence"), n_repeats=1, n_bags=40)["monotone"]
    assert (rising.falls, rising.fall, rising.verdict) == (0.0, 0.0, "never decreases")
    falling = mil_assumptions(Rule("share"), n_repeats=1, n_bags=40)["monotone"]
    assert falling.falls == 1.0
    assert 0 < falling.fall < 1


@pytest.mark.parametrize("name", TESTS)
def test_simulated_bags_hold_what_the_test_says(name):
    """Count the concepts of simulated bags by distance and compare with the table."""
    points = concepts(3)
    for half, (X, y) in enumerate(draw(name, 60, 3)):
        n = {k: segment_sum(near(X, v), X.offsets) for k, v in points.items()}
        positive, test = y == 1, half == 1
        assert X.sizes.min() >= 8
        assert X.sizes.max() <= 20
        needs_concept_c = {
            "presence": "c",
            "distractors": "c",
            "frequency": "c",
        }
        if name in needs_concept_c:
            np.testing.assert_array_equal(n["c"] > 0, positive)
        if name in ("distractors", "threshold"):
            np.testing.assert_array_equal(n["p"] > 0, positive == test)
        if name == "frequency":
            np.testing.assert_array_equal(n["q"] >= 4, positive == test)
            assert (n["c"][positive] == 1).all()
        if name == "two concepts":
            np.testing.assert_array_equal((n["c"] > 0) & (n["d"] > 0), positive)
        if name == "threshold":
            np.testing.assert_array_equal(n["c"] >= 4, positive)
            assert (n["c"] > 0).all()


def test_same_seed_same_result_and_other_seed_other_data():
    a, b = draw("presence", 20, 0), draw("presence", 20, 0)
    np.testing.assert_array_equal(a[0][0].data, b[0][0].data)
    other = draw("presence", 20, 1)[0][0]
    assert other.data.shape != a[0][0].data.shape or (other.data != a[0][0].data).any()


def test_rules_of_the_label():
    areas = dict.fromkeys(TESTS, 1.0)
    assert label_of(areas, areas) == "generalized"
    assert label_of(areas | {"threshold": 0.89}, areas) == "standard"
    misled = areas | {"frequency": 0.55}
    assert label_of(areas, misled) == "neither"  # one data set is enough
    assert respects(areas, misled) is False
    hard = areas | {"presence": 0.8}
    assert label_of(hard, areas) == "cannot learn it"
    assert respects(hard, areas) is None
    assert respects(hard | {"frequency": 0.1}, areas) is False
    assert verdict_of("frequency", 0.9, 0.5) == "unreliable"
    assert verdict_of("frequency", 0.5, 0.5) == "chance"


PROMISES = [
    name
    for name, cls in all_estimators()
    if getattr(
        get_tags(make_instance(cls)).input_tags, "respects_standard_assumption", None
    )
]


@pytest.mark.parametrize("name", PROMISES)
def test_who_promises_keeps_it(name):
    n_bags = 36 if name == "PCSVM" else 80  # its steps are cubic in the instances
    check_standard_assumption(make_instance(dict(all_estimators())[name]), n_bags)


def test_a_broken_promise_is_found():
    check_standard_assumption(Rule("presence"))
    with pytest.raises(AssertionError, match="distractors"):
        check_standard_assumption(Rule("unless negative"))


def test_frame_and_text():
    found = mil_assumptions(Rule(), n_repeats=1, n_bags=20)
    frame = found.to_frame()
    assert frame["name"].tolist() == [*TESTS, "monotone"]
    text = repr(found)
    assert text.startswith("Rule: standard")
    assert len(text.splitlines()) == 8


def test_area_of_one_draw_is_that_of_scikit_learn():
    found = mil_assumptions(Rule("share"), 5, n_repeats=1, n_bags=40)
    seed = int(np.random.RandomState(5).randint(2**31 - 1))
    X, y = draw("frequency", 40, seed)[1]
    scores = Rule("share", random_state=seed).fit(X, y).decision_function(X)
    assert found["frequency"].auroc == roc_auc_score(y, scores)


@pytest.mark.parametrize("wrong", [{"n_repeats": 0}, {"n_bags": 4}])
def test_refuses(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        mil_assumptions(Rule(), **wrong)
