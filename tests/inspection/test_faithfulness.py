"""Deletion curves against brute force, and verdicts on known models."""

import numpy as np
import pytest
from _exact_models import Pooled, PooledRegressor

from bagwise import Bags, Ragged
from bagwise.inspection import faithfulness, instance_importance


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 9, 40)
    return Bags.from_list([rng.standard_normal((n, 3)) for n in sizes])


def test_areas_are_brute_force(bags):
    """Every curve of every bag, by removing instances one by one."""
    model = Pooled("mean").fit(bags)
    importance = instance_importance(model, bags, "single")
    found = faithfulness(model, bags, importance, n_points=50, n_random=1)
    whole = model.decision_function(bags)
    k = 0
    for i, bag in enumerate(bags):
        if len(bag) < 2:
            continue
        order = np.argsort(-importance[i])
        for name, sequence in (("most", order), ("least", order[::-1])):
            curve = [
                (model.decision_function([bag[sequence[j:]]])[0] - whole[i])
                / whole.std()
                for j in range(len(bag))
            ]
            steps = np.linspace(0, 1, len(bag))
            area = np.sum((np.array(curve[1:]) + curve[:-1]) / 2 * np.diff(steps))
            np.testing.assert_allclose(found.areas[name][k], area, atol=1e-12)
        k += 1
    assert found.n_bags == k == len(found.areas["random"])
    assert found.gap[0] == pytest.approx(found.most[0] + found.least[0])


@pytest.mark.parametrize("pooling", ["max", "mean", "sum"])
def test_true_importances_are_faithful_and_reversed_ones_mislead(bags, pooling):
    model = Pooled(pooling).fit(bags)
    truth = instance_importance(model, bags, "native")
    assert faithfulness(model, bags, truth).verdict == "faithful"
    wrong = Ragged(-truth.values, truth.offsets)
    reversed_ = faithfulness(model, bags, wrong)
    assert reversed_.verdict == "misleading"
    right = faithfulness(model, bags, truth)
    np.testing.assert_allclose(right.areas["most"], reversed_.areas["least"])


def test_importances_that_know_nothing(bags):
    """Ties of a constant are broken at random: no difference from random order."""
    model = Pooled("mean").fit(bags)
    flat = Ragged(np.zeros(bags.n_instances), bags.offsets)
    found = faithfulness(model, bags, flat, n_random=20)
    assert found.verdict == "not different from random order"
    mean, low, high = found.most
    assert low < mean < high


def test_chunks_and_seed_do_not_change_the_result(bags):
    model = Pooled("mean").fit(bags)
    importance = instance_importance(model, bags)
    one = faithfulness(model, bags, importance)
    two = faithfulness(model, bags, importance, max_rows=7)
    for name, area in one.areas.items():
        np.testing.assert_allclose(area, two.areas[name], atol=1e-12)
    other = faithfulness(model, bags, importance, random_state=1)
    assert (one.areas["random"] != other.areas["random"]).any()


def test_several_classes_take_the_predicted_one(bags):
    model = Pooled("mean", classes=("a", "b", "c")).fit(bags)
    every = instance_importance(model, bags, "native")
    assert faithfulness(model, bags, every).verdict == "faithful"
    one = faithfulness(model, bags, every, pos_label="b")
    column = Ragged(every.values[:, 1], bags.offsets)
    same = faithfulness(model, bags, column, pos_label="b")
    np.testing.assert_allclose(one.areas["most"], same.areas["most"])


def test_unit_of_several_classes_is_their_spread_over_bags(bags):
    """The unit of several classes is not the spread of the predicted classes alone."""
    model = Pooled("mean", classes=("a", "b", "c")).fit(bags)
    importance = instance_importance(model, bags, "native")
    found = faithfulness(model, bags, importance, n_points=50)
    whole = model.decision_function(bags)
    unit = np.sqrt(whole.var(axis=0).mean())
    i = int(np.flatnonzero(bags.sizes > 1)[0])
    column = whole[i].argmax()
    order = np.argsort(-importance[i][:, column])
    scores = [
        model.decision_function([bags[i][order[j:]]])[0, column]
        for j in range(len(order))
    ]
    curve = (np.array(scores) - whole[i, column]) / unit
    area = (curve[1:] + curve[:-1]).mean() / 2
    np.testing.assert_allclose(found.areas["most"][0], area, atol=1e-12)


def test_regression(bags):
    model = PooledRegressor().fit(bags)
    importance = instance_importance(model, bags, "single")
    assert faithfulness(model, bags, importance).verdict == "faithful"


def test_interval_covers_as_it_says():
    """Intervals of a random importance contain zero in about 95% of 200 samples."""
    rng = np.random.default_rng(0)
    X = Bags.from_list([rng.standard_normal((4, 2)) for _ in range(25)])
    model = Pooled("mean").fit(X)
    held = 0
    for seed in range(200):
        noise = Ragged(rng.standard_normal(X.n_instances), X.offsets)
        _, low, high = faithfulness(
            model, X, noise, n_random=1, random_state=seed, n_points=4
        ).gap
        held += low <= 0 <= high
    assert 178 <= held <= 199  # 0.95 +- 4 standard errors, and not always


def test_text_dict_and_plot(bags):
    model = Pooled("max").fit(bags)
    found = faithfulness(model, bags, instance_importance(model, bags))
    assert "faithful" in repr(found)
    plain = found.to_dict()
    assert plain["gap"][1] <= plain["gap"][0] <= plain["gap"][2]
    ax = found.plot()
    assert len(ax.lines) == 3
    assert ax.get_xlabel() == "share of the instances removed"
    np.testing.assert_allclose(found.curves["most"][0], 0.0, atol=1e-12)


def test_refuses(bags):
    model = Pooled().fit(bags)
    good = instance_importance(model, bags)
    with pytest.raises(TypeError, match="Ragged"):
        faithfulness(model, bags, good.values)
    with pytest.raises(ValueError, match="does not have the offsets"):
        faithfulness(model, bags, good[:3])
    with pytest.raises(ValueError, match="NaN"):
        faithfulness(model, bags, Ragged(good.values * np.nan, bags.offsets))
    with pytest.raises(ValueError, match="n_points"):
        faithfulness(model, bags, good, n_points=1)
    ones = bags[np.flatnonzero(bags.sizes == 1)]
    with pytest.raises(ValueError, match="one instance"):
        faithfulness(model, ones, instance_importance(model, ones))
