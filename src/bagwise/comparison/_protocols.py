"""How bags are split into training and test sets.

A protocol is a small frozen object. It lists its folds as pairs ``(repeat, fold)``,
cuts the bags for each, says in words what it does, and knows what the statistics need:
the size of a test set relative to its training set, and whether results are read bag
by bag. All methods see the same splits, on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

__all__ = [
    "Halves",
    "KFold",
    "LeaveOneBagOut",
    "Protocol",
    "TrainTest",
    "TwoWay",
    "protocol_from_dict",
]

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Protocol:
    """Base of the protocols: what `compare` asks of one.

    A protocol of one's own is a frozen dataclass whose fields are plain values, with
    `folds`, `split`, `describe`, `test_share` and a `kind` of its own.
    """

    kind: ClassVar[str] = ""
    _known: ClassVar[dict[str, type[Protocol]]] = {}

    def __init_subclass__(cls) -> None:
        """Note the kind, by which descriptions of runs name the class."""
        Protocol._known[cls.kind] = cls

    @property
    def pooled(self) -> bool:
        """Whether results are per bag, as one fold alone has no spread."""
        return False

    def folds(self, n_bags: int) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs of the protocol."""
        raise NotImplementedError

    def split(
        self, y: NDArray[Any], repeat: int, fold: int, seed: int
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one fold.

        Parameters
        ----------
        y : ndarray of shape (n_bags,)
            Labels; of two, the larger one is the positive one.
        repeat, fold : int
            One of the pairs that `folds` gives.
        seed : int
            Fixes every draw.

        Returns
        -------
        train, test : ndarray of int
            Positions of the bags.
        """
        raise NotImplementedError

    def splits(
        self, y: NDArray[Any], seed: int = 0
    ) -> Iterator[tuple[Indices, Indices]]:
        """Yield training and test bags of every fold.

        Parameters
        ----------
        y : ndarray of shape (n_bags,)
            Labels.
        seed : int, default=0
            Fixes every draw.

        Yields
        ------
        train, test : ndarray of int
            Positions of the bags.
        """
        for repeat, fold in self.folds(len(y)):
            yield self.split(y, repeat, fold, seed)

    def describe(self) -> str:
        """Say in words how bags are split."""
        raise NotImplementedError

    def test_share(self, y: NDArray[Any]) -> float:
        """Return the number of test bags over that of training bags."""
        raise NotImplementedError

    def once(self) -> Protocol:
        """Return the protocol without its repeats."""
        return self

    def check(
        self, y: NDArray[Any], inner: int = 0, names: Sequence[Any] | None = None
    ) -> None:
        """Refuse data that are too small, and say what would do.

        Parameters
        ----------
        y : ndarray of shape (n_bags,)
            Labels.
        inner : int, default=0
            Folds of the inner cross-validation, 0 without tuning.
        names : sequence, optional
            What the sorted labels are called in messages.
        """
        classes, counts = np.unique(y, return_counts=True)
        shown = classes if names is None else np.asarray(names)
        if len(classes) < 2:
            only = f"all {len(y)} bags have label {shown[0]}" if len(y) else "no bags"
            raise ValueError(f"the data have one class only ({only}); two are needed")
        smallest, need = self._smallest(y, counts, inner)
        if smallest < need:
            rare = str(shown[int(counts.argmin())])
            tuned = f" with {inner}-fold tuning inside" if inner else ""
            raise ValueError(
                f"too few bags: class {rare} has {smallest} of {len(y)} bags, and"
                f" {self.describe()}{tuned} needs at least {need} of each class;"
                " add bags, use fewer folds or LeaveOneBagOut(), or switch tuning off"
            )

    def _smallest(
        self, y: NDArray[Any], counts: NDArray[Any], inner: int
    ) -> tuple[int, int]:
        """Return how many bags the rarest class has to give, and how many it needs."""
        return int(counts.min()), max(2, inner + 1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, from which `protocol_from_dict` makes it again."""
        return {"kind": self.kind, **asdict(self)}


def protocol_from_dict(values: Mapping[str, Any]) -> Protocol:
    """Return the protocol that `Protocol.to_dict` has described.

    Examples
    --------
    >>> protocol_from_dict({"kind": "kfold", "n_splits": 3, "n_repeats": 2})
    KFold(n_splits=3, n_repeats=2)
    """
    values = dict(values)
    kind = values.pop("kind", None)
    if kind not in Protocol._known:
        known = ", ".join(sorted(Protocol._known))
        raise ValueError(f"unknown protocol {kind!r}; known: {known}")
    return Protocol._known[kind](**values)


def _at_least(name: str, least: int, **values: int) -> None:
    for what, value in values.items():
        if value < least:
            raise ValueError(f"{name} needs {what} >= {least}, got {value}")


def _sorted_pair(train: Any, test: Any) -> tuple[Indices, Indices]:
    return np.sort(train).astype(np.int64), np.sort(test).astype(np.int64)


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
        _at_least("KFold", 2, n_splits=self.n_splits)
        _at_least("KFold", 1, n_repeats=self.n_repeats)

    def folds(self, n_bags: int) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs."""
        return [(r, f) for r in range(self.n_repeats) for f in range(self.n_splits)]

    def split(
        self, y: NDArray[Any], repeat: int, fold: int, seed: int
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one fold."""
        cut = StratifiedKFold(
            self.n_splits, shuffle=True, random_state=10_007 * seed + repeat
        )
        return _sorted_pair(*list(cut.split(np.zeros((len(y), 1)), y))[fold])

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
        _at_least("Halves", 1, n_repeats=self.n_repeats)

    @property
    def pooled(self) -> bool:
        """Whether results are per bag: with one half alone."""
        return self.n_repeats == 1

    def folds(self, n_bags: int) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs."""
        return [(repeat, 0) for repeat in range(self.n_repeats)]

    def split(
        self, y: NDArray[Any], repeat: int, fold: int, seed: int
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one half split."""
        state = 10_007 * seed + repeat
        cut = StratifiedShuffleSplit(1, test_size=0.5, random_state=state)
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
    """Train on all bags but one, test on that one, for each bag."""

    kind: ClassVar[str] = "loo"

    @property
    def pooled(self) -> bool:
        """Whether results are per bag: always."""
        return True

    def folds(self, n_bags: int) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs."""
        return [(0, fold) for fold in range(n_bags)]

    def split(
        self, y: NDArray[Any], repeat: int, fold: int, seed: int
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one fold."""
        every = np.arange(len(y), dtype=np.int64)
        return np.delete(every, fold), every[fold : fold + 1]

    def describe(self) -> str:
        """Say in words how bags are split."""
        return "leave-one-bag-out"

    def test_share(self, y: NDArray[Any]) -> float:
        """Return the number of test bags over that of training bags."""
        return 1.0 / (len(y) - 1)


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
        _at_least("TrainTest", 2, n_train=self.n_train)

    @property
    def pooled(self) -> bool:
        """Whether results are per bag: always."""
        return True

    def folds(self, n_bags: int) -> list[tuple[int, int]]:
        """Return the one ``(repeat, fold)`` pair."""
        return [(0, 0)]

    def split(
        self, y: NDArray[Any], repeat: int, fold: int, seed: int
    ) -> tuple[Indices, Indices]:
        """Return the bags of the training and of the test file."""
        every = np.arange(len(y), dtype=np.int64)
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
        _at_least("TwoWay", 2, n_positive=self.n_positive, n_negative=self.n_negative)

    def folds(self, n_bags: int) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs."""
        return [(r, f) for r in range(self.n_negative) for f in range(self.n_positive)]

    def split(
        self, y: NDArray[Any], repeat: int, fold: int, seed: int
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one pair of folds."""
        positive = np.asarray(y == np.unique(y)[-1])
        rng = np.random.default_rng(seed)  # one shuffle for all runs of the protocol
        own = rng.permutation(np.flatnonzero(positive))
        other = rng.permutation(np.flatnonzero(~positive))
        held_out = np.array_split(own, self.n_positive)[fold]
        seen = np.array_split(other, self.n_negative)[repeat]
        train = np.concatenate([np.setdiff1d(own, held_out), seen])
        return _sorted_pair(train, np.setdiff1d(np.arange(len(y)), train))

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
        # One negative fold, and all positive folds but one, must feed every inner fold.
        positive = counts[-1] - int(np.ceil(counts[-1] / self.n_positive))
        negative = (len(y) - counts[-1]) // self.n_negative
        return int(min(positive, negative)), max(1, inner)
