"""The shift check: the statistic, false alarms, power, columns and groups."""

import numpy as np
import pytest
import scipy.sparse as sp

import bagwise
from bagwise.bags import Bags
from bagwise.compose import SimpleMI
from bagwise.inspection import check_shift
from bagwise.inspection import shift as module
from bagwise.inspection.shift import describe_bags, outlier_scores, reference_of
from bagwise.io.record import ModelRecord


def simulated(seed, n, d=5, shift=0.0, names=None, groups=None):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, n)
    center = rng.normal(size=(n, d))
    if groups is not None:
        center = 0.4 * center + rng.normal(size=(n, d))[groups]
    center[:, 0] += shift
    data = np.repeat(center, sizes, axis=0) + rng.normal(size=(sizes.sum(), d))
    offsets = np.append(0, np.cumsum(sizes))
    return Bags(data, offsets, feature_names=names, groups=groups)


def test_bags_are_described_by_means_spreads_and_sizes():
    X = simulated(0, 12)
    rows, low, high = describe_bags(X, np.array([1, 4]))
    for row, bag in zip(rows, (X[1], X[4]), strict=True):
        expected = [*bag.mean(axis=0), *bag.std(axis=0), np.log(len(bag))]
        np.testing.assert_allclose(row, expected)
    np.testing.assert_allclose(low, X.data.min(axis=0))
    np.testing.assert_allclose(high, X.data.max(axis=0))
    sparse = Bags(sp.csr_array(X.data), X.offsets)
    for one, two in zip(
        describe_bags(sparse, np.array([1, 4])), (rows, low, high), strict=True
    ):
        np.testing.assert_allclose(one, two)


def test_missing_values_are_left_out():
    X = simulated(1, 6, d=2)
    data = X.data.copy()
    data[0, 0] = np.nan
    rows, _, _ = describe_bags(Bags(data, X.offsets), np.arange(6))
    own = data[X.offsets[0] : X.offsets[1], 0]
    np.testing.assert_allclose(rows[0, 0], np.nanmean(own))
    np.testing.assert_allclose(rows[0, 2], np.nanstd(own))
    assert check_shift(Bags(data, X.offsets), X).p > 0.05


def test_chunks_change_nothing(monkeypatch):
    X = simulated(2, 40)
    whole = describe_bags(X, np.arange(0, 40, 3))
    monkeypatch.setattr(module, "CHUNK_ROWS", 17)
    for one, two in zip(describe_bags(X, np.arange(0, 40, 3)), whole, strict=True):
        np.testing.assert_allclose(one, two)


def test_the_statistic_is_the_squared_mmd():
    rng = np.random.default_rng(3)
    A, B = rng.normal(size=(7, 3)), rng.normal(size=(5, 3)) + 1
    found = {}

    def spy(values):
        found.setdefault("kernel", values[0])
        return original(values)

    original, module._tail = module._tail, spy
    try:
        module._test(np.eye(7), np.eye(5), A, B, np.random.default_rng(0))
    finally:
        module._tail = original
    rows = np.concatenate([A, B])
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    squared = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    from bagwise.kernels import set_kernel

    K = set_kernel(Bags(rows, np.arange(13)), gamma="median")
    gamma = -np.log(K[0, 1]) / squared[0, 1]
    np.testing.assert_allclose(K, np.exp(-gamma * squared))
    a, b = slice(0, 7), slice(7, 12)
    expected = K[a, a].mean() + K[b, b].mean() - 2 * K[a, b].mean()
    assert found["kernel"] == pytest.approx(expected)


@pytest.mark.parametrize("grouped", [False, True])
def test_alarms_are_rare_without_a_shift_and_frequent_with_one(grouped):
    """A few draws; studies/scripts/shift_check.py has many more."""
    false, true = [], []
    for seed in range(60):
        groups = np.arange(60) // 3 if grouped else None
        X = simulated(2 * seed, 60, groups=groups)
        same = simulated(2 * seed + 1, 60, groups=groups)
        other = simulated(2 * seed + 1, 60, shift=1.5, groups=groups)
        false.append(check_shift(X, same, random_state=seed).shifted)
        true.append(check_shift(X, other, random_state=seed).shifted)
    assert np.mean(false) <= 0.13
    assert np.mean(true) >= 0.8


def test_groups_of_bags_are_no_independent_bags():
    """Four bags of one patient each: taken as independent, they are alarms."""
    X = simulated(0, 80, groups=np.arange(80) // 20)
    new = simulated(1, 80, groups=np.arange(80) // 20)
    assert check_shift(X, new).p > 0.05
    assert check_shift(X.with_groups(None), new.with_groups(None)).p <= 0.05
    mixed = check_shift(X, new.with_groups(None))
    assert "have none" in mixed.notes[0]
    assert mixed.n_training == 4


def test_the_column_that_moved_comes_first():
    names = list("abcde")
    found = check_shift(
        simulated(0, 60, names=names), simulated(1, 60, shift=2.0, names=names)
    )
    assert found.shifted
    assert found.drift[0]["column"] == "a"
    assert found.drift[0]["p"] <= 0.01
    assert found.drift[0]["outside"] > 0
    assert "a (+" in found.summary()
    assert found.to_dict()["shifted"] is True


def test_columns_are_found_by_their_names():
    X = simulated(0, 40, names=list("abcde"))
    order = [4, 2, 0, 1]
    new = simulated(1, 40, names=list("abcde"))
    moved = Bags(
        np.ascontiguousarray(new.data[:, order]),
        new.offsets,
        feature_names=list("ecab"),
    )
    found = check_shift(X, moved)
    assert (found.missing, found.new) == (["d"], [])
    assert found.shifted
    assert found.p > 0.05
    assert {row["column"] for row in found.drift} == {*"abce", "number of instances"}
    narrow = Bags(new.data[:, :3], new.offsets)
    assert check_shift(X, narrow).missing == ["d", "e"]
    assert np.isnan(check_shift(X, narrow).p)


def test_wide_sparse_bags_are_compared():
    rng = np.random.default_rng(0)

    def wide(rate, n=40):
        data = sp.random_array((n * 3, 5000), density=rate, rng=rng, format="csr")
        return Bags(data, np.arange(0, 3 * n + 1, 3))

    X = wide(0.01)
    assert not check_shift(X, wide(0.01)).shifted
    assert check_shift(X, wide(0.02)).shifted
    assert reference_of(X)["summaries"].size <= module.MOST_STORED


def test_a_model_needs_a_record():
    X = simulated(0, 30)
    model = SimpleMI().fit(X, np.arange(30) % 2)
    with pytest.raises(ValueError, match="training record"):
        check_shift(model, X)
    model.training_record_ = ModelRecord({}, {}, reference_of(X))
    assert check_shift(model, simulated(2, 30)).p > 0.05
    with pytest.raises(ValueError, match="alpha"):
        check_shift(model, X, alpha=0)


def test_about_five_percent_of_equal_bags_are_outliers():
    shares = []
    for seed in range(12):
        X = simulated(2 * seed, 200)
        model = SimpleMI().fit(X, np.arange(200) % 2)
        model.training_record_ = ModelRecord({}, {}, reference_of(X))
        scores = outlier_scores(model, simulated(2 * seed + 1, 300))
        shares.append(np.mean(scores > 0.95))
    assert 0.02 < np.mean(shares) < 0.08
    assert (outlier_scores(model, simulated(2, 20, shift=30.0)) > 0.95).all()
    stack = bagwise.BagClassifier(random_state=0).fit(X[:40], np.arange(40) % 2)
    np.testing.assert_array_equal(outlier_scores(stack, X), stack.outlier_scores(X))
