"""MIBoosting: exact weights of rounds, falling loss, AdaBoost as a special case."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from bagwise.bags import Bags
from bagwise.datasets import make_bags
from bagwise.ensemble import MIBoosting, _mi_boosting
from bagwise.ensemble._mi_boosting import best_weight


def shares_wrong(h, t, X):
    """Share of each bag that a learner gets wrong, one bag at a time."""
    return np.array(
        [np.mean(h[a:b] != s) for a, b, s in zip(X.offsets, X.offsets[1:], t)]  # noqa: B905
    )


@pytest.mark.parametrize("seed", range(20))
def test_round_weight_zeroes_the_derivative(seed):
    rng = np.random.default_rng(seed)
    W = rng.dirichlet(np.ones(12) * 0.5)
    g = 2 * rng.integers(0, 7, 12) / 6 - 1
    c = best_weight(W, g)
    if W @ g >= 0:
        assert c == 0
    elif (g <= 0).all():
        assert np.isinf(c)
    else:
        slope = W @ (g * np.exp(g * c))
        assert slope == pytest.approx(0.0, abs=1e-10 * (W @ np.exp(g * c)))
        grid = np.linspace(0, 2 * c + 1, 400)
        assert W @ np.exp(g * c) <= np.exp(np.outer(grid, g)).dot(W).min() + 1e-12


def test_round_weight_with_a_tiny_opponent():
    """The only bag that is wrong weighs next to nothing: a large, finite root."""
    W, g = np.array([1.0, 1e-250]), np.array([-1.0, 1.0])
    assert best_weight(W, g) == pytest.approx(0.5 * np.log(1e250), rel=1e-12)


@pytest.mark.parametrize(
    ("g", "expected"),
    [
        ([-1.0, -0.5, 0.0], np.inf),  # a bag with exactly half of it wrong, none more
        ([0.0, 0.0, 0.0], 0.0),
        ([1.0, 0.5, -0.1], 0.0),
        ([-1.0, -1.0, -1.0], np.inf),
    ],
)
def test_round_weight_without_a_root(g, expected):
    assert best_weight(np.full(3, 1 / 3), np.array(g)) == expected


@pytest.mark.parametrize("base", [None, "stump"])
def test_loss_falls_in_every_round(base):
    X, y = make_bags(50, n_features=4, shift=1.5, random_state=1)
    model = MIBoosting(25, estimator=base, random_state=0).fit(X, y)
    path = model.objective_path_
    assert path[0] == 1.0
    assert len(path) == model.n_iter_ + 1
    assert model.n_iter_ > 5
    assert (np.diff(path) < 0).all()
    t = np.where(y == 1, 1.0, -1.0)
    assert path[-1] == pytest.approx(
        np.exp(-t * model.decision_function(X)).mean(), rel=1e-9
    )
    stages = model.staged_decision_function(X)
    by_stage = [np.exp(-t * scores).mean() for scores in stages]
    np.testing.assert_allclose(path[1:], by_stage, rtol=1e-9)


def test_rounds_written_out():
    """The algorithm of the paper, with explicit loops, on the fitted learners."""
    X, y = make_bags(40, n_features=4, shift=1.5, random_state=2)
    t = np.where(y == 1, 1.0, -1.0)
    model = MIBoosting(10, estimator="stump").fit(X, y)
    W = np.full(40, 1 / 40)
    for learner, c in zip(model.learners_, model.learner_weights_, strict=True):
        h = learner.predict(X.data)
        # Each learner has the smallest weighted error of all stumps.
        w = np.repeat(t * W / X.sizes, X.sizes)
        for f in range(X.n_features):
            for threshold in np.unique(X.data[:, f]):
                other = np.where(X.data[:, f] > threshold, 1.0, -1.0)
                assert abs(w @ other) <= w @ h + 1e-6 * np.abs(w).sum()
        e = shares_wrong(h, t, X)
        assert W @ ((2 * e - 1) * np.exp((2 * e - 1) * c)) == pytest.approx(
            0, abs=1e-12
        )
        W = W * np.exp((2 * e - 1) * c)
        assert W.sum() < 1
        W /= W.sum()


def test_bags_of_one_are_adaboost():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 4))
    t = np.where(rows[:, 0] + rng.normal(size=80) > 0, 1.0, -1.0)
    X = Bags(rows, np.arange(81))
    base = DecisionTreeClassifier(max_depth=2, random_state=7)
    model = MIBoosting(12, estimator=base, random_state=0).fit(X, t)
    W, F = np.full(80, 1 / 80), np.zeros(80)
    for learner, c in zip(model.learners_, model.learner_weights_, strict=True):
        h = learner.predict(rows)
        error = W[h != t].sum()
        assert c == pytest.approx(0.5 * np.log((1 - error) / error), rel=1e-10)
        # The learner was fitted with AdaBoost's weights.
        again = DecisionTreeClassifier(
            max_depth=2, random_state=learner.random_state
        ).fit(rows, t, sample_weight=80 * W)
        np.testing.assert_array_equal(again.predict(rows), h)
        W *= np.exp(-c * t * h)
        W /= W.sum()
        F += c * h
    np.testing.assert_allclose(model.decision_function(X), F, rtol=1e-10)


def test_no_bag_more_than_half_wrong_ends_boosting():
    """Exactly half of two bags is wrong, and no bag more: there is no finite weight."""
    X = Bags(
        np.array([[0.0], [1.0], [1.0], [1.0], [0.0], [0.0]]), np.array([0, 2, 4, 6])
    )
    model = MIBoosting(30, estimator="stump").fit(X, [1, 1, 0])
    assert model.n_iter_ == 1
    np.testing.assert_array_equal(model.learner_weights_, [1.0])
    np.testing.assert_array_equal(model.decision_function(X), [0.0, 1.0, -1.0])


def test_last_learner_gets_the_largest_weight_so_far():
    X, y = make_bags(30, n_features=3, shift=1.0, random_state=0)
    deep = DecisionTreeClassifier(min_samples_leaf=1)
    model = MIBoosting(30, estimator=deep, random_state=0).fit(X, y)
    assert model.n_iter_ == 1  # a full tree has no training error at all
    assert model.learner_weights_[-1] == 1.0
    assert model.score(X, y) == 1.0


def test_decision_is_the_mean_of_instance_scores():
    X, y = make_bags(30, random_state=0)
    model = MIBoosting(10, random_state=0).fit(X, y)
    F = model.instance_scores(X).to_list()
    np.testing.assert_allclose(
        model.decision_function(X), [f.mean() for f in F], atol=1e-12
    )


@pytest.mark.parametrize("base", [None, "stump"])
def test_repeated_instances_change_nothing(base):
    X, y = make_bags(30, n_features=5, random_state=3)
    twice = Bags.from_list([np.repeat(b, 2, axis=0) for b in X])
    a = MIBoosting(15, estimator=base, random_state=0).fit(X, y)
    b = MIBoosting(15, estimator=base, random_state=0).fit(twice, y)
    np.testing.assert_allclose(
        a.decision_function(X), b.decision_function(X), atol=1e-8
    )


def test_sparse_rows_give_the_same_model():
    X, y = make_bags(30, n_features=5, random_state=3)
    data = np.where(np.abs(X.data) < 0.5, 0.0, X.data)
    dense, sparse = X.with_data(data), X.with_data(sp.csr_matrix(data))
    for base in (None, "stump"):
        a = MIBoosting(10, estimator=base, random_state=0).fit(dense, y)
        b = MIBoosting(10, estimator=base, random_state=0).fit(sparse, y)
        np.testing.assert_allclose(
            a.decision_function(dense), b.decision_function(sparse), atol=1e-9
        )


def test_other_base():
    X, y = make_bags(30, n_features=4, bag_size=4, n_witnesses=3, random_state=0)
    model = MIBoosting(5, estimator=LogisticRegression(C=10.0)).fit(X, y)
    assert (np.diff(model.objective_path_) < 0).all()
    assert model.score(X, y) > 0.9


def test_early_stopping_keeps_the_best_round():
    X, y = make_bags(80, n_features=5, shift=1.5, random_state=3)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(80) < 0.25, 1 - y, y)
    model = MIBoosting(
        100,
        estimator="stump",
        n_iter_no_change=4,
        validation_fraction=0.3,
        random_state=0,
    ).fit(X, y)
    assert model.n_iter_ < 100
    assert len(model.validation_path_) == model.n_iter_ + 5
    assert model.validation_path_[model.n_iter_] <= (
        model.validation_path_[1:].min() + 1e-4
    )


def test_nothing_to_learn_warns():
    X = Bags(np.ones((12, 2)), np.arange(0, 13, 2))
    for base in (None, "stump"):
        with pytest.warns(ConvergenceWarning, match="same score"):
            MIBoosting(estimator=base).fit(X, [0, 1, 0, 1, 1, 0])


def test_unknown_base_is_refused():
    X, y = make_bags(10, random_state=0)
    with pytest.raises(ValueError, match="stump"):
        MIBoosting(estimator="forest").fit(X, y)


def test_many_instances_are_sampled_by_their_weights(monkeypatch):
    seen = []

    class Recorder(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.append((len(X), float(sample_weight.sum())))
            return super().fit(X, y, sample_weight=sample_weight)

    X, y = make_bags(40, bag_size=(5, 10), random_state=0)
    tree = Recorder(max_depth=3)
    MIBoosting(3, estimator=tree, random_state=0).fit(X, y)
    assert {n for n, _ in seen} == {X.n_instances}  # few: every round has all
    seen.clear()
    model = MIBoosting(8, estimator=tree, max_samples=100, random_state=0).fit(X, y)
    assert {n for n, _ in seen} == {100}
    np.testing.assert_allclose([total for _, total in seen], len(X))
    assert model.score(X, y) > 0.8
    again = MIBoosting(8, estimator=tree, max_samples=100, random_state=0).fit(X, y)
    np.testing.assert_array_equal(
        model.decision_function(X), again.decision_function(X)
    )
    seen.clear()
    monkeypatch.setattr(_mi_boosting, "_MANY", 50)
    monkeypatch.setattr(_mi_boosting, "_SAMPLED", 40)
    MIBoosting(2, estimator=tree, random_state=0).fit(X, y)
    assert {n for n, _ in seen} == {40}
    seen.clear()
    MIBoosting(2, estimator=tree, max_samples=None, random_state=0).fit(X, y)
    assert {n for n, _ in seen} == {X.n_instances}
