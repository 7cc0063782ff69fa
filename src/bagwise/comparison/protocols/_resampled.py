"""Protocols that test every bag: folds, halves, one bag at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

from bagwise.base import bag_folds
from bagwise.comparison.protocols._base import (
    Groups,
    Indices,
    Protocol,
    at_least,
    is_discrete,
    sorted_pair,
)

__all__ = ["Halves", "KFold", "LeaveOneBagOut"]


def _folds(
    y: NDArray[Any], n_splits: int, state: int, groups: Groups
) -> list[tuple[Any, Any]]:
    # Real values that happen to be whole numbers are no classes: a table has none.
    table = y if is_discrete(y) or y.ndim == 2 else y[:, None]
    return bag_folds(np.zeros(len(y)), table, n_splits, state, groups=groups)


@dataclass(frozen=True)
class KFold(Protocol):
    """Stratified k-fold cross-validation, shuffled anew in each repeat.

    Parameters
    ----------
    n_splits : int, default=5
        Folds.
    n_repeats : int, default=1
        How often all bags are cut into folds.

    Examples
    --------
    >>> KFold(10, n_repeats=3).describe()
    '3 x 10-fold cross-validation'
    """

    n_splits: int = 5
    n_repeats: int = 1
    kind: ClassVar[str] = "kfold"

    def __post_init__(self) -> None:
        """Check the numbers."""
        at_least("KFold", 2, n_splits=self.n_splits)
        at_least("KFold", 1, n_repeats=self.n_repeats)

    def folds(self, n_bags: int, groups: Groups = None) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs."""
        return [(r, f) for r in range(self.n_repeats) for f in range(self.n_splits)]

    def split(
        self,
        y: NDArray[Any],
        repeat: int,
        fold: int,
        seed: int,
        groups: Groups = None,
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one fold."""
        state = 10_007 * seed + repeat
        return sorted_pair(*_folds(y, self.n_splits, state, groups)[fold])

    def describe(self) -> str:
        """Say in words how bags are split."""
        times = "" if self.n_repeats == 1 else f"{self.n_repeats} x "
        return f"{times}{self.n_splits}-fold cross-validation"

    def test_share(self, y: NDArray[Any]) -> float:
        """Return the number of test bags over that of training bags."""
        return 1.0 / (self.n_splits - 1)

    def once(self) -> KFold:
        """Return the protocol without its repeats."""
        return replace(self, n_repeats=1)

    def _smallest(
        self, y: NDArray[Any], counts: NDArray[Any], inner: int
    ) -> tuple[int, int]:
        need = self.n_splits
        if inner:  # a training fold must feed every inner fold
            need = max(need, int(np.ceil(inner * need / (need - 1))))
        return int(counts.min()), need


@dataclass(frozen=True)
class Halves(Protocol):
    """Random stratified halves: one for training, one for testing.

    Parameters
    ----------
    n_repeats : int, default=10
        How often the bags are cut in two.
    """

    n_repeats: int = 10
    kind: ClassVar[str] = "half"

    def __post_init__(self) -> None:
        """Check the number."""
        at_least("Halves", 1, n_repeats=self.n_repeats)

    @property
    def pooled(self) -> bool:
        """Whether results are per bag: with one half alone."""
        return self.n_repeats == 1

    def folds(self, n_bags: int, groups: Groups = None) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs."""
        return [(repeat, 0) for repeat in range(self.n_repeats)]

    def split(
        self,
        y: NDArray[Any],
        repeat: int,
        fold: int,
        seed: int,
        groups: Groups = None,
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one half split."""
        state = 10_007 * seed + repeat
        if groups is not None:
            return sorted_pair(*_folds(y, 2, state, groups)[0])
        kind = StratifiedShuffleSplit if is_discrete(y) else ShuffleSplit
        cut = kind(1, test_size=0.5, random_state=state)
        train, test = next(iter(cut.split(np.zeros((len(y), 1)), y)))
        return train.astype(np.int64), np.sort(test).astype(np.int64)

    def describe(self) -> str:
        """Say in words how bags are split."""
        if self.n_repeats == 1:
            return "one random half split"
        return f"{self.n_repeats} random half splits"

    def test_share(self, y: NDArray[Any]) -> float:
        """Return the number of test bags over that of training bags."""
        return 1.0

    def once(self) -> Halves:
        """Return the protocol without its repeats."""
        return replace(self, n_repeats=1)

    def _smallest(
        self, y: NDArray[Any], counts: NDArray[Any], inner: int
    ) -> tuple[int, int]:
        return int(counts.min()), max(2, 2 * inner)


@dataclass(frozen=True)
class LeaveOneBagOut(Protocol):
    """Train on all bags but one, test on that one, for each bag.

    With groups, one group is left out at a time.
    """

    kind: ClassVar[str] = "loo"

    @property
    def pooled(self) -> bool:
        """Whether results are per bag: always."""
        return True

    def folds(self, n_bags: int, groups: Groups = None) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs."""
        n_folds = n_bags if groups is None else len(np.unique(groups))
        return [(0, fold) for fold in range(n_folds)]

    def split(
        self,
        y: NDArray[Any],
        repeat: int,
        fold: int,
        seed: int,
        groups: Groups = None,
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one fold."""
        unit = np.arange(len(y))
        if groups is not None:
            unit = np.unique(groups, return_inverse=True)[1]
        return np.flatnonzero(unit != fold), np.flatnonzero(unit == fold)

    def describe(self) -> str:
        """Say in words how bags are split."""
        return "leave-one-bag-out"

    def test_share(self, y: NDArray[Any]) -> float:
        """Return the number of test bags over that of training bags."""
        return 1.0 / (len(y) - 1)
