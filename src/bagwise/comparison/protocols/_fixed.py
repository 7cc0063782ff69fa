"""The protocol of two files: one to train on, one to test on."""

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
)

__all__ = ["TrainTest"]


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
