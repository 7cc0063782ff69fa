"""The relaxation against brute force, a cone solver and finite differences."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse

from bagwise.solvers.margin_distribution import OdmLoss, solve_odm
from bagwise.svm import _key_kernel_rows as _units
from bagwise.svm._key_feature_rows import FeatureUnits
from bagwise.svm._key_kernel_rows import KernelUnits
from bagwise.svm._key_relaxation import (
    Mixture,
    integer_bound,
    solve_relaxation,
    violated_choices,
)


def rows(sizes=(3, 2, 4), n_negative=6, d=4, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    positive = rng.normal(size=(offsets[-1], d))
    positive[offsets[:-1], 0] += 2.0
    return positive, rng.normal(size=(n_negative, d)), offsets


def kernel_units(positive, negative, offsets):
    return KernelUnits(
        positive @ positive.T, positive @ negative.T, negative @ negative.T, offsets
    )


def make(seed=0, theta=0.2, nu=0.5, scale=3.0, **shape):
    units = kernel_units(*rows(seed=seed, **shape))
    rng = np.random.default_rng(seed + 100)
    return units, OdmLoss(scale * rng.uniform(0.5, 2, units.n_rows), theta, nu)


def all_choices(offsets):
    ranges = [range(a, b) for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    return np.array(list(product(*ranges)))


def signed_kernel(units, choice):
    kpn = units.kpn[choice]
    return np.block([[units.kpp[np.ix_(choice, choice)], -kpn], [-kpn.T, units.knn]])


def relax(units, loss, tol=1e-9, **settings):
    settings = {"max_iter": 200, **settings}
    rng = np.random.default_rng(0)
    return solve_relaxation(units, loss, tol=tol, rng=rng, **settings)


def cone_optimum(units, loss, choices):
    """Solve max conj(d) - t / 2 with d'K_c d <= t for every choice."""
    clarabel = pytest.importorskip("clarabel")
    n = units.n_rows
    up, down = 1 / loss.slope, 1 / (loss.nu * loss.slope)
    P = sparse.diags_array(np.concatenate([up, down, [0.0]]), format="csc")
    linear = np.concatenate([np.full(n, -loss.low), np.full(n, loss.high), [0.5]])
    A, b = [-np.hstack([np.eye(2 * n), np.zeros((2 * n, 1))])], [np.zeros(2 * n)]
    cones = [clarabel.NonnegativeConeT(2 * n)]
    for choice in choices:
        values, vectors = np.linalg.eigh(signed_kernel(units, choice))
        root = (vectors * np.sqrt(np.maximum(values, 0))).T
        # |2 root d|^2 + (t - 1)^2 <= (t + 1)^2
        block = np.zeros((n + 2, 2 * n + 1))
        block[0, -1] = block[1, -1] = -1.0
        block[2:, :n], block[2:, n : 2 * n] = -2.0 * root, 2.0 * root
        A.append(block)
        b.append(np.concatenate([[1.0, -1.0], np.zeros(n)]))
        cones.append(clarabel.SecondOrderConeT(n + 2))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solution = clarabel.DefaultSolver(
        P, linear, sparse.csc_array(np.vstack(A)), np.concatenate(b), cones, settings
    ).solve()
    return -solution.obj_val


@pytest.mark.parametrize("seed", range(4))
def test_equals_the_cone_program_over_all_choices(seed):
    units, loss = make(seed)
    found = relax(units, loss)
    assert found.converged
    assert found.certified
    expected = cone_optimum(units, loss, all_choices(units.offsets))
    assert found.mixture.objective == pytest.approx(expected, rel=2e-7)


@pytest.mark.parametrize(("theta", "nu"), [(0.2, 0.5), (0.0, 0.0), (0.5, 1.0)])
def test_relaxation_is_below_every_single_choice(theta, nu):
    units, loss = make(5, theta, nu)
    found = relax(units, loss)
    single = [
        solve_odm(units.mixture(c[None], np.ones(1)), loss).objective
        for c in all_choices(units.offsets)
    ]
    assert found.mixture.objective <= min(single) + 1e-9
    assert (np.diff(found.path) <= 1e-9).all()
    rounded = integer_bound(units, loss, found.mixture)
    assert min(single) - 1e-9 <= rounded.objective
    heaviest = found.mixture.choices[found.mixture.weight.argmax()]
    start = solve_odm(units.mixture(heaviest[None], np.ones(1)), loss)
    assert rounded.objective <= start.objective + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_stationarity_of_the_solution(seed):
    units, loss = make(seed)
    mixture = relax(units, loss).mixture
    kernel = sum(
        v * signed_kernel(units, c)
        for v, c in zip(mixture.weight, mixture.choices, strict=True)
    )
    np.testing.assert_allclose(mixture.margins, kernel @ mixture.delta, atol=1e-10)
    np.testing.assert_allclose(mixture.delta, loss.respond(mixture.margins), atol=1e-9)
    # Choices with weight are the most violated ones.
    carried = mixture.weight > 1e-6
    np.testing.assert_allclose(mixture.norms[carried], mixture.norms.max(), rtol=1e-5)
    assert mixture.weight.sum() == pytest.approx(1.0)
    share = np.asarray(units.spread(mixture.choices, mixture.weight).sum(axis=1))
    np.testing.assert_allclose(share.ravel(), 1.0)


