"""Pairs of bags, the sets B(p and q) of a pair, and the points in them, as arrays."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Pairs(NamedTuple):
    """Pairs of bags: the first rows of both, and how many points they have.

    A bag with itself has its points on the left and none on the right.
    """

    left: Array
    right: Array
    n_left: Array
    n_right: Array

    def of(self, k: Array) -> "Pairs":
        """Return some of the pairs."""
        return Pairs(*(values[k] for values in self))

    def rows(self, owner: Array, number: Array) -> Array:
        """Rows of points by number: those on the left, then those on the right."""
        n_left = self.n_left[owner]
        at = np.where(number < n_left, self.left[owner], self.right[owner] - n_left)
        rows: Array = at + number
        return rows


class Sets(NamedTuple):
    """Sets B(p and q): their pair of bags, the numbers of p and q, logs of the size."""

    owner: Array
    first: Array
    second: Array
    logs: Array

    def of(self, chosen: Array) -> "Sets":
        """Return some of the sets."""
        return Sets(*(values[chosen] for values in self))


class Points(NamedTuple):
    """Points in play: their rows, where those of a pair start, those on the left."""

    rows: Array
    starts: Array
    n_left: Array

    def of(self, k: Array) -> "Points":
        """Return the points of some pairs."""
        owner, number, starts = groups(np.diff(self.starts)[k])
        return Points(
            self.rows[self.starts[:-1][k][owner] + number], starts, self.n_left[k]
        )


def groups(counts: Array) -> tuple[Array, Array, Array]:
    """Owners of the members of groups, their numbers in them, and where they start."""
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(starts[-1]) - starts[owner], starts


def ends_of(owner: Array, n: int) -> Array:
    """Where the members of each of `n` owners start, and the last ones end."""
    return np.searchsorted(owner, np.arange(n + 1))


def in_play(sets: Sets, pairs: Pairs) -> tuple[Sets, Points]:
    """Number the points of the sets of each pair of bags, and put the sets in order."""
    n_points = pairs.n_left + pairs.n_right
    _, _, base = groups(n_points)
    at, n_left = base[sets.owner], pairs.n_left[sets.owner]
    first, second = at + sets.first, at + sets.second
    second += np.where(pairs.n_right[sets.owner] > 0, n_left, 0)
    order = np.lexsort((second, first))  # owners come one after the other in both
    used = np.zeros(base[-1] + 1, np.bool_)
    used[first] = used[second] = True
    number = np.cumsum(used) - used
    starts = number[base]
    places = np.flatnonzero(used)
    owner = np.searchsorted(base, places, "right") - 1
    rows = pairs.rows(owner, places - base[owner])
    points = Points(rows, starts, number[base[:-1] + pairs.n_left] - starts[:-1])
    first, second = (number[x] - starts[sets.owner] for x in (first, second))
    return Sets(sets.owner, first, second, sets.logs).of(order), points
