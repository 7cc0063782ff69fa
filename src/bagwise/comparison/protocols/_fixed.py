"""Protocols whose training bags are given: two files, one fold of a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bagwise.comparison.protocols._base import (
    Groups,
    Indices,
    Protocol,
    at_least,
    is_discrete,
    sorted_pair,
)

__all__ = ["TrainTest", "TwoWay"]


@dataclass(frozen=True)
class TrainTest(Protocol):
    """Train on the first bags, test on the others (two files).

    Parameters
    ----------
    n_train : int
        How many bags train.
    """

    n_train: int
    kind: ClassVar[str] = "train_test"

    def __post_init__(self) -> None:
        """Check the number."""
        at_least("TrainTest", 2, n_train=self.n_train)

    @property
    def pooled(self) -> bool:
        """Whether results are per bag: always."""
        return True

    def folds(self, n_bags: int, groups: Groups = None) -> list[tuple[int, int]]:
        """Return the one ``(repeat, fold)`` pair."""
        return [(0, 0)]

    def split(
        self,
        y: NDArray[Any],
        repeat: int,
        fold: int,
        seed: int,
        groups: Groups = None,
    ) -> tuple[Indices, Indices]:
        """Return the bags of the training and of the test file."""
        every = np.arange(len(y), dtype=np.int64)
        if groups is not None:
            both = np.intersect1d(groups[: self.n_train], groups[self.n_train :])
            if len(both):
                raise ValueError(
                    f"group {both[0]!s} has bags in the training and in the test file;"
                    " move them to one of the two"
                )
        return every[: self.n_train], every[self.n_train :]

    def describe(self) -> str:
        """Say in words how bags are split."""
        return f"one split: {self.n_train} training bags, the others for testing"

    def test_share(self, y: NDArray[Any]) -> float:
        """Return the number of test bags over that of training bags."""
        return (len(y) - self.n_train) / self.n_train

    def _smallest(
        self, y: NDArray[Any], counts: NDArray[Any], inner: int
    ) -> tuple[int, int]:
        if self.n_train >= len(y):
            raise ValueError(
                f"TrainTest needs bags to test on: {self.n_train} training bags of"
                f" {len(y)}"
            )
        if not is_discrete(y):
            return self.n_train, max(2, inner)
        _, head = np.unique(y[: self.n_train], return_counts=True)
        if len(head) < len(counts):
            raise ValueError("the training file lacks a class that the test file has")
        return int(head.min()), max(1, inner)


@dataclass(frozen=True)
class TwoWay(Protocol):
    """Folds of the two classes crossed, training on one fold of the negative bags.

    Positive bags are cut into `n_positive` folds, negative ones into `n_negative`. A
    run trains on the positive bags outside one fold and the negative bags of *one*
    fold, and is tested on all others. The fold of positive bags is the fold of the
    run, the fold of negative bags its repeat.

    Parameters
    ----------
    n_positive, n_negative : int, default=20, 8
        Folds of the positive and of the negative bags (the smaller label).
    """

    n_positive: int = 20
    n_negative: int = 8
    kind: ClassVar[str] = "two_way"

    def __post_init__(self) -> None:
        """Check the numbers."""
        at_least("TwoWay", 2, n_positive=self.n_positive, n_negative=self.n_negative)

    def folds(self, n_bags: int, groups: Groups = None) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs."""
        return [(r, f) for r in range(self.n_negative) for f in range(self.n_positive)]

    def split(
        self,
        y: NDArray[Any],
        repeat: int,
        fold: int,
        seed: int,
        groups: Groups = None,
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one pair of folds."""
        if groups is not None:
            raise ValueError(
                "TwoWay cuts the two classes apart and cannot keep groups together;"
                " take KFold"
            )
        positive = np.asarray(y == np.unique(y)[-1])
        rng = np.random.default_rng(seed)  # one shuffle for all runs of the protocol
        own = rng.permutation(np.flatnonzero(positive))
        other = rng.permutation(np.flatnonzero(~positive))
        held_out = np.array_split(own, self.n_positive)[fold]
        seen = np.array_split(other, self.n_negative)[repeat]
        train = np.concatenate([np.setdiff1d(own, held_out), seen])
        return sorted_pair(train, np.setdiff1d(np.arange(len(y)), train))

    def describe(self) -> str:
        """Say in words how bags are split."""
        return (
            f"{self.n_positive} positive x {self.n_negative} negative folds, training"
            " on one negative fold"
        )

    def test_share(self, y: NDArray[Any]) -> float:
        """Return the number of test bags over that of training bags."""
        n_positive = int((y == np.unique(y)[-1]).sum())
        train = n_positive * (1.0 - 1.0 / self.n_positive)
        train += (len(y) - n_positive) / self.n_negative
        return (len(y) - train) / train

    def _smallest(
        self, y: NDArray[Any], counts: NDArray[Any], inner: int
    ) -> tuple[int, int]:
        if not is_discrete(y) or len(counts) != 2:
            raise ValueError("TwoWay is for two classes; take KFold")
        # One negative fold, and all positive folds but one, must feed every inner fold.
        positive = counts[-1] - int(np.ceil(counts[-1] / self.n_positive))
        negative = (len(y) - counts[-1]) // self.n_negative
        return int(min(positive, negative)), max(1, inner)
