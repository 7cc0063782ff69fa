"""Rows and balls by dual coordinate ascent."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from bagwise.solvers.coordinate_ascent import coordinate_ascent


def _rows(rng, n=60, r=5):
    Z = rng.standard_normal((n, r))
    sign = np.where(Z[:, 0] + 0.7 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return Z, sign


def _balls(rng, Z, n_balls):
    """Balls as projection constraints linearized at a feasible point make them."""
    w = rng.standard_normal(Z.shape[1])
    a, G, q = [], [], []
    for _ in range(n_balls):
        block = rng.standard_normal((4, Z.shape[1]))
        block -= block.mean(axis=0)
        scatter = block.T @ block
        a.append(0.8 * (w @ scatter @ w) / (w @ w))
        G.append(scatter @ w)
        q.append(w @ scatter @ w)
    return np.array(a), np.array(G), np.array(q)


def test_equals_liblinear_without_bias(rng):
    Z, sign = _rows(rng)
    weight = rng.uniform(0.5, 2.0, len(sign))
    reference = LinearSVC(
        loss="hinge", fit_intercept=False, C=1.3, tol=1e-10, max_iter=100_000
    ).fit(Z, sign, sample_weight=weight)
    found = coordinate_ascent(
        Z,
        None,
        sign,
        cap=1.3 * weight,
        tol=1e-11,
        max_passes=100_000,
    )
    assert found.converged
    np.testing.assert_allclose(found.w, reference.coef_[0], atol=1e-8)
    assert found.primal == pytest.approx(found.dual, rel=1e-9)


@pytest.mark.parametrize("bias_scale", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("n_balls", [0, 1, 4])
def test_primal_dual_and_clarabel_agree(rng, clarabel_rows, bias_scale, n_balls):
    Z, sign = _rows(rng)
    margin = rng.uniform(0.2, 1.5, len(sign))
    cap = rng.uniform(0.1, 2.0, len(sign))
    balls = _balls(rng, Z, n_balls) if n_balls else None
    value, w, b = clarabel_rows(
        sign[:, None] * Z, sign, margin, cap, balls=balls, bias_scale=bias_scale
    )
    found = coordinate_ascent(
        Z,
        None,
        sign,
        cap=cap,
        margin=margin,
        bias_scale=bias_scale,
        balls=balls,
        tol=1e-9,
        max_passes=200_000,
    )
    assert found.converged
    assert found.primal == pytest.approx(value, rel=1e-6)
    assert found.dual == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(found.w, w, atol=1e-5)
    if bias_scale:
        assert found.b == pytest.approx(b, abs=1e-5)
    if n_balls:
        assert found.mu.max() > 0  # the constraints matter in this problem


def test_warm_start_ends_at_the_same_point_in_one_pass(rng):
    Z, sign = _rows(rng)
    balls = _balls(rng, Z, 3)
    cold = coordinate_ascent(
        Z, None, sign, cap=1.0, balls=balls, tol=1e-8, max_passes=100_000
    )
    beta, mu = cold.beta.copy(), cold.mu.copy()
    warm = coordinate_ascent(
        Z, None, sign, cap=1.0, balls=balls, beta=beta, mu=mu, tol=1e-7
    )
    assert warm.n_passes == 1
    np.testing.assert_allclose(warm.w, cold.w, atol=1e-6)
    np.testing.assert_array_equal(beta, cold.beta)  # inputs stay as they were


def test_index_selects_rows_of_the_basis(rng):
    Z, sign = _rows(rng)
    index = rng.permutation(len(Z))[:40]
    index = np.r_[index, index[:3]]  # repeats are allowed
    Z.setflags(write=False)
    direct = coordinate_ascent(Z[index], None, sign[index], cap=1.0, tol=1e-9)
    indexed = coordinate_ascent(Z, index, sign[index], cap=1.0, tol=1e-9)
    np.testing.assert_allclose(indexed.w, direct.w, atol=1e-8)


def test_zero_rows_and_the_pass_cap(rng):
    Z, sign = _rows(rng)
    Z[:4] = 0.0
    found = coordinate_ascent(Z, None, sign, cap=2.0, tol=1e-9, max_passes=50_000)
    # A zero row cannot be satisfied without a bias: its variable sits at the cap.
    np.testing.assert_allclose(found.beta[:4], 2.0)
    assert found.primal == pytest.approx(found.dual, rel=1e-8)
    short = coordinate_ascent(Z, None, sign, cap=2.0, tol=1e-12, max_passes=2)
    assert not short.converged
    assert short.n_passes == 2
    assert short.dual <= found.dual + 1e-12


def test_refuses_what_it_cannot_solve(rng):
    Z, sign = _rows(rng)
    a, G, q = _balls(rng, Z, 2)
    with pytest.raises(ValueError, match="is never active"):
        coordinate_ascent(Z, None, sign, cap=1.0, balls=(-a, G, q))
    with pytest.raises(ValueError, match="Balls need"):
        coordinate_ascent(Z, None, sign, cap=1.0, balls=(a, G[:, :2], q))


@pytest.mark.parametrize("bias_scale", [0.0, 1.0])
@pytest.mark.parametrize("n_balls", [0, 3])
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_share_a_slack_equal_clarabel(
    clarabel_rows, bias_scale, n_balls, seed
):
    rng = np.random.default_rng(seed)
    Z, sign = _rows(rng)
    order = np.argsort(-sign, kind="stable")
    Z, sign = Z[order], sign[order]
    group = np.unique(
        np.where(sign > 0, np.arange(60), 60 + np.arange(60) // 4), return_inverse=True
    )[1]
    cap = rng.uniform(0.1, 2.0, group[-1] + 1)
    margin = rng.uniform(0.2, 1.5, len(sign))
    balls = _balls(rng, Z, n_balls) if n_balls else None
    options = {"cap": cap, "margin": margin, "group": group, "balls": balls}
    value, w, b = clarabel_rows(
        sign[:, None] * Z,
        sign,
        margin,
        cap,
        group,
        balls=balls,
        bias_scale=bias_scale,
    )
    found = coordinate_ascent(
        Z, None, sign, bias_scale=bias_scale, tol=1e-9, max_passes=200_000, **options
    )
    assert found.converged
    assert found.primal == pytest.approx(value, rel=1e-6)
    assert found.dual == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(found.w, w, atol=1e-4)
    again = coordinate_ascent(
        Z, None, sign, bias_scale=bias_scale, beta=found.beta, mu=found.mu, **options
    )
    assert again.n_passes <= 2
