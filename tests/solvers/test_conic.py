"""The conic step on balls that are thin and far from the origin."""

import numpy as np
import pytest

from bagwise.solvers.conic import conic_step
from bagwise.solvers.dual_coordinate import dual_coordinate


@pytest.mark.parametrize("radius", [1e-1, 1e-3, 1e-5])
def test_a_thin_ball_far_away(radius):
    """Without loss the answer is the point of the ball next to the origin."""
    pytest.importorskip("clarabel")
    centre = np.array([300.0, -400.0, 0.0])
    a = np.array([2.0])
    balls = (a, a[:, None] * centre, a * (centre @ centre - radius**2))
    Z, sign = np.array([[0.6, -0.8, 0.0], [-0.6, 0.8, 0.0]]), np.array([1.0, -1.0])
    found = conic_step(Z, None, sign, cap=1.0, balls=balls)
    nearest = centre * (1.0 - radius / 500.0)
    assert found.converged
    np.testing.assert_allclose(found.w, nearest, atol=1e-4 * radius)
    # w (1/2 + a mu) = a mu centre.
    kappa = 0.5 + a[0] * found.mu[0]
    np.testing.assert_allclose(kappa * found.w, (kappa - 0.5) * centre, rtol=1e-4)


def test_several_balls_as_in_coordinate_ascent():
    pytest.importorskip("clarabel")
    rng = np.random.default_rng(0)
    Z, sign = rng.normal(size=(30, 5)), np.repeat([-1.0, 1.0], 15)
    centres = np.array([4.0, 0, 0, 0, 0]) + 0.3 * rng.normal(size=(3, 5))
    a, radius = np.array([0.5, 1.0, 3.0]), np.array([1.0, 2.0, 1.5])
    q = a * ((centres**2).sum(axis=1) - radius**2)
    options = {"cap": 0.5, "bias_scale": 1.0, "balls": (a, a[:, None] * centres, q)}
    theirs = conic_step(Z, None, sign, **options)
    ours = dual_coordinate(Z, None, sign, tol=1e-9, max_passes=30_000, **options)
    assert theirs.primal == pytest.approx(ours.primal, rel=1e-7)
    # A gap of 1e-9 of the value leaves its root in a strongly convex problem's answer.
    np.testing.assert_allclose(theirs.w, ours.w, atol=5e-5)
    np.testing.assert_allclose(theirs.mu, ours.mu, atol=1e-4)
