"""The papers' artificial data sets, simulated by name and seed.

A name is ``safe-toy-1``, ``safe-toy-2``, ``safe-toy-2-5000`` (so many instances, a
tenth for training) or ``binding-5``; ``safe-toy-1:3`` is the same set simulated with
seed 3. A known set whose name ends with `SCALED` has features between 0 and 1 over
all of its bags, test bags included.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from sklearn.preprocessing import minmax_scale
from sklearn.utils import Bunch, check_random_state

from bagwise.bags import Bags, Ragged
from bagwise.comparison.problem import as_problem
from bagwise.datasets import make_multi_site_binding, make_safe_toy

__all__ = ["SCALED", "is_simulated", "make_midr_example", "simulate", "training_bags"]

_TOY = re.compile(r"safe-toy-([12])(?:-(\d+))?")
_BINDING = re.compile(r"binding-(\d+)")
SCALED = ", scaled on all bags"
BAG_SIZE = 5
MAX_TRAINING_INSTANCES = 5_000
BINDING_BAGS = 200


def is_simulated(name: str) -> bool:
    """Return whether a name, with or without a seed, is that of a set made here."""
    base = name.partition(":")[0]
    return bool(_TOY.fullmatch(base) or _BINDING.fullmatch(base)) or name.endswith(
        SCALED
    )


def training_bags(name: str) -> int | None:
    """Return how many bags come first for training; None for cross-validation.

    Examples
    --------
    >>> training_bags("safe-toy-2-5000"), training_bags("binding-10")
    (100, 200)
    """
    base = name.partition(":")[0]
    if _BINDING.fullmatch(base):
        return BINDING_BAGS
    match = _TOY.fullmatch(base)
    if match is None or match[2] is None:
        return None
    return min(int(match[2]) // 10, MAX_TRAINING_INSTANCES) // BAG_SIZE


def simulate(name: str, *, seed: int = 0) -> Bunch:
    """Simulate an artificial data set.

    Parameters
    ----------
    name : str
        See the module; a seed after a colon takes precedence over `seed`.
    seed : int, default=0
        Random seed.

    Returns
    -------
    Bunch
        `X`, `y`, `instance_labels` and `name`, which includes the seed.

    Examples
    --------
    >>> simulate("binding-5:1").X.shape
    (400,)
    """
    if name.endswith(SCALED):
        known = as_problem(name.removesuffix(SCALED))
        rows = minmax_scale(known.X.data)
        return Bunch(X=Bags(rows, known.X.offsets), y=known.y, name=name)
    base, _, tail = name.partition(":")
    if tail:
        try:
            seed = int(tail)
        except ValueError:
            raise ValueError(f"the seed of {name!r} must be an integer") from None
    title = f"{base}:{seed}"
    match = _TOY.fullmatch(base)
    if match is not None:
        return _toy(title, int(match[1]), match[2], seed)
    match = _BINDING.fullmatch(base)
    if match is None:
        raise ValueError(
            f"unknown artificial set {name!r}; known: safe-toy-1, safe-toy-2,"
            " safe-toy-2-N, binding-D"
        )
    return _binding(title, int(match[1]), seed)


def _toy(title: str, variant: int, total: str | None, seed: int) -> Bunch:
    def part(n_bags: int, state: int) -> tuple[Bags, np.ndarray, np.ndarray]:
        X, y, z = make_safe_toy(
            variant,
            n_bags,
            bag_size=BAG_SIZE,
            random_state=state,
            return_instance_labels=True,
        )
        return Bags(X.data, X.offsets), y, np.asarray(z.values)

    if total is None:
        X, y, z = part(100, seed)
        return _bunch(title, X, y, z)
    # Training and test bags are simulated separately, so that both are balanced.
    n_train = training_bags(f"safe-toy-{variant}-{total}")
    n_test = int(total) // BAG_SIZE - (n_train or 0)
    if not n_train or n_train < 4:
        raise ValueError(f"{title!r} needs at least 200 instances")
    parts = [part(n_train, 2 * seed), part(n_test, 2 * seed + 1)]
    X = Bags.concatenate([one[0] for one in parts])
    y = np.concatenate([one[1] for one in parts])
    return _bunch(title, X, y, np.concatenate([one[2] for one in parts]))


def _binding(title: str, n_features: int, seed: int) -> Bunch:
    # Four subtargets in five dimensions, five in more (Tao et al. 2004, Section 6.3).
    X, y, z = make_multi_site_binding(
        2 * BINDING_BAGS,
        variant="A",
        n_features=n_features,
        n_sites=4 if n_features <= 5 else 5,
        random_state=seed,
        return_instance_labels=True,
    )
    return _bunch(title, X, y, np.asarray(z.values))


def _bunch(name: str, X: Bags, y: Any, labels: Any) -> Bunch:
    return Bunch(X=X, y=y, instance_labels=labels, name=name)


def make_midr_example(
    n_bags: int = 20,
    *,
    bag_size: int = 5,
    random_state: Any = None,
    return_instance_labels: bool = False,
) -> tuple[Any, ...]:
    r"""Make a two-dimensional set where only the second axis separates the bags.

    It has the properties that Figure 2 of [1]_ shows: principal components follow the
    first axis because most variance lies there; linear discriminant analysis with
    instances labeled as their bag is misled to the first axis by the negative
    instances of positive bags; reducing to the second axis separates the key
    instances from all others. With :math:`m` = `bag_size` and normal noise
    :math:`\varepsilon_1, \varepsilon_2` of standard deviations 1 and 0.4, an instance
    of bag :math:`i` is

    .. math::
        x = (c_i + \varepsilon_1, \; h + \varepsilon_2), \quad
        c_i \sim N(\pm 1, 1.5^2), \quad
        h = \begin{cases} 2.5 & \text{key instance of a positive bag} \\
        -2.5 / (m - 1) & \text{other instance of a positive bag} \\
        0 & \text{instance of a negative bag} \end{cases}

    with the sign of the bag's label. Every positive bag has exactly one key instance.
    The mean of the second feature is 0 in both classes, which is what hides it from
    an analysis that ignores bags.

    Parameters
    ----------
    n_bags : int, default=20
        Number of bags, half of them positive.
    bag_size : int, default=5
        Instances in every bag, at least 2.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    return_instance_labels : bool, default=False
        Return also which instances are keys (1).

    Returns
    -------
    X : Bags
        The bags.
    y : ndarray of shape (n_bags,)
        0 or 1.
    z : Ragged
        The instance labels. Only when `return_instance_labels`.

    Notes
    -----
    Differs from [1]_: the paper shows a scatter plot and gives no numbers; this is a
    set with the same properties.

    References
    ----------
    .. [1] Sun, Y.-Y., Ng, M. K., Zhou, Z.-H., "Multi-instance dimensionality
       reduction", AAAI 2010.

    Examples
    --------
    >>> X, y, z = make_midr_example(random_state=0, return_instance_labels=True)
    >>> bool(X.data[z.values == 1, 1].min() > X.data[z.values == 0, 1].max())
    True
    """
    size = bag_size
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_bags, dtype=np.int64) % 2)
    bags, labels = [], []
    for label in y:
        z = np.zeros(size, dtype=np.int64)
        height = np.zeros(size)
        if label:
            z[rng.randint(size)] = 1
            height = np.where(z == 1, 2.5, -2.5 / (size - 1))
        center = rng.normal(2.0 * label - 1.0, 1.5)
        noise = rng.standard_normal((size, 2)) * [1.0, 0.4]
        bags.append(noise + np.column_stack([np.full(size, center), height]))
        labels.append(z)
    X = Bags.from_list(bags)
    if not return_instance_labels:
        return X, y
    return X, y, Ragged(np.concatenate(labels), X.offsets)
