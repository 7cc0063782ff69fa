"""Log counts for a list of bag pairs: bounds, exact tree or sampling for each.

The stages are compiled apart and hold only what has to be a compiled loop: a first call
waits for it. What is done once for a pair of bags, or of points that matter, is done by
numpy for a batch of pairs of bags, as many as there is room for.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bagwise.kernels.box.loops.points import (
    AUTO,
    EXACT,
    GROUP,
    HOW_BOUNDS,
    HOW_EXACT,
    HOW_FAILED,
    HOW_SAMPLED,
    INDICATOR,
    LANES,
    NEGLIGIBLE,
    SELF_ADJUSTING,
    corner_codes,
    count_on_line,
    count_on_trees,
    log_sizes,
    screen,
    streams,
)
from bagwise.kernels.box.loops.sampling import adjust_pairs, first_look, sample_pairs

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
    order = np.lexsort((second, first))  # sorted by owner in both
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


SMALL_POINTS = 6  # "auto" counts exactly up to this many points ..
SMALL_NODES = 200  # .. as long as the tree stays this small
SHORT_POINTS = 14  # .. and within epsilon up to this many points that matter
LARGE_NODES = 20_000_000  # limit of "exact"
_ROOM = 1 << 16  # pairs of points in a batch ..
_POINTS = 1 << 20  # .. and points of its bags, unless one pair of bags has more
_SAME = np.uint64(0xD6E8FEB86659FD93)


def count_pairs(
    coded: Any,
    left: Array,
    right: Array,
    coarse: tuple[float, float],
    method: int,
    rule: int,
    target: tuple[float, float, float, float],
    max_samples: int,
    seed: np.uint64,
) -> tuple[Array, ...]:
    """Return log counts, how, draws, errors and capped of the pairs of bags.

    `coded` is a `CodedBags`; `coarse` (unit, error) of its logarithms: `error` bounds
    how far a coarse sum times `unit` lies below its true logarithm. `target` is
    (epsilon, delta, slack, z). The stream of a pair is seeded by the content of its two
    bags in the order of their hashes, so that it depends neither on the order of the
    bags nor on what else is computed.
    """
    n = len(left)
    out = (
        np.zeros(n),
        np.full(n, HOW_EXACT, np.int8),
        np.zeros(n, np.int64),
        np.zeros(n),
        np.zeros(n, np.bool_),
    )
    logs, how, draws, errors, capped = out
    left, right, same, seeds = _ordered(coded, left, right, seed)
    if method in (AUTO, EXACT) and len(coded.top) == 1:
        marks = np.empty((3, int(coded.top[0]) + 1), np.bool_)
        count_on_line(coded.rows, coded.offsets, marks, left, right, logs)
        return out
    sizes = coded.sizes
    n_left, n_right = sizes[left], np.where(same, 0, sizes[right])
    every = Pairs(coded.offsets[left], coded.offsets[right], n_left, n_right)
    n_sets = np.where(same, n_left, n_left * n_right)
    epsilon, delta, slack, z = target
    spread = np.log(n_sets / slack)  # all sets this much smaller sum to `slack`
    margins = np.ceil((spread + coarse[1]) / coarse[0]).astype(np.int64)
    codes = corner_codes(coded.rows, coded.top)
    inner = (epsilon - slack, delta, z)  # omitted sets use their part of epsilon
    for k, sets in _screened(coded, codes, left, right, margins, every):
        largest = np.maximum.reduceat(sets.logs, ends_of(sets.owner, len(k))[:-1])
        sets = sets.of(sets.logs >= (largest - spread[k])[sets.owner])
        sets = sets._replace(logs=sets.logs - largest[sets.owner])
        logs[k], how[k] = largest, HOW_SAMPLED
        if method == AUTO:
            total = slack + np.bincount(sets.owner, np.exp(sets.logs))
            one = n_sets[k] == 1  # one set: its size
            agree = ~one & (total <= (1.0 + epsilon) / (1.0 - epsilon))
            # The harmonic mean of the bounds is off by (U - max) / (U + max) at most.
            logs[k] += np.where(agree, np.log(2.0 * total / (1.0 + total)), 0.0)
            errors[k] = np.where(agree, (total - 1.0) / (total + 1.0), 0.0)
            how[k] = np.select([one, agree], [HOW_EXACT, HOW_BOUNDS], HOW_SAMPLED)
        sets, k = _remaining(sets, k, how)
        sets, points = in_play(sets, every.of(k))
        if method in (AUTO, EXACT) and len(k):
            found = _count_on_trees(codes, every.of(k), points, logs[k], method, slack)
            logs[k], how[k], errors[k] = found
            points = points.of(how[k] == HOW_SAMPLED)
            sets, k = _remaining(sets, k, how)
        if len(k) == 0:
            continue
        if method == SELF_ADJUSTING:
            drawn = _adjust(coded, points, sets, seeds[k], inner, max_samples)
        else:
            options = method == INDICATOR, rule, inner, max_samples
            drawn = _sample(coded, points, sets, seeds[k], *options)
        above, draws[k], errors[k], capped[k] = drawn
        logs[k] += above
    return out


def _ordered(
    coded: Any, left: Array, right: Array, seed: np.uint64
) -> tuple[Array, Array, Array, Array]:
    """Pairs in the order of their hashes, which are a bag with itself, and seeds."""
    swap = coded.keys[left] > coded.keys[right]
    left, right = np.where(swap, right, left), np.where(swap, left, right)
    same = left == right
    for k in np.flatnonzero((coded.keys[left] == coded.keys[right]) & ~same):
        same[k] = np.array_equal(_points(coded, left[k]), _points(coded, right[k]))
    second = np.where(same, _SAME, coded.keys[right])
    return left, right, same, streams(seed, coded.keys[left], second)


def _points(coded: Any, bag: int) -> Array:
    rows: Array = coded.rows[coded.offsets[bag] : coded.offsets[bag + 1]]
    return rows


def _screened(
    coded: Any, codes: Array, left: Array, right: Array, margins: Array, every: Pairs
) -> Iterator[tuple[Array, Sets]]:
    """Give batches of pairs of bags with their sets that may matter."""
    box = np.empty(codes.shape[1], np.uint16)
    sides = np.empty(codes.shape[1] // 2)
    sums = np.empty(int(np.diff(coded.starts).max()), np.uint16)
    # The longer side is vectorized.
    flip = every.n_right < every.n_left
    rows, columns = np.where(flip, right, left), np.where(flip, left, right)
    room = np.empty((3, _ROOM), np.int64)
    for alone in (False, True):  # a bag with itself has the sets of its points
        todo = np.flatnonzero((every.n_right == 0) == alone)
        n_points = np.cumsum((every.n_left + every.n_right)[todo])
        begin = 0
        while begin < len(todo):
            before = n_points[begin - 1] if begin else 0
            stop = int(np.searchsorted(n_points, before + _POINTS, "right"))
            k = todo[begin : max(stop, begin + 1)]
            if alone:
                owner, first, _ = groups(every.n_left[k])
                second = first
            else:
                ends = np.zeros(len(k) + 1, np.int64)
                stop, needed = screen(
                    coded.blocks,
                    coded.starts,
                    coded.sizes,
                    rows[k],
                    columns[k],
                    margins[k],
                    sums,
                    room,
                    ends,
                )
                if stop == 0:
                    room = np.empty((3, needed), np.int64)
                    continue
                k = k[:stop]
                owner, _, _ = groups(np.diff(ends[: stop + 1]))
                found = room[:2, : len(owner)]
                first, second = np.where(flip[k][owner], found[::-1], found)
            p, q = every.left[k][owner] + first, every.right[k][owner] + second
            logs = np.empty(len(owner))
            log_sizes(codes, p, q, box, sides, logs)
            yield k, Sets(owner, first, second, logs)
            begin += len(k)


def _remaining(sets: Sets, k: Array, how: Array) -> tuple[Sets, Array]:
    """Return the pairs of bags whose count is still unknown, and their sets."""
    still = how[k] == HOW_SAMPLED
    sets = sets.of(still[sets.owner])
    return sets._replace(owner=(np.cumsum(still) - 1)[sets.owner]), k[still]


def _count_on_trees(
    codes: Array, pairs: Pairs, points: Points, logs: Array, method: int, slack: float
) -> tuple[Array, Array, Array]:
    """Count on trees where these are small enough: log counts, how and errors.

    `logs` comes with the logarithm of the largest set. In many dimensions boxes around
    three points are rare, and few branches matter. At most `SMALL_NODES` branches of at
    most slack / SMALL_NODES are cut, which is `slack` in all; the points that were left
    out before are another `slack`.
    """
    how = np.full(len(logs), HOW_SAMPLED, np.int8)
    errors = np.zeros(len(logs))
    n_points = pairs.n_left + pairs.n_right
    deep = int(n_points.max()) if method == EXACT else SHORT_POINTS
    scratch = (
        np.empty(deep + 1, np.int64),
        np.empty((deep + 2, codes.shape[1]), np.uint16),
        np.empty((deep + 2, 2), np.int64),
        np.empty(codes.shape[1] // 2),
    )

    def count(chosen: Array, points: Points, budget: int, cut: float) -> Array:
        found: Array = logs[chosen]
        count_on_trees(codes, *points, found, budget, cut, *scratch)
        known = ~np.isnan(found)
        logs[chosen[known]] = found[known]
        return chosen[known]

    small = method == EXACT or n_points <= SMALL_POINTS
    whole = np.flatnonzero(np.broadcast_to(small, len(logs)))
    owner, number, starts = groups(n_points[whole])
    rows = pairs.of(whole).rows(owner, number)
    budget = LARGE_NODES if method == EXACT else SMALL_NODES
    full = Points(rows, starts, pairs.n_left[whole])
    how[count(whole, full, budget, NEGLIGIBLE)] = HOW_EXACT
    if method == EXACT:
        logs[how == HOW_SAMPLED] = np.nan
        how[how == HOW_SAMPLED] = HOW_FAILED
        return logs, how, errors
    few = np.diff(points.starts) <= SHORT_POINTS
    short = np.flatnonzero((how == HOW_SAMPLED) & few)
    cut = float(np.log(slack / SMALL_NODES))
    done = count(short, points.of(short), SMALL_NODES, cut)
    how[done], errors[done] = HOW_BOUNDS, 2.0 * slack
    return logs, how, errors


def _sample(
    coded: Any,
    points: Points,
    sets: Sets,
    seeds: Array,
    indicator: bool,
    rule: int,
    target: tuple[float, float, float],
    max_samples: int,
) -> tuple[Array, Array, Array, Array]:
    """Sample boxes: logs above the largest set, draws, errors, and whether capped."""
    n, d = coded.rows.shape
    padded = np.zeros((n + 1, -(-d // GROUP) * GROUP), np.uint16)
    padded[:n, :d], padded[n, :d] = coded.rows, coded.top
    width = -(-int(np.diff(points.starts).max()) // LANES) * LANES
    weights, ends = np.exp(sets.logs), ends_of(sets.owner, len(seeds))
    sums = np.empty((len(seeds), 4))
    epsilon, _, z = target
    sample_pairs(
        padded[:n],
        padded[n],
        *points,
        np.stack([sets.first, sets.second]),
        weights,
        ends,
        seeds,
        indicator,
        rule,
        target,
        min(first_look(epsilon, z), max_samples),
        max_samples,
        np.empty(padded.shape[1] * width, np.uint16),
        np.empty(width, np.uint16),
        np.empty(width + 1, np.int32),
        sums,
    )
    total, squares, n_draws, done = sums.T
    mean = total / n_draws
    variance = np.maximum(squares / n_draws - mean * mean, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.where(mean > 0.0, np.sqrt(variance / n_draws) / mean, np.inf)
    return _within(mean, weights[ends[1:] - 1]), n_draws, errors, done == 0.0


def _adjust(
    coded: Any,
    points: Points,
    sets: Sets,
    seeds: Array,
    target: tuple[float, float, float],
    max_samples: int,
) -> tuple[Array, Array, Array, Array]:
    """As `_sample`, by self-adjusting coverage; capped: the boxes ended first."""
    weights, ends = np.exp(sets.logs), ends_of(sets.owner, len(seeds))
    e, delta, _ = target
    most = 2.0 * (1.0 + e) * (2.0 + e) * np.diff(ends) * np.log(2.0 / delta)
    budgets = np.ceil(most / (e * e)).astype(np.int64)
    sums = np.empty((len(seeds), 2), np.int64)
    adjust_pairs(
        coded.rows,
        coded.top,
        points.rows,
        points.starts,
        np.stack([sets.first, sets.second]),
        weights,
        ends,
        seeds,
        budgets,
        max_samples,
        sums,
    )
    tries, boxes = sums.T
    mean = tries / (np.diff(ends) * boxes)
    errors = np.full(len(seeds), np.nan)
    return _within(mean, weights[ends[1:] - 1]), boxes, errors, tries < budgets


def _within(mean: Array, total: Array) -> Array:
    """W lies between the largest set and the sum: an estimate outside is moved."""
    with np.errstate(divide="ignore"):
        logs: Array = np.clip(np.log(mean) + np.log(total), 0.0, np.log(total))
    return logs
