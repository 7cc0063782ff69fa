"""Exact properties of the SAFE problem, each against an independent computation."""

import numpy as np
import pytest
from scipy.linalg import eigvalsh
from scipy.optimize import minimize

from bagwise.least_squares._safe_kernel import (
    DenseOmega,
    KernelSystem,
    LinearOmega,
)
from bagwise.least_squares.safe_moments import MomentSystem, chunk_moments
from bagwise.least_squares.safe_problem import BagDesign, LabelTargets

CASES = [
    pytest.param(core, aggregation, id=f"{core}-{aggregation}")
    for core in ("kpca", "ksc")
    for aggregation in ("sum", "mean", "sqrt")
]


def solve(problem, gamma, tol=1e-13):
    return problem.system.solve(problem.Y, gamma, tol=tol)[0]


def moments_of(problem, start=0, stop=None):
    """Moments of the bags start:stop, by the library's own accumulation."""
    design = problem.design
    stop = len(design.residual) if stop is None else stop
    rows = slice(design.offsets[start], design.offsets[stop])
    wide = np.column_stack([problem.phi, np.ones(len(problem.phi))])[rows]
    ones = np.ones(stop - start)
    codes = (problem.Y[start:stop, 0] > 0).astype(int)
    offsets = design.offsets[start : stop + 1] - design.offsets[start]
    return chunk_moments(
        wide,
        offsets,
        design.weight[rows],
        ones,
        LabelTargets(2).columns(codes),
        design.variance[rows],
    )


def right_side(moments):
    """Right-hand side of the first target."""
    return moments.target.T @ LabelTargets(2).mix(None)


