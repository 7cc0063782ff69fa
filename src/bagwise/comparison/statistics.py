"""Intervals and tests for cross-validated results.

Training sets of cross-validation overlap, so that the results of folds are not
independent and the usual t interval is too short. The variance of their mean is
corrected as Nadeau and Bengio [1]_ propose, and tests against the best method are
corrected for their number by Holm's procedure [2]_.

References
----------
.. [1] Nadeau, C. and Bengio, Y., "Inference for the generalization error", Machine
   Learning 52, 239-281, 2003. :doi:`10.1023/A:1024068626366`
.. [2] Holm, S., "A simple sequentially rejective multiple test procedure",
   Scandinavian Journal of Statistics 6, 65-70, 1979.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = [
    "Interval",
    "corrected_interval",
    "corrected_t_test",
    "holm",
    "paired_permutation_test",
    "percentile_interval",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval; the ends are NaN where there is none."""

    mean: float
    low: float
    high: float


def corrected_variance(values: Array, test_share: float) -> float:
    r"""Return the corrected variance of the mean of resampled results.

    .. math:: \left(\frac{1}{J} + \frac{n_2}{n_1}\right) s^2

    where :math:`J` is the number of `values`, :math:`s^2` their sample variance and
    :math:`n_2 / n_1` (`test_share`) the number of test bags over that of training
    bags ([1]_, Eq. 9, see the module).
    """
    n = len(values)
    return float((1.0 / n + test_share) * np.var(values, ddof=1))


def corrected_interval(
    values: Sequence[float] | Array, test_share: float, level: float = 0.95
) -> Interval:
    """Return the mean over folds with its corrected t interval.

    Parameters
    ----------
    values : array-like
        One result per fold.
    test_share : float
        Test bags over training bags, 1 / (k - 1) in k-fold cross-validation.
    level : float, default=0.95
        Coverage.

    Returns
    -------
    Interval
        `mean`, `low` and `high`; the ends are NaN with fewer than two folds.

    Examples
    --------
    >>> found = corrected_interval([0.8, 0.9, 0.85, 0.95, 0.9], 0.25)
    >>> round(found.low, 3), round(found.high, 3)
    (0.774, 0.986)
    """
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean()) if len(array) else float("nan")
    if len(array) < 2:
        return Interval(mean, float("nan"), float("nan"))
    scale = np.sqrt(corrected_variance(array, test_share))
    half = float(stats.t.ppf(0.5 + level / 2, len(array) - 1) * scale)
    return Interval(mean, mean - half, mean + half)


def corrected_t_test(
    first: Sequence[float] | Array, second: Sequence[float] | Array, test_share: float
) -> float:
    """Return the two-sided p value of the corrected resampled t-test.

    Parameters
    ----------
    first, second : array-like
        Results of two methods on the same folds, in the same order.
    test_share : float
        Test bags over training bags.

    Returns
    -------
    float
        The p value, NaN where there is no test.

    Notes
    -----
    With no variance of the differences the p value is 1 when they are all zero, and 0
    otherwise. With fewer than two folds there is no test: NaN.
    """
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, np.float64)
    if len(difference) < 2:
        return float("nan")
    mean = float(difference.mean())
    variance = corrected_variance(difference, test_share)
    if variance <= 1e-24 * max(1.0, mean * mean):
        return 1.0 if abs(mean) < 1e-12 else 0.0
    t = abs(mean) / np.sqrt(variance)
    return float(2.0 * stats.t.sf(t, len(difference) - 1))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return Holm's adjusted p values.

    Parameters
    ----------
    p_values : dict of str to float
        By name; NaN entries are left out of the count.

    Returns
    -------
    dict of str to float
        Adjusted, in the same order.

    Examples
    --------
    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    tested = {name: p for name, p in p_values.items() if not np.isnan(p)}
    adjusted = dict.fromkeys(p_values, float("nan"))
    running = 0.0
    for i, name in enumerate(sorted(tested, key=lambda key: tested[key])):
        running = max(running, min(1.0, (len(tested) - i) * tested[name]))
        adjusted[name] = running
    return adjusted


def percentile_interval(
    statistic: Callable[[NDArray[np.int64]], float],
    n: int,
    *,
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Return a percentile bootstrap interval over bags.

    Used where folds have no variance of their own: leave-one-bag-out and a single
    train/test split.

    Parameters
    ----------
    statistic : callable
        Gets the indices of the drawn bags; a NaN draw is left out.
    n : int
        Number of bags.
    level, n_resamples, seed : float, int, int
        Coverage, number of draws, and what fixes them.
    """
    rng = np.random.default_rng(seed)
    everyone = np.arange(n, dtype=np.int64)
    draws = np.array([statistic(rng.choice(everyone, n)) for _ in range(n_resamples)])
    draws = draws[~np.isnan(draws)]
    mean = statistic(everyone)
    if len(draws) < n_resamples // 2:
        return Interval(mean, float("nan"), float("nan"))
    low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(mean, float(low), float(high))


def paired_permutation_test(
    difference: Callable[[NDArray[np.bool_]], float],
    n: int,
    *,
    n_resamples: int = 2000,
    seed: int = 0,
) -> float:
    """Return the p value of a paired permutation test.

    Parameters
    ----------
    difference : callable
        Gets a mask of the bags on which the two methods change places, and returns
        the difference of their results.
    n : int
        Number of bags.
    n_resamples, seed : int
        Number of draws and what fixes them.
    """
    rng = np.random.default_rng(seed)
    observed = abs(difference(np.zeros(n, dtype=bool)))
    draws = [abs(difference(rng.random(n) < 0.5)) for _ in range(n_resamples)]
    extreme = sum(value >= observed - 1e-12 for value in draws)
    return (extreme + 1) / (n_resamples + 1)
