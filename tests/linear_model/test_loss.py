"""The loss as a sum over pieces is the loss of all bags."""

import numpy as np
import pytest

from bagwise.bags import Bags
from bagwise.bags import chunks as _chunks
from bagwise.bags.chunks import Chunks
from bagwise.linear_model.loss import BagLoss, SummedLoss, column_means
from bagwise.linear_model.pooling import POOLINGS


@pytest.fixture
def bags(monkeypatch):
    """Bags in several pieces, two outputs and weights."""
    monkeypatch.setattr(_chunks, "_CHUNK_BYTES", 8 * 4 * 20)
    rng = np.random.default_rng(0)
    X = Bags.from_list([rng.normal(size=(rng.integers(1, 8), 4)) for _ in range(30)])
    target = rng.integers(0, 2, (30, 2)).astype(float)
    return X, target, rng.uniform(0.5, 2.0, 30)


@pytest.mark.parametrize("pooling", [name for name in POOLINGS if name != "power"])
@pytest.mark.parametrize("loss", ["squared", "log"])
def test_value_and_gradient(bags, pooling, loss):
    X, target, weight = bags
    options = {"pooling": pooling, "alpha": 2.0, "loss": loss}
    pieces = Chunks(X, target, weight)
    assert len(list(pieces)) > 4
    summed = SummedLoss(pieces, center=True, **options)
    mean = column_means(X, weight)
    whole = BagLoss(X.data, X.offsets, target, weight, mean=mean, **options)
    rng = np.random.default_rng(1)
    U, b = rng.normal(size=(4, 2)), rng.normal(size=2)
    for one, other in zip(summed(U, b), whole(U, b), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(summed.rates()[0], whole.rates()[0])
    assert summed.rates()[1] == pytest.approx(whole.rates()[1])
    assert summed.mean_square() == pytest.approx(whole.mean_square())
    means, other = summed.of_means(), whole.of_means()
    assert means(U, b)[0] == pytest.approx(other(U, b)[0], rel=1e-12)


def test_pieces_keep_single_precision(bags):
    X, target, weight = bags
    single = Bags(X.data.astype(np.float32), X.offsets)
    pieces = Chunks(single, target, weight)
    assert all(piece.X.dtype == np.float32 for piece in pieces)
    summed = SummedLoss(pieces, center=True, pooling="mean", alpha=1.0, loss="log")
    whole = BagLoss(single.data, X.offsets, target, pooling="mean", loss="log")
    # Of the same size; weights decide what counts as an instance.
    assert summed.rounding == pytest.approx(whole.rounding, rel=0.5)
