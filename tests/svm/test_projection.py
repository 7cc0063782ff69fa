"""Spread of bags along a direction, the range of delta, and convex steps with balls."""

import numpy as np
import pytest

from bagwise.kernels.basis import fit_basis
from bagwise.kernels.instance import instance_kernel
from bagwise.solvers.coordinate_ascent import coordinate_ascent
from bagwise.solvers.simplex import max_min_ball
from bagwise.svm._pcsvm_projection import Spread, delta_range
from bagwise.svm._pcsvm_steps import Constraints


def _bags(rng, n_bags=6, n_features=4, sizes=(2, 6)):
    sizes = rng.integers(*sizes, n_bags)
    offsets = np.r_[0, np.cumsum(sizes)]
    return rng.standard_normal((offsets[-1], n_features)), offsets


def _blocks(offsets):
    return [slice(a, b) for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


# --------------------------------------------------------------- the constraint itself


def test_residual_is_the_distance_to_the_projections_in_feature_space(rng):
    """J_i by Eqs. (8) and (9), in the features of a polynomial kernel, and by (10)."""
    X, offsets = _bags(rng, n_features=2)
    # (x'z + 1)^2 has six explicit features.
    a, b = X.T
    root = np.sqrt(2.0)
    columns = [a**2, b**2, root * a * b, root * a, root * b, np.ones_like(a)]
    phi = np.column_stack(columns)
    K = instance_kernel(X, kernel="poly", gamma=1.0, degree=2, coef0=1.0)
    np.testing.assert_allclose(K, phi @ phi.T, atol=1e-9)
    options = {"kernel": "poly", "gamma": 1.0, "degree": 2, "coef0": 1.0}
    basis = fit_basis(X, method="eigh", **options)  # its landmarks are all rows
    w = rng.standard_normal(basis.rank)
    alpha = basis.projection @ w
    f = phi.T @ alpha
    spread = Spread.of(basis.Z, offsets)
    for i, block in enumerate(_blocks(offsets)):
        mean = phi[block].mean(axis=0)
        along = (phi[block] - mean) @ f / (f @ f)
        feet = mean + along[:, None] * f  # Eq. (9)
        J = ((phi[block] - feet) ** 2).sum()  # Eq. (8)
        n = block.stop - block.start
        assert spread.residual(w)[i] * n == pytest.approx(J, rel=1e-8)
        # Eqs. (10), (11), with the bag centered by its own size.
        Ki = K[block, block]
        o = np.trace(Ki) - Ki.sum() / n
        centered = K[block] - K[block].mean(axis=0)
        ratio = alpha @ centered.T @ centered @ alpha / (alpha @ K @ alpha)
        assert o - ratio == pytest.approx(J, rel=1e-8)
        assert spread.total[i] == pytest.approx(o, rel=1e-8)


def test_the_quadratic_form_of_a_bag_is_positive_semidefinite(rng):
    X, offsets = _bags(rng)
    K = instance_kernel(X, gamma=0.3)
    for block in _blocks(offsets):
        n = block.stop - block.start
        o = np.trace(K[block, block]) - K[block, block].sum() / n
        centered = K[block] - K[block].mean(axis=0)
        values = np.linalg.eigvalsh(o * K - centered.T @ centered)
        assert values.min() >= -1e-10 * values.max()


def test_residual_ignores_length_and_sign(rng):
    Z, offsets = _bags(rng)
    spread, w = Spread.of(Z, offsets), rng.standard_normal(4)
    for factor in (-1.0, 1e-6, -3e5):
        np.testing.assert_allclose(spread.residual(factor * w), spread.residual(w))


def test_tangent_is_a_lower_bound_that_touches(rng):
    Z, offsets = _bags(rng)
    spread, w = Spread.of(Z, offsets), rng.standard_normal(4)
    G, q = spread.tangent(w)
    np.testing.assert_allclose(2 * G @ w - q, spread.captured(w))
    for other in rng.standard_normal((20, 4)):
        assert (2 * G @ other - q <= spread.captured(other) + 1e-12).all()


def test_balls_lie_inside_the_true_set_and_hold_the_point(rng):
    Z, offsets = _bags(rng, n_bags=3)
    spread = Spread.of(Z, offsets)
    w = delta_range(spread).direction
    delta = spread.residual(w).max() * 1.1
    constraints, bags = Constraints.of(spread, delta)
    can_bind = spread.total / spread.sizes > delta
    np.testing.assert_array_equal(bags, np.flatnonzero(can_bind))
    a, G, q = constraints.balls(w)
    inside = 0
    assert (a * (w @ w) - 2 * G @ w + q <= 0).all()
    for other in w + 0.3 * rng.standard_normal((300, 4)):
        if (a * (other @ other) - 2 * G @ other + q <= 0).all():
            inside += 1
            assert spread.residual(other).max() <= delta * (1 + 1e-12)
            assert constraints.hold(other)
        assert constraints.hold(other) == (spread.residual(other).max() <= delta)
    assert 20 < inside < 280


# -------------------------------------------------------------------- range of delta


@pytest.mark.parametrize("seed", range(8))
def test_bounds_are_in_order_and_attained(seed):
    rng = np.random.default_rng(seed)
    Z, offsets = _bags(rng, n_bags=10, n_features=int(rng.integers(2, 12)))
    spread = Spread.of(Z, offsets)
    found = delta_range(spread)
    assert found.lower_bound <= found.delta_min <= found.delta_max
    assert np.linalg.norm(found.direction) == pytest.approx(1.0)
    assert spread.residual(found.direction).max() == pytest.approx(found.delta_min)
    for i, block in enumerate(_blocks(offsets)):
        centered = Z[block] - Z[block].mean(axis=0)
        top = np.linalg.norm(centered, 2) ** 2
        assert found.lower_bound >= (spread.total[i] - top) / spread.sizes[i] - 1e-9
    assert found.delta_max == pytest.approx((spread.total / spread.sizes).max())


@pytest.mark.parametrize("seed", range(6))
def test_the_search_finds_the_best_angle_in_the_plane(seed):
    rng = np.random.default_rng(seed)
    Z, offsets = _bags(rng, n_bags=5, n_features=2)
    spread = Spread.of(Z, offsets)
    angles = np.linspace(0, np.pi, 4001)
    best = min(
        spread.residual(u).max()
        for u in np.column_stack([np.cos(angles), np.sin(angles)])
    )
    found = delta_range(spread, starts=rng.standard_normal((5, 2)))
    assert found.delta_min <= best + 1e-6 * found.delta_max


def test_bags_in_orthogonal_directions_are_all_seen():
    """The main axis of the pooled bags is blind to all but one of them."""
    length = 1.0 + 0.01 * np.arange(6)
    Z = np.kron(np.diag(length), [[1.0], [-1.0]])
    found = delta_range(Spread.of(Z, np.arange(0, 13, 2)))
    # Residuals length_i^2 (1 - u_i^2) are equal at the optimum.
    value = (len(length) - 1.0) / (length**-2.0).sum()
    assert found.delta_min == pytest.approx(value, rel=1e-5)


def test_starts_never_hurt(rng):
    Z, offsets = _bags(rng, n_bags=12, n_features=8)
    spread = Spread.of(Z, offsets)
    alone = delta_range(spread).delta_min
    helped = delta_range(spread, starts=rng.standard_normal((10, 8))).delta_min
    assert helped <= alone


# ---------------------------------------------------------------- the simplex dual


@pytest.mark.parametrize(("n_rows", "rank"), [(1, 3), (2, 2), (8, 3), (40, 6), (90, 4)])
def test_max_min_over_the_ball_equals_a_cone_program(n_rows, rank):
    clarabel = pytest.importorskip("clarabel")
    import scipy.sparse as sp

    rng = np.random.default_rng(n_rows)
    # Rows with a common side, as tangents at a direction have.
    B = rng.standard_normal((n_rows, rank)) + np.eye(rank)[0] * 1.5
    B[:, 0] = np.abs(B[:, 0]) + 0.1
    c = rng.standard_normal(n_rows)
    p = np.zeros(n_rows)
    p[0] = 1.0
    gap = max_min_ball(B, c, p, 1e-10, 100_000)
    assert gap <= 1e-10
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1.0)
    u = p @ B
    u /= np.linalg.norm(u)
    # Variables u, t: maximize t with B u - c >= t and |u| <= 1.
    A = sp.csc_array(
        np.block(
            [
                [-B, np.ones((n_rows, 1))],
                [np.zeros((1, rank + 1))],
                [-np.eye(rank), np.zeros((rank, 1))],
            ]
        )
    )
    right = np.r_[-c, 1.0, np.zeros(rank)]
    cones = [clarabel.NonnegativeConeT(n_rows), clarabel.SecondOrderConeT(rank + 1)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    found = clarabel.DefaultSolver(
        sp.csc_array((rank + 1, rank + 1)),
        np.r_[np.zeros(rank), -1.0],
        A,
        right,
        cones,
        settings,
    ).solve()
    assert (B @ u - c).min() == pytest.approx(-found.obj_val, abs=1e-6)


def test_rows_that_cancel_give_no_direction():
    p = np.array([0.5, 0.5])
    assert np.isinf(max_min_ball(np.array([[1.0], [-1.0]]), np.zeros(2), p, 1e-9, 10))


# ---------------------------------------------------------- two solvers of one step


@pytest.mark.parametrize("bias_scale", [0.0, 1.0, 10.0])
def test_primal_dual_and_cone_program_agree_on_a_tangent_step(
    rng, clarabel_rows, bias_scale
):
    Z, offsets = _bags(rng, n_bags=8, n_features=5)
    spread = Spread.of(Z, offsets)
    found = delta_range(spread)
    delta = 0.4 * found.delta_max + 0.6 * found.delta_min
    balls = Constraints.of(spread, delta)[0].balls(2.0 * found.direction)
    extra = rng.standard_normal((20, 5)) - 0.5
    Z = np.vstack([Z, extra])
    index = np.r_[offsets[:-1], len(Z) - 20 + np.arange(20)]
    sign = np.r_[np.ones(8), -np.ones(20)]
    cap = rng.uniform(0.5, 2.0, 28)
    options = {"cap": cap, "bias_scale": bias_scale, "balls": balls}
    ours = coordinate_ascent(Z, index, sign, tol=1e-8, max_passes=200_000, **options)
    value, w, b = clarabel_rows(
        sign[:, None] * Z[index], sign, 1.0, cap, balls=balls, bias_scale=bias_scale
    )
    assert ours.converged
    assert ours.mu.max() > 1e-3  # constraints bind here
    assert ours.primal == pytest.approx(ours.dual, rel=1e-6)
    assert ours.primal == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(ours.w, w, atol=1e-4)
    assert ours.b == pytest.approx(b if bias_scale else 0.0, abs=1e-4)