@pytest.mark.parametrize(("core", "aggregation"), CASES)
@pytest.mark.parametrize("relative", [0.0, 0.3, 0.9])
def test_all_solvers_agree_with_a_quasi_newton_minimum(
    build_problem, core, aggregation, relative, solve_directly
):
    problem = build_problem(1, core, aggregation)
    gamma = relative * problem.system.gamma_max()
    fast = solve(problem, gamma)
    direct = solve_directly(problem.omega, problem.design, gamma, problem.Y)
    np.testing.assert_allclose(fast.scores, direct.scores, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(fast.dual_coef, direct.dual_coef, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fast.intercept, direct.intercept, rtol=1e-7)
    implicit = KernelSystem(LinearOmega(problem.phi), problem.design)
    implicit_scores = implicit.solve(problem.Y, gamma, tol=1e-13)[0].scores
    np.testing.assert_allclose(implicit_scores, direct.scores, rtol=1e-8, atol=1e-9)

    moments = moments_of(problem)
    primal = MomentSystem(moments.bag, moments.instance, problem.design.residual[0])
    theta = primal.solve(right_side(moments), gamma)[:, 0]
    scores = problem.phi @ theta[:-1] + theta[-1]
    np.testing.assert_allclose(scores, direct.scores[:, 0], rtol=1e-8, atol=1e-9)

    y = problem.Y[:, 0]
    result = minimize(problem.objective, np.zeros(6), args=(gamma, y), tol=1e-10)
    assert result.fun >= problem.objective(theta, gamma, y) - 1e-9
    np.testing.assert_allclose(result.x, theta, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(("core", "aggregation"), CASES)
def test_stationarity(build_problem, core, aggregation, dense_aggregation):
    problem = build_problem(2, core, aggregation)
    gamma = 0.8 * problem.system.gamma_max()
    alpha, _, e = solve(problem, gamma)
    J, r = dense_aggregation(problem.design), problem.design.residual
    Ge = (J * r) @ (J.T @ e) - gamma * problem.design.variance[:, None] * e
    np.testing.assert_allclose(alpha + Ge, (J * r) @ problem.Y, atol=1e-9)
    np.testing.assert_allclose(alpha.sum(axis=0), 0.0, atol=1e-11)


def test_without_variance_it_is_least_squares_on_the_set_kernel(
    build_problem, dense_aggregation
):
    problem = build_problem(3, "kpca", "mean")
    J, design = dense_aggregation(problem.design), problem.design
    n_bags = len(design.residual)
    system = np.zeros((n_bags + 1, n_bags + 1))
    system[:-1, :-1] = J.T @ problem.omega @ J + np.diag(1.0 / design.residual)
    system[:-1, -1] = system[-1, :-1] = J.sum(axis=0)
    right = np.vstack([problem.Y, np.zeros((1, 2))])
    bags = np.linalg.solve(system, right)
    np.testing.assert_allclose(solve(problem, 0.0).dual_coef, J @ bags[:-1], atol=1e-12)
    np.testing.assert_allclose(solve(problem, 0.0).intercept, bags[-1], atol=1e-12)


def test_bags_of_one_are_a_least_squares_machine(build_problem):
    problem = build_problem(4, sizes=np.ones(20, dtype=int), rho=0.9)
    gamma, rho = 0.3, 0.9
    system = np.ones((21, 21))
    system[:-1, :-1] = problem.omega + np.eye(20) / (rho - gamma)
    system[-1, -1] = 0.0
    right = np.vstack([rho / (rho - gamma) * problem.Y, np.zeros((1, 2))])
    machine = np.linalg.solve(system, right)
    solution = solve(problem, gamma)
    np.testing.assert_allclose(solution.dual_coef, machine[:-1], atol=1e-9)
    np.testing.assert_allclose(solution.intercept, machine[-1], atol=1e-9)


def test_invariant_to_constants_and_additive_parts_of_the_kernel(
    build_problem, solve_directly
):
    problem = build_problem(5)
    gamma = 0.7 * problem.system.gamma_max()
    f = np.random.default_rng(0).random(len(problem.phi))
    shifted = problem.omega + 2.5 + f[:, None] + f
    # The shifted matrix need not be definite: the direct solver takes it.
    other = solve_directly(shifted, problem.design, gamma, problem.Y)
    np.testing.assert_allclose(other.scores, solve(problem, gamma).scores, atol=1e-8)


@pytest.mark.parametrize("core", ["kpca", "ksc"])
def test_scaling_of_kernel_and_weights(build_problem, core):
    c = 3.7
    problem = build_problem(6, core)
    design = problem.design
    v = design.variance if core == "kpca" else design.variance / c
    scaled = KernelSystem(
        DenseOmega(c * problem.omega),
        BagDesign(design.offsets, design.weight, design.residual / c, v),
    )
    bound = problem.system.gamma_max()
    factor = c if core == "kpca" else 1.0  # the degrees scale with the kernel
    assert scaled.gamma_max() == pytest.approx(bound / factor, rel=1e-9)
    there = scaled.solve(problem.Y, 0.6 * bound / factor, tol=1e-13)[0]
    here = solve(problem, 0.6 * bound)
    np.testing.assert_allclose(there.scores, here.scores, rtol=1e-8, atol=1e-10)


def test_constant_degrees_make_both_cores_equal(build_problem):
    problem = build_problem(7)
    gamma, degree = 0.5 * problem.system.gamma_max(), 4.2
    design = problem.design
    flat = BagDesign(
        design.offsets, design.weight, design.residual, design.variance / degree
    )
    other = KernelSystem(DenseOmega(problem.omega), flat)
    scores = other.solve(problem.Y, gamma * degree, tol=1e-13)[0].scores
    np.testing.assert_allclose(scores, solve(problem, gamma).scores, atol=1e-10)


def test_linear_in_the_labels(build_problem):
    problem = build_problem(8, "ksc", n_targets=3)
    gamma = 0.9 * problem.system.gamma_max()
    mix = np.array([[1.0, -1.0], [0.5, 0.0], [-2.0, 0.0]])
    both = problem.system.solve(problem.Y @ mix, gamma, tol=1e-13)[0]
    np.testing.assert_allclose(
        both.scores, solve(problem, gamma).scores @ mix, atol=1e-9
    )


@pytest.mark.parametrize("core", ["kpca", "ksc"])
def test_gamma_max_is_the_border_of_convexity(build_problem, core):
    rhos = np.array([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
    bounds = []
    for rho in rhos:
        problem = build_problem(9, core, rho=rho)
        bound = problem.system.gamma_max()
        A, C = problem.hessian_parts()
        assert bound == pytest.approx(1.0 / eigvalsh(C, A)[-1], rel=1e-9)
        moments = moments_of(problem)
        primal = MomentSystem(moments.bag, moments.instance, rho)
        assert bound == pytest.approx(primal.gamma_max(), rel=1e-9)
        design = problem.design
        assert bound <= rho * (design.n @ design.n) / design.variance.sum() + 1e-12
        for factor, expected in ((0.999, True), (1.001, False)):
            gamma = factor * bound
            assert (np.linalg.eigvalsh(A - gamma * C)[0] > 0) == expected
            if expected:
                primal.solve(right_side(moments), gamma)
            else:
                with pytest.raises(ValueError, match="not convex"):
                    primal.solve(right_side(moments), gamma)
                with pytest.raises(ValueError, match="not convex"):
                    solve(problem, gamma)
        bounds.append(bound)
    slopes = np.diff(bounds) / np.diff(rhos)
    assert np.all(slopes > 0)
    assert np.all(np.diff(slopes) < 1e-9)  # concave


def test_the_path_is_a_resolvent(build_problem):
    problem = build_problem(10, "ksc")
    bound = problem.system.gamma_max()
    gammas = np.array([0.1, 0.5, 0.9, 0.98]) * bound
    path, n_iter = problem.system.path(problem.Y, gammas, tol=1e-13, max_iter=500)
    assert n_iter <= 7  # rank five and an intercept: the Krylov space ends there
    K = problem.system.posterior(np.eye(len(problem.phi)))
    start = solve(problem, 0.0).scores
    moments = moments_of(problem)
    primal = MomentSystem(moments.bag, moments.instance, problem.design.residual[0])
    for gamma, solution in zip(gammas, path, strict=True):
        theta = primal.solve(right_side(moments), gamma)
        resolvent = np.eye(len(K)) - gamma * K * problem.design.variance
        expected = np.linalg.solve(resolvent, start)
        np.testing.assert_allclose(solution.scores, expected, rtol=1e-7, atol=1e-8)
        by_theta = problem.phi @ theta[:-1] + theta[-1]
        np.testing.assert_allclose(by_theta, expected[:, :1], rtol=1e-7, atol=1e-8)


def test_moments_add_and_subtract(build_problem):
    problem = build_problem(11, "kpca", "sqrt")
    whole = moments_of(problem)
    chunks = moments_of(problem, 0, 4) + moments_of(problem, 4, 14)
    fold = whole - moments_of(problem, 0, 4)
    for one, other in ((whole, chunks), (moments_of(problem, 4, 14), fold)):
        for name in ("bag", "instance", "target", "first"):
            np.testing.assert_allclose(
                getattr(one, name), getattr(other, name), rtol=1e-12, atol=1e-12
            )
        assert one.trace == pytest.approx(other.trace)
        np.testing.assert_allclose(one.sizes, other.sizes)


def without_bag(problem, k):
    """The same problem with one bag left out, as plain arrays."""
    design = problem.design
    bags = np.arange(len(design.residual)) != k
    sizes = np.diff(design.offsets)
    rows = np.repeat(bags, sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes[bags])])
    rest = BagDesign(
        offsets, design.weight[rows], design.residual[bags], design.variance[rows]
    )
    return rows, bags, rest


@pytest.mark.parametrize("core", ["kpca", "ksc"])
def test_far_beyond_convexity_the_classifier_is_reversed(
    build_problem, core, solve_directly, dense_aggregation
):
    rng = np.random.default_rng(13)
    problem = build_problem(13, core)
    x = 3.0 * rng.standard_normal((len(problem.phi), 3))
    omega = np.exp(-((x[:, None] - x) ** 2).sum(-1))  # of full rank, well conditioned
    gamma = 1e7
    e = solve_directly(omega, problem.design, gamma, problem.Y).scores
    J, design = dense_aggregation(problem.design), problem.design
    limit = -(design.residual[0] / gamma) * (J @ problem.Y) / design.variance[:, None]
    np.testing.assert_allclose(e, limit, rtol=1e-3, atol=0.0)


def test_the_printed_system_interpolates_instead_of_minimising(
    build_problem, solve_directly, dense_aggregation
):
    problem = build_problem(14, "ksc")
    x = np.random.default_rng(14).standard_normal((len(problem.phi), 3))
    omega = np.exp(-((x[:, None] - x) ** 2).sum(-1))
    design, y = problem.design, problem.Y[:, 0]
    rho, gamma, v = design.residual[0], 0.3, design.variance
    J = dense_aggregation(design)
    G = rho * J @ J.T - gamma * np.diag(v)
    P = np.eye(len(v)) - np.outer(G.sum(axis=1), np.ones(len(v))) / G.sum()
    system = np.vstack([P @ G @ omega, np.ones(len(v))])
    right = np.append(rho * P @ (J @ y), 0.0)
    alpha = np.linalg.lstsq(system, right, rcond=1e-14)[0]
    e = omega @ alpha + (rho * (J @ y).sum() - G.sum(axis=0) @ omega @ alpha) / G.sum()
    S = J.T @ ((J**2).sum(axis=1) / v)
    target = rho * (J @ (y / (rho * S - gamma))) / v
    assert np.ptp(e - target) < 1e-6 * np.ptp(e)
    corrected = solve_directly(omega, design, gamma, problem.Y).scores[:, 0]
    assert np.ptp(corrected - target) > 1e-2 * np.ptp(target)


def test_order_of_instances_and_bags_does_not_matter(build_problem):
    problem = build_problem(15, "ksc")
    gamma = 0.9 * problem.system.gamma_max()
    design, rng = problem.design, np.random.default_rng(15)
    order = rng.permutation(len(problem.Y))
    rows = np.concatenate(
        [rng.permutation(np.arange(*design.offsets[k : k + 2])) for k in order]
    )
    sizes = np.diff(design.offsets)[order]
    moved = BagDesign(
        np.concatenate([[0], np.cumsum(sizes)]),
        design.weight[rows],
        design.residual[order],
        design.variance[rows],
    )
    other = KernelSystem(DenseOmega(problem.omega[np.ix_(rows, rows)]), moved)
    assert other.gamma_max() == pytest.approx(problem.system.gamma_max(), rel=1e-10)
    scores = other.solve(problem.Y[order], gamma, tol=1e-13)[0].scores
    np.testing.assert_allclose(scores, solve(problem, gamma).scores[rows], atol=1e-9)


def test_removing_a_bag_can_lower_gamma_max(build_problem):
    problem = build_problem(16)
    bounds = []
    for k in range(len(problem.Y)):
        rows, _, rest = without_bag(problem, k)
        omega = DenseOmega(problem.omega[np.ix_(rows, rows)])
        bounds.append(KernelSystem(omega, rest).gamma_max())
    assert min(bounds) < 0.97 * problem.system.gamma_max()


def test_residual_weights_are_repeated_bags(build_problem):
    problem = build_problem(17, rho=0.5)
    design = problem.design
    count = np.ones(len(problem.Y), dtype=int)
    count[[1, 4]] = 3
    sizes = np.diff(design.offsets)
    bags = np.repeat(np.arange(len(count)), count)
    rows = np.concatenate([np.arange(*design.offsets[k : k + 2]) for k in bags])
    repeated = BagDesign(
        np.concatenate([[0], np.cumsum(sizes[bags])]),
        design.weight[rows],
        design.residual[bags],
        np.ones(len(rows)),
    )
    weighted = BagDesign(
        design.offsets,
        design.weight,
        design.residual * count,
        np.repeat(count, sizes).astype(float),
    )
    omega = problem.omega
    one = KernelSystem(DenseOmega(omega), weighted)
    two = KernelSystem(DenseOmega(omega[np.ix_(rows, rows)]), repeated)
    gamma = 0.8 * one.gamma_max()
    assert two.gamma_max() == pytest.approx(one.gamma_max(), rel=1e-9)
    left = one.solve(problem.Y, gamma, tol=1e-13)[0].scores
    right = two.solve(problem.Y[bags], gamma, tol=1e-13)[0].scores
    np.testing.assert_allclose(right, left[rows], atol=1e-9)
