"""Diverse density against products of probabilities and finite differences."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from sklearn.base import clone

from bagwise import Bags
from bagwise.datasets import make_bags
from bagwise.density import EMDD, DiverseDensity
from bagwise.density import _base as density_base
from bagwise.density._base import density_objective, screened_starts
from bagwise.solvers.lbfgs import Descent


def problem(seed=0, sizes=(3, 2, 4, 1, 3, 2), width=3):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    data = rng.normal(size=(offsets[-1], width))
    positive = np.array([True, False] * (len(sizes) // 2))
    weight = rng.uniform(0.5, 2.0, size=len(sizes))
    theta = rng.uniform(0.3, 1.2, size=2 * width)
    return data, offsets, positive, weight, theta


def brute_force(data, offsets, positive, weight, theta, mode):
    """Products of probabilities, as the definition has them."""
    h, s = np.split(theta, 2)
    total = 0.0
    for i in range(len(positive)):
        bag = data[offsets[i] : offsets[i + 1]]
        p = np.exp(-((s * (bag - h)) ** 2).sum(axis=1))
        pr = p.max() if mode == "max" else 1 - np.prod(1 - p)
        total -= weight[i] * np.log(pr if positive[i] else 1 - pr)
    return total


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("mode", ["noisy_or", "max"])
def test_value_and_gradient(mode, sparse):
    data, offsets, positive, weight, theta = problem()
    objective = density_objective(
        sp.csr_matrix(data) if sparse else data, offsets, positive, weight, mode
    )
    value, gradient = objective(theta)
    expected = brute_force(data, offsets, positive, weight, theta, mode)
    assert value == pytest.approx(expected, rel=1e-12)
    steps = 1e-5 * np.eye(len(theta))
    central = [
        (objective(theta + e)[0] - objective(theta - e)[0]) / 2e-5 for e in steps
    ]
    np.testing.assert_allclose(gradient, central, rtol=1e-6, atol=1e-8)
    forward = approx_fprime(theta, lambda v: objective(v)[0], 1e-7)
    np.testing.assert_allclose(gradient, forward, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["noisy_or", "max"])
def test_finite_from_tiny_to_huge_scales(mode):
    data, offsets, positive, weight, theta = problem()
    objective = density_objective(data, offsets, positive, weight, mode)
    for size in 10.0 ** np.arange(-8, 7):
        value, gradient = objective(np.concatenate([theta[:3], np.full(3, size)]))
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
    # Far from everything, the gradient still points somewhere.
    far = np.concatenate([theta[:3], np.full(3, 30.0)])
    assert np.abs(objective(far)[1][:3]).max() > 1.0


def in_logarithms(data, offsets, positive, weight, theta):
    """The noisy-or of bags that are all far away: p is a sum, to first order."""
    h, s = np.split(theta, 2)
    d = ((s * (data - h)) ** 2).sum(axis=1)
    parts = [np.logaddexp.reduce(-d[a:b]) for a, b in itertools.pairwise(offsets)]
    return -sum(w * v for w, v, p in zip(weight, parts, positive, strict=True) if p)


def test_far_from_everything_probabilities_underflow_but_logarithms_do_not():
    data, offsets, positive, weight, theta = problem()
    theta[3:] *= 60.0
    for size in (1.0, 3.0):  # on both sides of where the loops change over
        there = np.concatenate([theta[:3] + 2.0, size * theta[3:]])
        value = density_objective(data, offsets, positive, weight, "noisy_or")(there)
        expected = in_logarithms(data, offsets, positive, weight, there)
        assert value[0] == pytest.approx(expected, rel=1e-12)


def test_a_bag_of_many_copies_of_the_point():
    rng = np.random.default_rng(0)
    bag = 1e-4 * rng.normal(size=(80, 2))
    theta = np.array([0.0, 0.0, 1.0, 1.0])
    offsets, weight = np.array([0, 80]), np.ones(1)
    d = (bag**2).sum(axis=1)
    negative = density_objective(bag, offsets, np.array([False]), weight, "noisy_or")
    log_rest = np.log(-np.expm1(-d)).sum()
    assert negative(theta)[0] == pytest.approx(-log_rest, rel=1e-12)
    value, gradient = density_objective(
        bag, offsets, np.array([True]), weight, "noisy_or"
    )(theta)
    assert value == 0.0
    assert (gradient == 0.0).all()


@pytest.mark.parametrize("mode", ["noisy_or", "max"])
def test_descents_of_dense_and_sparse_instances_agree(mode):
    data, offsets, positive, weight, _ = problem(5, sizes=(3, 2, 4, 1, 3, 3))
    start = np.concatenate([data[0], np.full(3, 0.5)])
    ends = []
    for kind in (np.asarray, sp.csr_matrix):
        objective = density_objective(kind(data), offsets, positive, weight, mode)
        run = objective.descend(Descent(start), 15)
        assert run.fun < objective(start)[0]
        assert run.fun == pytest.approx(objective(run.x)[0], rel=1e-9)
        ends.append(run.fun)
    assert ends[0] == pytest.approx(ends[1], rel=1e-6)


@pytest.mark.parametrize("model", [DiverseDensity(), EMDD()])
def test_features_that_do_not_vary_change_nothing(model):
    X, y = make_bags(16, n_features=3, random_state=2)
    wider = X.with_data(np.insert(X.data, [0, 2], [5.0, -1.25], axis=1))
    plain = clone(model).fit(X, y)
    padded = clone(model).fit(wider, y)
    assert padded.objective_ == plain.objective_
    np.testing.assert_array_equal(padded.concept_[[0, 3]], [5.0, -1.25])
    np.testing.assert_array_equal(padded.concept_[[1, 2, 4]], plain.concept_)
    np.testing.assert_array_equal(padded.scale_[[1, 2, 4]], plain.scale_)
    assert (padded.scale_[[0, 3]] > 0.0).all()  # they count in new bags
    np.testing.assert_allclose(
        padded.decision_function(wider), plain.decision_function(X)
    )


def test_bags_of_one_make_both_models_equal():
    data, *_, theta = problem(sizes=(1,) * 8)
    offsets = np.arange(9)
    positive, weight = np.arange(8) % 2 == 0, np.ones(8)
    a = density_objective(data, offsets, positive, weight, "noisy_or")(theta)
    b = density_objective(data, offsets, positive, weight, "max")(theta)
    assert a[0] == pytest.approx(b[0], rel=1e-12)
    np.testing.assert_allclose(a[1], b[1], rtol=1e-9)


def test_shift_and_scale_invariance():
    data, offsets, positive, weight, theta = problem()
    h, s = np.split(theta, 2)
    base = density_objective(data, offsets, positive, weight, "noisy_or")(theta)[0]
    moved = density_objective(data + 2.5, offsets, positive, weight, "noisy_or")
    assert moved(np.concatenate([h + 2.5, s]))[0] == pytest.approx(base)
    scaled = density_objective(data * 4.0, offsets, positive, weight, "noisy_or")
    assert scaled(np.concatenate([4.0 * h, s / 4.0]))[0] == pytest.approx(base)


def test_screening_values_are_the_max_density():
    X, y = make_bags(12, n_features=3, random_state=1)
    positive, weight = y == 1, np.ones(len(y))
    objective = density_objective(X.data, X.offsets, positive, weight, "max")
    starts = screened_starts(X, positive, weight, X.n_instances)
    values = [objective(s)[0] for s in starts]
    assert (np.diff(values) >= -1e-9).all()
    assert len(starts) == X.sizes[positive].sum()
    for start in starts[:5]:
        assert objective.descend(Descent(start), 50).fun <= objective(start)[0]
    doubled = Bags.from_list([np.repeat(b, 2, axis=0) for b in X])
    again = screened_starts(doubled, positive, weight, 5)
    np.testing.assert_allclose(again, starts[:5])


def test_of_very_many_instances_an_even_share_is_screened(monkeypatch):
    X, y = make_bags(20, random_state=0)
    positive, weight = y == 1, np.ones(len(y))
    candidates = X.data[positive[X.bag_index]]
    monkeypatch.setattr(density_base, "_MANY", 10)
    monkeypatch.setattr(density_base, "_SCREENED", 5)
    starts = screened_starts(X, positive, weight, 4)
    even = candidates[[round(k * (len(candidates) - 1) // 4) for k in range(5)]]
    points = [start[: X.n_features] for start in starts]
    assert len(points) == 4
    assert all((even == point).all(axis=1).any() for point in points)
    # As many starts as there are instances: none is left out.
    assert len(screened_starts(X, positive, weight, X.n_instances)) == len(candidates)


def test_screened_starts_reach_the_optimum_of_all():
    X, y = make_bags(16, n_features=3, bag_size=(2, 4), random_state=2)
    few = DiverseDensity(n_starts=15).fit(X, y)
    every = DiverseDensity(starts="all").fit(X, y)
    assert every.n_starts_ == X.sizes[y == 1].sum()
    assert few.objective_ <= every.objective_ * 1.001 + 1e-6
    assert few.objective_ < len(X) * np.log(2)


@pytest.mark.parametrize("model", [DiverseDensity(), DiverseDensity("max"), EMDD()])
def test_finds_the_concept(model):
    rng = np.random.default_rng(0)
    concept = np.array([2.0, -1.0])
    bags, y = [], np.arange(40) % 2
    for label in y:
        bag = rng.uniform(-4, 4, size=(5, 2))
        near = np.linalg.norm(bag - concept, axis=1) < 1.5
        bag[near] = [-3.0, 3.0]
        if label:
            bag[rng.integers(5)] = concept + 0.1 * rng.normal(size=2)
        bags.append(bag)
    model.fit(bags, y)
    np.testing.assert_allclose(model.concept_, concept, atol=0.3)
    assert model.score(bags, y) == 1.0
    h, s2 = model.concept_, model.scale_
    expected = np.log(2) - ((bags[0] - h) ** 2 @ s2) - model.threshold_
    np.testing.assert_allclose(model.instance_scores(bags)[0], expected)


def test_emdd_keeps_the_best_of_the_whole_objective():
    X, y = make_bags(30, n_features=4, random_state=3)
    model = EMDD().fit(X, y)
    centered = X.data - X.data.mean(axis=0)
    positive, weight = y == 1, np.ones(len(y))
    whole = density_objective(centered, X.offsets, positive, weight, "max")
    theta = np.concatenate([model.concept_ - X.data.mean(axis=0), model.scale_**0.5])
    assert whole(theta)[0] == pytest.approx(model.objective_, rel=1e-9)
    starts = screened_starts(X.with_data(centered), positive, weight, 20)
    for start, reached in zip(starts, model.objective_path_, strict=True):
        assert reached <= whole(start)[0] + 1e-9


def test_emdd_on_bags_of_one_is_max_density():
    X, y = make_bags(20, n_features=3, random_state=4)
    alone = Bags(X.data[X.offsets[:-1]], np.arange(len(X) + 1))
    em = EMDD(m_steps=1000).fit(alone, y)
    dd = DiverseDensity("max", n_starts=20).fit(alone, y)
    assert em.objective_ == pytest.approx(dd.objective_, rel=1e-3, abs=1e-3)
