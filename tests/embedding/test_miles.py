"""MILES: the program that is solved, its limits, exact contributions."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bagwise.bags import Bags
from bagwise.datasets import make_bags
from bagwise.embedding import MILES, PrototypeEmbedding, _miles
from bagwise.embedding._miles import l1_hinge


@pytest.fixture
def bags():
    return make_bags(30, n_features=4, bag_size=(1, 5), random_state=0)


def embed(X, prototypes, gamma):
    """Similarity of each bag to each prototype, one pair at a time."""
    return np.array(
        [
            [np.exp(-gamma * ((bag - z) ** 2).sum(axis=1).min()) for z in prototypes]
            for bag in X
        ]
    )


def test_a_long_fit_says_so_before_the_work(bags, monkeypatch):
    monkeypatch.setattr(_miles, "similarities", None)  # the work would fail
    with pytest.warns(UserWarning, match="5,000 bags and 5,000 .* 2 minutes"):
        _miles._warn_if_long(5_000, 5_000)
    _miles._warn_if_long(2_500, 5_000)
    X, y = bags
    monkeypatch.setattr(_miles, "_SHORT", 0.0)
    with (
        pytest.warns(UserWarning, match="A smaller max_prototypes"),
        pytest.raises(TypeError),
    ):
        MILES().fit(X, y)


def test_embedding_is_the_definition(bags):
    X, _ = bags
    model = PrototypeEmbedding(gamma=0.3).fit(X)
    M = model.transform(X)
    np.testing.assert_allclose(M, embed(X, X.data, 0.3), atol=1e-12)
    # A bag is perfectly similar to its own instances.
    own = M[X.bag_index, np.arange(X.n_instances)]
    np.testing.assert_allclose(own, 1.0, atol=1e-12)


def test_repeated_instances_leave_the_embedding_alone(bags):
    X, _ = bags
    model = PrototypeEmbedding(gamma=0.3).fit(X)
    twice = Bags.from_list([np.repeat(b, 2, axis=0) for b in X])
    np.testing.assert_allclose(model.transform(X), model.transform(twice), atol=1e-12)


def test_sample_of_prototypes_is_drawn_from_the_instances(bags):
    X, _ = bags
    model = PrototypeEmbedding(max_prototypes=10, random_state=0).fit(X)
    assert model.prototypes_.shape == (10, 4)
    rows = {row.tobytes() for row in X.data}
    drawn = {row.tobytes() for row in model.prototypes_}
    assert drawn <= rows
    assert len(drawn) == 10
    assert model.transform(X).shape == (30, 10)


def primal(coef, b, M, t, cost):
    """Objective of the 1-norm machine, from its definition."""
    hinge = np.maximum(0.0, 1.0 - t * (M @ coef + b))
    return np.abs(coef).sum() + cost @ hinge


@pytest.mark.parametrize("C", [0.3, 1.0, 10.0])
def test_linear_program_reaches_the_dual_bound(bags, C):
    """Optimal: the dual program, solved on its own, has the same value."""
    from scipy.optimize import linprog

    X, y = bags
    t = np.where(y == 1, 1.0, -1.0)
    model = MILES(C, gamma=0.2, solver="highs").fit(X, y)
    M = embed(X, X.data, 0.2)
    kept = embed(X, model.prototypes_, 0.2)
    cost = np.full(len(X), C)
    value = primal(model.coef_, model.intercept_, kept, t, cost)
    assert model.objective_ == pytest.approx(value, rel=1e-10)
    # max 1'a  subject to  |M' (t a)| <= 1,  t'a = 0,  0 <= a <= C.
    G = (M * t[:, None]).T
    dual = linprog(
        -np.ones(len(t)),
        A_ub=np.vstack([G, -G]),
        b_ub=np.ones(2 * len(G)),
        A_eq=t[None],
        b_eq=[0.0],
        bounds=[(0, C)] * len(t),
    )
    assert model.objective_ == pytest.approx(-dual.fun, rel=1e-7)


@pytest.mark.parametrize("C", [0.3, 1.0, 10.0])
def test_vertex_has_no_more_weights_than_bags(bags, C):
    X, y = bags
    assert X.n_instances > len(X)
    model = MILES(C, gamma=0.2, solver="highs").fit(X, y)
    assert 0 < len(model.coef_) <= len(X)
    assert model.prototypes_.shape == (len(model.coef_), 4)
    assert (model.coef_ != 0).all()


@pytest.mark.parametrize("majority", [0, 1])
def test_strong_penalty_leaves_the_majority(bags, majority):
    X, y = bags
    rows = np.sort(
        np.r_[np.flatnonzero(y == majority), np.flatnonzero(y != majority)[:4]]
    )
    with pytest.warns(ConvergenceWarning, match="Increase C"):
        model = MILES(1e-4, solver="highs").fit(X[rows], y[rows])
    assert len(model.coef_) == 0
    assert (model.intercept_ > 0) == (majority == 1)
    np.testing.assert_array_equal(model.predict(X), majority)
    np.testing.assert_array_equal(model.instance_scores(X).values, 0.0)


def test_program_with_weights_is_the_program_with_repeated_rows():
    rng = np.random.default_rng(0)
    M, t = rng.random((12, 5)), np.where(np.arange(12) % 2, 1.0, -1.0)
    weight = np.arange(12) % 3 + 1.0
    again = np.repeat(np.arange(12), weight.astype(int))
    a = l1_hinge(M, t, weight)[:2]
    b = l1_hinge(M[again], t[again], np.ones(len(again)))[:2]
    assert primal(*a, M, t, weight) == pytest.approx(primal(*b, M, t, weight), rel=1e-9)


@pytest.mark.parametrize("model", [MILES(gamma=0.3), MILES(solver="highs")])
def test_contributions_add_up_to_the_decision(bags, model):
    X, y = bags
    model.fit(X, y)
    sums = [scores.sum() for scores in model.instance_scores(X).to_list()]
    np.testing.assert_allclose(
        sums, model.decision_function(X) - model.intercept_, atol=1e-12
    )


def test_contributions_share_ties(bags):
    X, y = bags
    model = MILES(gamma=0.3, random_state=0).fit(X, y)
    twice = Bags.from_list([np.repeat(b, 2, axis=0) for b in X])
    once, halves = model.instance_scores(X).values, model.instance_scores(twice).values
    np.testing.assert_allclose(halves[::2], once / 2, atol=1e-12)
    np.testing.assert_allclose(halves[1::2], once / 2, atol=1e-12)


def test_sparse_rows_give_the_same_decision(bags):
    X, y = bags
    sparse = X.with_data(sp.csr_matrix(X.data))
    a = MILES(gamma=0.3, random_state=0).fit(X, y).decision_function(X)
    b = MILES(gamma=0.3, random_state=0).fit(sparse, y).decision_function(sparse)
    np.testing.assert_allclose(a, b, atol=1e-4)


def test_constant_column_changes_nothing(bags):
    X, y = bags
    wider = X.with_data(np.column_stack([X.data, np.full(X.n_instances, 5.0)]))
    a = MILES(gamma=0.3, solver="highs").fit(X, y).decision_function(X)
    b = MILES(gamma=0.3, solver="highs").fit(wider, y).decision_function(wider)
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_sample_represents_very_many_instances(bags, monkeypatch):
    X, y = bags
    model = MILES(random_state=0)
    drawn = "bagwise.embedding._prototypes"
    monkeypatch.setattr(f"{drawn}.MANY_INSTANCES", 20)
    monkeypatch.setattr(f"{drawn}.SAMPLE", 12)
    with pytest.warns(UserWarning, match=r"12 of \d+ instances were sampled"):
        auto = model.fit(X, y).decision_function(X)
    twelve = clone(model).set_params(max_prototypes=12).fit(X, y).decision_function(X)
    np.testing.assert_array_equal(auto, twelve)


def test_similarities_beyond_the_memory_are_refused(bags, monkeypatch):
    X, y = bags
    monkeypatch.setenv("BAGWISE_MEMORY", "10KB")
    with pytest.raises(ValueError, match="Set max_"):
        MILES().fit(X, y)
