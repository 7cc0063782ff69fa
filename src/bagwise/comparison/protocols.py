"""How bags are split into training and test sets.

A protocol is a small frozen object. It lists its folds as pairs ``(repeat, fold)``,
splits the bags for each, and knows what the statistics need: the size of a test set
relative to its training set, and whether results are per bag. All methods see the same
splits, on every computer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

from bagwise.base import bag_folds
from bagwise.exceptions import DataError

__all__ = [
    "CrossValidation",
    "Groups",
    "Halves",
    "Indices",
    "LeaveOneBagOut",
    "Protocol",
    "TrainTest",
    "protocol_of",
]

Indices = NDArray[np.int64]
Groups = NDArray[Any] | None


@dataclass(frozen=True)
class Protocol:
    """Base class of protocols, with the methods that `compare` calls.

    To write your own protocol, derive a frozen dataclass whose fields are plain values
    and that has `folds`, `split`, `describe` and a `kind`.
    """

    kind: ClassVar[str] = ""

    @property
    def pooled(self) -> bool:
        """Whether results are per bag, as a single fold has no variance."""
        return False

    def folds(self, n_bags: int, groups: Groups = None) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs of the protocol.

        Parameters
        ----------
        n_bags : int
            Number of bags.
        groups : ndarray of shape (n_bags,), optional
            Bags that stay together.

        Returns
        -------
        list of (int, int)
            One pair per training and test set.
        """
        raise NotImplementedError

    def split(
        self,
        y: NDArray[Any],
        repeat: int,
        fold: int,
        random_state: int,
        groups: Groups = None,
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one fold.

        Parameters
        ----------
        y : ndarray of shape (n_bags,) or (n_bags, n_outputs)
            Labels; of two, the larger one is the positive one. Real values, and
            tables of labels, have no influence on the split.
        repeat, fold : int
            One of the pairs that `folds` gives.
        random_state : int
            Random seed.
        groups : ndarray of shape (n_bags,), optional
            The bags of a group are not split.

        Returns
        -------
        train, test : ndarray of int
            Positions of the bags.
        """
        raise NotImplementedError

    def splits(
        self, y: NDArray[Any], random_state: int = 0, groups: Groups = None
    ) -> Iterator[tuple[Indices, Indices]]:
        """Yield training and test bags of every fold.

        Parameters
        ----------
        y : ndarray of shape (n_bags,) or (n_bags, n_outputs)
            Labels or values.
        random_state : int, default=0
            Random seed.
        groups : ndarray of shape (n_bags,), optional
            The bags of a group are not split.

        Yields
        ------
        train, test : ndarray of int
            Positions of the bags.
        """
        for repeat, fold in self.folds(len(y), groups):
            yield self.split(y, repeat, fold, random_state, groups)

    def describe(self) -> str:
        """Describe the protocol in words.

        Returns
        -------
        str
            The description.
        """
        raise NotImplementedError

    def check(
        self,
        y: NDArray[Any],
        inner: int = 0,
        names: Sequence[Any] | None = None,
        groups: Groups = None,
        copies: bool = False,
    ) -> None:
        """Raise an error if there are too few bags, with the options that help.

        Parameters
        ----------
        y : ndarray of shape (n_bags,) or (n_bags, n_outputs)
            Labels, or real values.
        inner : int, default=0
            Folds of the inner cross-validation, 0 without tuning.
        names : sequence, optional
            Names of the sorted labels, for messages.
        groups : ndarray of shape (n_bags,), optional
            Bags that stay together; groups are counted then.
        copies : bool, default=False
            Whether groups are copies of a bag, for messages.
        """
        units = np.arange(len(y)) if groups is None else groups
        things = "bags" if groups is None else "groups"
        things = "different bags" if copies else things
        tuned = f" with {inner}-fold tuning inside" if inner else ""
        needs = f"{self.describe()}{tuned} needs at least"
        n_units = len(np.unique(units))
        if not _is_discrete(y):
            smallest, need = self._smallest(y, np.array([n_units]), inner)
            if smallest < need:
                raise DataError(
                    f"too few {things}: there are {smallest}, and {needs} {need}",
                    f"Add {things}, use fewer folds, or set {{0}}.",
                    ("grid", "none"),
                )
            return
        classes = np.unique(y)
        shown = classes if names is None else np.asarray(names)
        if len(classes) < 2:
            only = f"all {len(y)} bags have label {shown[0]}" if len(y) else "no bags"
            raise ValueError(f"the data have only one class ({only}); two are needed")
        counts = np.array([len(np.unique(units[y == label])) for label in classes])
        smallest, need = self._smallest(y, counts, inner)
        if smallest < need:
            rare = str(shown[int(counts.argmin())])
            raise DataError(
                f"too few {things}: class {rare} has {smallest} of {n_units} {things},"
                f" and {needs} {need} of each class",
                f"Add {things}, use fewer folds, leave one bag out, or set {{0}}.",
                ("grid", "none"),
            )

    def _smallest(
        self, y: NDArray[Any], counts: NDArray[Any], inner: int
    ) -> tuple[int, int]:
        """Return the number of bags of the rarest class, and the number it needs."""
        return int(counts.min()), max(2, inner + 1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values.

        Returns
        -------
        dict
            The kind of the protocol and its parameters.
        """
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class CrossValidation(Protocol):
    """Stratified k-fold cross-validation, shuffled again in each repeat.

    Parameters
    ----------
    n_splits : int, default=5
        Folds.
    n_repeats : int, default=1
        How often all bags are split into folds.

    Examples
    --------
    >>> CrossValidation(10, n_repeats=3).describe()
    '3 x 10-fold cross-validation'
    """

    n_splits: int = 5
    n_repeats: int = 1
    kind: ClassVar[str] = "kfold"

    def __post_init__(self) -> None:
        """Check the numbers."""
        _at_least("CrossValidation", 2, n_splits=self.n_splits)
        _at_least("CrossValidation", 1, n_repeats=self.n_repeats)

    def folds(self, n_bags: int, groups: Groups = None) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs."""
        return [(r, f) for r in range(self.n_repeats) for f in range(self.n_splits)]

    def split(
        self,
        y: NDArray[Any],
        repeat: int,
        fold: int,
        random_state: int,
        groups: Groups = None,
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one fold."""
        state = 10_007 * random_state + repeat
        return _sorted(*_folds(y, self.n_splits, state, groups)[fold])

    def describe(self) -> str:
        """Describe the protocol in words."""
        times = "" if self.n_repeats == 1 else f"{self.n_repeats} x "
        return f"{times}{self.n_splits}-fold cross-validation"

    def _smallest(
        self, y: NDArray[Any], counts: NDArray[Any], inner: int
    ) -> tuple[int, int]:
        need = self.n_splits
        if inner:  # a training fold must suffice for every inner fold
            need = max(need, int(np.ceil(inner * need / (need - 1))))
        return int(counts.min()), need


@dataclass(frozen=True)
class Halves(Protocol):
    """Random stratified halves: one for training, one for testing.

    Parameters
    ----------
    n_repeats : int, default=10
        How often the bags are split.
    """

    n_repeats: int = 10
    kind: ClassVar[str] = "half"

    def __post_init__(self) -> None:
        """Check the number."""
        _at_least("Halves", 1, n_repeats=self.n_repeats)

    @property
    def pooled(self) -> bool:
        """Whether results are per bag: if there is one split only."""
        return self.n_repeats == 1

    def folds(self, n_bags: int, groups: Groups = None) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs."""
        return [(repeat, 0) for repeat in range(self.n_repeats)]

    def split(
        self,
        y: NDArray[Any],
        repeat: int,
        fold: int,
        random_state: int,
        groups: Groups = None,
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one split."""
        state = 10_007 * random_state + repeat
        if groups is not None:
            return _sorted(*_folds(y, 2, state, groups)[0])
        kind = StratifiedShuffleSplit if _is_discrete(y) else ShuffleSplit
        halves = kind(1, test_size=0.5, random_state=state)
        train, test = next(iter(halves.split(np.zeros((len(y), 1)), y)))
        # Keep the order of training bags from the splitter: methods may depend on it.
        return train.astype(np.int64), np.sort(test).astype(np.int64)

    def describe(self) -> str:
        """Describe the protocol in words."""
        if self.n_repeats == 1:
            return "one random half split"
        return f"{self.n_repeats} random half splits"

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
        random_state: int,
        groups: Groups = None,
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one fold."""
        unit = np.arange(len(y))
        if groups is not None:
            unit = np.unique(groups, return_inverse=True)[1]
        return np.flatnonzero(unit != fold), np.flatnonzero(unit == fold)

    def describe(self) -> str:
        """Describe the protocol in words."""
        return "leave-one-bag-out"


@dataclass(frozen=True)
class TrainTest(Protocol):
    """Train on the first bags, test on the others (two files).

    Parameters
    ----------
    n_train : int
        Number of training bags.
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

    def folds(self, n_bags: int, groups: Groups = None) -> list[tuple[int, int]]:
        """Return the one ``(repeat, fold)`` pair."""
        return [(0, 0)]

    def split(
        self,
        y: NDArray[Any],
        repeat: int,
        fold: int,
        random_state: int,
        groups: Groups = None,
    ) -> tuple[Indices, Indices]:
        """Return the bags of the training and of the test file."""
        every = np.arange(len(y), dtype=np.int64)
        return every[: self.n_train], every[self.n_train :]

    def describe(self) -> str:
        """Describe the protocol in words."""
        return f"one split: {self.n_train} training bags, the others for testing"

    def _smallest(
        self, y: NDArray[Any], counts: NDArray[Any], inner: int
    ) -> tuple[int, int]:
        if self.n_train >= len(y):
            raise ValueError(
                f"TrainTest needs bags to test on: {self.n_train} training bags of"
                f" {len(y)}"
            )
        if not _is_discrete(y):
            return self.n_train, max(2, inner)
        _, head = np.unique(y[: self.n_train], return_counts=True)
        if len(head) < len(counts):
            raise ValueError("the training file lacks a class that the test file has")
        return int(head.min()), max(1, inner)


def _folds(
    y: NDArray[Any], n_splits: int, state: int, groups: Groups
) -> list[tuple[Any, Any]]:
    # A 2-D target is not stratified: continuous values may happen to be whole numbers.
    table = y if _is_discrete(y) or y.ndim == 2 else y[:, None]
    return bag_folds(np.zeros(len(y)), table, n_splits, state, groups=groups)


def _is_discrete(y: NDArray[Any]) -> bool:
    """Distinguish labels, real values and tables of labels."""
    return y.ndim == 1 and y.dtype.kind != "f"


def _at_least(name: str, least: int, **values: int) -> None:
    for what, value in values.items():
        if value < least:
            raise ValueError(f"{name} needs {what} >= {least}, got {value}")


def _sorted(train: Any, test: Any) -> tuple[Indices, Indices]:
    return np.sort(train).astype(np.int64), np.sort(test).astype(np.int64)


def protocol_of(
    values: Mapping[str, Any], kinds: Sequence[type[Protocol]] = ()
) -> Protocol:
    """Return the protocol that `Protocol.to_dict` has described.

    Parameters
    ----------
    values : dict
        Its kind and its parameters.
    kinds : sequence of type, optional
        Protocols besides those of this module.
    """
    own: list[type[Protocol]] = [CrossValidation, Halves, LeaveOneBagOut, TrainTest]
    known = {cls.kind: cls for cls in [*own, *kinds]}
    values = dict(values)
    kind = str(values.pop("kind"))
    if kind not in known:
        raise ValueError(f"unknown protocol {kind!r}; known: {', '.join(known)}")
    return known[kind](**values)
