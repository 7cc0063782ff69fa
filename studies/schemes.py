"""How one repeat of a published protocol becomes runs.

A paper often repeats its protocol ten times, a re-run may do so once. A scheme gives
the number of runs per repeat and the data, split and fold of each run, so that later
repeats are added to earlier ones, and tables with the same measurement share runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bagwise.comparison import protocols
from bagwise.comparison.protocols import (
    CrossValidation,
    Halves,
    Protocol,
    TrainTest,
)
from studies.paper_sets import training_bags

__all__ = [
    "MAX_REPEATS",
    "Place",
    "Scheme",
    "TwoWay",
    "describe_once",
    "parse_scheme",
    "protocol_of",
]

MAX_REPEATS = 10


def describe_once(protocol: Protocol) -> str:
    """Describe one repeat of a protocol in words."""
    if hasattr(protocol, "n_repeats"):
        protocol = replace(protocol, n_repeats=1)
    return protocol.describe()


def protocol_of(values: Mapping[str, Any]) -> Protocol:
    """Return the protocol that `Protocol.to_dict` has described."""
    return protocols.protocol_of(values, (TwoWay,))


class Place(NamedTuple):
    """Position of a run: sample of the data, repeat and fold of the protocol."""

    draw: int
    repeat: int
    fold: int


@dataclass(frozen=True)
class Scheme:
    """The runs of one repeat.

    Parameters
    ----------
    n_runs : int
        Runs in one repeat.
    redraw : bool
        Whether every repeat simulates the data again.
    """

    n_runs: int
    redraw: bool = False

    @property
    def max_repeats(self) -> int:
        """How often the protocol can be repeated at all."""
        return MAX_REPEATS

    @property
    def every_draw_is_loaded(self) -> bool:
        """Whether a further repeat needs other data."""
        return False

    def protocol(self, dataset: str) -> Protocol:
        """Return the splits. Their number of repeats is the same for all tables."""
        raise NotImplementedError

    def place(self, repeat: int, run: int) -> Place:
        """Return the position of run number `run` of a repeat."""
        return Place(repeat, 0 if self.redraw else repeat, run)

    def describe(self, dataset: str) -> str:
        """Describe one repeat in words."""
        again = ", data simulated again each time" if self.redraw else ""
        return describe_once(self.protocol(dataset)) + again


@dataclass(frozen=True)
class Folds(Scheme):
    """Cross-validation: a run is a fold."""

    def protocol(self, dataset: str) -> Protocol:
        """Return the folds."""
        return CrossValidation(self.n_runs, MAX_REPEATS)


@dataclass(frozen=True)
class RandomHalves(Scheme):
    """Random halves: a run is a half split of its own."""

    def protocol(self, dataset: str) -> Protocol:
        """Return the halves."""
        return Halves(MAX_REPEATS)

    def place(self, repeat: int, run: int) -> Place:
        """Return the position of run number `run` of a repeat."""
        return Place(repeat, repeat * self.n_runs + run, 0)

    def describe(self, dataset: str) -> str:
        """Describe one repeat in words."""
        return Halves(self.n_runs).describe()


@dataclass(frozen=True)
class Crossed(Scheme):
    """Crossed folds of the two classes: a repeat is one fold of the negative bags."""

    n_negative: int = 2

    @property
    def max_repeats(self) -> int:
        """How often the protocol can be repeated at all."""
        return min(MAX_REPEATS, self.n_negative)

    def protocol(self, dataset: str) -> Protocol:
        """Return the crossed folds."""
        return TwoWay(self.n_runs, self.n_negative)


@dataclass(frozen=True)
class Draws(Scheme):
    """Data that are simulated for every run, with bags to test on."""

    @property
    def every_draw_is_loaded(self) -> bool:
        """Whether a further repeat needs other data: it does."""
        return True

    def protocol(self, dataset: str) -> Protocol:
        """Return the one split; how many bags train depends on the set."""
        return TrainTest(training_bags(dataset) or 0)

    def place(self, repeat: int, run: int) -> Place:
        """Return the position of run number `run` of a repeat."""
        return Place(repeat * self.n_runs + run, 0, 0)

    def describe(self, dataset: str) -> str:
        """Describe one repeat in words."""
        count = f"{self.n_runs} simulated data sets"
        return f"{count}, one training and one test set each"


def parse_scheme(given: Mapping[str, Any], where: str, *, redraw: bool) -> Scheme:
    """Return the scheme that the file of a table names.

    Parameters
    ----------
    given : dict
        ``{kind = "kfold", n_splits = 5}``, with the kind kfold, half, train_test
        (`n_splits` simulated sets) or two_way.
    where : str
        Table, row and column, for messages.
    redraw : bool
        Whether every repeat simulates the data again.
    """
    kind, n_runs = given.get("kind"), int(given.get("n_splits", 1))
    if kind == "kfold":
        return Folds(n_runs, redraw)
    if kind == "half":
        return RandomHalves(n_runs, redraw)
    if kind == "two_way":
        return Crossed(int(given["n_positive"]), redraw, int(given["n_negative"]))
    if kind == "train_test":
        return Draws(n_runs, redraw)
    raise ValueError(
        f"{where}: unknown protocol {kind!r}; known: kfold, half, two_way, train_test"
    )


@dataclass(frozen=True)
class TwoWay(Protocol):
    """Folds of the two classes crossed, training on one fold of the negative bags.

    Positive bags are split into `n_positive` folds, negative ones into `n_negative`. A
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
        for name in ("n_positive", "n_negative"):
            if getattr(self, name) < 2:
                value = getattr(self, name)
                raise ValueError(f"TwoWay needs {name} >= 2, got {value}")

    def folds(
        self, n_bags: int, groups: NDArray[Any] | None = None
    ) -> list[tuple[int, int]]:
        """Return the ``(repeat, fold)`` pairs."""
        return [(r, f) for r in range(self.n_negative) for f in range(self.n_positive)]

    def split(
        self,
        y: NDArray[Any],
        repeat: int,
        fold: int,
        random_state: int,
        groups: NDArray[Any] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the training and test bags of one pair of folds."""
        if groups is not None:
            raise ValueError(
                "TwoWay splits each class on its own and cannot keep groups together;"
                " use CrossValidation"
            )
        positive = np.asarray(y == np.unique(y)[-1])
        rng = np.random.default_rng(random_state)  # the same for all runs
        own = rng.permutation(np.flatnonzero(positive))
        other = rng.permutation(np.flatnonzero(~positive))
        held_out = np.array_split(own, self.n_positive)[fold]
        seen = np.array_split(other, self.n_negative)[repeat]
        train = np.concatenate([np.setdiff1d(own, held_out), seen])
        return np.sort(train), np.setdiff1d(np.arange(len(y)), train)

    def describe(self) -> str:
        """Say in words how bags are split."""
        return (
            f"{self.n_positive} positive x {self.n_negative} negative folds, training"
            " on one negative fold"
        )

    def _smallest(
        self, y: NDArray[Any], counts: NDArray[Any], inner: int
    ) -> tuple[int, int]:
        if len(counts) != 2:
            raise ValueError("TwoWay is for two classes; use CrossValidation")
        # One negative fold, and all positive folds but one, must fill every inner fold.
        positive = counts[-1] - int(np.ceil(counts[-1] / self.n_positive))
        negative = (len(y) - counts[-1]) // self.n_negative
        return int(min(positive, negative)), max(1, inner)
