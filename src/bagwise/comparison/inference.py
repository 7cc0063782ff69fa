r"""Intervals, tests, selection bias and sample size from out-of-fold predictions.

Everything starts from `Contributions`: a figure and what every independent unit, a bag
or a group of bags, contributes to its error. Nothing is fitted again.

**Variance.** The contributions :math:`\psi_u` of :math:`G` units give the variance of a
figure for given models, :math:`V_0 = \frac{G}{G-1} \sum_u \psi_u^2` [1]_. Every bag is
also training data of the models that are tested on other bags. This correlates the
errors of two bags [2]_. To first order the variance is :math:`(1 + \rho) V_0`, where
:math:`\rho` is the share of the variance of a bag's result that comes from the training
set, if two bags influence each other equally. For the scores of a linear model
without signal :math:`\rho = 1`, and :math:`\rho = 2 / \pi` for their signs. Far from
chance :math:`\rho` depends on the learner: from 0 for a stable one to 0.8. It is taken
as 0.1. Between both,

.. math:: \rho = 0.1 + (\rho_0 - 0.1) / (1 + (d^2 / 6)^2)

for the squared distance :math:`d^2` of the figure from chance in units of its variance.
In leave-one-out, 0.25 are added, as the models are almost the same one.
Of the variance that repeated partitions remove, 0.2 are added again. The constants were
chosen on simulated data. The page "Intervals and tests" of the documentation
shows the coverage that was measured on other simulations.

**Two targets.** The interval of a figure is about the fitted models: their mean figure
on new data. A test and the interval of a difference are about methods: whether one is
better than another on average over training sets of this size. A training set favors
one of two methods by chance, which adds 0.25 to :math:`\rho`, the mean of those of
both. Where the difference varies between folds by :math:`F` times what their bags
explain, training sets matter more, and :math:`2 \max(F - 1.5, 0)` is added.

References
----------
.. [1] Bayle, P., Bayle, A., Janson, L. and Mackey, L., "Cross-validation confidence
   intervals for test error", NeurIPS 2020.
.. [2] Bates, S., Hastie, T. and Tibshirani, R., "Cross-validation: what does it
   estimate and how well does it do it?", JASA 119, 1434-1445, 2024.
   :doi:`10.1080/01621459.2023.2197686`
.. [3] Wilson, E. B., "Probable inference, the law of succession, and statistical
   inference", JASA 22, 209-212, 1927. :doi:`10.1080/01621459.1927.10502953`
.. [4] Bonett, D. G. and Price, R. M., "Adjusted Wald confidence interval for a
   difference of binomial proportions based on paired data", Journal of Educational and
   Behavioral Statistics 37, 479-488, 2012. :doi:`10.3102/1076998611411915`
.. [5] Holm, S., "A simple sequentially rejective multiple test procedure",
   Scandinavian Journal of Statistics 6, 65-70, 1979.
.. [6] Tsamardinos, I., Greasidou, E. and Borboudakis, G., "Bootstrapping the
   out-of-sample predictions for efficient and accurate cross-validation", Machine
   Learning 107, 1895-1922, 2018. :doi:`10.1007/s10994-018-5714-4`
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from bagwise.comparison.contributions import Contributions

__all__ = [
    "MARGIN",
    "Difference",
    "Interval",
    "Winner",
    "bags_needed",
    "detectable",
    "difference",
    "holm",
    "interval",
    "repeats_for",
    "selected",
    "standard_error",
    "unreliable",
]

Array = NDArray[np.float64]
NAN = float("nan")
LEVEL = 0.95
MARGIN = 0.02
POWER = 0.8
MIN_BAGS, MIN_GROUPS = 10, 3
FEW_BAGS = 200

# Inflation of a variance by overlapping training sets, see the module.
AT_CHANCE = 1.0  # without signal
AT_CHANCE_OF_LABELS = 2.0 / math.pi  # the same, for metrics of labels
LEAST = 0.1  # far from chance: 0 for stable learners, up to 0.8 for others
KNOWN = 6.0  # squared distance from chance, over its variance, that halves the excess
METHODS = 0.25  # added for two methods: a training set favors one of them by chance
EVEN, UNEVEN = 1.5, 2.0  # dispersion between folds without effect, and factor beyond it
ALONE = 0.25  # added in leave-one-out, whose models are almost the same one
REPEATED = 0.2  # share of the variance that repeats remove
LABELS = ("accuracy", "balanced_accuracy", "average_precision")


@dataclass(frozen=True)
class Interval:
    """A figure and its confidence interval; the ends are NaN where there is none."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """By how much one method is better than another, with interval and tests.

    Parameters
    ----------
    effect, low, high : float
        By how much the first is better, with its 95% interval.
    p : float
        Of the hypothesis that both are equal on average; NaN where not tested.
    p_equivalent : float
        Of the hypothesis that they differ by `margin` or more (the larger one of two
        one-sided tests): small where the methods are equivalent in practice.
    margin : float
        Differences up to this do not matter in practice.
    error : float
        Standard error of the effect.
    n_units : int
        Bags, or groups of bags, that were tested.
    """

    effect: float
    low: float
    high: float
    p: float
    p_equivalent: float
    margin: float
    error: float
    n_units: int


@dataclass(frozen=True)
class Winner:
    """The selected method with its figure corrected for the selection.

    Parameters
    ----------
    method : str
        Which one was selected.
    corrected : Interval
        What to expect of it on new data.
    uncorrected : Interval
        Its own cross-validated figure, which is optimistic: it was selected by it.
    shares : dict of str to float
        How often each method is selected in a bootstrap sample.
    """

    method: str
    corrected: Interval
    uncorrected: Interval
    shares: dict[str, float]


def unreliable(n_bags: int, n_groups: int | None = None) -> str:
    """Describe why intervals from so few bags are unreliable; empty where they are not.

    Parameters
    ----------
    n_bags : int
        Tested bags.
    n_groups : int, optional
        Groups they belong to.

    Examples
    --------
    >>> unreliable(8)
    'only 8 bags were tested, at least 10 are needed'
    >>> unreliable(40, n_groups=20)
    ''
    """
    if n_groups is not None and n_groups < MIN_GROUPS:
        return f"only {n_groups} groups were tested, at least {MIN_GROUPS} are needed"
    if n_bags < MIN_BAGS:
        return f"only {n_bags} bags were tested, at least {MIN_BAGS} are needed"
    return ""


def repeats_for(n_bags: int) -> int:
    """Return how often to repeat a cross-validation by default.

    Parameters
    ----------
    n_bags : int
        Number of bags. Below 200 the bags are partitioned twice, which doubles the
        time.
    """
    return 2 if n_bags < FEW_BAGS else 1


# Intervals ----------------------------------------------------------------------------


def interval(
    found: Contributions,
    *,
    low: float = 0.0,
    high: float = 1.0,
    level: float = LEVEL,
    times: float = 1.0,
) -> Interval:
    r"""Return a figure with its confidence interval.

    A figure between two bounds gets Wilson's interval (1927)

    .. math:: \{\theta : |\hat\theta - \theta| \le t \sqrt{\theta (1 - \theta) / m}\}

    on the scale from 0 to 1, where :math:`m` is the effective number of units that
    follows from the variance. It stays inside the bounds and has a positive width. A
    figure with one bound is an error (or 1 minus one); its interval is symmetric on the
    scale of the logarithm of that error.

    Parameters
    ----------
    found : Contributions
        The figure.
    low, high : float
        Its range; infinite where there is no bound.
    level : float, default=0.95
        Coverage.
    times : float, default=1
        Factor of the number of units, to estimate the effect of more data.

    Returns
    -------
    Interval
        The ends are NaN with fewer than two units.

    Examples
    --------
    Twenty of twenty bags, tested by one model:

    >>> from bagwise.comparison.contributions import contributions
    >>> rows = {"truth": np.arange(20) % 2, "label": np.arange(20) % 2}
    >>> all_right = contributions("accuracy", rows, np.arange(20), fixed=True)
    >>> round(interval(all_right).low, 2)
    0.82
    """
    if np.isnan(found.value) or found.n_units < 2:
        return Interval(found.value, NAN, NAN)
    variance = _variance(found, _at_chance(found)) / times
    t = float(stdtrit(times * (found.df + 1.0) - 1.0, 0.5 + level / 2))
    if np.isfinite(low) and np.isfinite(high):
        width = high - low
        share = (found.value - low) / width
        size = _effective_size(found, share, variance / width**2, times)
        ends = _wilson(share, size, t)
        return Interval(found.value, low + width * ends[0], low + width * ends[1])
    error = found.value - low if np.isfinite(low) else high - found.value
    if error <= 0:
        return Interval(found.value, NAN, NAN)
    # At least the spread that one unit with twice the mean error would cause.
    spread = max(math.sqrt(variance) / error, 1.0 / (times * found.n_units))
    near, far = error * math.exp(-t * spread), error * math.exp(t * spread)
    if np.isfinite(low):
        return Interval(found.value, low + near, low + far)
    return Interval(found.value, high - far, high - near)


def standard_error(found: Contributions) -> float:
    """Return the standard error of a figure that its interval is made from.

    Parameters
    ----------
    found : Contributions
        The figure.
    """
    if found.n_units < 2:
        return NAN
    return math.sqrt(_variance(found, _at_chance(found)))


def _of_models(found: Contributions) -> float:
    """Return the variance for given models."""
    total = float(np.sum(found.totals**2))
    return total * found.n_units / (found.n_units - 1) if found.n_units > 1 else NAN


def _at_chance(found: Contributions) -> float:
    """Return how much of a figure may be chance: 1 without signal, 0 far from it.

    The squared gain over guesses is compared with its variance, which is taken off
    first.
    """
    variance = found.slope**2 * _of_models(found)
    if not variance > 0.0:
        return 0.0
    distance = max(found.gain**2 / variance - 1.0, 0.0)
    return 1.0 / (1.0 + (distance / KNOWN) ** 2)


def _variance(found: Contributions, chance: float, more: float = 0.0) -> float:
    """Return the variance of a figure, see the module."""
    known = _of_models(found)
    if found.fixed:
        return known
    most = AT_CHANCE_OF_LABELS if found.metric in LABELS else AT_CHANCE
    share = LEAST + (most - LEAST) * chance
    if len(np.unique(found.run)) == len(found.parts):  # each model tests one unit
        share += ALONE
    return (1.0 + share + more) * known + REPEATED * found.removed


def _effective_size(
    found: Contributions, share: float, variance: float, times: float
) -> float:
    """Return the number of independent units that would have this variance.

    The design effect, the variance over that of independent bags, is unknown where all
    bags agree. It is averaged with one more error that all bags of a unit share.
    """
    size = found.size * times
    bags_per_unit = found.n_bags / found.n_units
    effect = variance * size + bags_per_unit / size
    return size * (share * (1.0 - share) + 1.0 / size) / effect


def _wilson(share: float, size: float, t: float) -> tuple[float, float]:
    middle = share + t**2 / (2 * size)
    half = t * math.sqrt(share * (1 - share) / size + (t / (2 * size)) ** 2)
    scale = 1 + t**2 / size
    low, high = (middle - half) / scale, (middle + half) / scale
    return max(0.0, min(low, share)), min(1.0, max(high, share))


# Tests --------------------------------------------------------------------------------


def difference(
    first: Contributions,
    second: Contributions,
    *,
    higher: bool = True,
    margin: float = MARGIN,
    level: float = LEVEL,
) -> Difference:
    """Compare two methods that were tested on the same bags.

    A t test on the differences between the contributions of every unit. Two units are
    added that disagree, one in favor of each method (Bonett and Price, 2012): methods
    that agree on all bags are not known to be equal. In cross-validation it is one, as
    the variance is already increased for overlapping training sets.

    Parameters
    ----------
    first, second : Contributions
        The same figure of two methods, of the same test bags and runs.
    higher : bool, default=True
        Whether larger is better.
    margin : float, default=0.02
        Differences up to this do not matter in practice.
    level : float, default=0.95
        Coverage of the interval.

    Returns
    -------
    Difference
        The effect is positive where the first is better. With fewer than 10 bags or 3
        groups there are no tests.
    """
    if not np.array_equal(first.unit, second.unit):
        raise ValueError(
            "the two methods were tested on different bags or in different runs; use "
            "predictions of the same protocol and seed"
        )
    effect = (first.value - second.value) * (1.0 if higher else -1.0)
    n = first.n_units
    apart = replace(first, parts=first.parts - second.parts)
    chance = (_at_chance(first) + _at_chance(second)) / 2.0
    methods = METHODS + UNEVEN * max(apart.dispersion - EVEN, 0.0)
    variance = _variance(apart, chance, methods)
    if first.bounded:
        more = 2.0 if first.fixed else 1.0
        variance += more * (first.n_bags / n / first.size) ** 2
    error = math.sqrt(variance)
    groups = None if first.n_bags == n else n
    if np.isnan(effect + error) or unreliable(first.n_bags, groups):
        return Difference(effect, NAN, NAN, NAN, NAN, margin, error, n)
    if error == 0.0:  # identical predictions
        return Difference(effect, effect, effect, 1.0, 0.0, margin, error, n)
    df = min(first.df, second.df)
    half = float(stdtrit(df, 0.5 + level / 2)) * error
    p = float(2.0 * stdtr(df, -abs(effect) / error))
    same = float(stdtr(df, (abs(effect) - margin) / error))
    low, high = effect - half, effect + half
    return Difference(effect, low, high, p, same, margin, error, n)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return the adjusted p values of Holm (1979).

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
    adjusted = dict.fromkeys(p_values, NAN)
    running = 0.0
    for i, name in enumerate(sorted(tested, key=lambda key: tested[key])):
        running = max(running, min(1.0, (len(tested) - i) * tested[name]))
        adjusted[name] = running
    return adjusted


def bags_needed(found: Difference, n_bags: int, power: float = POWER) -> float:
    r"""Return how many bags a test needs to detect the observed difference.

    .. math:: n \left(\frac{(t_{0.975} + t_{\mathrm{power}}) s}{d}\right)^2

    for `n_bags` :math:`n`, the standard error :math:`s` and the effect :math:`d`.

    Parameters
    ----------
    found : Difference
        The observed difference.
    n_bags : int
        Bags it was observed on.
    power : float, default=0.8
        Probability with which the test detects the difference.

    Returns
    -------
    float
        A whole number; infinite without a difference, NaN without a test.
    """
    if np.isnan(found.p):
        return NAN
    if found.effect == 0:
        return math.inf
    return math.ceil(n_bags * (detectable(found, power) / abs(found.effect)) ** 2)


def detectable(found: Difference, power: float = POWER) -> float:
    """Return the difference that the test detects with this power.

    Parameters
    ----------
    found : Difference
        A comparison of two methods.
    power : float, default=0.8
        Probability of detecting it.
    """
    quantiles = stdtrit(found.n_units - 1, [0.5 + LEVEL / 2, power])
    return float(quantiles.sum()) * found.error


# Selection ----------------------------------------------------------------------------


def selected(
    found: Mapping[str, Contributions],
    *,
    reported: Mapping[str, Contributions] | None = None,
    higher: bool = True,
    low: float = 0.0,
    high: float = 1.0,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Winner:
    """Return the best method, and its figure without the bias of selecting it.

    Bootstrap bias corrected cross-validation (Tsamardinos et al., 2018): select the
    best method on a bootstrap sample of the units, take its figure on the units that
    are not in the sample, and average over samples. Figures of samples are computed
    from contributions, to first order. The bootstrap varies bags, not training sets:
    the bias that it finds is multiplied by the ratio of the standard error of the
    figure to that for given models.

    Parameters
    ----------
    found : dict of str to Contributions
        The same figure of several methods.
    reported : dict of str to Contributions, optional
        Another figure of these methods, such as that of groups, of which larger is
        better; it is the one that is returned. Its units are among those of `found`, by
        name.
    higher : bool, default=True
        Whether larger is better.
    low, high : float
        Range of the figure, see `interval`.
    n_resamples, seed : int
        Number of bootstrap samples, and their random seed.

    Returns
    -------
    Winner
        If several methods are equal, the first one is selected.
    """
    names = list(found)
    values = np.array([found[name].value for name in names])
    sign = 1.0 if higher else -1.0
    better = sign if reported is None else 1.0
    reported = found if reported is None else reported
    best = names[int(np.argmax(sign * values))]
    own = reported[best]
    uncorrected = interval(own, low=low, high=high)
    n = found[best].n_units
    if n < 2 or len(names) < 2:
        return Winner(best, uncorrected, uncorrected, {best: 1.0})
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, np.full(n, 1.0 / n), size=n_resamples)
    inside = np.column_stack([found[name].totals for name in names])
    picks = np.argmax(sign * (values + counts @ inside), axis=1)
    left = counts[:, np.searchsorted(found[best].names, own.names)] == 0
    outside = np.column_stack([reported[name].totals for name in names])
    share = np.maximum(left.mean(axis=1), 1.0 / own.n_units)[:, None]
    figures = [reported[name].value for name in names] + left @ outside / share
    bias = own.value - float(figures[np.arange(n_resamples), picks].mean())
    bias = better * max(better * bias, 0.0)  # selection makes no metric worse
    known = math.sqrt(_of_models(own))
    bias *= standard_error(own) / known if known > 0.0 else 1.0
    figure = float(np.clip(own.value - bias, low, high))
    corrected = interval(replace(own, value=figure), low=low, high=high)
    shares = (np.bincount(picks, minlength=len(names)) / n_resamples).tolist()
    return Winner(best, corrected, uncorrected, dict(zip(names, shares, strict=True)))