def test_gradient_and_curvature_in_the_weights():
    units, loss = make(1)
    choices = all_choices(units.offsets)[[0, 7, 13, 20]]
    weight = np.array([0.4, 0.3, 0.2, 0.1])

    def value(v):
        return solve_odm(units.mixture(choices, v), loss).objective

    result = solve_odm(units.mixture(choices, weight), loss)
    products = units.products(choices, result.delta)
    norms = result.delta @ products
    block = products[result.rows]
    hessian = block.T @ result.factor.solve(block)
    for step_from, step_to in ((0, 1), (2, 3), (0, 3)):
        e = np.zeros(4)
        e[step_from], e[step_to] = -1.0, 1.0
        h = 1e-4
        high, low, mid = value(weight + h * e), value(weight - h * e), value(weight)
        assert (high - low) / (2 * h) == pytest.approx(-0.5 * norms @ e, rel=1e-5)
        assert (high - 2 * mid + low) / h**2 == pytest.approx(
            e @ hessian @ e, rel=1e-3, abs=1e-4
        )


def test_a_solve_ends_where_the_optimum_is_above_a_limit():
    units, loss = make(1)
    choices = all_choices(units.offsets)[[0, 7, 13, 20]]
    mixture = units.mixture(choices, np.array([0.4, 0.3, 0.2, 0.1]))
    whole = solve_odm(mixture, loss)
    above, below = 1.001 * whole.objective, 0.999 * whole.objective
    kept = solve_odm(mixture, loss, limit=above)
    np.testing.assert_array_equal(kept.delta, whole.delta)
    assert solve_odm(mixture, loss, whole.delta, limit=below) is None
    assert solve_odm(mixture, loss, whole.delta, limit=above) is not None


