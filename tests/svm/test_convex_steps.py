"""Every solver of the grouped hinge problem against an independent one."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from bagwise.solvers.hinge import BasisSpace, GramSpace, HingeRows
from bagwise.solvers.interior_point import interior_point, working_set
from bagwise.solvers.smo import smo
from bagwise.solvers.sparse_ascent import sparse_ascent
from bagwise.svm._base import cccp


def _problem(rng, *, grouped, unbiased=False, n=40, r=6):
    """Rows, signs, bias coefficients, margins, caps and groups."""
    Z = rng.standard_normal((n, r))
    group = np.arange(n)
    if grouped:
        group = np.unique(np.sort(rng.integers(0, n // 3, n)), return_inverse=True)[1]
    n_groups = group[-1] + 1
    label = np.where(np.arange(n_groups) % 2, 1.0, -1.0)
    sign = label[group]
    Z[:, 0] += 0.8 * sign
    c = sign.copy()
    if unbiased:
        free = np.arange(n_groups)[group] % 3 == 0
        c[free], sign[free] = 0.0, 1.0
    margin = rng.uniform(-0.3, 1.5, n)
    cap = rng.uniform(0.1, 3.0, n_groups)
    return Z, sign, c, margin, cap, group


def _value(Z, sign, c, margin, cap, group, w, b):
    slack = np.zeros(len(cap))
    np.maximum.at(slack, group, margin - sign * (Z @ w) - c * b)
    return 0.5 * w @ w + cap @ slack


def _by_smo(Z, sign, c, **problem):
    beta, b, _, violation = smo(Z @ Z.T, sign, bias=c, tol=1e-9, **problem)
    assert violation < 1e-9
    return beta, Z.T @ (sign * beta), b


def _by_interior_point(Z, sign, c, **problem):
    beta, w, b, n_iter, converged = interior_point(
        Z, sign, bias=c, tol=1e-10, **problem
    )
    assert converged
    assert n_iter < 60
    return beta, w, b


def _by_groups(Z, sign, c, **problem):
    *found, converged = sparse_ascent(
        sp.csr_array(Z), sign, bias=c, tol=1e-8, **problem
    )
    assert converged
    return found


@pytest.mark.parametrize("solver", [_by_smo, _by_interior_point, _by_groups])
@pytest.mark.parametrize(
    ("grouped", "unbiased"), [(False, False), (True, False), (True, True)]
)
@pytest.mark.parametrize("seed", range(4))
def test_solvers_equal_clarabel(clarabel_rows, solver, grouped, unbiased, seed):
    rng = np.random.default_rng(seed)
    Z, sign, c, margin, cap, group = _problem(rng, grouped=grouped, unbiased=unbiased)
    value, w_ref, b_ref = clarabel_rows(sign[:, None] * Z, c, margin, cap, group)
    beta, w, b = solver(Z, sign, c, margin=margin, cap=cap, group=group)
    assert _value(Z, sign, c, margin, cap, group, w, b) == pytest.approx(
        value, rel=1e-6
    )
    assert margin @ beta - 0.5 * w @ w == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(w, w_ref, atol=1e-4)
    assert abs(c @ beta) < 1e-6 * cap.sum()
    assert np.bincount(group, beta).max() <= cap.max() * (1 + 1e-9)
    assert b == pytest.approx(b_ref, abs=1e-3)


@pytest.mark.parametrize("scale", [1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3])
def test_interior_point_holds_over_six_orders_of_c(clarabel_rows, scale):
    rng = np.random.default_rng(5)
    Z, sign, c, margin, cap, group = _problem(rng, grouped=True)
    value, *_ = clarabel_rows(sign[:, None] * Z, c, margin, scale * cap, group)
    _, w, b = _by_interior_point(
        Z, sign, c, margin=margin, cap=scale * cap, group=group
    )
    found = _value(Z, sign, c, margin, scale * cap, group, w, b)
    assert found == pytest.approx(value, rel=1e-6)


def test_interior_point_blocks_and_sparse_rows(monkeypatch, rng):
    Z, sign, c, margin, cap, group = _problem(rng, grouped=True, n=90)
    Z[rng.random(Z.shape) < 0.5] = 0.0
    problem = {"margin": margin, "cap": cap, "group": group}
    whole = _by_interior_point(Z, sign, c, **problem)
    monkeypatch.setattr("bagwise.solvers.interior_point._BLOCK", 7)
    for rows in (Z, sp.csr_array(Z)):
        blocks = _by_interior_point(rows, sign, c, **problem)
        np.testing.assert_allclose(blocks[1], whole[1], atol=1e-6)


@pytest.mark.parametrize("solver", [interior_point, sparse_ascent])
def test_index_selects_points(rng, solver):
    Z, sign, c, margin, cap, group = _problem(rng, grouped=True)
    index = rng.permutation(len(Z))
    problem = {"margin": margin, "cap": cap, "group": group, "bias": c, "tol": 1e-7}
    direct = solver(Z[index], sign, **problem)[1]
    indexed = solver(Z, sign, index=index, **problem)[1]
    np.testing.assert_allclose(indexed, direct, atol=1e-5)


def test_smo_warm_start_is_at_the_solution(rng):
    Z, sign, c, margin, cap, group = _problem(rng, grouped=True)
    K = Z @ Z.T
    options = {"cap": cap, "margin": margin, "group": group}
    beta, b, _, _ = smo(K, sign, tol=1e-8, **options)
    again, b_again, n_iter, _ = smo(K, sign, beta=beta, tol=1e-6, **options)
    assert n_iter == 0
    assert b_again == pytest.approx(b, abs=1e-6)
    np.testing.assert_array_equal(again, beta)


def test_smo_of_single_rows_is_svc(rng):
    Z, sign, *_ = _problem(rng, grouped=False, n=80)
    K = np.exp(-0.2 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    reference = SVC(C=3.0, kernel="precomputed", tol=1e-10).fit(K, sign)
    beta, b, _, _ = smo(K, sign, cap=3.0, tol=1e-10)
    np.testing.assert_allclose(
        K @ (sign * beta) + b, reference.decision_function(K), atol=1e-6
    )


def test_identical_rows_and_zero_caps_do_not_trap_the_solvers(clarabel_rows, rng):
    Z, sign, c, margin, cap, group = _problem(rng, grouped=True)
    twice = np.repeat(np.arange(len(Z)), 2)
    Z, sign, c, margin, group = (
        Z[twice],
        sign[twice],
        c[twice],
        margin[twice],
        group[twice],
    )
    value, *_ = clarabel_rows(sign[:, None] * Z, c, margin, cap, group)
    for solver in (_by_smo, _by_interior_point, _by_groups):
        _, w, b = solver(Z, sign, c, margin=margin, cap=cap, group=group)
        found = _value(Z, sign, c, margin, cap, group, w, b)
        assert found == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("combined", [False, True])
def test_gram_and_basis_spaces_agree(rng, combined):
    Z, sign, c, margin, cap, group = _problem(rng, grouped=True)
    points = rng.permutation(len(Z))
    if combined:
        points = sp.csr_array(
            rng.random((len(Z), len(Z))) * (rng.random((len(Z), len(Z))) < 0.1)
        )
    rows = HingeRows(points, sign, margin, cap, group)
    gram = GramSpace(Z @ Z.T).solve(rows, 1e-8)
    basis = BasisSpace(Z).solve(rows, 1e-8)
    assert basis.objective == pytest.approx(gram.objective, rel=1e-6)
    np.testing.assert_allclose(basis.scores, gram.scores, atol=1e-4)
    np.testing.assert_allclose(Z.T @ gram.coef, basis.coef, atol=1e-4)
    assert 0 <= gram.gap + 1e-9 < 1e-4 * gram.objective


def test_linear_program_is_optimal(rng):
    """Equality with a conic solver on the split formulation."""
    clarabel = pytest.importorskip("clarabel")
    Z, sign, c, margin, cap, group = _problem(rng, grouped=True)
    n, r, m = len(Z), Z.shape[1], len(cap)
    found = BasisSpace(Z).solve_l1(HingeRows(np.arange(n), sign, margin, cap, group))
    # Variables w, u >= |w|, xi >= 0, b.
    spread = np.zeros((n, m))
    spread[np.arange(n), group] = 1.0
    eye = np.eye(r)
    left = np.block(
        [
            [-sign[:, None] * Z, np.zeros((n, r)), -spread, -c[:, None]],
            [eye, -eye, np.zeros((r, m + 1))],
            [-eye, -eye, np.zeros((r, m + 1))],
            [np.zeros((m, 2 * r)), -np.eye(m), np.zeros((m, 1))],
        ]
    )
    right = np.r_[-margin, np.zeros(2 * r + m)]
    cost = np.r_[np.zeros(r), np.ones(r), cap, 0.0]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    reference = clarabel.DefaultSolver(
        sp.csc_matrix((len(cost), len(cost))),
        cost,
        sp.csc_matrix(left),
        right,
        [clarabel.NonnegativeConeT(len(right))],
        settings,
    ).solve()
    assert found.objective == pytest.approx(reference.obj_val, rel=1e-6)
    assert found.gap < 1e-6
    recomputed = np.abs(found.coef).sum() + HingeRows(
        np.arange(n), sign, margin, cap, group
    ).hinge_loss(Z @ found.coef, found.b)
    assert recomputed == pytest.approx(found.objective, rel=1e-8)


def test_coordinate_solver_says_that_it_stopped_at_its_cap(rng):
    Z, sign, c, margin, cap, group = _problem(rng, grouped=True)
    problem = {"cap": 1e3 * cap, "margin": margin, "group": group, "tol": 1e-12}
    assert not sparse_ascent(Z, sign, max_rounds=1, **problem)[3]


def test_smo_on_points_beyond_the_matrix(rng):
    """Two blocks for further points are the same as one large matrix."""
    Z, sign, c, margin, cap, group = _problem(rng, grouped=True)
    index = rng.permutation(len(Z))
    K = Z @ Z.T
    options = {"cap": cap, "margin": margin, "group": group, "tol": 1e-9}
    whole = smo(np.ascontiguousarray(K[np.ix_(index, index)]), sign, **options)
    n = 25
    parts = smo(K[:n, :n], sign, index=index, more=(K[n:, :n], K[n:, n:]), **options)
    signed = [sign * found[0] for found in (whole, parts)]
    np.testing.assert_allclose(
        Z[index].T @ signed[0], Z[index].T @ signed[1], atol=1e-7
    )
    assert whole[1] == pytest.approx(parts[1], abs=1e-7)


@pytest.mark.parametrize("n_bytes", [0, 8 * 40 * 5])
@pytest.mark.parametrize("unbiased", [False, True])
def test_smo_keeps_rows_or_not(rng, monkeypatch, n_bytes, unbiased):
    Z, sign, c, margin, cap, group = _problem(rng, grouped=True, unbiased=unbiased)
    problem = dict(cap=cap, margin=margin, group=group, bias=c, tol=1e-9)
    K = Z @ Z.T
    K.flags.writeable = False
    straight = smo(K, sign, **problem)
    turned = np.argsort(np.arange(40) % 7, kind="stable")  # points in another order
    index = np.argsort(turned)
    known = smo(K[np.ix_(turned, turned)], sign, index=index, **problem)
    monkeypatch.setattr("bagwise.solvers.smo._KEPT_BYTES", n_bytes)
    anew = smo(K[np.ix_(turned, turned)], sign, index=index, **problem)
    for found in (known, anew):
        assert np.array_equal(found[0], straight[0])
        assert found[1:] == straight[1:]


def test_a_gram_space_starts_where_the_step_before_ended(rng):
    """Other labels and points in the same rows: the answer of a fresh start."""
    Z, sign, c, margin, cap, group = _problem(rng, grouped=False, n=80)
    K = Z @ Z.T
    points = np.arange(80)
    space = GramSpace(K)
    space.solve(HingeRows(points, sign, margin, cap), 1e-9)
    other = np.where(rng.random(80) < 0.2, -sign, sign)
    points = rng.permutation(points)
    rows = HingeRows(points, other, margin, cap)
    warm, cold = space.solve(rows, 1e-9), GramSpace(K).solve(rows, 1e-9)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-8)
    np.testing.assert_allclose(warm.scores, cold.scores, atol=1e-6)


@pytest.mark.parametrize("unit", [1e-4, 1e5])
def test_another_unit_is_the_same_problem(rng, unit):
    Z, sign, c, margin, cap, group = _problem(rng, grouped=True)
    rows = HingeRows(np.arange(len(Z)), sign, margin, cap, group)
    plain = BasisSpace(Z).solve(rows, 1e-8)
    for space in (
        BasisSpace(Z / unit, unit=unit),
        GramSpace(Z @ Z.T / unit**2, unit=unit),
    ):
        found = space.solve(rows, 1e-8)
        coef = found.coef if isinstance(space, BasisSpace) else Z.T @ found.coef
        assert found.objective == pytest.approx(plain.objective, rel=1e-5)
        assert found.gap < 1e-4 * found.objective
        np.testing.assert_allclose(coef, plain.coef, atol=1e-3)


class _Step:
    def __init__(self, objective):
        self.objective = objective


def _walk(values, states, **options):
    """Run the loop on a scripted sequence of objectives and states."""
    values, states = iter(values), iter(states)
    return cccp(
        lambda state: _Step(next(values)),
        lambda solution: (np.array(next(states)),),
        (np.array([0]),),
        **options,
    )


def test_loop_stops_at_a_fixed_point_and_at_a_cycle():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fixed = _walk([5.0, 4.0], [[1], [1]], max_iter=10)
        cycle = _walk([5.0, 4.0, 3.0], [[1], [2], [0]], max_iter=10)
    assert fixed.objectives == [5.0, 4.0]
    assert fixed.converged
    assert cycle.objectives == [5.0, 4.0, 3.0]
    assert cycle.converged
    assert cycle.state[0] == [2]


def test_loop_keeps_the_better_step():
    path = _walk([5.0, 4.0, 4.5], [[1], [2]], max_iter=10)
    assert path.objectives == [5.0, 4.0]
    assert path.solution.objective == 4.0
    assert path.state[0] == [1]


def test_loop_stops_at_a_small_decrease_and_warns_at_the_cap():
    path = _walk([5.0, 5.0 - 1e-9], [[1]], max_iter=10)
    assert path.n_iter == 2
    assert path.converged
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        path = _walk([5.0, 4.0, 3.0], [[1], [2], [3]], max_iter=3)
    assert not path.converged
    assert path.n_iter == 3


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_growing_set_of_rows_ends_at_the_whole_problem(
    clarabel_rows, monkeypatch, grouped, known
):
    monkeypatch.setattr("bagwise.solvers.interior_point._SMALL", 10)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        Z, sign, c, margin, cap, group = _problem(rng, grouped=grouped, n=150)
        value, w_ref, b_ref = clarabel_rows(sign[:, None] * Z, c, margin, cap, group)
        scores = Z @ w_ref + b_ref + 0.5 * rng.standard_normal(len(Z))
        points = rng.permutation(len(Z))
        beta, w, b, converged = working_set(
            Z[np.argsort(points)],
            sign,
            cap=cap,
            margin=margin,
            index=points,
            group=group if grouped else None,
            tol=1e-9,
            scores=scores if known else None,
        )
        assert converged
        found = _value(Z, sign, c, margin, cap, group, w, b)
        assert found == pytest.approx(value, rel=1e-6)
        assert margin @ beta - 0.5 * w @ w == pytest.approx(value, rel=1e-6)
