"""Simulated bags of known concepts, and the steps that all generators share."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from bagwise.bags import Bags, Ragged

IntRange = int | tuple[int, int]


def make_bags(
    n_bags: int = 30,
    *,
    n_features: int = 5,
    n_classes: int = 2,
    bag_size: IntRange = (3, 8),
    n_witnesses: int = 1,
    shift: float = 4.0,
    random_state: Any = None,
    return_instance_labels: bool = False,
) -> tuple[Any, ...]:
    r"""Make small bags whose witness instances are shifted.

    Instances are standard normal. In a bag of class
    :math:`c \geq 1`, `n_witnesses` of them (never more than the bag has) are moved by

    .. math::
        s_c = \mathrm{shift} \cdot (-1)^{\lfloor (c - 1) / d \rfloor}
        \left(1 + \lfloor (c - 1) / 2d \rfloor\right) e_{(c - 1) \bmod d}

    where :math:`d` is `n_features` and :math:`e_j` is the unit vector of feature
    :math:`j`; class 1 is thus shifted up along the first feature. Bags of class 0
    contain no witness. Classes are as balanced as possible, sizes are uniform on
    `bag_size`, and the witnesses have random positions in their bag.

    Parameters
    ----------
    n_bags : int, default=30
        Number of bags.
    n_features : int, default=5
        Number of features :math:`d`.
    n_classes : int, default=2
        Number of classes, labeled 0, 1, ...
    bag_size : int or pair of int, default=(3, 8)
        Smallest and largest bag.
    n_witnesses : int, default=1
        Witness instances in a bag of class 1 or more.
    shift : float, default=4.0
        Shift of the witnesses, in standard deviations.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    return_instance_labels : bool, default=False
        Return also the class of each instance (0 for all but witnesses).

    Returns
    -------
    X : Bags
        The bags.
    y : ndarray of shape (n_bags,)
        The labels.
    z : Ragged
        The instance labels. Only when `return_instance_labels`.

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> X, y = make_bags(10, random_state=0)
    >>> X.n_bags, X.n_features, y.tolist().count(1)
    (10, 5, 5)
    """
    n_bags = check_count(n_bags, "n_bags")
    d = check_count(n_features, "n_features")
    n_classes = check_count(n_classes, "n_classes", least=2)
    n_witnesses = check_count(n_witnesses, "n_witnesses")
    size_range = check_range(bag_size, "bag_size")
    rng = check_random_state(random_state)
    y = balanced_labels(n_bags, n_classes, rng)
    bags, labels = [], []
    for c, size in zip(y, random_sizes(n_bags, size_range, rng), strict=True):
        bag = rng.standard_normal((size, d))
        z = np.zeros(size, dtype=np.int64)
        if c > 0:
            z[rng.permutation(size)[:n_witnesses]] = c
            turn, feature = divmod(int(c) - 1, d)
            bag[z > 0, feature] += shift * (-1) ** turn * (1 + turn // 2)
        bags.append(bag)
        labels.append(z)
    return finish(bags, y, labels, return_instance_labels)


def make_key_instance_bags(
    n_bags: int = 100,
    *,
    n_features: int = 10,
    n_background: int = 5,
    bag_size: IntRange = (5, 15),
    noise: float = 0.5,
    separation: float = 3.0,
    random_state: Any = None,
    return_instance_labels: bool = False,
) -> tuple[Any, ...]:
    r"""Make bags decided by exactly one key instance among distractors.

    There are `n_background` background centers :math:`m_1, m_2, \dots` sampled from
    the standard normal distribution, and one key center

    .. math:: m_0 = \bar m + \mathrm{separation} \cdot u

    where :math:`\bar m` is the mean of the background centers and :math:`u` is a
    random unit vector. An instance is its center plus normal noise of standard
    deviation `noise` in every feature. A positive bag contains exactly one instance of
    the key center, at a random place; all its other instances, and all instances of
    negative bags, belong to background centers chosen uniformly. Instances of
    positive and negative bags that are not keys thus have the same distribution, and
    a method has to find the key to be better than chance.

    Parameters
    ----------
    n_bags : int, default=100
        Number of bags; half of them are positive.
    n_features : int, default=10
        Number of features.
    n_background : int, default=5
        Number of background centers.
    bag_size : int or pair of int, default=(5, 15)
        Smallest and largest bag.
    noise : float, default=0.5
        Standard deviation around the centers.
    separation : float, default=3.0
        Distance of the key center from the middle of the background.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    return_instance_labels : bool, default=False
        Return also which instances are keys (1) and which are not (0).

    Returns
    -------
    X : Bags
        The bags.
    y : ndarray of shape (n_bags,)
        0 or 1.
    z : Ragged
        The instance labels. Only when `return_instance_labels`.

    Examples
    --------
    >>> from bagwise.datasets import make_key_instance_bags
    >>> X, y, z = make_key_instance_bags(
    ...     6, random_state=0, return_instance_labels=True
    ... )
    >>> [int(keys.sum()) for keys in z] == y.tolist()
    True
    """
    n_bags = check_count(n_bags, "n_bags", least=2)
    d = check_count(n_features, "n_features")
    n_background = check_count(n_background, "n_background")
    size_range = check_range(bag_size, "bag_size")
    rng = check_random_state(random_state)
    centers = rng.standard_normal((n_background, d))
    direction = rng.standard_normal(d)
    key = centers.mean(axis=0) + separation * direction / np.linalg.norm(direction)
    y = balanced_labels(n_bags, 2, rng)
    bags, labels = [], []
    for label, size in zip(y, random_sizes(n_bags, size_range, rng), strict=True):
        bag = centers[rng.randint(n_background, size=size)]
        z = np.zeros(size, dtype=np.int64)
        if label:
            z[rng.randint(size)] = 1
            bag[z == 1] = key
        bags.append(bag + noise * rng.standard_normal((size, d)))
        labels.append(z)
    return finish(bags, y, labels, return_instance_labels)


def make_generalized_bags(
    n_bags: int = 200,
    *,
    n_features: int = 2,
    n_attraction: int = 3,
    n_repulsion: int = 2,
    r: int | None = None,
    bag_size: IntRange = (3, 6),
    radius: float | None = None,
    random_state: Any = None,
    return_instance_labels: bool = False,
) -> tuple[Any, ...]:
    r"""Make bags of a generalized concept, r of k attraction and k' repulsion points.

    All points are uniform on the unit cube: the attraction points :math:`a_1, \dots,
    a_k`, the repulsion points :math:`b_1, \dots, b_{k'}` and the instances
    :math:`x` of every bag :math:`B`. The label is ([1]_, Section 3)

    .. math::
        y(B) = \Big[\, \sum_{i=1}^{k} [\min_{x \in B} \|x - a_i\|_\infty \leq \rho]
        + \sum_{j=1}^{k'} [\min_{x \in B} \|x - b_j\|_\infty > \rho] \geq r \,\Big]

    where :math:`k` is `n_attraction`, :math:`k'` is `n_repulsion`, :math:`r` is `r`
    and :math:`\rho` is `radius`. With :math:`r = 1` and :math:`k' = 0` this is the
    classic multi-instance concept, with :math:`r = k` and :math:`k' = 0` every
    attraction point has to be present.

    Parameters
    ----------
    n_bags : int, default=200
        Number of bags.
    n_features : int, default=2
        Number of features.
    n_attraction, n_repulsion : int, default=3, 2
        Number of attraction and of repulsion points.
    r : int, default=None
        Number of attributes that must be true; `n_attraction` by default.
    bag_size : int or pair of int, default=(3, 6)
        Smallest and largest bag.
    radius : float, default=None
        Distance up to which an instance is near a point. By default, among the radii at
        which a label changes, the one with a share of positive bags closest to 1/2.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    return_instance_labels : bool, default=False
        Return also 1 for the instances near an attraction point, otherwise 0.

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
    Differs from [1]_: the paper defines the model but no generator; uniform points,
    the maximum norm and the calibrated radius are choices made here.

    References
    ----------
    .. [1] Tao, Q., Scott, S., Vinodchandran, N. V., Osugi, T. T., "SVM-based
       generalized multiple-instance learning via approximate box counting",
       ICML 2004.

    Examples
    --------
    >>> from bagwise.datasets import make_generalized_bags
    >>> X, y = make_generalized_bags(100, random_state=0)
    >>> X.n_bags, int(y.sum())
    (100, 50)
    """
    n_bags = check_count(n_bags, "n_bags", least=2)
    d = check_count(n_features, "n_features")
    k = check_count(n_attraction, "n_attraction", least=0)
    k2 = check_count(n_repulsion, "n_repulsion", least=0)
    r = max(k, 1) if r is None else check_count(r, "r")
    if not 1 <= r <= k + k2:
        raise ValueError(
            f"r must lie between 1 and n_attraction + n_repulsion = {k + k2}, got {r}."
        )
    size_range = check_range(bag_size, "bag_size")
    rng = check_random_state(random_state)
    attraction, repulsion = rng.uniform(size=(k, d)), rng.uniform(size=(k2, d))
    sizes = random_sizes(n_bags, size_range, rng)
    bags = [rng.uniform(size=(size, d)) for size in sizes]
    near = [_chebyshev(bag, attraction) for bag in bags]
    attract = np.array([m.min(axis=0) for m in near])
    repel = np.array([_chebyshev(bag, repulsion).min(axis=0) for bag in bags])
    if radius is None:
        radius = _calibrate(attract, repel, r)
    y = _concept(attract, repel, r, radius).astype(np.int64)
    labels = [(m <= radius).any(axis=1).astype(np.int64) for m in near]
    return finish(bags, y, labels, return_instance_labels)


def _chebyshev(
    bag: npt.NDArray[np.float64], points: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    result: npt.NDArray[np.float64] = np.abs(bag[:, None, :] - points).max(axis=2)
    return result


def _concept(
    attract: npt.NDArray[np.float64],
    repel: npt.NDArray[np.float64],
    r: int,
    radius: float,
) -> npt.NDArray[np.bool_]:
    held = (attract <= radius).sum(axis=1) + (repel > radius).sum(axis=1)
    result: npt.NDArray[np.bool_] = held >= r
    return result


def _calibrate(
    attract: npt.NDArray[np.float64], repel: npt.NDArray[np.float64], r: int
) -> float:
    """Return the radius at which the share of positive bags is closest to half."""
    # Attributes, hence labels, change only where the radius passes a distance.
    distances = np.concatenate([attract.ravel(), repel.ravel()])
    change = np.concatenate([np.ones(attract.size), -np.ones(repel.size)])
    bag = np.concatenate(
        [np.repeat(np.arange(len(m)), m.shape[1]) for m in (attract, repel)]
    )
    held = np.full(len(attract), repel.shape[1])
    positive = int((held >= r).sum())
    best, best_gap = 0.0, abs(2 * positive - len(attract))
    for i in np.argsort(distances, kind="stable"):
        before = held[bag[i]] >= r
        held[bag[i]] += int(change[i])
        positive += int(held[bag[i]] >= r) - int(before)
        gap = abs(2 * positive - len(attract))
        if gap < best_gap:
            best, best_gap = float(distances[i]), gap
    return best


# Steps --------------------------------------------------------------------------------


def check_range(value: Any, name: str, *, least: int = 1) -> tuple[int, int]:
    """Return `value` (an int or a pair) as a pair of ints, both ends included."""
    pair = (value, value) if isinstance(value, Integral) else tuple(value)
    if len(pair) != 2 or not all(isinstance(v, Integral) for v in pair):
        raise ValueError(
            f"{name} must be an int or a pair of ints (smallest, largest), got "
            f"{value!r}."
        )
    low, high = int(pair[0]), int(pair[1])
    if low < least or high < low:
        raise ValueError(
            f"{name} must satisfy {least} <= smallest <= largest, got {value!r}."
        )
    return low, high


def check_count(value: Any, name: str, *, least: int = 1) -> int:
    """Return `value` as an int that is at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, got {value!r}.")
    return int(value)


def balanced_labels(
    n_bags: int, n_classes: int, rng: np.random.RandomState
) -> npt.NDArray[np.int64]:
    """Return labels 0..n_classes-1, as balanced as possible, in random order."""
    return rng.permutation(np.arange(n_bags, dtype=np.int64) % n_classes)


def random_sizes(
    n_bags: int, bag_size: tuple[int, int], rng: np.random.RandomState
) -> npt.NDArray[np.int64]:
    """Return one bag size per bag, uniform on the range."""
    low, high = bag_size
    return rng.randint(low, high + 1, size=n_bags).astype(np.int64)


def offsets_of(sizes: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the offsets of bags of these sizes."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def finish(
    bags: Sequence[npt.NDArray[Any]],
    y: npt.NDArray[Any],
    instance_labels: Sequence[npt.ArrayLike],
    return_instance_labels: bool,
) -> tuple[Any, ...]:
    """Stack the bags and return (X, y) or (X, y, instance labels)."""
    X = Bags.from_list(list(bags))
    if not return_instance_labels:
        return X, y
    z = np.concatenate([np.asarray(v) for v in instance_labels])
    return X, y, Ragged(z, X.offsets)
