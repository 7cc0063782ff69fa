"""The 1-norm machine against other solvers and its optimality conditions."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from bagwise.embedding.l1_svc import L1SVC
from bagwise.solvers import l1
from bagwise.solvers.l1 import by_parts, interior_point, l1_squared_hinge

clarabel = pytest.importorskip("clarabel")


def problem(n_rows, n_columns, seed=0, alike=False):
    rng = np.random.default_rng(seed)
    M = rng.random((n_rows, n_columns))
    if alike:  # similarities of neighbors: nearly the same column
        M = np.exp(-M[:, :1] * np.linspace(0.5, 1.5, n_columns)) + 1e-3 * M
    t = np.where(M[:, 0] - M[:, -1] + 0.2 * rng.standard_normal(n_rows) > 0, 1.0, -1.0)
    t[:2] = 1.0, -1.0
    return M, t, rng.uniform(0.5, 2.0, n_rows)


def by_cones(M, t, cost):
    """The minimum from a general conic solver: x = (w, b, |w|, slack)."""
    n, k = M.shape
    P = sp.diags(np.r_[np.zeros(2 * k + 1), 2.0 * cost], format="csc")
    linear = np.r_[np.zeros(k + 1), np.ones(k), np.zeros(n)]
    eye, signed = sp.identity(k), t[:, None] * M
    A = sp.bmat(
        [
            [eye, None, -eye, None],
            [-eye, None, -eye, None],
            [sp.csc_matrix(-signed), sp.csc_matrix(-t[:, None]), None, -sp.eye(n)],
            [None, None, None, -sp.eye(n)],
        ],
        format="csc",
    )
    bounds = np.r_[np.zeros(2 * k), -np.ones(n), np.zeros(n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = 1e-11
    cones = [clarabel.NonnegativeConeT(2 * k + 2 * n)]
    return clarabel.DefaultSolver(P, linear, A, bounds, cones, settings).solve()


@pytest.mark.parametrize("shape", [(60, 20), (30, 90), (40, 40)])
@pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("alike", [False, True])
def test_equals_a_conic_solver(shape, C, alike):
    M, t, weight = problem(*shape, alike=alike)
    solved = by_cones(M, t, C * weight)
    w, b, value, _ = l1_squared_hinge(M, t, C * weight, tol=1e-9)
    assert value == pytest.approx(solved.obj_val, rel=2e-7)
    loss = np.maximum(1.0 - t * (M @ w + b), 0.0)
    assert value == pytest.approx(np.abs(w).sum() + C * weight @ loss**2, rel=1e-12)


@pytest.mark.parametrize("C", [0.1, 10.0, 1e3])
@pytest.mark.parametrize("alike", [False, True])
def test_working_sets_reach_the_minimum_of_all(C, alike):
    M, t, weight = problem(60, 900, seed=4, alike=alike)
    whole = interior_point(M, t, C * weight, 1e-8)
    parts = by_parts(M, t, C * weight, 1e-8)
    assert parts.gap <= 1e-7
    assert parts.objective == pytest.approx(whole.objective, rel=1e-6)
    np.testing.assert_allclose(M @ parts.w + parts.b, M @ whole.w + whole.b, atol=2e-3)
    # The gap is that of all columns: it bounds how far the value is from the minimum.
    pull = t * parts.alpha
    assert np.abs(M.T @ pull).max() <= 1.0 + 1e-5


@pytest.mark.parametrize("C", [1.0, 1e3])
@pytest.mark.parametrize("first", [1, 3])
def test_tiny_working_sets_grow(monkeypatch, first, C):
    M, t, weight = problem(50, 700, seed=6)
    whole = interior_point(M, t, C * weight, 1e-9)
    monkeypatch.setattr("bagwise.solvers.l1._FIRST_COLUMNS", first)
    parts = by_parts(M, t, C * weight, 1e-9)
    assert parts.selected.sum() > first
    assert parts.objective == pytest.approx(whole.objective, rel=1e-7)
    np.testing.assert_allclose(M @ parts.w + parts.b, M @ whole.w + whole.b, atol=1e-3)
    slope = M.T @ (t * parts.alpha)
    assert np.abs(slope).max() <= 1.0 + 1e-6


def test_rows_that_are_far_are_left_out(monkeypatch):
    # Far apart: most rows are beyond their margin, and their number has no say.
    rng = np.random.default_rng(2)
    t = np.where(np.arange(300) % 2, 1.0, -1.0)
    points = rng.standard_normal((300, 3)) + t[:, None]
    M = np.exp(-((points[:, None] - rng.standard_normal((400, 3))) ** 2).sum(axis=2))
    cost = rng.uniform(50.0, 200.0, 300)
    whole, n_rows = interior_point(M, t, cost, 1e-9), []

    def counts(M, *others):
        n_rows.append(len(M))
        return interior_point(M, *others)

    monkeypatch.setattr(l1, "interior_point", counts)
    parts = by_parts(M, t, cost, 1e-9)
    assert n_rows[0] == 300
    assert n_rows[-1] < 200
    assert parts.objective == pytest.approx(whole.objective, rel=1e-7)
    # The conditions of every row and column, from all of M and the weights alone.
    loss = np.maximum(1.0 - t * (M @ parts.w + parts.b), 0.0)
    value = np.abs(parts.w).sum() + cost @ loss**2
    assert parts.objective == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(parts.alpha, 2.0 * cost * loss, atol=1e-3)
    slope = M.T @ (2.0 * cost * t * loss)
    used = parts.w != 0.0
    np.testing.assert_allclose(slope[used], np.sign(parts.w[used]), atol=2e-3)
    assert np.abs(slope).max() <= 1.0 + 2e-3


@pytest.mark.parametrize("gamma", [1e-3, 0.3, 100.0])
@pytest.mark.parametrize("n_features", [1, 5])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e5])
def test_working_sets_of_similarities_equal_the_whole(C, n_features, gamma):
    # From columns that are all alike to columns that are rows of the identity.
    rng = np.random.default_rng(n_features)
    points = rng.standard_normal((120, n_features))
    t = np.where(points[:, 0] + 0.5 * rng.standard_normal(120) > 0.0, 1.0, -1.0)
    others = np.repeat(points, 4, axis=0) + 0.1 * rng.standard_normal((480, n_features))
    M = np.exp(-gamma * ((points[:, None] - others) ** 2).sum(axis=2))
    cost = C * rng.uniform(0.5, 2.0, 120)
    whole, parts = interior_point(M, t, cost, 1e-8), by_parts(M, t, cost, 1e-8)
    # Where C and weights are large, rounding of the losses is all that slopes are made
    # of: an error of eps |w|_1 in each loss, times 2 c, over 120 rows.
    rounding = np.finfo(float).eps * np.abs(parts.w).sum()
    assert parts.gap <= 1e-7 + 2.0 * np.sqrt(120) * cost.max() * rounding
    # The gap is a certificate: no point is further below than it says. The whole at
    # once runs out of digits first where columns are alike and C is large.
    below = (parts.objective - whole.objective) / (1.0 + parts.objective)
    assert -1e-6 - whole.gap <= below <= parts.gap + 1e-12


def test_rounds_that_do_not_suffice_end_at_the_full_cost(monkeypatch):
    M, t, weight = problem(50, 700, seed=6)
    monkeypatch.setattr(l1, "_MAX_ROUNDS", 4)
    parts = by_parts(M, t, 1e3 * weight, 1e-9)
    loss = np.maximum(1.0 - t * (M @ parts.w + parts.b), 0.0)
    value = np.abs(parts.w).sum() + 1e3 * weight @ loss**2
    assert parts.objective == pytest.approx(value, rel=1e-12)
    assert parts.gap > 1e-5  # which warns


@pytest.mark.parametrize("error", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("alike", [False, True])
def test_the_start_does_not_change_the_end(alike, error):
    M, t, weight = problem(40, 60, seed=7, alike=alike)
    cold = interior_point(M, t, weight, 1e-9)
    rng = np.random.default_rng(0)
    known = cold._replace(
        w=cold.w + error * rng.standard_normal(60),
        alpha=cold.alpha * (1.0 + error * rng.random(40)),
        b=cold.b + error,
    )
    warm = interior_point(M, t, weight, 1e-9, known)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-7)
    np.testing.assert_allclose(M @ warm.w + warm.b, M @ cold.w + cold.b, atol=1e-3)
    if not error:
        assert warm.n_iter < cold.n_iter


def test_a_bad_start_is_made_up_for(monkeypatch):
    M, t, weight = problem(40, 600, seed=8)
    expected = by_parts(M, t, weight, 1e-8)
    solve, tried = l1.interior_point, []

    def fails_near(M, t, cost, tol, known=None):
        solved = solve(M, t, cost, tol, known)
        tried.append(known is not None)
        return solved if known is None else solved._replace(gap=1.0, w=0.0 * solved.w)

    monkeypatch.setattr(l1, "interior_point", fails_near)
    found = by_parts(M, t, weight, 1e-8)
    assert any(tried)
    assert found.objective == pytest.approx(expected.objective, rel=1e-7)


def test_large_problems_are_solved_on_working_sets(monkeypatch):
    M, t, weight = problem(30, 400, seed=5)
    expected = l1_squared_hinge(M, t, weight, tol=1e-9)
    monkeypatch.setattr("bagwise.solvers.l1._LARGE", 1000)
    found = l1_squared_hinge(M, t, weight, tol=1e-9)
    assert found[3] > expected[3]  # steps of all rounds
    assert found[2] == pytest.approx(expected[2], rel=1e-8)
    np.testing.assert_allclose(M @ found[0], M @ expected[0], atol=1e-4)


def test_meets_the_optimality_conditions():
    M, t, weight = problem(50, 120, seed=1)
    w, b, _, _ = l1_squared_hinge(M, t, weight, tol=1e-10)
    pull = 2.0 * weight * t * np.maximum(1.0 - t * (M @ w + b), 0.0)
    slope = M.T @ pull
    assert 0 < (w != 0).sum() <= 50  # a vertex of the optimal face has no more
    np.testing.assert_allclose(slope[w != 0], np.sign(w[w != 0]), atol=1e-5)
    assert np.abs(slope).max() <= 1.0 + 1e-5
    assert pull.sum() == pytest.approx(0.0, abs=1e-5)


def test_equals_liblinear_with_a_nearly_free_intercept():
    M, t, _ = problem(60, 15, seed=2)
    ours = L1SVC(5.0, tol=1e-10).fit(M, t)
    theirs = LinearSVC(
        penalty="l1",
        dual=False,
        C=5.0,
        tol=1e-8,
        max_iter=100_000,
        intercept_scaling=1e3,
        random_state=0,
    ).fit(M, t)
    np.testing.assert_allclose(
        ours.decision_function(M), theirs.decision_function(M), atol=5e-3
    )
    np.testing.assert_array_equal(ours.predict(M), theirs.predict(M))


def test_weights_count_like_repeated_rows():
    M, t, _ = problem(30, 10, seed=3)
    times = np.arange(30) % 3
    times[:2] = 1
    again = np.repeat(np.arange(30), times)
    one = L1SVC(tol=1e-9).fit(M, t, sample_weight=times.astype(float))
    two = L1SVC(tol=1e-9).fit(M[again], t[again])
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-8)
    np.testing.assert_allclose(
        one.decision_function(M), two.decision_function(M), atol=1e-5
    )


@pytest.mark.parametrize("majority", [1.0, -1.0])
def test_strong_penalty_leaves_the_mean_of_the_labels(majority):
    M, _, _ = problem(20, 8)
    t = np.where(np.arange(20) < 14, majority, -majority)
    w, b, value, _ = l1_squared_hinge(M, t, np.full(20, 1e-4), tol=1e-9)
    assert not w.any()
    assert b == pytest.approx(t.mean(), abs=1e-4)
    assert value == pytest.approx(1e-4 * ((1.0 - t * t.mean()) ** 2).sum(), rel=1e-6)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="two classes"):
        L1SVC().fit(np.ones((3, 2)), np.ones(3))
