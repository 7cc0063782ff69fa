"""Bags of handwritten digits, from the images that scikit-learn ships."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch, check_random_state

from bagwise.bags import Bags, Ragged
from bagwise.datasets._generators import (
    IntRange,
    balanced_labels,
    check_count,
    check_range,
    offsets_of,
    random_sizes,
)

_DESCR = """Bags of handwritten digits
--------------------------
Instances are 8 x 8 gray images of digits (the test part of the UCI "Optical
Recognition of Handwritten Digits" data, as shipped with scikit-learn). A bag is
positive if and only if it contains an image of {digits}.

Bags {n_bags}, positive {n_positive}, instances {n_instances}, features 64 (pixels
divided by 16), sizes {low} to {high}, positive images in a positive bag {w_low} to
{w_high}.
"""


class _Pool:
    """Images that are taken in random order, each once before any is reused."""

    def __init__(self, rows: npt.NDArray[Any], rng: np.random.RandomState) -> None:
        self._rows, self._rng = rows, rng
        self._left: list[int] = []

    def take(self, count: int) -> list[int]:
        taken: list[int] = []
        while len(taken) < count:
            if not self._left:
                self._left = self._rng.permutation(self._rows).tolist()
            taken.append(self._left.pop())
        return taken


def load_digit_bags(
    n_bags: int = 120,
    *,
    target: str = "class",
    positive: int | Iterable[int] = 9,
    bag_size: IntRange = (6, 14),
    n_witnesses: IntRange = (1, 2),
    random_state: Any = 0,
    return_X_y: bool = False,
) -> Any:
    """Load bags of digit images, with classes or with real values.

    With ``target="class"`` a bag is positive if and only if it contains
    one of the digits `positive`.

    The images are those of :func:`sklearn.datasets.load_digits`, so nothing is
    downloaded. Half the bags (one less for odd `n_bags`) are positive. The size of a
    bag is uniform on `bag_size`; a positive bag contains a number of positive images
    uniform on `n_witnesses` (never more than its size), all other images show other
    digits. Images are sampled without replacement while they last (1,797 in all, about
    180 of each digit), so that with the defaults no image is in two bags and a
    cross-validation does not test on images it trained on.

    With another `target` the images of a bag are sampled uniformly from all digits, and
    its value is the largest digit, the mean digit, or how many images show a chosen
    one.

    Parameters
    ----------
    n_bags : int, default=120
        Number of bags, at least 2.
    target : {"class", "max", "mean", "count"}, default="class"
        What y is.
    positive : int or iterable of int, default=9
        The digit, or digits, that make a bag positive, or that are counted.
    bag_size : int or pair of int, default=(6, 14)
        Smallest and largest number of images per bag.
    n_witnesses : int or pair of int, default=(1, 2)
        Smallest and largest number of positive images in a positive bag.
    random_state : int, RandomState instance or None, default=0
        Random seed.
    return_X_y : bool, default=False
        Return ``(X, y)`` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        X : Bags
            64 features, the pixels divided by 16.
        y : ndarray of shape (n_bags,)
            0 or 1, or real values.
        instance_labels : Ragged
            1 for an image of a positive digit, otherwise 0 (classes only).
        digits : Ragged
            The digit each image shows.
        images : ndarray of shape (n_instances, 8, 8)
            The images, gray levels 0 to 16, in the order of ``X.data``.
        target_names : list of str
            Names of the labels 0 and 1 (classes only).
        DESCR : str
            Description.

    Examples
    --------
    >>> from bagwise.datasets import load_digit_bags
    >>> digits = load_digit_bags(40, positive=3)
    >>> digits.X.n_bags, digits.X.n_features, int(digits.y.sum())
    (40, 64, 20)
    """
    from sklearn.datasets import load_digits

    n_bags = check_count(n_bags, "n_bags", least=2)
    chosen = _check_digits(positive)
    size_range = check_range(bag_size, "bag_size")
    witness_range = check_range(n_witnesses, "n_witnesses")
    rng = check_random_state(random_state)

    if target != "class":
        return _with_values(n_bags, target, chosen, size_range, rng, return_X_y)
    source = load_digits()
    is_positive = np.isin(source.target, chosen)
    witnesses = _Pool(np.flatnonzero(is_positive), rng)
    others = _Pool(np.flatnonzero(~is_positive), rng)
    y: npt.NDArray[Any] = balanced_labels(n_bags, 2, rng)
    sizes = random_sizes(n_bags, size_range, rng)
    counts = np.minimum(random_sizes(n_bags, witness_range, rng), sizes) * y
    rows = np.concatenate(
        [
            rng.permutation(witnesses.take(int(k)) + others.take(int(size - k)))
            for size, k in zip(sizes, counts, strict=True)
        ]
    ).astype(np.int64)

    offsets = offsets_of(sizes)
    names = [f"pixel_{i}_{j}" for i in range(8) for j in range(8)]
    X = Bags(source.data[rows] / 16.0, offsets, feature_names=names)
    if return_X_y:
        return X, y
    shown = " or ".join(str(d) for d in chosen)
    return Bunch(
        X=X,
        y=y,
        instance_labels=Ragged(is_positive[rows].astype(np.int64), offsets),
        digits=Ragged(source.target[rows].astype(np.int64), offsets),
        images=source.images[rows],
        target_names=[f"no {shown}", f"contains {shown}"],
        DESCR=_DESCR.format(
            digits=shown,
            n_bags=n_bags,
            n_positive=int(y.sum()),
            n_instances=X.n_instances,
            low=size_range[0],
            high=size_range[1],
            w_low=witness_range[0],
            w_high=witness_range[1],
        ),
    )


_TARGETS = {
    "max": ("the largest digit", lambda digits, chosen: digits.max()),
    "mean": ("the mean digit", lambda digits, chosen: digits.mean()),
    "count": (
        "the number of {shown}",
        lambda digits, chosen: np.isin(digits, chosen).sum(),
    ),
}


def _with_values(
    n_bags: int,
    target: str,
    chosen: list[int],
    size_range: tuple[int, int],
    rng: np.random.RandomState,
    return_X_y: bool,
) -> Any:
    """Sample bags uniformly from all images, with a real value per bag."""
    from sklearn.datasets import load_digits

    if target not in _TARGETS:
        known = ", ".join(repr(name) for name in ("class", *_TARGETS))
        raise ValueError(f"target must be one of {known}, got {target!r}.")
    source = load_digits()
    sizes = random_sizes(n_bags, size_range, rng)
    pool = _Pool(np.arange(len(source.target)), rng)
    rows = np.concatenate([pool.take(int(size)) for size in sizes]).astype(np.int64)
    offsets = offsets_of(sizes)
    title, value = _TARGETS[target]
    digits = np.split(source.target[rows], offsets[1:-1])
    y = np.array([float(value(bag, chosen)) for bag in digits])
    names = [f"pixel_{i}_{j}" for i in range(8) for j in range(8)]
    X = Bags(source.data[rows] / 16.0, offsets, feature_names=names)
    if return_X_y:
        return X, y
    shown = " or ".join(str(d) for d in chosen)
    return Bunch(
        X=X,
        y=y,
        digits=Ragged(source.target[rows].astype(np.int64), offsets),
        images=source.images[rows],
        target_name=title.format(shown=shown),
        DESCR=f"Bags of handwritten digits; y is {title.format(shown=shown)}.",
    )


def _check_digits(positive: Any) -> list[int]:
    values = [positive] if isinstance(positive, Integral) else list(positive)
    known = all(isinstance(v, Integral) and int(v) in range(10) for v in values)
    if not known or not 1 <= len(set(values)) <= 9:
        raise ValueError(
            f"positive must be one to nine different digits from 0 to 9, got "
            f"{positive!r}."
        )
    return sorted({int(v) for v in values})
