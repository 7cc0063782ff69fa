"""Importance of instances against brute force and exact properties."""

import itertools
import math

import numpy as np
import pytest
from _exact_models import Pooled, PooledRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.bags.segments import segment_argmax
from bagwise.compose import OnInstances, SimpleMI
from bagwise.datasets import make_bags
from bagwise.inspection import instance_importance
from bagwise.svm import MISVM, BagSVC


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(0)
    return Bags.from_list([rng.standard_normal((n, 4)) for n in (3, 1, 5, 2, 7)])


def brute_leave_out(score, X, reference):
    found = []
    for bag in X:
        for j in range(len(bag)):
            rest = np.delete(bag, j, axis=0) if len(bag) > 1 else reference
            found.append(score([bag])[0] - score([rest])[0])
    return np.array(found)


@pytest.mark.parametrize("max_rows", [1, 4, 10_000])
@pytest.mark.parametrize("pooling", ["max", "mean", "sum"])
def test_leave_out_is_brute_force(bags, pooling, max_rows):
    model = Pooled(pooling).fit(bags)
    found = instance_importance(
        model, bags, "leave_out", reference=bags[0], max_rows=max_rows
    )
    expected = brute_leave_out(model.decision_function, bags, bags[0])
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    np.testing.assert_array_equal(found.offsets, bags.offsets)


@pytest.mark.parametrize("max_rows", [1, 10, 10_000])
def test_add_to_is_brute_force(bags, max_rows):
    model = Pooled("mean").fit(bags)
    found = instance_importance(
        model, bags, "add_to", reference=bags[2], max_rows=max_rows
    )
    before = model.decision_function([bags[2]])[0]
    expected = [
        model.decision_function([np.vstack([bags[2], row])])[0] - before
        for row in bags.data
    ]
    np.testing.assert_allclose(found.values, expected, atol=1e-12)


def test_max_model_exactly(bags):
    """Max pooling: only the key instance has a drop, and single is its own score."""
    model = Pooled("max").fit(bags)
    native = instance_importance(model, bags, "native")
    single = instance_importance(model, bags, "single")
    np.testing.assert_allclose(single.values, native.values, rtol=1e-12)
    drop = instance_importance(model, bags, "leave_out").values
    key = segment_argmax(native.values, bags.offsets)
    others = np.delete(np.arange(bags.n_instances), key)
    np.testing.assert_array_equal(drop[others], 0.0)
    many = key[bags.sizes > 1]
    assert (drop[many] > 0).all()
    for i in np.flatnonzero(bags.sizes > 1):  # down to the second highest score
        a, b = np.sort(native[int(i)])[-2:]
        np.testing.assert_allclose(drop[key[i]], b - a)


def test_fitted_max_model_exactly():
    X, y = make_bags(20, random_state=0)
    model = MISVM(kernel="linear").fit(X, y)
    native = instance_importance(model, X, "native").values
    np.testing.assert_allclose(
        instance_importance(model, X, "single").values, native, atol=1e-9
    )
    drop = instance_importance(model, X, "leave_out").values
    key = segment_argmax(native, X.offsets)
    others = np.setdiff1d(np.arange(X.n_instances), key)
    np.testing.assert_allclose(drop[others], 0.0, atol=1e-9)


def test_linear_contributions_sum_to_the_score(bags):
    """Sum pooling: the drops are the instance scores and sum to the bag score."""
    model = Pooled("sum").fit(bags)
    reference = np.zeros((1, 4))  # score zero, for bags with one instance
    drop = instance_importance(model, bags, "leave_out", reference=reference)
    sums = np.array([part.sum() for part in drop])
    np.testing.assert_allclose(sums, model.decision_function(bags), atol=1e-12)


@pytest.mark.parametrize("method", ["single", "leave_out", "add_to"])
def test_duplicates_share(method):
    X, y = make_bags(16, random_state=1)
    doubled = Bags.from_list([np.repeat(bag, 2, axis=0) for bag in X])
    model = BagSVC(kernel="set").fit(X, y)
    found = instance_importance(model, doubled, method).values
    np.testing.assert_allclose(found[::2], found[1::2], atol=1e-10)
    assert np.ptp(found) > 0


def shapley(score, bag, empty):
    """Return exact Shapley values of the instances of one bag, over all orders."""
    n = len(bag)
    value = {(): empty}
    for k in range(1, n + 1):
        for part in itertools.combinations(range(n), k):
            value[part] = score([bag[list(part)]])[0]
    found = np.zeros(n)
    for order in itertools.permutations(range(n)):
        seen = ()
        for j in order:
            now = tuple(sorted((*seen, j)))
            found[j] += value[now] - value[seen]
            seen = now
    return found / math.factorial(n)


def test_shapley_shows_what_leave_out_misses():
    """If either of two instances is enough, leave_out gives zero to both.

    Shapley values share the score between them; leave_out gives both zero. With one
    such instance the two agree on who matters.
    """
    model = Pooled("max").fit([np.zeros((1, 1))])
    model.coef_ = np.ones(1)
    twice, once = np.array([[3.0], [3.0], [0.0]]), np.array([[3.0], [1.0], [0.0]])
    np.testing.assert_array_equal(
        instance_importance(model, [twice], "leave_out").values, [0.0, 0.0, 0.0]
    )
    np.testing.assert_allclose(
        shapley(model.decision_function, twice, 0.0), [1.5, 1.5, 0.0]
    )
    np.testing.assert_array_equal(
        instance_importance(model, [twice], "single").values, [3.0, 3.0, 0.0]
    )
    np.testing.assert_array_equal(
        instance_importance(model, [once], "leave_out").values, [2.0, 0.0, 0.0]
    )
    np.testing.assert_allclose(
        shapley(model.decision_function, once, 0.0), [2.5, 0.5, 0.0]
    )


