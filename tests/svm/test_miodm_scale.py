"""What the feature form adds for many bags: first choices, bounds, roundings."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy import sparse

from bagwise.bags.segments import bag_matrix, segment_argmax
from bagwise.datasets import make_key_instance_bags
from bagwise.solvers.margin_distribution import OdmLoss, solve_odm
from bagwise.svm import MIODM, ODM, _key_feature_rows
from bagwise.svm._key_feature_rows import FeatureUnits
from bagwise.svm._key_kernel_rows import KernelUnits, principal_axes
from bagwise.svm._key_relaxation import (
    every_instance_choice,
    initial_mixture,
    integer_bound,
    newton_mixture,
    scaled_bound,
    solve_relaxation,
)

# What is tested is the machine: no cut, and none of the fits that look for one.
machine = partial(MIODM, threshold="zero")


def rows(sizes, n_negative, d, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    positive = rng.normal(size=(offsets[-1], d))
    positive[offsets[:-1], 0] += 2.0
    return positive, rng.normal(size=(n_negative, d)), offsets


def both(sizes=(3, 2, 4), n_negative=6, d=4, seed=0, scale=3.0, nu=0.5):
    a, b, offsets = rows(sizes, n_negative, d, seed)
    by_kernel = KernelUnits(a @ a.T, a @ b.T, b @ b.T, offsets)
    weight = scale * np.random.default_rng(seed + 9).uniform(
        0.5, 2, len(sizes) + len(b)
    )
    return by_kernel, FeatureUnits(a, b, offsets), OdmLoss(weight, 0.2, nu)


def all_choices(units):
    ends = zip(units.offsets[:-1], units.offsets[1:], strict=True)
    return np.array(list(product(*(range(a, b) for a, b in ends))))


def relax(units, loss, tol=1e-9):
    return solve_relaxation(
        units,
        loss,
        tol=tol,
        max_iter=200,
        rng=np.random.default_rng(0),
    )


@pytest.mark.parametrize("nu", [0.5, 0.0])
@pytest.mark.parametrize("seed", range(3))
def test_bound_is_the_best_scale_and_below_the_optimum(seed, nu):
    units, _, loss = both(seed=seed, nu=nu)
    found = relax(units, loss)
    rng = np.random.default_rng(seed)
    for _ in range(10):
        delta = rng.normal(0.3, 1.0, units.n_rows)
        if nu == 0:
            delta = np.abs(delta)
        largest = units.squared_norms(all_choices(units), [delta]).max()
        bound = scaled_bound(loss, delta, largest)
        assert 0 <= bound <= found.mixture.objective + 1e-9
        scales = np.linspace(0, 3, 301)
        values = [loss.conjugate(t * delta) - 0.5 * t * t * largest for t in scales]
        assert bound >= max(values) - 1e-9
        if 10 < np.argmax(values) < 300:
            assert bound == pytest.approx(max(values), rel=5e-3)
    largest = found.mixture.norms.max()
    assert scaled_bound(loss, found.mixture.delta, largest) == pytest.approx(
        found.mixture.objective, rel=1e-7
    )


@pytest.mark.parametrize("seed", range(3))
def test_stabilized_rounds_end_at_the_mixture_of_all_choices(seed):
    by_kernel, by_feature, loss = both(seed=seed)
    found = relax(by_feature, loss)
    choices = all_choices(by_kernel)
    start = (choices, np.full(24, 1 / 24), np.zeros(by_kernel.n_rows))
    everything = newton_mixture(by_kernel, loss, *start, tol=1e-11)
    assert found.converged
    assert found.certified
    assert found.mixture.objective == pytest.approx(everything.objective, rel=1e-7)
    assert found.gap <= 1e-9 * max(1.0, found.mixture.objective)
    assert (np.diff(found.path) <= 1e-9).all()


@pytest.mark.parametrize("kind", ["dense", "sparse", "kernel"])
def test_first_choices_are_the_ends_along_the_main_directions(kind):
    rng = np.random.default_rng(0)
    offsets = np.arange(0, 301, 5)
    positive = rng.normal(size=(300, 4)) * [9.0, 3.0, 1.0, 0.1] + [5.0, 0, 0, 3.0]
    main = np.linalg.eigh(np.cov(positive.T))[1][:, -1]
    given = sparse.csr_array(positive) if kind == "sparse" else positive
    units = FeatureUnits(given, given[:7], offsets)
    if kind == "kernel":
        gram = positive @ positive.T
        units = KernelUnits(gram, gram[:, :7], gram[:7, :7], offsets)
    mine = {tuple(choice) for choice in units.spanning_choices(rng)}
    for sign in (1, -1):
        assert tuple(segment_argmax(sign * (positive @ main), offsets)) in mine
    assert all((offsets[:-1] <= c).all() and (c < offsets[1:]).all() for c in mine)
    loss = OdmLoss(np.full(units.n_rows, 1.0), 0.2, 0.5)
    choices, weight, _ = initial_mixture(units, loss, rng)
    assert weight.sum() == pytest.approx(1.0)
    assert len(np.unique(choices, axis=0)) == len(choices)


@pytest.mark.parametrize("n", [5, 60, 150])
@pytest.mark.parametrize("rank", [3, 40])
def test_axes_of_a_kernel_are_those_of_the_features(n, rank):
    """And they follow the rows when these change places."""
    features = np.random.default_rng(n).normal(size=(n, rank)) + 2.0
    left, sizes, _ = np.linalg.svd(features - features.mean(axis=0))
    kept = min(10, n - 1, rank)
    gram = features @ features.T
    axes = principal_axes(gram, 10)
    assert axes.shape == (n, kept)
    np.testing.assert_allclose(
        axes @ axes.T, left[:, :kept] @ left[:, :kept].T, atol=1e-9
    )
    order = np.random.default_rng(1).permutation(n)
    again = principal_axes(gram[np.ix_(order, order)], 10)
    np.testing.assert_allclose(
        again @ again.T, (axes @ axes.T)[np.ix_(order, order)], atol=1e-9
    )


@pytest.mark.parametrize("n", [20, 150])
def test_equal_rows_have_no_axes(n):
    assert principal_axes(np.ones((n, n)), 10).shape == (n, 0)
    assert principal_axes(np.eye(n), 10).shape[1] <= 10


def test_a_choice_that_is_the_answer_alone_stays_alone():
    """Keys far out: no mixture is better, whatever other choices are at hand."""
    rng = np.random.default_rng(0)
    offsets = np.arange(0, 121, 5)
    positive = 0.1 * rng.normal(size=(120, 3))
    positive[::5] = [1.0, 0.0, 0.0]
    negative = 0.1 * rng.normal(size=(30, 3)) - [1.0, 0.0, 0.0]
    for units in (
        KernelUnits(
            positive @ positive.T, positive @ negative.T, negative @ negative.T, offsets
        ),
        FeatureUnits(positive, negative, offsets),
    ):
        loss = OdmLoss(np.ones(units.n_rows), 0.0, 0.0)
        choices, weight, delta = initial_mixture(units, loss, rng)
        alone = solve_odm(units.mixture(choices[:1], np.ones(1)), loss)
        norms = units.squared_norms(units.spanning_choices(rng), [alone.delta])[:, 0]
        assert norms.max() <= alone.delta @ alone.margins
        assert weight.tolist() == [1.0]
        np.testing.assert_allclose(delta, alone.delta)


def test_every_instance_choice_is_the_plain_machine_on_instances():
    by_kernel, by_feature, loss = both((3, 2, 4, 5), 12, 3, seed=2)
    a, b = by_feature.positive, by_feature.negative
    size = np.diff(by_kernel.offsets)
    weight = np.append(np.repeat(loss.weight[:4] / size, size), loss.weight[4:])
    labels = np.append(np.ones(len(a)), -np.ones(len(b)))
    plain = ODM(weight.sum(), kernel="linear", fit_intercept=False)
    plain.fit(np.vstack([a, b]), labels, sample_weight=weight)
    expected = segment_argmax(plain.decision_function(a), by_kernel.offsets)
    for units in (by_kernel, by_feature):
        (choice,) = every_instance_choice(units, loss)
        np.testing.assert_array_equal(choice, expected)


def test_roundings_with_more_starts_against_all_choices():
    hits = 0
    for seed in range(12):
        units, _, loss = both((4, 3, 4), 8, 3, seed=seed, scale=20.0)
        mixture = relax(units, loss, 1e-6).mixture
        best = min(
            solve_odm(units.mixture(c[None], np.ones(1)), loss).objective
            for c in all_choices(units)
        )
        end = integer_bound(units, loss, mixture, np.random.default_rng(0))
        again = solve_odm(units.mixture(end.choices, np.ones(1)), loss)
        assert end.objective == pytest.approx(again.objective, rel=1e-9)
        assert end.objective >= best - 1e-9
        hits += end.objective <= best + 1e-6 * best
    assert hits >= 10


@pytest.mark.parametrize("by_features", [True, False])
def test_polish_is_useful_where_the_relaxation_is_slack(monkeypatch, by_features):
    """Long bags of many features: the mixture knows nothing, one choice does."""
    if by_features:
        monkeypatch.setattr(_key_feature_rows, "MAX_KERNEL_ROWS", 0)
    X, y, z = make_key_instance_bags(
        160,
        n_features=20,
        bag_size=(10, 16),
        random_state=0,
        return_instance_labels=True,
    )
    train, test = slice(0, 80), slice(80, 160)
    model = machine(
        kernel="linear", polish=True, threshold="train", tol=0.05, random_state=0
    ).fit(X[train], y[train])
    assert model.relaxation_ratio_ < 0.1
    assert model.score(X[test], y[test]) > 0.85
    # No worse than knowing the keys, whose value is a plain machine's.
    keys = z[train].values == 1
    minus = np.repeat(y[train] == 0, X[train].sizes)
    cost = np.where(keys, 1000 / keys.sum(), 100 / (y[train] == 0).sum())
    used = keys | minus
    known = ODM(cost[used].sum(), kernel="linear")
    known.fit(X[train].data[used], keys[used], sample_weight=cost[used])
    assert model.integer_objective_ <= 1.01 * known.objective_[0]


def test_means_of_negative_bags_do_not_hold_their_instances_down():
    """Why bag level fails on long bags: any direction beats the true one."""
    X, y, z = make_key_instance_bags(
        120,
        n_features=20,
        bag_size=(18, 30),
        random_state=0,
        return_instance_labels=True,
    )
    minus = X[y == 0]
    means = bag_matrix(minus.offsets, mean=True) @ minus.data
    keys = X.data[z.values == 1]
    cost = np.repeat([1000 / len(keys), 100 / len(means)], [len(keys), len(means)])
    known = ODM(1100.0, kernel="linear")
    known.fit(np.vstack([keys, means]), cost == 1000 / len(keys), sample_weight=cost)
    model = machine(kernel="linear", level="bag", tol=0.05, polish=True, random_state=0)
    model.fit(X, y)
    assert model.integer_objective_ < 0.9 * known.objective_[0]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_factor_solves_the_block_of_any_selection(kind):
    """Each way of solving, against the kernel of the mixture written out."""
    positive, negative, offsets = rows((5, 4, 6, 3, 2, 4), 30, 5, seed=3)
    choices = offsets[:-1] + np.array([[0] * 6, [1] * 6, [2, 3, 1, 0, 1, 2]])
    weight = np.array([0.5, 0.2, 0.3])
    kernel = sum(
        v * (signed := np.vstack([positive[c], -negative])) @ signed.T
        for v, c in zip(weight, choices, strict=True)
    )
    given = [positive, negative]
    if kind == "sparse":
        given = [sparse.csr_array(part) for part in given]
    mixture = FeatureUnits(*given, offsets).mixture(choices, weight)
    rng = np.random.default_rng(0)
    used = set()
    for selected in (
        np.arange(36),  # negatives eliminated
        np.r_[0, 2, 5, 8:20],
        np.r_[0:5, 8, 9],  # fewer negatives than features
        np.arange(6, 36),  # no positive row
        np.arange(6),
    ):
        ridge = rng.uniform(0.1, 2.0, len(selected))
        factor = mixture.factor(selected, ridge)
        used.add(type(factor).__name__)
        block = kernel[np.ix_(selected, selected)] + np.diag(ridge)
        many = rng.normal(size=(len(selected), 3))
        for rhs in (many, many[:, 0]):
            expected = np.linalg.solve(block, rhs)
            np.testing.assert_allclose(factor.solve(rhs), expected, atol=1e-9)
    assert used == {"_EliminatedFactor", "_StackedFactor", "CholeskyFactor"}
