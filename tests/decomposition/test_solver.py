"""The objective of MIDR, its gradient, the geometry and the minimization."""

import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import minimize, minimize_scalar

from bagwise.decomposition._solver import (
    PENALTIES,
    MIDRObjective,
    huber_penalty,
    minimize_on_manifold,
    project_tangent,
    retract,
    soft_threshold,
)
from bagwise.decomposition._start import random_orthonormal
from bagwise.linear_model.loss import LOSSES, BagLoss
from bagwise.linear_model.milr import LINEAR_POOLINGS


def toy_loss(pooling="softmax", loss="squared", n_outputs=1, n_hypotheses=1, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 6, 14))])
    data = rng.normal(size=(offsets[-1], 6))
    target = (rng.random((14, n_outputs)) > 0.5).astype(float)
    return BagLoss(
        data,
        offsets,
        target,
        pooling=pooling,
        loss=loss,
        n_hypotheses=n_hypotheses,
        mean=data.mean(axis=0),
    )


def random_start(objective, n_components, seed=0):
    rng = np.random.default_rng(seed)
    n_columns = objective.loss.n_columns
    A = random_orthonormal(objective.loss.data.shape[1], n_components, rng)
    return A, rng.normal(size=(n_components, n_columns)), rng.normal(size=n_columns)


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 2), (2, 3)], ids=str)
@pytest.mark.parametrize("penalty", [*PENALTIES, None])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("pooling", LINEAR_POOLINGS)
def test_gradient(pooling, loss, penalty, shape):
    """Classes and hypotheses: outputs x directions per output."""
    objective = MIDRObjective(
        toy_loss(pooling, loss, *shape),
        C=3.0,
        C1=0.0 if penalty is None else 0.2,
        tau=0.3,
        penalty=penalty or "huber",
    )
    parts = random_start(objective, 2)
    _, *gradients = objective(*parts)
    theta = np.concatenate([p.ravel() for p in parts])
    gradient = np.concatenate([g.ravel() for g in gradients])
    cuts = np.cumsum([p.size for p in parts])[:-1]

    def at(x):
        pieces = np.split(x, cuts)
        pieces = (c.reshape(p.shape) for c, p in zip(pieces, parts, strict=True))
        return objective(*pieces)[0]

    step = 1e-5
    shifts = step * np.eye(len(theta))
    numeric = [(at(theta + s) - at(theta - s)) / (2 * step) for s in shifts]
    assert np.abs(numeric - gradient).max() < 1e-7 * np.abs(gradient).max()


def test_loss_part_has_the_rank_of_the_directions():
    for n_columns in (1, 2):
        objective = MIDRObjective(toy_loss(n_outputs=n_columns), C=1.0, C1=0.0, tau=0.1)
        _, grad_A, _, _ = objective(*random_start(objective, 4))
        assert np.linalg.matrix_rank(grad_A) == n_columns


def test_huber_is_the_minimum_over_the_sparse_matrix():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 3))
    C1, tau = 0.4, 0.5
    C2 = C1 / tau
    best, where = 0.0, np.empty_like(A)
    for index, a in np.ndenumerate(A):

        def cost(h, a=a):
            return C2 / 2 * (a - h) ** 2 + C1 * abs(h)

        # Brute force on a grid, then to the bottom of the best cell.
        grid = np.linspace(-4, 4, 4001)
        cell = grid[np.argmin([cost(h) for h in grid])]
        fine = minimize_scalar(
            cost, bounds=(cell - 0.002, cell + 0.002), options={"xatol": 1e-12}
        )
        h = fine.x if fine.fun < cost(0.0) else 0.0
        best += cost(h)
        where[index] = h
    value, gradient = huber_penalty(A, C1, tau)
    assert value == pytest.approx(best, rel=1e-9)
    H = soft_threshold(A, tau)
    np.testing.assert_allclose(H, where, atol=1e-6)
    np.testing.assert_allclose(gradient, C2 * (A - H), atol=1e-12)
    np.testing.assert_allclose(gradient, np.clip(C2 * A, -C1, C1), atol=1e-12)


def test_a_threshold_of_one_switches_the_penalty_off():
    A = random_orthonormal(7, 3, np.random.default_rng(0))
    C1, tau = 0.6, 1.5
    value, gradient = huber_penalty(A, C1, tau)
    assert value == pytest.approx(C1 / tau * 3 / 2, rel=1e-12)
    np.testing.assert_allclose(project_tangent(A, gradient), 0, atol=1e-12)
    assert not soft_threshold(A, tau).any()


