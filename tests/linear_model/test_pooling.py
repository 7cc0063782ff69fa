"""Poolings: definitions, exact slopes, and the order between them."""

import numpy as np
import pytest
from scipy.special import expit, logit, logsumexp

from bagwise.linear_model.loss import LOSSES, BagLoss
from bagwise.linear_model.pooling import POOLINGS, bag_logit, pool

ALPHA = 3.5


def by_definition(z, pooling, alpha=ALPHA):
    """One bag, written as in the papers."""
    p = expit(z)
    if pooling == "softmax":
        return (p * np.exp(alpha * p)).sum() / np.exp(alpha * p).sum()
    if pooling == "max":
        return p.max()
    if pooling == "mean":
        return p.mean()
    if pooling == "noisy_or":
        return 1 - np.prod(1 - p)
    if pooling == "lse":
        return np.log(np.exp(alpha * p).mean()) / alpha
    if pooling == "gmean":
        yes, no = np.prod(p) ** (1 / len(p)), np.prod(1 - p) ** (1 / len(p))
        return yes / (yes + no)
    return np.mean(p**alpha) ** (1 / alpha)


@pytest.fixture
def ragged():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 7, 25)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return rng.normal(scale=2.0, size=offsets[-1]), offsets


@pytest.mark.parametrize("pooling", POOLINGS)
def test_definition(ragged, pooling):
    z, offsets = ragged
    pooled = pool(z, offsets, pooling, ALPHA)
    expected = [
        by_definition(z[a:b], pooling)
        for a, b in zip(offsets[:-1], offsets[1:], strict=True)
    ]
    np.testing.assert_allclose(pooled.prob, expected, rtol=1e-12)
    np.testing.assert_allclose(pooled.complement, 1 - np.array(expected), atol=1e-14)
    np.testing.assert_allclose(bag_logit(pooled), logit(expected), atol=1e-11)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_slope_is_the_derivative(ragged, pooling):
    z, offsets = ragged
    pooled = pool(z, offsets, pooling, ALPHA)
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    step = 1e-5
    for j in range(len(z)):
        up, down = z.copy(), z.copy()
        up[j] += step
        down[j] -= step
        change = pool(up, offsets, pooling, ALPHA).prob
        change = change - pool(down, offsets, pooling, ALPHA).prob
        assert change[bag[j]] / (2 * step) == pytest.approx(pooled.slope[j], abs=1e-9)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_complement_keeps_its_digits(pooling):
    """Both tails of a bag of equal scores are those of one score, to all digits."""
    for value in (-40.0, 40.0):
        z = np.array([value, value])
        pooled = pool(z, np.array([0, 2]), pooling, ALPHA)
        if pooling == "noisy_or":
            log_none = -2 * np.logaddexp(0, value)
            expected = -np.expm1(log_none), np.exp(log_none)
        else:
            expected = expit(value), expit(-value)
        np.testing.assert_allclose(pooled.prob, expected[0], rtol=1e-9)
        np.testing.assert_allclose(pooled.complement, expected[1], rtol=1e-9)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_extreme_scores_stay_finite(pooling):
    z = np.array([-2000.0, 3.0, 2000.0, -2000.0, -1900.0])
    pooled = pool(z, np.array([0, 3, 5]), pooling, 50.0)
    for part in pooled:
        assert np.isfinite(part).all()
    assert np.isfinite(bag_logit(pooled)).all()


