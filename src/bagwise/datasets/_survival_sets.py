"""Artificial bags with times until an event."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.utils import check_random_state

from bagwise.base import survival_target
from bagwise.datasets._build import IntRange
from bagwise.datasets._regression_sets import make_regression_bags

__all__ = ["make_survival_bags"]


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

    The risk of a bag is its value in `make_regression_bags` without noise, brought to
    mean zero and standard deviation `strength`. Times are exponential,
    :math:`P(T > t) = \exp(-t e^{r})` with :math:`r` the risk, and so are the times of
    censoring, with one rate for all bags.

    Parameters
    ----------
    n_bags : int, default=100
        Number of bags.
    kind : {"prime", "mean", "distribution"}, default="mean"
        What makes the risk of a bag.
    n_features : int, default=8
        Number of features.
    bag_size : int or pair of int, default=(4, 10)
        Smallest and largest bag.
    strength : float, default=2.0
        Standard deviation of the risk.
    censored : float, default=0.3
        Share of bags, on average, whose event is not seen; from 0 to below 1.
    random_state : int, RandomState instance or None, default=None
        Fixes the draw.
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
        seen[np.argmin(time)] = True  # one event at least
        time = np.where(seen, time, last)
    y = survival_target(seen, time)
    return (X, y, risk) if return_risk else (X, y)
