"""How bags are split into training and test sets.

A protocol is a small frozen object. It lists its folds as pairs ``(repeat, fold)``,
cuts the bags for each, says in words what it does, and knows what the statistics need:
the size of a test set relative to its training set, and whether results are read bag
by bag. All methods see the same splits, on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Groups", "Indices", "Protocol", "protocol_from_dict"]

Indices = NDArray[np.int64]
Groups = NDArray[Any] | None


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
            One pair for each training and test set.
        """
        raise NotImplementedError

    def split(
        self,
        y: NDArray[Any],
        repeat: int,
        fold: int,
        seed: int,
        groups: Groups = None,
    ) -> tuple[Indices, Indices]:
        """Return the training and test bags of one fold.

        Parameters
        ----------
        y : ndarray of shape (n_bags,) or (n_bags, n_outputs)
            Labels; of two, the larger one is the positive one. Real values, and
            tables of labels, are split without regard to them.
        repeat, fold : int
            One of the pairs that `folds` gives.
        seed : int
            Fixes every draw.
        groups : ndarray of shape (n_bags,), optional
            Bags of one group stay on one side.

        Returns
        -------
        train, test : ndarray of int
            Positions of the bags.
        """
        raise NotImplementedError

    def splits(
        self, y: NDArray[Any], seed: int = 0, groups: Groups = None
    ) -> Iterator[tuple[Indices, Indices]]:
        """Yield training and test bags of every fold.

        Parameters
        ----------
        y : ndarray of shape (n_bags,) or (n_bags, n_outputs)
            Labels or values.
        seed : int, default=0
            Fixes every draw.
        groups : ndarray of shape (n_bags,), optional
            Bags of one group stay on one side.

        Yields
        ------
        train, test : ndarray of int
            Positions of the bags.
        """
        for repeat, fold in self.folds(len(y), groups):
            yield self.split(y, repeat, fold, seed, groups)

    def describe(self) -> str:
        """Say in words how bags are split."""
        raise NotImplementedError

    def test_share(self, y: NDArray[Any]) -> float:
        """Return the number of test bags over that of training bags.

        Parameters
        ----------
        y : ndarray of shape (n_bags,)
            Labels or values.

        Returns
        -------
        float
            What the correction for overlapping training sets asks for.
        """
        raise NotImplementedError

    def once(self) -> Protocol:
        """Return the protocol without its repeats."""
        return self

    def check(
        self,
        y: NDArray[Any],
        inner: int = 0,
        names: Sequence[Any] | None = None,
        groups: Groups = None,
    ) -> None:
        """Refuse data that are too small, and say what would do.

        Parameters
        ----------
        y : ndarray of shape (n_bags,) or (n_bags, n_outputs)
            Labels, or real values.
        inner : int, default=0
            Folds of the inner cross-validation, 0 without tuning.
        names : sequence, optional
            What the sorted labels are called in messages.
        groups : ndarray of shape (n_bags,), optional
            Bags that stay together; then groups are what is counted.
        """
        units = np.arange(len(y)) if groups is None else groups
        things = "bags" if groups is None else "groups"
        if not is_discrete(y):
            smallest, need = self._smallest(y, np.array([len(np.unique(units))]), inner)
            if smallest < need:
                raise ValueError(
                    f"too few {things}: there are {smallest}, and"
                    f" {self._words(inner)} needs at least {need}; add {things}, use"
                    " fewer folds or switch tuning off"
                )
            return
        classes = np.unique(y)
        shown = classes if names is None else np.asarray(names)
        if len(classes) < 2:
            only = f"all {len(y)} bags have label {shown[0]}" if len(y) else "no bags"
            raise ValueError(f"the data have one class only ({only}); two are needed")
        counts = np.array([len(np.unique(units[y == label])) for label in classes])
        smallest, need = self._smallest(y, counts, inner)
        if smallest < need:
            rare = str(shown[int(counts.argmin())])
            raise ValueError(
                f"too few {things}: class {rare} has {smallest} of"
                f" {len(np.unique(units))} {things}, and {self._words(inner)} needs at"
                f" least {need} of each class; add {things}, use fewer folds or"
                " LeaveOneBagOut(), or switch tuning off"
            )

    def _words(self, inner: int) -> str:
        tuned = f" with {inner}-fold tuning inside" if inner else ""
        return self.describe() + tuned

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

    Parameters
    ----------
    values : dict
        ``{"kind": ..., ...}``.

    Returns
    -------
    Protocol
        An equal one.

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


def is_discrete(y: NDArray[Any]) -> bool:
    """Tell labels from real values and from tables of labels."""
    return y.ndim == 1 and y.dtype.kind != "f"


def at_least(name: str, least: int, **values: int) -> None:
    for what, value in values.items():
        if value < least:
            raise ValueError(f"{name} needs {what} >= {least}, got {value}")


def sorted_pair(train: Any, test: Any) -> tuple[Indices, Indices]:
    return np.sort(train).astype(np.int64), np.sort(test).astype(np.int64)