def test_shapley_agrees_for_sums():
    """For additive scores, leave_out, add_to and Shapley values are equal."""
    rng = np.random.default_rng(3)
    bag = rng.standard_normal((3, 4))
    model = Pooled("sum").fit([bag])
    expected = shapley(model.decision_function, bag, 0.0)
    for method in ("single", "leave_out", "add_to"):
        found = instance_importance(model, [bag], method, reference=np.zeros((1, 4)))
        np.testing.assert_allclose(found.values, expected, atol=1e-12)


def test_number_of_predictions(bags):
    model = Pooled("mean").fit(bags)
    for method, most in (("single", 1), ("leave_out", 3), ("add_to", 3)):
        model.calls = 0
        instance_importance(model, bags, method)
        assert model.calls <= most


def test_named_class_turns_two_classes_round(bags):
    model = Pooled("mean", classes=("no", "yes")).fit(bags)
    for method in ("native", "single", "leave_out"):
        yes = instance_importance(model, bags, method, reference=bags[0])
        same = instance_importance(
            model, bags, method, pos_label="yes", reference=bags[0]
        )
        no = instance_importance(model, bags, method, pos_label="no", reference=bags[0])
        np.testing.assert_array_equal(yes.values, same.values)
        np.testing.assert_allclose(no.values, -yes.values)
    with pytest.raises(ValueError, match="perhaps"):
        instance_importance(model, bags, pos_label="perhaps")


@pytest.mark.parametrize("method", ["native", "single", "leave_out", "add_to"])
def test_several_classes(bags, method):
    model = Pooled("mean", classes=(0, 1, 2)).fit(bags)
    every = instance_importance(model, bags, method)
    assert every.values.shape == (bags.n_instances, 3)
    for k in range(3):
        one = instance_importance(model, bags, method, pos_label=k)
        np.testing.assert_allclose(one.values, every.values[:, k], atol=1e-12)
    if method == "leave_out":
        drop = [
            model.decision_function([bags[0]])[0]
            - model.decision_function([np.delete(bags[0], j, axis=0)])[0]
            for j in range(3)
        ]
        np.testing.assert_allclose(every[0], drop, atol=1e-12)


def test_regression_in_units_of_y(bags):
    model = PooledRegressor().fit(bags)
    values = bags.data @ model.coef_
    single = instance_importance(model, bags, "single").values
    np.testing.assert_allclose(single, values, atol=1e-12)
    drop = instance_importance(model, bags, "leave_out", reference=bags[0]).values
    expected = brute_leave_out(model.predict, bags, bags[0])
    np.testing.assert_allclose(drop, expected, atol=1e-12)
    assert np.isfinite(instance_importance(model, bags, "add_to").values).all()
    with pytest.raises(ValueError, match="no classes"):
        instance_importance(model, bags, pos_label=1)


def test_through_pipelines_and_searches():
    X, y = make_bags(24, random_state=0)
    pipe = make_pipeline(OnInstances(StandardScaler()), SimpleMI())
    search = GridSearchCV(pipe, {"simplemi__pooling": ["mean", "max"]}, cv=2)
    search.fit(X, y)
    found = instance_importance(search, X, "single").values
    expected = search.decision_function([row[None] for row in X.data])
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_bags_of_one_fall_to_the_reference(bags):
    model = Pooled("mean", shift=0.3).fit(bags)
    drop = instance_importance(model, bags, "leave_out")[1]
    scores = model.decision_function(bags)
    negative = np.sort(scores[scores <= 0])
    level = negative[(len(negative) - 1) // 2]
    np.testing.assert_allclose(drop, scores[1] - level)


def test_refuses(bags):
    model = Pooled(native=False).fit(bags)
    with pytest.raises(ValueError, match="leave_out"):
        instance_importance(model, bags, "guess")
    with pytest.raises(ValueError, match="whole bags"):
        instance_importance(model, bags, "native")
    with pytest.raises(ValueError, match="3 features, but X has 4"):
        instance_importance(model, bags, "add_to", reference=np.zeros((2, 3)))
    with pytest.raises(ValueError, match="max_rows"):
        instance_importance(model, bags, max_rows=0)


def test_positive_class_of_the_model_is_the_default():
    """A model with pos_label is explained for that class."""
    X, y = make_bags(20, random_state=0)
    words = np.array(["inactive", "active"])[y]  # the positive class comes first
    model = MISVM(kernel="linear", pos_label="active").fit(X, words)
    plain = MISVM(kernel="linear").fit(X, y)
    expected = instance_importance(plain, X, "native").values
    for method in ("native", "single"):
        found = instance_importance(model, X, method).values
        np.testing.assert_allclose(found, expected, atol=1e-8)
    other = instance_importance(model, X, "single", pos_label="inactive").values
    np.testing.assert_allclose(other, -expected, atol=1e-8)
