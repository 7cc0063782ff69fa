"""Simulated data sets of published papers, as exactly as the papers describe them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from bagwise.datasets._generators import balanced_labels, check_count, finish

_Array = npt.NDArray[np.float64]

# SAFE, Figure 2: the axes are 1..3 by 3..5.5 (toy 1) and 1..3 by 3..6 (toy 2).
_TOY1_CENTRES = np.array([[2.4, 4.7], [1.6, 3.9]])
_TOY1_NOISE = 0.26
_TOY2_CENTRES = np.array([[2.0, 3.75], [2.0, 5.25]])
_TOY2_NOISE = 0.2
_TOY2_OFFSET = 0.22


def make_safe_toy(
    variant: int = 1,
    n_bags: int = 100,
    *,
    bag_size: int = 5,
    random_state: Any = None,
    return_instance_labels: bool = False,
) -> tuple[Any, ...]:
    r"""Make toy data set 1 or 2 of the SAFE paper.

    Both are two-dimensional with 100 bags of 5 instances ([1]_, Section 4), half of
    the bags positive.

    Variant 1: the instances of positive bags are :math:`N((1.6, 3.9), \sigma^2 I)`,
    those of negative bags :math:`N((2.4, 4.7), \sigma^2 I)`, :math:`\sigma = 0.26`.
    Clusters of instances and classes of bags are the same thing.

    Variant 2: an instance belongs to one of two clusters with equal probability,
    independently of the label of its bag, and is

    .. math:: x = m_k \pm (0.22, 0) + \sigma \varepsilon, \quad
              m_1 = (2, 3.75), \; m_2 = (2, 5.25), \; \sigma = 0.2

    with the sign of the bag's label and standard normal :math:`\varepsilon`. Each
    cluster contains instances of both classes: a clustering has no information about
    the label, and the best classifier of bags of five reaches the accuracy
    :math:`\Phi(\sqrt 5 \cdot 1.1) = 0.9930`.

    Parameters
    ----------
    variant : {1, 2}, default=1
        Which toy data set.
    n_bags : int, default=100
        Number of bags.
    bag_size : int, default=5
        Instances in every bag.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    return_instance_labels : bool, default=False
        Return also the cluster (0 or 1) of each instance.

    Returns
    -------
    X : Bags
        The bags.
    y : ndarray of shape (n_bags,)
        0 or 1.
    z : Ragged
        The cluster of each instance. Only when `return_instance_labels`.

    Notes
    -----
    Differs from [1]_: the paper gives sizes and a scatter plot but no parameters.
    Centers were chosen to fit the axes of its Figure 2, and the standard deviations
    to fit its Table 2: in variant 1, 1.5 % of the instances lie on the wrong side
    (adjusted Rand index 0.94); in variant 2 clusters hardly overlap while
    an accuracy of 99 % is just possible.

    References
    ----------
    .. [1] Langone, R., Suykens, J. A. K., "Supervised aggregated feature learning for
       multiple instance classification", Information Sciences 375, 2017.

    Examples
    --------
    >>> from bagwise.datasets import make_safe_toy
    >>> X, y = make_safe_toy(2, random_state=0)
    >>> X
    Bags(n_bags=100, n_instances=500, n_features=2, sizes 5/5/5 (min/median/max))
    """
    if variant not in (1, 2):
        raise ValueError(f"variant must be 1 or 2, got {variant!r}.")
    n_bags = check_count(n_bags, "n_bags", least=2)
    size = check_count(bag_size, "bag_size")
    rng = check_random_state(random_state)
    y = balanced_labels(n_bags, 2, rng)
    label = np.repeat(y, size)
    noise = rng.standard_normal((n_bags * size, 2))
    if variant == 1:
        cluster = label
        data = _TOY1_CENTRES[label] + _TOY1_NOISE * noise
    else:
        cluster = rng.randint(2, size=label.size)
        data = _TOY2_CENTRES[cluster] + _TOY2_NOISE * noise
        data[:, 0] += _TOY2_OFFSET * (2 * label - 1)
    return finish(
        np.split(data, n_bags), y, np.split(cluster, n_bags), return_instance_labels
    )


def make_multi_site_binding(
    n_bags: int = 200,
    *,
    variant: str = "A",
    n_features: int = 5,
    n_sites: int = 4,
    random_state: Any = None,
    return_instance_labels: bool = False,
) -> tuple[Any, ...]:
    r"""Make artificial molecules that must bind at every site of a receptor.

    A receptor has :math:`k` = `n_sites` subtargets :math:`t`, uniform on the unit
    cube of dimension :math:`d` = `n_features`. The energy with which an instance
    :math:`x` binds to :math:`t` is a Lennard-Jones (12-6) well in every feature, 1 at
    :math:`x = t` and 0 where the two clash:

    .. math::
        E(x, t) = \frac 1 d \sum_{j=1}^d 4 (q_j - q_j^2), \quad
        q_j = (\sigma / u_j)^6, \quad
        u_j = \max(\sigma, \; 2^{1/6} \sigma + t_j - x_j)

    A subtarget is bound if some instance of the bag has :math:`E \geq 1/2`; the bag
    is positive if and only if all :math:`k` subtargets are bound.

    Variant A, as described in the paper: every bag has 3 to 5 instances, uniform on the
    cube, and :math:`\sigma` is set by bisection so that half the bags are positive.

    Variant B, planted: :math:`\sigma = 0.5` and bags have :math:`k` to :math:`k + 2`
    instances. A positive bag has one instance near each subtarget, at an offset
    uniform on [-0.16, 0.06] in every feature, sampled until it binds. A negative bag
    has such instances for a random set of 0 to :math:`k - 1` subtargets. All other
    instances are uniform; a bag that gets the other label is sampled again. Half
    the bags are positive.

    Parameters
    ----------
    n_bags : int, default=200
        Number of bags.
    variant : {"A", "B"}, default="A"
        How the bags are simulated.
    n_features : int, default=5
        Dimension :math:`d`.
    n_sites : int, default=4
        Number of subtargets :math:`k`.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    return_instance_labels : bool, default=False
        Return also 1 for the instances that bind to some subtarget, otherwise 0.

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
    Differs from [1]_: the generator of the paper (after [2]_) and its parameters were
    not published; energy, widths and both variants are a reconstruction, so that
    errors on these sets cannot be compared with the paper's. Training and test set of
    one receptor are two parts of one sample.

    References
    ----------
    .. [1] Tao, Q., Scott, S., Vinodchandran, N. V., Osugi, T. T., "SVM-based
       generalized multiple-instance learning via approximate box counting",
       ICML 2004.
    .. [2] Dooly, D. R., Zhang, Q., Goldman, S. A., Amar, R. A., "Multiple-instance
       learning of real-valued data", Journal of Machine Learning Research 3, 2002.

    Examples
    --------
    >>> from bagwise.datasets import make_multi_site_binding
    >>> X, y = make_multi_site_binding(40, variant="B", random_state=0)
    >>> X.n_bags, X.n_features, int(y.sum())
    (40, 5, 20)
    """
    if variant not in ("A", "B"):
        raise ValueError(f"variant must be 'A' or 'B', got {variant!r}.")
    n_bags = check_count(n_bags, "n_bags", least=2)
    d = check_count(n_features, "n_features")
    k = check_count(n_sites, "n_sites")
    rng = check_random_state(random_state)
    sites = rng.uniform(size=(k, d))
    if variant == "A":
        bags, sigma = _uniform_molecules(n_bags, sites, rng)
        y = np.array([_binds_all(bag, sites, sigma) for bag in bags], dtype=np.int64)
    else:
        sigma = 0.5
        y = balanced_labels(n_bags, 2, rng)
        bags = [_planted_molecule(bool(label), sites, sigma, rng) for label in y]
    z = [
        (binding_energy(bag, sites, sigma) >= 0.5).any(axis=1).astype(np.int64)
        for bag in bags
    ]
    return finish(bags, y, z, return_instance_labels)


def binding_energy(x: _Array, sites: _Array, sigma: float) -> _Array:
    """Return the energy of each instance (row) to each subtarget (column)."""
    u = np.maximum(sigma, 2 ** (1 / 6) * sigma + sites[None] - x[:, None])
    q = (sigma / u) ** 6
    energy: _Array = (4.0 * (q - q * q)).mean(axis=2)
    return energy


def _binds_all(bag: _Array, sites: _Array, sigma: float) -> bool:
    return bool((binding_energy(bag, sites, sigma).max(axis=0) >= 0.5).all())


def _uniform_molecules(
    n_bags: int, sites: _Array, rng: np.random.RandomState
) -> tuple[list[_Array], float]:
    """Simulate variant A, and find the width at which half the bags bind."""
    sizes = rng.randint(3, 6, size=n_bags)
    bags = [rng.uniform(size=(size, sites.shape[1])) for size in sizes]
    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = np.sqrt(low * high)
        bound = sum(_binds_all(bag, sites, middle) for bag in bags)
        if 2 * bound >= n_bags:
            high = middle
        else:
            low = middle
        if high / low < 1 + 1e-9:
            break
    return bags, float(high)


def _planted_molecule(
    positive: bool, sites: _Array, sigma: float, rng: np.random.RandomState
) -> _Array:
    k, d = sites.shape
    while True:
        size = rng.randint(k, k + 3)
        n_planted = k if positive else rng.randint(k)
        planted = [
            _near(site, sigma, rng) for site in sites[rng.permutation(k)[:n_planted]]
        ]
        bag = np.vstack([*planted, rng.uniform(size=(size - n_planted, d))])
        if _binds_all(bag, sites, sigma) == positive:
            shuffled: _Array = rng.permutation(bag)
            return shuffled


def _near(site: _Array, sigma: float, rng: np.random.RandomState) -> _Array:
    while True:
        x = site + rng.uniform(-0.16, 0.06, size=site.size)
        if binding_energy(x[None], site[None], sigma)[0, 0] >= 0.5:
            return x
