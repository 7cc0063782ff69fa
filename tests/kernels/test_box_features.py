import numpy as np
import pytest
from box_helpers import brute_count, random_bags

from bagwise import Bags
from bagwise.kernels import BoxGrid, RandomBoxFeatures
from bagwise.kernels.box import features as module
from bagwise.kernels.box.loops.sampling import (
    pack_levels,
    packed_counts,
    packed_hits,
    plain_counts,
    plain_hits,
    word_offsets,
)

TOP = (5, 4, 6)


@pytest.fixture(scope="module")
def bags():
    return random_bags(np.random.default_rng(0), TOP, (1, 3, 64, 65, 130))


def test_packed_hits_equal_plain_hits(bags):
    rng = np.random.default_rng(1)
    X = Bags.from_list(bags)
    rows = X.data.astype(np.uint16)
    top = np.array(TOP, dtype=np.uint16)
    a, b = rng.integers(0, top + 1, (2, 300, 3)).astype(np.uint16)
    low, high = np.minimum(a, b), np.maximum(a, b)
    low[0], high[0] = 0, top  # the whole grid
    words = word_offsets(X.offsets)
    sets = pack_levels(rows, X.offsets, words, int(top.max()) + 1)
    truth = np.array(
        [
            [((bag >= lo) & (bag <= hi)).all(axis=1).sum() for bag in bags]
            for lo, hi in zip(low, high, strict=True)
        ]
    )
    hits = packed_hits(*sets, words, low, high, top)
    np.testing.assert_array_equal(hits, truth > 0)
    np.testing.assert_array_equal(plain_hits(rows, X.offsets, low, high), truth > 0)
    counts = packed_counts(*sets, low, high, top)
    np.testing.assert_array_equal(counts, truth.sum(axis=1))
    np.testing.assert_array_equal(plain_counts(rows, low, high), truth.sum(axis=1))


def test_inner_products_estimate_the_count(bags):
    grid = BoxGrid("integer").fit(bags)
    truth = np.array([[brute_count(P, Q, TOP) for Q in bags] for P in bags])
    features = RandomBoxFeatures(40_000, grid=grid, random_state=0).fit(bags)
    Phi = features.transform(bags)
    K = Phi @ Phi.T * np.exp(features.log_scale_)
    # standard error of the mean of n_boxes independent terms, from the terms
    terms = Phi[:, None, :] * Phi[None, :, :] * len(Phi.T)
    error = terms.std(axis=2) / np.sqrt(Phi.shape[1]) * np.exp(features.log_scale_)
    assert (np.abs(K - truth) < 4.5 * error).all()
    assert np.linalg.eigvalsh(K).min() > -1e-9 * K.max()


def test_boxes_do_not_depend_on_orders(bags):
    rng = np.random.default_rng(3)
    a = RandomBoxFeatures(50, random_state=0).fit(bags)
    again = [rng.permutation(bags[i]) for i in rng.permutation(len(bags))]
    b = RandomBoxFeatures(50, random_state=0).fit(again)
    np.testing.assert_array_equal(a.low_, b.low_)
    np.testing.assert_array_equal(a.transform(bags), b.transform(bags))


def test_without_bit_sets_the_same(bags, monkeypatch):
    packed = RandomBoxFeatures(80, random_state=0).fit_transform(bags)
    monkeypatch.setattr(module, "_PACK_BYTES", 0)
    plain = RandomBoxFeatures(80, random_state=0).fit_transform(bags)
    np.testing.assert_array_equal(packed, plain)


def test_linear_machine_on_random_boxes():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    from bagwise.datasets import make_generalized_bags

    X, y = make_generalized_bags(600, random_state=0)
    model = make_pipeline(
        RandomBoxFeatures(800, random_state=0), StandardScaler(), LinearSVC(C=1e-3)
    )
    assert model.fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.8


def test_a_grid_of_one_point():
    Phi = RandomBoxFeatures(9, random_state=0).fit_transform([[[1.0]], [[1.0]]])
    np.testing.assert_allclose(Phi @ Phi.T, np.ones((2, 2)))
