from itertools import product

import numpy as np
import pytest
from scipy import stats

from bagwise.comparison import corrected_interval, corrected_t_test, holm
from bagwise.comparison.statistics import paired_permutation_test, percentile_interval


def test_without_overlap_the_interval_is_students():
    values = np.random.default_rng(0).normal(0.8, 0.05, 12)
    found = corrected_interval(values, 0.0)
    low, high = stats.t.interval(0.95, 11, values.mean(), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-12)


def test_overlap_widens_by_the_factor_of_the_paper():
    values = np.random.default_rng(1).normal(0.8, 0.05, 10)
    plain, wide = corrected_interval(values, 0.0), corrected_interval(values, 1 / 9)
    factor = np.sqrt((1 / 10 + 1 / 9) / (1 / 10))
    assert wide.high - wide.mean == pytest.approx(factor * (plain.high - plain.mean))


def test_without_overlap_the_test_is_the_paired_t_test():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=15), rng.normal(size=15)
    p = corrected_t_test(a, b, 0.0)
    assert p == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-10)
    assert corrected_t_test(a, b, 0.25) > p


def test_the_corrected_test_keeps_its_level_where_the_plain_one_does_not():
    """Means of overlapping halves: the plain paired test rejects far too often."""
    rng = np.random.default_rng(3)
    plain = corrected = 0
    for _ in range(300):
        data = rng.normal(size=40)
        values = []
        for _ in range(15):
            order = rng.permutation(40)
            values.append(data[order[:20]].mean())
        zero = np.zeros(15)
        plain += corrected_t_test(values, zero, 0.0) < 0.05
        corrected += corrected_t_test(values, zero, 1.0) < 0.05
    assert plain > 90  # 30% and more, at a level of 5%
    assert corrected < 60


def test_no_difference_at_all():
    assert corrected_t_test([0.5] * 5, [0.5] * 5, 0.25) == 1.0
    assert corrected_t_test([0.75] * 5, [0.5] * 5, 0.25) == 0.0


def test_holm_rejects_what_the_step_down_procedure_rejects():
    rng = np.random.default_rng(4)
    for _ in range(50):
        p = {str(i): float(v) for i, v in enumerate(rng.random(6) ** 3)}
        adjusted = holm(p)
        for level in (0.01, 0.05, 0.2):
            rejected, left = set(), len(p)
            for name in sorted(p, key=p.get):
                if p[name] > level / left:
                    break
                rejected.add(name)
                left -= 1
            assert rejected == {name for name in p if adjusted[name] <= level}


def test_permutation_test_agrees_with_all_permutations():
    first = np.array([1, 1, 1, 0, 1, 1, 1, 1.0])
    second = np.array([0, 1, 0, 0, 0, 1, 0, 0.0])

    def difference(swap):
        a, b = np.where(swap, second, first), np.where(swap, first, second)
        return a.mean() - b.mean()

    every = [abs(difference(np.array(s))) for s in product([False, True], repeat=8)]
    exact = np.mean(np.array(every) >= abs(difference(np.zeros(8, bool))) - 1e-12)
    found = paired_permutation_test(difference, 8, n_resamples=4000)
    assert found == pytest.approx(exact, abs=0.02)


def test_percentile_interval_of_a_mean():
    values = np.random.default_rng(5).normal(size=200)
    found = percentile_interval(lambda rows: float(values[rows].mean()), 200)
    half = 1.96 * values.std() / np.sqrt(200)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.1)
