"""Simulated bags with real values, or with times until an event."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.utils import check_random_state

from bagwise.bags import Bags, Ragged
from bagwise.base.survival import survival_target
from bagwise.datasets._generators import (
    IntRange,
    check_count,
    check_range,
    offsets_of,
    random_sizes,
)

_KINDS = ("prime", "mean", "distribution")


def make_regression_bags(
    n_bags: int = 100,
    *,
    kind: str = "prime",
    n_features: int = 8,
    bag_size: IntRange = (4, 10),
    noise: float = 0.1,
    random_state: Any = None,
    return_instance_values: bool = False,
) -> tuple[Any, ...]:
    r"""Make bags whose value is that of one instance, of all, or of their spread.

    Instances are standard normal around a center of their bag (half as wide), and have
    the value :math:`v(x) = w'x` with :math:`|w| = 1`. The value of a bag is

    - ``"prime"``: the largest :math:`v(x)`, that of its prime instance;
    - ``"mean"``: the mean of :math:`v(x)`;
    - ``"distribution"``: the log of the spread of its instances along :math:`w`, which
      differs between bags about which the mean contains no information,

    and noise with standard deviation `noise`.

    Parameters
    ----------
    n_bags : int, default=100
        Number of bags.
    kind : {"prime", "mean", "distribution"}, default="prime"
        What determines the value of a bag.
    n_features : int, default=8
        Number of features.
    bag_size : int or pair of int, default=(4, 10)
        Smallest and largest bag.
    noise : float, default=0.1
        Standard deviation of the noise on y.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    return_instance_values : bool, default=False
        Whether to return :math:`v(x)` as well.

    Returns
    -------
    X : Bags
        The bags.
    y : ndarray of shape (n_bags,)
        The values.
    values : Ragged
        The value of each instance. Only with `return_instance_values`.

    Examples
    --------
    >>> from bagwise.datasets import make_regression_bags
    >>> X, y = make_regression_bags(20, kind="mean", random_state=0)
    >>> X.n_bags, y.dtype
    (20, dtype('float64'))
    """
    n_bags = check_count(n_bags, "n_bags")
    n_features = check_count(n_features, "n_features")
    if kind not in _KINDS:
        known = ", ".join(repr(k) for k in _KINDS)
        raise ValueError(f"kind must be one of {known}, got {kind!r}.")
    rng = check_random_state(random_state)
    sizes = random_sizes(n_bags, check_range(bag_size, "bag_size"), rng)
    offsets = offsets_of(sizes)
    direction = rng.normal(size=n_features)
    direction /= np.linalg.norm(direction)
    owner = np.repeat(np.arange(n_bags), sizes)
    rows = rng.normal(size=(offsets[-1], n_features))
    rows += 0.5 * rng.normal(size=(n_bags, n_features))[owner]
    level = rng.uniform(-1.0, 1.0, size=n_bags)
    if kind == "distribution":
        stretch = np.exp(level)[owner] - 1.0
        rows += np.outer(stretch * (rows @ direction), direction)
    values = rows @ direction
    if kind == "prime":
        y = np.maximum.reduceat(values, offsets[:-1])
    elif kind == "mean":
        y = np.add.reduceat(values, offsets[:-1]) / sizes
    else:
        y = level
    y = y + noise * rng.normal(size=n_bags)
    X = Bags(rows, offsets)
    return (X, y, Ragged(values, offsets)) if return_instance_values else (X, y)


def make_survival_bags(
    n_bags: int = 100,
    *,
    kind: str = "mean",
    n_features: int = 8,
    bag_size: IntRange = (4, 10),
    strength: float = 2.0,
    censored: float = 0.3,
    random_state: Any = None,
    return_risk: bool = False,
) -> tuple[Any, ...]:
    r"""Make bags with times of events whose true risk is known.

    The risk of a bag is its value in `make_regression_bags` without noise, shifted and
    scaled to mean zero and standard deviation `strength`. Times are exponential,
    :math:`P(T > t) = \exp(-t e^{r})` with :math:`r` the risk, and so are the times of
    censoring, with one rate for all bags.

    Parameters
    ----------
    n_bags : int, default=100
        Number of bags.
    kind : {"prime", "mean", "distribution"}, default="mean"
        What determines the risk of a bag.
    n_features : int, default=8
        Number of features.
    bag_size : int or pair of int, default=(4, 10)
        Smallest and largest bag.
    strength : float, default=2.0
        Standard deviation of the risk.
    censored : float, default=0.3
        Expected share of bags whose event is not observed; from 0 to below 1.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    return_risk : bool, default=False
        Whether to return the true risk as well.

    Returns
    -------
    X : Bags
        The bags.
    y : structured array of shape (n_bags,)
        The fields `event` and `time`.
    risk : ndarray of shape (n_bags,)
        The true risk. Only with `return_risk`.

    Examples
    --------
    >>> from bagwise.datasets import make_survival_bags
    >>> X, y = make_survival_bags(20, random_state=0)
    >>> X.n_bags, y.dtype.names
    (20, ('event', 'time'))
    """
    if not 0.0 <= censored < 1.0:
        raise ValueError(f"censored must be from 0 to below 1, got {censored}.")
    rng = check_random_state(random_state)
    X, value = make_regression_bags(
        n_bags,
        kind=kind,
        n_features=n_features,
        bag_size=bag_size,
        noise=0.0,
        random_state=rng,
    )
    spread = value.std() or 1.0
    risk = strength * (value - value.mean()) / spread
    time = rng.exponential(size=n_bags) * np.exp(-risk)
    last = rng.exponential(size=n_bags)
    seen = np.ones(n_bags, dtype=bool)
    if censored > 0:
        # Bag i is censored with probability c / (c + exp(r_i)): find the rate c.
        ends = risk.min() - 20.0, risk.max() + 20.0
        log_rate = brentq(
            lambda s: np.mean(1.0 / (1.0 + np.exp(risk - s))) - censored, *ends
        )
        last = last * np.exp(-log_rate)
        seen = time <= last
        seen[np.argmin(time)] = True  # at least one event
        time = np.where(seen, time, last)
    y = survival_target(seen, time)
    return (X, y, risk) if return_risk else (X, y)
