import numpy as np
import pytest

from bagwise.bags.chunks import Moments


@pytest.mark.parametrize("weighted", [False, True])
def test_pieces_add_to_the_moments_of_all_rows(rng, weighted):
    # Far from zero: sums of squares would lose half of the digits.
    rows = rng.normal(1e6, 1.0, (200, 3))
    weight = rng.integers(1, 4, 200) if weighted else np.ones(200, dtype=int)
    cuts = [slice(0, 1), slice(1, 90), slice(90, 200)]
    first, *others = (
        Moments.of(rows[cut], weight[cut].astype(float) if weighted else None)
        for cut in cuts
    )
    found = sum(others, start=first)
    repeated = np.repeat(rows, weight, axis=0)  # a weight of two is two rows
    assert found.weight == len(repeated)
    np.testing.assert_allclose(found.mean, repeated.mean(axis=0), rtol=1e-14)
    expected = np.cov(repeated.T, bias=True) * len(repeated)
    np.testing.assert_allclose(found.scatter, expected, rtol=1e-8, atol=1e-6)


def test_half_precision_rows_are_measured_in_double():
    rows = np.array([[1.0], [1.0 + 2**-10]], dtype=np.float32) + np.float32(2**12)
    found = Moments.of(rows)
    assert found.scatter.dtype == np.float64
    np.testing.assert_allclose(found.scatter, 2**-21, rtol=1e-12)


def test_single_precision_is_enough_for_rows_of_half_precision(rng):
    rows = rng.normal(3.0, 1.0, (500, 4)).astype(np.float16).astype(np.float32)
    found, expected = Moments.of(rows, single=True), Moments.of(rows)
    assert found.scatter.dtype == found.mean.dtype == np.float64
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    unit = expected.scatter[0, 0]
    np.testing.assert_allclose(found.scatter, expected.scatter, atol=1e-5 * unit)
