"""Rows and balls on inner products, by coordinate and Newton steps."""

import numpy as np
import pytest

from bagwise.solvers.coordinate_ascent import coordinate_ascent
from bagwise.solvers.face_newton import FaceNewton, coordinate_steps


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


def _problem(Z, sign, cap, bias_scale, balls=None):
    if balls is not None:
        a, G, q = balls
        balls = a, Z @ G.T, G @ G.T, q
    return FaceNewton(Z @ Z.T, sign, cap=cap, bias_scale=bias_scale, balls=balls)


def _weights(Z, sign, point, balls=None):
    v = (sign * point.beta) @ Z
    if balls is not None:
        v = v + 2.0 * point.mu @ balls[1]
    return v / (2.0 * point.kappa)


@pytest.mark.parametrize("bias_scale", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("n_balls", [0, 1, 4])
def test_agrees_with_clarabel(rng, clarabel_rows, bias_scale, n_balls):
    Z, sign = _rows(rng)
    cap = rng.uniform(0.1, 2.0, len(sign))
    balls = _balls(rng, Z, n_balls) if n_balls else None
    value, w, _ = clarabel_rows(
        sign[:, None] * Z,
        sign,
        np.ones(len(sign)),
        cap,
        balls=balls,
        bias_scale=bias_scale,
    )
    problem = _problem(Z, sign, cap, bias_scale, balls)
    point, _, violation = problem.solve()
    assert violation < 1e-7
    assert violation == problem.violation(point)
    assert point.value == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(_weights(Z, sign, point, balls), w, atol=1e-5)
    if n_balls:
        assert point.mu.max() > 0  # the constraints matter in this problem


@pytest.mark.parametrize("n_balls", [0, 3])
def test_gradients_are_those_of_the_value(rng, n_balls):
    Z, sign = _rows(rng, 12)
    cap = np.full(12, 2.0)
    balls = _balls(rng, Z, n_balls) if n_balls else None
    problem = _problem(Z, sign, cap, 2.0, balls)
    beta, mu = rng.uniform(0, 2, 12), rng.uniform(0, 1, n_balls)
    point = problem.at(beta, mu)
    h = 1e-6
    for k, slope in enumerate(point.slope):
        e = h * np.eye(12)[k]
        rise = problem.at(beta + e, mu).value - problem.at(beta - e, mu).value
        assert slope == pytest.approx(rise / (2 * h), rel=1e-6, abs=1e-6)
    for k, slope in enumerate(point.ball_slope):
        e = h * np.eye(n_balls)[k]
        rise = problem.at(beta, mu + e).value - problem.at(beta, mu - e).value
        assert slope == pytest.approx(rise / (2 * h), rel=1e-6, abs=1e-6)


def test_repeated_rows_and_rows_without_length(rng):
    # The products have rank 3 and zero rows: no face has a curvature of its own.
    Z, sign = _rows(rng, 40, 3)
    Z = np.vstack([Z, Z[:20], np.zeros((3, 3))])
    sign = np.r_[sign, sign[:10], -sign[10:20], 1.0, -1.0, 1.0]
    cap = np.full(len(sign), 5.0)
    reference = coordinate_ascent(
        Z, None, sign, cap=cap, bias_scale=0.0, tol=1e-9, max_passes=200_000
    )
    point, _, violation = _problem(Z, sign, cap, 0.0).solve(tol=1e-6)
    assert violation < 1e-6
    assert point.value == pytest.approx(reference.dual, rel=1e-8)
    np.testing.assert_allclose(_weights(Z, sign, point), reference.w, atol=1e-6)


def test_any_start_leads_to_the_same_point(rng):
    Z, sign = _rows(rng, 80, 30)
    cap = rng.uniform(0.5, 3.0, 80)
    balls = _balls(rng, Z, 2)
    problem = _problem(Z, sign, cap, 1.0, balls)
    first, _, _ = problem.solve()
    beta, mu = rng.uniform(-1, 4, 80), np.array([3.0, 0.0])
    kept = beta.copy()
    second, _, violation = problem.solve(beta, mu)
    assert violation < 1e-7
    np.testing.assert_array_equal(beta, kept)
    np.testing.assert_allclose(first.beta, second.beta, atol=1e-6)
    np.testing.assert_allclose(first.mu, second.mu, atol=1e-6)
    again, n_rounds, _ = problem.solve(first.beta, first.mu)
    assert n_rounds == 0
    np.testing.assert_array_equal(again.beta, first.beta)


def test_coordinate_steps_alone_lead_there_too(rng):
    Z, sign = _rows(rng, 40)
    cap = rng.uniform(0.5, 3.0, 40)
    problem = _problem(Z, sign, cap, 1.0)
    beta = np.zeros(40)
    slope = problem.at(beta, np.zeros(0)).slope
    coordinate_steps(Z @ Z.T, 1.0, sign, cap, beta, slope, 1e-8, 1_000_000)
    point = problem.at(beta, np.zeros(0))
    np.testing.assert_allclose(slope, point.slope, atol=1e-9)  # kept up to date
    assert problem.violation(point) < 1e-7
    assert point.value == pytest.approx(problem.solve()[0].value, rel=1e-9)
