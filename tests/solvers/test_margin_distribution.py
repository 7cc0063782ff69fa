"""Newton for fixed rows, against an independent cone solver and exact properties."""

import numpy as np
import pytest
from scipy import sparse

from bagwise.solvers import margin_distribution
from bagwise.solvers.margin_distribution import (
    BorderedFactor,
    CholeskyFactor,
    FeatureRows,
    KernelRows,
    OdmLoss,
    solve_odm,
)
from bagwise.svm import ODM


def problem(n=60, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    sign = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    weight = rng.uniform(0.2, 3.0, size=n)
    return X, sign, weight


def clarabel_optimum(phi, weight, theta, nu):
    """Minimize the primal as a quadratic program in (w, lower, upper slacks)."""
    clarabel = pytest.importorskip("clarabel")
    n, d = phi.shape
    curvature = 2.0 * weight / (1 - theta) ** 2
    diagonal = np.concatenate([np.ones(d), curvature, nu * curvature])
    eye, zero = sparse.eye_array(n), sparse.csr_array((n, n))
    A = sparse.vstack(
        [
            sparse.hstack([-phi, -eye, zero]),
            sparse.hstack([phi, zero, -eye]),
        ],
        format="csc",
    )
    b = np.concatenate([np.full(n, theta - 1.0), np.full(n, 1.0 + theta)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, name, 1e-11)
    solution = clarabel.DefaultSolver(
        sparse.csc_array(sparse.diags_array(diagonal)),
        np.zeros(len(diagonal)),
        A,
        b,
        [clarabel.NonnegativeConeT(2 * n)],
        settings,
    ).solve()
    return solution.obj_val, np.array(solution.x[:d])


@pytest.mark.parametrize(("theta", "nu"), [(0.2, 0.5), (0.0, 0.0), (0.6, 1.0)])
@pytest.mark.parametrize("scale", [0.1, 10.0, 1000.0])
def test_reaches_the_cone_solver(theta, nu, scale):
    X, sign, weight = problem()
    phi = X * sign[:, None]
    best, w = clarabel_optimum(phi, scale * weight, theta, nu)
    loss = OdmLoss(scale * weight, theta, nu)
    for rows in (FeatureRows(phi), KernelRows(X @ X.T, sign)):
        result = solve_odm(rows, loss)
        assert result.converged
        assert result.objective == pytest.approx(best, rel=1e-7)
        np.testing.assert_allclose(phi.T @ result.delta, w, atol=1e-4)


@pytest.mark.parametrize(("theta", "nu"), [(0.2, 0.5), (0.0, 0.0), (0.4, 1.0)])
def test_optimality_conditions(theta, nu):
    X, sign, weight = problem(seed=1)
    loss = OdmLoss(5 * weight, theta, nu)
    result = solve_odm(
        KernelRows(np.exp(-np.square(X[:, None] - X).sum(2)), sign), loss
    )
    np.testing.assert_allclose(result.delta, loss.respond(result.margins), atol=1e-9)
    assert result.gap <= 1e-12 * result.objective
    # The two dual variables of a row are never positive together.
    upper = np.maximum(-result.delta, 0)
    assert (upper[result.margins < 1 + theta] == 0).all()
    assert (result.delta >= 0).all() or nu > 0


def test_the_two_sided_quadratic_is_one_linear_system():
    X, sign, weight = problem(seed=2)
    loss = OdmLoss(weight, 0.0, 1.0)
    result = solve_odm(FeatureRows(X * sign[:, None]), loss)
    signed = (X @ X.T) * np.outer(sign, sign)
    ridge = np.diag(1.0 / (2.0 * weight))
    expected = np.linalg.solve(signed + ridge, np.ones(len(sign)))
    np.testing.assert_allclose(result.delta, expected, rtol=1e-9)


@pytest.mark.parametrize("nu", [0.0, 0.5])
def test_loss_slope_and_conjugate(nu):
    loss = OdmLoss(np.array([0.7, 2.0, 1.3, 0.4]), 0.2, nu)
    margins = np.array([-0.5, 0.79, 1.0, 1.7])
    step = 1e-6
    for s in range(4):
        e = np.zeros(4)
        e[s] = step
        slope = (loss.value(margins + e) - loss.value(margins - e)) / (2 * step)
        assert -slope == pytest.approx(loss.respond(margins)[s], abs=1e-8)
    assert OdmLoss(np.ones(1), 0.3, 0.5).value(np.zeros(1)) == pytest.approx(1.0)
    # conj(d) = min over m of loss(m) + d m, on a fine grid.
    grid = np.linspace(-20, 20, 400_001)
    for d in (0.3, -0.2) if nu else (0.3, 1.1):
        one = OdmLoss(np.array([0.7]), 0.2, nu)
        lowest = (0.7 * one.rowwise(grid) + d * grid).min()
        assert one.conjugate(np.array([d])) == pytest.approx(lowest, abs=1e-6)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("shape", [(80, 12), (30, 50)])
def test_primal_dual_and_iterative_factors_agree(monkeypatch, kind, shape):
    X, sign, weight = problem(*shape, seed=3)
    phi = X * sign[:, None]
    phi = sparse.csr_array(phi) if kind == "sparse" else phi
    loss = OdmLoss(weight, 0.2, 0.5)
    direct = solve_odm(FeatureRows(phi), loss)
    monkeypatch.setattr(margin_distribution, "MAX_FACTOR", 5)
    iterative = solve_odm(FeatureRows(phi), loss)
    assert iterative.objective == pytest.approx(direct.objective, rel=1e-9)
    np.testing.assert_allclose(iterative.delta, direct.delta, atol=1e-6)


def test_an_indefinite_kernel_is_named():
    kernel = np.array([[1.0, 5.0], [5.0, 1.0]])
    loss = OdmLoss(np.full(2, 100.0), 0.2, 0.5)
    with pytest.raises(ValueError, match="positive definite in double precision"):
        solve_odm(KernelRows(kernel, np.array([1.0, -1.0])), loss)


def test_estimator_linear_kernel_equals_features():
    X, sign, weight = problem(seed=4)
    linear = ODM(kernel="linear").fit(X, sign, sample_weight=weight)
    same = ODM(kernel="poly", degree=1, gamma=1.0, coef0=0.0)
    same.fit(X, sign, sample_weight=weight)
    np.testing.assert_allclose(
        linear.decision_function(X), same.decision_function(X), atol=1e-9
    )
    as_sparse = ODM(kernel="linear").fit(
        sparse.csr_array(X), sign, sample_weight=weight
    )
    np.testing.assert_allclose(as_sparse.coef_, linear.coef_, atol=1e-9)
    assert linear.objective_[0] == pytest.approx(same.objective_[0], rel=1e-10)


def test_estimator_many_classes_are_one_against_the_rest():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.array(["a", "b", "c"])[rng.integers(3, size=60)]
    X[y == "b", 0] += 3
    X[y == "c", 1] += 3
    model = ODM(gamma=0.5).fit(X, y)
    scores = model.decision_function(X)
    for k, name in enumerate("abc"):
        one = ODM(gamma=0.5).fit(X, y == name)
        np.testing.assert_allclose(scores[:, k], one.decision_function(X), atol=1e-9)
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize(
    "wrong", [{"theta": 1.0}, {"theta": -0.1}, {"nu": 1.1}, {"lambda_": 0.0}]
)
def test_estimator_parameter_ranges(wrong):
    X, sign, _ = problem()
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ODM(**wrong).fit(X, sign)


def test_estimator_class_weight_and_memory_budget(monkeypatch):
    X, sign, _ = problem(seed=5)
    weighted = ODM(class_weight={1.0: 3.0}).fit(X, sign)
    cost = np.where(sign > 0, 3.0, 1.0) * 100.0 / len(sign)
    np.testing.assert_allclose(
        weighted.duality_gap_, 0, atol=1e-9 * weighted.objective_[0]
    )
    kernel = np.exp(-weighted.gamma_ * np.square(X[:, None] - X).sum(2)) + 1.0
    direct = solve_odm(KernelRows(kernel, sign), OdmLoss(cost, 0.2, 0.5))
    assert weighted.objective_[0] == pytest.approx(direct.objective, rel=1e-9)
    monkeypatch.setenv("BAGWISE_MEMORY", "10KB")
    with pytest.raises(ValueError, match="kernel matrix of 60 samples"):
        ODM().fit(X, sign)


@pytest.mark.parametrize(
    ("leaving", "joining"),
    [([3], []), ([], [4]), ([0, 5, 11], [1, 8, 20, 23]), ([2, 9], [2, 21])],
)
@pytest.mark.parametrize("n_sides", [None, 1, 4])
def test_changed_rows_against_a_plain_solve(leaving, joining, n_sides):
    rng = np.random.default_rng(0)
    features = rng.standard_normal((24, 30))
    kernel = features @ features.T
    old = np.setdiff1d(np.arange(18), [1, 4, 8])
    rows = np.union1d(np.setdiff1d(old, leaving), joining).astype(int)
    ridge = rng.uniform(0.1, 1.0, 24)
    factor = CholeskyFactor(kernel[np.ix_(old, old)] + np.diag(ridge[old]))
    changed = np.setdiff1d(joining, np.setdiff1d(old, leaving)).astype(int)
    ridge[changed] *= 2.0  # a row that leaves and joins has another ridge
    stays, joins = ~np.isin(old, leaving), np.isin(rows, joining)
    corner = kernel[np.ix_(changed, changed)] + np.diag(ridge[changed])
    border = kernel[np.ix_(old, changed)]
    bordered = BorderedFactor(factor, stays, joins, border, corner)
    rhs = rng.standard_normal(len(rows) if n_sides is None else (len(rows), n_sides))
    exact = np.linalg.solve(kernel[np.ix_(rows, rows)] + np.diag(ridge[rows]), rhs)
    np.testing.assert_allclose(bordered.solve(rhs), exact, rtol=1e-9, atol=1e-11)
