"""The penalties, the gradient of the whole objective, and the three solvers."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from bagwise.decomposition.midr._objective import (
    PENALTIES,
    MIDRObjective,
    huber_penalty,
    soft_threshold,
)
from bagwise.decomposition.midr._solvers import MIDR_SOLVERS, stabilised_gradient
from bagwise.decomposition.midr._stiefel import project_tangent, random_orthonormal
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
    value, *gradients = objective(*parts)
    assert value == pytest.approx(objective.value(*parts), rel=1e-13)
    theta = np.concatenate([p.ravel() for p in parts])
    gradient = np.concatenate([g.ravel() for g in gradients])
    cuts = np.cumsum([p.size for p in parts])[:-1]

    def at(x):
        pieces = np.split(x, cuts)
        return objective.value(
            *(c.reshape(p.shape) for c, p in zip(pieces, parts, strict=True))
        )

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


@pytest.mark.parametrize("solver", ["lbfgs", "alternating"])
def test_a_penalty_that_is_off_changes_nothing(solver):
    loss = toy_loss()
    off = MIDRObjective(loss, C=5.0, C1=0.0, tau=0.1)
    constant = MIDRObjective(loss, C=5.0, C1=0.2, tau=1.0)
    start = random_start(off, 2)
    solve = MIDR_SOLVERS[solver]
    a = solve(off, *start, tol=1e-9, max_iter=2000)
    b = solve(constant, *start, tol=1e-10, max_iter=2000)
    assert b.objective - 0.2 * 2 / 2 == pytest.approx(a.objective, abs=1e-6)
    np.testing.assert_allclose(a.A @ a.W, b.A @ b.W, atol=5e-3)


@pytest.mark.parametrize("C1", [0.0, 0.05])
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 2)], ids=str)
@pytest.mark.parametrize("solver", ["lbfgs", "alternating"])
def test_monotone_and_orthonormal(solver, shape, C1):
    objective = MIDRObjective(toy_loss("softmax", "log", *shape), C=5.0, C1=C1, tau=0.1)
    start = random_start(objective, 3)
    fit = MIDR_SOLVERS[solver](objective, *start, max_iter=300)
    assert (np.diff(fit.path) <= 1e-12).all()
    assert fit.path[-1] < fit.path[0]
    assert np.abs(fit.A.T @ fit.A - np.eye(3)).max() < 1e-12
    assert fit.objective == pytest.approx(
        objective.value(fit.A, fit.W, fit.b), rel=1e-12
    )


def test_solvers_agree():
    """Algorithm 1 and the flow end where L-BFGS ends, from near by."""
    objective = MIDRObjective(toy_loss(), C=5.0, C1=0.05, tau=0.2)
    near = MIDR_SOLVERS["lbfgs"](objective, *random_start(objective, 2), tol=1e-10)
    rng = np.random.default_rng(1)
    A = near.A + 0.05 * rng.normal(size=near.A.shape)
    A = np.linalg.qr(A)[0]
    A = A * np.sign((A * near.A).sum(axis=0))
    start = (A, near.W + 0.05, near.b + 0.05)
    joint = MIDR_SOLVERS["lbfgs"](objective, *start, tol=1e-9)
    turns = MIDR_SOLVERS["alternating"](objective, *start, tol=1e-9, max_iter=2000)
    path = MIDR_SOLVERS["flow"](objective, *start, tol=1e-4, max_iter=4000)
    assert turns.objective == pytest.approx(joint.objective, rel=1e-6)
    assert path.objective == pytest.approx(joint.objective, rel=1e-5)
    assert path.stop == "converged"
    assert np.abs(path.A.T @ path.A - np.eye(2)).max() < 1e-12


def test_published_flow_drifts_and_the_stabilised_one_does_not():
    """Small steps down a penalty, from a point that is off the manifold by 1e-6."""
    rng = np.random.default_rng(0)
    start = random_orthonormal(6, 2, rng)
    start = start + 1e-6 * rng.normal(size=start.shape)

    def drift_after(n_steps, field):
        A = start
        for _ in range(n_steps):
            A = A - 0.02 * field(A, huber_penalty(A, 1.0, 0.05)[1])
        return np.abs(A.T @ A - np.eye(2)).max()

    assert drift_after(60, project_tangent) > 0.5
    assert drift_after(160, stabilised_gradient) < 1e-6


def test_alternating_needs_the_huber_penalty():
    objective = MIDRObjective(toy_loss(), C=1.0, C1=0.1, tau=0.1, penalty="smooth_l1")
    with pytest.raises(ValueError, match="huber"):
        MIDR_SOLVERS["alternating"](objective, *random_start(objective, 2))
