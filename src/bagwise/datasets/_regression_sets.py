"""Artificial bags with real values."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from bagwise.bags import Bags, Ragged
from bagwise.datasets._build import (
    IntRange,
    check_count,
    check_range,
    draw_sizes,
    offsets_of,
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

    Instances are standard normal around a centre of their bag (half as wide), and have
    the value :math:`v(x) = w'x` with :math:`|w| = 1`. The value of a bag is

    - ``"prime"``: the largest :math:`v(x)`, that of its prime instance;
    - ``"mean"``: the mean of :math:`v(x)`;
    - ``"distribution"``: the log of the spread of its instances along :math:`w`, which
      differs from bag to bag and which no mean can tell,

    and noise with standard deviation `noise`.

    Parameters
    ----------
    n_bags : int, default=100
        Number of bags.
    kind : {"prime", "mean", "distribution"}, default="prime"
        What makes the value of a bag.
    n_features : int, default=8
        Number of features.
    bag_size : int or pair of int, default=(4, 10)
        Smallest and largest bag.
    noise : float, default=0.1
        Standard deviation of the noise on y.
    random_state : int, RandomState instance or None, default=None
        Fixes the draw.
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
    sizes = draw_sizes(n_bags, check_range(bag_size, "bag_size"), rng)
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