def test_a_penalty_that_is_off_changes_nothing():
    loss = toy_loss()
    off = MIDRObjective(loss, C=5.0, C1=0.0, tau=0.1)
    constant = MIDRObjective(loss, C=5.0, C1=0.2, tau=1.0)
    start = random_start(off, 2)
    a = minimize_on_manifold(off, *start, tol=1e-9, max_iter=2000)
    b = minimize_on_manifold(constant, *start, tol=1e-10, max_iter=2000)
    assert b.objective - 0.2 * 2 / 2 == pytest.approx(a.objective, abs=1e-6)
    np.testing.assert_allclose(a.A @ a.W, b.A @ b.W, atol=5e-3)


@pytest.mark.parametrize("C1", [0.0, 0.05])
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 2)], ids=str)
def test_monotone_and_orthonormal(shape, C1):
    objective = MIDRObjective(toy_loss("softmax", "log", *shape), C=5.0, C1=C1, tau=0.1)
    fit = minimize_on_manifold(objective, *random_start(objective, 3), max_iter=300)
    assert (np.diff(fit.path) <= 1e-12).all()
    assert fit.path[-1] < fit.path[0]
    assert np.abs(fit.A.T @ fit.A - np.eye(3)).max() < 1e-12
    assert fit.objective == pytest.approx(objective(fit.A, fit.W, fit.b)[0], rel=1e-12)


def test_minimum_against_scipy():
    """An unconstrained minimization over M with A its polar factor ends there, too."""
    objective = MIDRObjective(toy_loss(), C=5.0, C1=0.05, tau=0.2)
    found = minimize_on_manifold(objective, *random_start(objective, 2), tol=1e-10)

    def value(x):
        A = scipy.linalg.polar(x[:12].reshape(6, 2))[0]
        return objective(A, x[12:14].reshape(2, 1), x[14:])[0]

    rng = np.random.default_rng(1)
    x = np.concatenate([found.A.ravel(), found.W.ravel(), found.b])
    near = minimize(value, x + 0.03 * rng.normal(size=len(x)), options={"gtol": 1e-7})
    assert value(x) == pytest.approx(found.objective, rel=1e-12)
    assert near.fun == pytest.approx(found.objective, rel=1e-7)
    A = scipy.linalg.polar(near.x[:12].reshape(6, 2))[0]
    U, expected = A @ near.x[12:14], (found.A @ found.W)[:, 0]
    np.testing.assert_allclose(U, expected, atol=1e-3)


SHAPES = [(7, 3), (5, 5), (6, 1)]


def symmetric(M):
    return (M + M.T) / 2


@pytest.fixture(params=SHAPES, ids=str)
def point(request):
    rng = np.random.default_rng(0)
    A = random_orthonormal(*request.param, rng)
    return A, rng.normal(size=request.param), rng


def test_projection(point):
    A, Z, rng = point
    G = project_tangent(A, Z)
    np.testing.assert_allclose(A.T @ G + G.T @ A, 0, atol=1e-12)
    np.testing.assert_allclose(project_tangent(A, G), G, atol=1e-12)
    Y = rng.normal(size=A.shape)
    assert np.vdot(G, Y) == pytest.approx(np.vdot(Z, project_tangent(A, Y)), abs=1e-12)
    inner = A.T @ Z
    published = A @ (inner - inner.T) / 2 + Z - A @ inner  # Eq. (7)
    np.testing.assert_allclose(G, published, atol=1e-12)


def test_step_without_retraction_leaves(point):
    A, Z, _ = point
    G = project_tangent(A, Z)
    gamma = 0.3
    moved = A - gamma * G
    np.testing.assert_allclose(
        moved.T @ moved - np.eye(A.shape[1]), gamma**2 * G.T @ G, atol=1e-12
    )


def test_retraction_is_the_qr_factor(point):
    A, Z, _ = point
    xi = project_tangent(A, Z)
    Q, R = np.linalg.qr(A + xi)
    expected = Q * np.sign(np.diag(R))
    np.testing.assert_allclose(retract(A, xi), expected, atol=1e-12)
    for t in (1e-2, 1e-3, 1e-4):
        error = np.linalg.norm(retract(A, t * xi) - A - t * xi)
        assert error <= 2 * t**2 * np.linalg.norm(xi) ** 2


def test_retraction_does_not_drift(point):
    A, _, rng = point
    for _ in range(300):
        A = retract(A, project_tangent(A, rng.normal(size=A.shape)))
    assert np.abs(A.T @ A - np.eye(A.shape[1])).max() < 1e-12


def test_retraction_leaves_its_input_alone(point):
    A, Z, _ = point
    before = A.copy(), Z.copy()
    retract(A, Z)
    np.testing.assert_array_equal(A, before[0])
    np.testing.assert_array_equal(Z, before[1])