def test_order_and_limits(ragged):
    z, offsets = ragged
    mean = pool(z, offsets, "mean").prob
    top = pool(z, offsets, "max").prob
    for alpha in (0.1, 1.0, 3.5, 20.0):
        for pooling in ("softmax", "lse"):
            between = pool(z, offsets, pooling, alpha).prob
            assert (between >= mean - 1e-14).all()
            assert (between <= top + 1e-14).all()
    for pooling in ("softmax", "lse"):
        small = pool(z, offsets, pooling, 1e-7).prob
        np.testing.assert_allclose(small, mean, atol=1e-6)
        large = pool(z, offsets, pooling, 1e6).prob
        np.testing.assert_allclose(large, top, atol=1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_singletons_and_duplicates(ragged, pooling):
    z, offsets = ragged
    alone = pool(z, np.arange(len(z) + 1), pooling, ALPHA)
    np.testing.assert_allclose(alone.prob, expit(z), rtol=1e-12)
    twice = pool(np.repeat(z, 2), 2 * offsets, pooling, ALPHA).prob
    once = pool(z, offsets, pooling, ALPHA).prob
    if pooling == "noisy_or":
        np.testing.assert_allclose(1 - twice, (1 - once) ** 2, atol=1e-14)
    else:
        np.testing.assert_allclose(twice, once, rtol=1e-12)


def test_softmax_is_not_monotone():
    """The known weakness: a lower score of a poor instance can raise the bag."""
    slope = pool(np.array([5.0, -5.0]), np.array([0, 2])).slope
    assert slope[1] == pytest.approx(-4.8e-4, abs=1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_hypotheses_are_pooled_like_instances(ragged, pooling):
    z, offsets = ragged
    rng = np.random.default_rng(1)
    columns = rng.normal(size=(len(z), 6))  # two outputs of three hypotheses
    pooled = pool(columns, offsets, pooling, ALPHA, n_outputs=2)
    for k in range(2):
        block = columns[:, 3 * k : 3 * k + 3]
        alone = pool(block.ravel(), 3 * offsets, pooling, ALPHA)
        np.testing.assert_allclose(pooled.prob[:, k], alone.prob)
        np.testing.assert_allclose(
            pooled.slope[:, 3 * k : 3 * k + 3].ravel(), alone.slope
        )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_hypotheses", [1, 2])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_loss_gradient(pooling, loss, n_hypotheses, sparse):
    import scipy.sparse as sp

    rng = np.random.default_rng(3)
    offsets = np.array([0, 1, 4, 6, 11, 13])
    data = rng.normal(size=(13, 3)) + 1.0
    target = rng.integers(0, 2, size=(5, 2)).astype(float)
    weight = rng.uniform(0.5, 2.0, 5)
    objective = BagLoss(
        sp.csr_array(data) if sparse else data,
        offsets,
        target,
        weight,
        pooling=pooling,
        alpha=ALPHA,
        loss=loss,
        n_hypotheses=n_hypotheses,
        mean=data.mean(axis=0),
    )
    U = rng.normal(size=(3, 2 * n_hypotheses))
    b = rng.normal(size=2 * n_hypotheses)
    value, grad_U, grad_b = objective(U, b)
    theta = np.concatenate([U.ravel(), b])
    gradient = np.concatenate([grad_U.ravel(), grad_b])
    step, numeric = 1e-5, np.empty_like(theta)
    for k in range(len(theta)):
        shift = np.zeros_like(theta)
        shift[k] = step
        up, down = theta + shift, theta - shift
        numeric[k] = objective(up[: U.size].reshape(U.shape), up[U.size :])[0]
        numeric[k] -= objective(down[: U.size].reshape(U.shape), down[U.size :])[0]
    numeric /= 2 * step
    error = np.abs(numeric - gradient).max() / np.abs(gradient).max()
    assert error < 1e-7


def test_log_loss_far_out():
    """Log loss of a sure mistake is the score itself, not the log of a clipped P."""
    z = np.array([-300.0])
    loss = BagLoss(np.ones((1, 1)), np.array([0, 1]), np.ones(1), loss="log")
    value, gradient, _ = loss(z[:, None], np.zeros(1))
    assert value == pytest.approx(-(z - logsumexp([0, z[0]]))[0], rel=1e-12)
    assert gradient[0, 0] == pytest.approx(-1.0, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.01, 3.5, 31.9, 32.0, 32.1, 700.0])
def test_softmax_in_longer_arithmetic(alpha):
    """Weights with and without the largest taken off first agree with long doubles."""
    rng = np.random.default_rng(4)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 30, 200))])
    z = rng.normal(size=offsets[-1]) * 10.0 ** rng.uniform(-3, 2.5, offsets[-1])
    z[:4] = 700.0, -700.0, 0.0, -0.0
    pooled = pool(z, offsets, "softmax", alpha)
    exact = z.astype(np.longdouble)
    p, q = 1 / (1 + np.exp(-exact)), 1 / (1 + np.exp(exact))
    for i, (a, b) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        share = np.exp(-alpha * (q[a:b] - q[a:b].min()))
        share /= share.sum()
        prob = (share * p[a:b]).sum()
        slope = share * (1 + alpha * (p[a:b] - prob)) * p[a:b] * q[a:b]
        tolerance = (4 + alpha) * 2e-15
        np.testing.assert_allclose(pooled.prob[i], float(prob), rtol=tolerance)
        np.testing.assert_allclose(
            pooled.complement[i], float((share * q[a:b]).sum()), rtol=tolerance
        )
        # 1 + alpha (p - P) may vanish: its error is measured against its parts.
        size = float((1 + alpha) * (share * p[a:b] * q[a:b]).max())
        np.testing.assert_allclose(
            pooled.slope[a:b], slope.astype(float), rtol=0, atol=tolerance * size
        )


@pytest.mark.parametrize("n_hypotheses", [1, 2])
def test_evaluations_do_not_share_results(n_hypotheses):
    """An evaluation works in buffers of its object, but returns arrays of its own."""
    rng = np.random.default_rng(5)
    objective = BagLoss(
        rng.normal(size=(9, 3)),
        np.array([0, 2, 3, 9]),
        rng.integers(0, 2, size=(3, 2)).astype(float),
        n_hypotheses=n_hypotheses,
    )
    U, b = rng.normal(size=(3, 2 * n_hypotheses)), rng.normal(size=2 * n_hypotheses)
    first = objective(U, b)
    kept = first[0], first[1].copy(), first[2].copy()
    objective(-U, b + 1.0)
    objective(2.0 * U, b)
    for now, then, again in zip(first, kept, objective(U, b), strict=True):
        np.testing.assert_array_equal(now, then)
        np.testing.assert_array_equal(again, then)


@pytest.mark.parametrize("block", [4, 100])
def test_float32_gradient_is_that_of_float64(monkeypatch, block):
    monkeypatch.setattr("bagwise.linear_model.loss._BLOCK", block)
    rng = np.random.default_rng(6)
    data = rng.normal(size=(40, 5)).astype(np.float32)
    offsets, target = np.arange(0, 41, 4), np.arange(10) % 2.0
    U, b = rng.normal(size=(5, 1)).astype(np.float32).astype(float), np.array([0.2])
    single = BagLoss(data, offsets, target)(U, b)
    double = BagLoss(data.astype(np.float64), offsets, target)(U, b)
    for one, two in zip(single, double, strict=True):
        assert np.asarray(one).dtype == np.float64
        np.testing.assert_allclose(one, two, atol=1e-7)