def test_squared_norm_and_its_slope():
    units, loss = make(2)
    choices = all_choices(units.offsets)[[3, 11]]
    delta = np.random.default_rng(0).normal(size=units.n_rows)
    products = units.products(choices, delta)
    for k, choice in enumerate(choices):
        kernel = signed_kernel(units, choice)
        np.testing.assert_allclose(products[:, k], kernel @ delta, atol=1e-12)
    some = np.array([0, 2, units.n_rows - 1])
    np.testing.assert_allclose(
        units.products(choices, delta, some), products[some], atol=1e-12
    )
    norms = units.squared_norms(choices, [delta])
    np.testing.assert_allclose(norms[:, 0], delta @ products, atol=1e-12)
    scores = units.candidate_scores(choices[:1], np.ones(1), delta)
    np.testing.assert_allclose(scores[choices[0]], products[:3, 0], atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_features_and_kernel_values_give_one_answer(monkeypatch, kind):
    monkeypatch.setattr(_units, "MAX_CHOICES", 1)  # ascent on both sides
    positive, negative, offsets = rows((5, 4, 6, 3), 30, 3, seed=7)
    by_kernel = kernel_units(positive, negative, offsets)
    if kind == "sparse":
        positive, negative = sparse.csr_array(positive), sparse.csr_array(negative)
    by_feature = FeatureUnits(positive, negative, offsets)
    loss = OdmLoss(np.full(by_kernel.n_rows, 2.0), 0.2, 0.5)
    delta = np.random.default_rng(1).normal(size=by_kernel.n_rows)
    choices = offsets[:-1] + np.array([[0, 1, 2, 0], [4, 3, 5, 2]])
    weight = np.array([0.25, 0.75])
    np.testing.assert_allclose(
        by_kernel.products(choices, delta), by_feature.products(choices, delta)
    )
    duals = [delta, 2.0 * delta, np.abs(delta)]
    norms = np.stack([d @ by_kernel.products(choices, d) for d in duals], axis=1)
    for units in (by_kernel, by_feature):
        np.testing.assert_allclose(units.squared_norms(choices, duals), norms)
        for order in ([1, 1, 0], [1, 0], [0]):  # blocks of choices are kept
            again = units.squared_norms(choices[order], duals)
            np.testing.assert_allclose(again, norms[order])
    np.testing.assert_allclose(
        by_kernel.candidate_scores(choices, weight, delta),
        by_feature.candidate_scores(choices, weight, delta),
        atol=1e-10,
    )
    for a, b in zip(
        by_kernel.ascend(delta, choices), by_feature.ascend(delta, choices), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-9)
    a, b = relax(by_kernel, loss, 1e-6), relax(by_feature, loss, 1e-6)
    assert a.mixture.objective == pytest.approx(b.mixture.objective, rel=2e-6)
    exact = by_kernel.enumerate_all(delta), by_feature.enumerate_all(delta)
    np.testing.assert_array_equal(exact[0][0], exact[1][0])
    assert exact[0][1] == pytest.approx(exact[1][1])


def test_ascent_rises_and_usually_finds_the_maximum(monkeypatch):
    hits = 0
    for seed in range(40):
        units, _ = make(seed, sizes=(4, 4, 4, 4), n_negative=5)
        delta = np.random.default_rng(seed).normal(size=units.n_rows)
        choice, best = units.enumerate_all(delta)
        values = [
            delta @ signed_kernel(units, c) @ delta for c in all_choices(units.offsets)
        ]
        assert best == pytest.approx(max(values), abs=1e-9)
        np.testing.assert_array_equal(
            choice, all_choices(units.offsets)[int(np.argmax(values))]
        )
        start = units.offsets[:-1][None].copy()
        before = delta @ units.products(start, delta)[:, 0]
        _, after = units.ascend(delta, start)
        assert before - 1e-9 <= after[0] <= best + 1e-9
        with monkeypatch.context() as patch:
            patch.setattr(_units, "MAX_CHOICES", 1)
            guess = Mixture(start, np.ones(1), delta, None, None, 0.0, 0)
            _, norms, exact = violated_choices(units, guess, np.random.default_rng(0))
        assert not exact
        hits += norms[0] >= best - 1e-9 * abs(best)
    assert hits >= 38


def test_bags_of_one_are_the_plain_machine():
    units, loss = make(3, sizes=(1, 1, 1, 1))
    found = relax(units, loss)
    plain = solve_odm(units.mixture(units.offsets[:-1][None], np.ones(1)), loss)
    assert found.mixture.objective == pytest.approx(plain.objective, rel=1e-12)
    np.testing.assert_allclose(found.mixture.delta, plain.delta, atol=1e-10)


def test_order_of_bags_and_repeated_instances_do_not_matter():
    positive, negative, offsets = rows((3, 2, 4), seed=4)
    weight = np.full(9, 2.0)
    value = relax(kernel_units(positive, negative, offsets), OdmLoss(weight, 0.2, 0.5))
    value = value.mixture.objective
    order = np.r_[5:9, 0:3, 4, 3]  # bags moved, instances swapped
    moved = kernel_units(positive[order], negative[::-1], np.array([0, 4, 7, 9]))
    twice = np.r_[0, 0:9, 8, 8]
    repeated = kernel_units(positive[twice], negative, np.array([0, 4, 6, 12]))
    for units in (moved, repeated):
        other = relax(units, OdmLoss(weight, 0.2, 0.5)).mixture.objective
        assert other == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("nu", [0.0, 0.5])
def test_the_answer_does_not_depend_on_the_start(nu):
    units, loss = make(2)
    loss = OdmLoss(loss.weight, loss.theta, nu)
    choices = all_choices(units.offsets)[[0, 7, 13]]
    rng = np.random.default_rng(0)
    exact = solve_odm(units.mixture(choices, np.full(3, 1.0 / 3.0)), loss)
    for _ in range(10):
        units.release()
        mixture = units.mixture(choices, np.full(3, 1.0 / 3.0))
        start = rng.standard_normal(units.n_rows) * (rng.random(units.n_rows) < 0.7)
        for margins in (None, mixture.matvec(start)):
            result = solve_odm(mixture, loss, start, margins)
            np.testing.assert_allclose(result.delta, exact.delta, atol=1e-9)


def test_factors_of_changing_rows_against_the_kernel():
    rng = np.random.default_rng(3)
    n_positive, n_negative = 12, 40
    features = rng.standard_normal((3 * n_positive + n_negative, 60))
    kernel, p = features @ features.T, 3 * n_positive
    offsets = np.arange(0, p + 1, 3)
    units = KernelUnits(kernel[:p, :p], kernel[:p, p:], kernel[p:, p:], offsets)
    choices = offsets[:-1] + rng.integers(3, size=(4, n_positive))
    mixture = units.mixture(choices, np.array([0.4, 0.3, 0.2, 0.1]))
    dense = np.column_stack([mixture.matvec(row) for row in np.eye(units.n_rows)])
    chosen, ridge = rng.random(units.n_rows) < 0.7, rng.uniform(0.1, 1, units.n_rows)
    for n_changes in (0, 1, 3, 0, 20, 2, 1):
        changed = rng.permutation(units.n_rows)[:n_changes]
        chosen[changed] = ~chosen[changed]
        ridge[changed[:1]] *= 1.5
        rows = np.flatnonzero(chosen)
        rhs = rng.standard_normal((len(rows), 2))
        block = dense[np.ix_(rows, rows)] + np.diag(ridge[rows])
        solved = mixture.factor(rows, ridge[rows]).solve(rhs)
        np.testing.assert_allclose(block @ solved, rhs, atol=1e-8)
