"""Segment reductions against loops over bags."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from bagwise.bags import segments as sg

sizes_strategy = st.lists(st.integers(1, 5), min_size=1, max_size=8)


def case(sizes, columns, seed=0):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shape = (offsets[-1],) if columns == 0 else (offsets[-1], columns)
    # Few distinct values, so that ties happen.
    values = np.random.default_rng(seed).integers(-2, 3, size=shape).astype(float)
    return values, offsets


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (sg.segment_sum, lambda v: v.sum(axis=0)),
        (sg.segment_mean, lambda v: v.mean(axis=0)),
        (sg.segment_max, lambda v: v.max(axis=0)),
        (sg.segment_min, lambda v: v.min(axis=0)),
        (sg.segment_logsumexp, lambda v: scipy.special.logsumexp(v, axis=0)),
    ],
)
@given(sizes=sizes_strategy, columns=st.integers(0, 2))
def test_reductions(function, reference, sizes, columns):
    values, offsets = case(sizes, columns)
    expected = [reference(v) for v in np.split(values, offsets[1:-1])]
    np.testing.assert_allclose(function(values, offsets), expected, atol=1e-12)


@given(sizes=sizes_strategy, columns=st.integers(0, 2))
def test_argmax_takes_the_first_of_ties(sizes, columns):
    values, offsets = case(sizes, columns)
    expected = [
        start + v.argmax(axis=0)
        for start, v in zip(offsets, np.split(values, offsets[1:-1]), strict=False)
    ]
    np.testing.assert_array_equal(sg.segment_argmax(values, offsets), expected)
    share = sg.segment_argmax_share(values, offsets)
    np.testing.assert_allclose(sg.segment_sum(share, offsets), 1.0)
    top = sg.repeat(sg.segment_max(values, offsets), offsets)
    assert (values[share > 0] == top[share > 0]).all()


@given(sizes=sizes_strategy, columns=st.integers(0, 2))
def test_softmax(sizes, columns):
    values, offsets = case(sizes, columns)
    parts = [scipy.special.softmax(v, axis=0) for v in np.split(values, offsets[1:-1])]
    np.testing.assert_allclose(
        sg.segment_softmax(values, offsets), np.concatenate(parts), atol=1e-14
    )


def test_logsumexp_does_not_overflow():
    offsets = np.array([0, 2, 4])
    values = np.array([1000.0, 1000.0, -np.inf, -np.inf])
    expected = [1000 + np.log(2), -np.inf]
    np.testing.assert_allclose(sg.segment_logsumexp(values, offsets), expected)


@given(sizes=sizes_strategy)
def test_bag_matrix_sums_and_averages(sizes):
    values, offsets = case(sizes, 3)
    for mean, function in ((False, sg.segment_sum), (True, sg.segment_mean)):
        B = sg.bag_matrix(offsets, mean=mean)
        np.testing.assert_allclose(B @ values, function(values, offsets), atol=1e-12)
        np.testing.assert_allclose(
            (B @ sp.csr_matrix(values)).toarray(),
            function(values, offsets),
            atol=1e-12,
        )


def test_wrong_offsets_are_refused():
    with pytest.raises(ValueError, match="5 rows"):
        sg.segment_sum(np.ones(5), np.array([0, 2, 4]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_compiled_loops_equal_numpy(op, dtype):
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 9, size=4000))])
    values = rng.normal(size=offsets[-1]).astype(dtype)
    values[17] = np.nan
    assert len(values) >= sg._COMPILED_FROM
    function = {"sum": sg.segment_sum, "max": sg.segment_max, "min": sg.segment_min}[op]
    got = function(values, offsets)
    assert got.dtype == dtype
    expected = sg._REDUCERS[op].reduceat(values, offsets[:-1])
    # At most 8 terms of a few units each are added in another order.
    np.testing.assert_allclose(got, expected, rtol=0, atol=64 * np.finfo(dtype).eps)
    assert np.isnan(got).sum() == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_compiled_loops_over_many_columns_equal_numpy(op, dtype):
    rng = np.random.default_rng(0)
    offsets = np.r_[0, np.sort(rng.choice(np.arange(1, 3000), 40, False)), 3000]
    values = rng.normal(size=(3000, 70)).astype(dtype)
    values[17, 3] = values[900, 5] = np.nan
    assert sg._is_wide(values, offsets)
    ufunc = {"sum": np.add, "max": np.maximum, "min": np.minimum}[op]
    expected = ufunc.reduceat(values, offsets[:-1], axis=0)
    found = getattr(sg, f"segment_{op}")(values, offsets)
    assert found.dtype == dtype
    # Sums of up to a few hundred numbers of a few units, in another order.
    atol = 1e4 * np.finfo(dtype).eps if op == "sum" else 0
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_products_and_layers_equal_a_loop(op, dtype, monkeypatch):
    monkeypatch.setattr(sg, "_PRODUCT_FROM", 0)
    monkeypatch.setattr(sg, "_LAYER_FROM", 0)
    rng = np.random.default_rng(0)
    sizes = rng.permutation([1, 1, 2, 3, 3, 5, 9, 30])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    values = (10 * rng.standard_normal((offsets[-1], 7))).astype(dtype)
    if dtype != np.int64:
        values[3, 2], values[10, 1] = np.nan, np.inf
    found = getattr(sg, f"segment_{op}")(values, offsets)
    expected = [getattr(v, op)(axis=0) for v in np.split(values, offsets[1:-1])]
    turned = getattr(sg, f"segment_{op}")(np.asfortranarray(values), offsets)
    # Sums of up to thirty numbers of a few tens, in another order.
    eps = 0 if op != "sum" or dtype == np.int64 else np.finfo(dtype).eps
    for one in (found, turned):
        assert one.dtype == dtype
        np.testing.assert_allclose(one, expected, rtol=0, atol=1e3 * eps)


def test_moments_are_summed_in_double_precision():
    rng = np.random.default_rng(0)
    offsets = np.array([0, 5, 6, 4000])
    values = (1000.0 + rng.normal(size=(4000, 6))).astype(np.float32)
    mean, std = sg.segment_moments(values, offsets)
    for i, (a, b) in enumerate(zip(offsets, offsets[1:], strict=False)):
        rows = values[a:b].astype(np.float64)
        np.testing.assert_allclose(mean[i], rows.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(std[i], rows.std(axis=0), rtol=1e-9)
    alone, zero = sg.segment_moments(values, offsets, spread=False)
    np.testing.assert_array_equal(alone, mean)
    assert not zero.any()
