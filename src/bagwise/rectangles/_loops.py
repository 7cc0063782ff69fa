"""Compiled loops of rectangles: growing, elimination and cover of boxes; Winnow."""

import numpy as np

from bagwise._jit import njit


@njit(nogil=True)
def _extra(x, low, high):
    """How much the total width of the box grows when it takes in a point."""
    total = 0.0
    for f in range(x.shape[0]):
        if x[f] < low[f]:
            total += low[f] - x[f]
        elif x[f] > high[f]:
            total += x[f] - high[f]
    return total


@njit(nogil=True)
def _extremes(X, chosen, low, low2, high, high2):
    """Two smallest and two largest values per feature over the chosen instances."""
    for f in range(low.shape[0]):
        low[f] = low2[f] = np.inf
        high[f] = high2[f] = -np.inf
    for b in range(chosen.shape[0]):
        if chosen[b] < 0:
            continue
        x = X[chosen[b]]
        for f in range(x.shape[0]):
            v = x[f]
            if v < low[f]:
                low2[f] = low[f]
                low[f] = v
            elif v < low2[f]:
                low2[f] = v
            if v > high[f]:
                high2[f] = high[f]
                high[f] = v
            elif v > high2[f]:
                high2[f] = v


@njit(nogil=True)
def _backfit(X, offsets, chosen, ends, rest, tol):
    """Exchange the instance of one bag at a time while the box becomes smaller.

    Without the instance of a bag, its box reaches to the second smallest value where
    that instance is the smallest: no pass over the other bags is needed.
    """
    low, low2, high, high2 = ends[0], ends[1], ends[2], ends[3]
    d = X.shape[1]
    rest_low, rest_high = rest[0], rest[1]
    changed = True
    while changed:
        changed = False
        for b in range(chosen.shape[0]):
            if chosen[b] < 0:
                continue
            x = X[chosen[b]]
            for f in range(d):
                rest_low[f] = low2[f] if x[f] == low[f] else low[f]
                rest_high[f] = high2[f] if x[f] == high[f] else high[f]
            least = _extra(x, rest_low, rest_high)
            best = chosen[b]
            for r in range(offsets[b], offsets[b + 1]):
                extra = _extra(X[r], rest_low, rest_high)
                if extra < least - tol:
                    least = extra
                    best = r
            if best != chosen[b]:
                chosen[b] = best
                _extremes(X, chosen, low, low2, high, high2)
                changed = True


def grow(X, offsets, start, backfit):
    """Greedy smallest box with an instance of every bag, from instance `start` on.

    Returns the chosen instances, the lower and upper ends. Memory is allocated here:
    the compiler takes longer over an allocation than over a loop.
    """
    chosen = np.full(len(offsets) - 1, -1, np.int64)
    ends, rest = np.empty((4, X.shape[1])), np.empty((2, X.shape[1]))
    _grow(X, offsets, start, backfit, chosen, ends, rest)
    return chosen, ends[0], ends[2]


@njit(
    nogil=True,
    shapes={
        "X": "n d",
        "offsets": "b+1 to n",
        "chosen": "b",
        "ends": "4 d",
        "rest": "2 d",
    },
)
def _grow(X, offsets, start, backfit, chosen, ends, rest):
    n_bags = offsets.shape[0] - 1
    d = X.shape[1]
    low, low2, high, high2 = ends[0], ends[1], ends[2], ends[3]
    for b in range(n_bags):
        if offsets[b] <= start < offsets[b + 1]:
            chosen[b] = start
    _extremes(X, chosen, low, low2, high, high2)
    spread = 0.0
    for f in range(d):
        least, most = X[0, f], X[0, f]
        for r in range(1, X.shape[0]):
            least = min(least, X[r, f])
            most = max(most, X[r, f])
        spread += most - least
    for _ in range(n_bags - 1):
        least = np.inf
        best, owner = -1, -1
        for b in range(n_bags):
            if chosen[b] >= 0:
                continue
            for r in range(offsets[b], offsets[b + 1]):
                extra = _extra(X[r], low, high)
                if extra < least:
                    least = extra
                    best, owner = r, b
        chosen[owner] = best
        _extremes(X, chosen, low, low2, high, high2)
        if backfit:
            _backfit(X, offsets, chosen, ends, rest, 1e-12 * spread)


@njit(nogil=True)
def _best_side(pos, neg, upper):
    """Cheapest cut of one side: (positives lost, negatives gone, new end).

    `pos` and `neg` are sorted values inside the box. A lower end just past a negative
    value v loses the positives up to v; the upper end is its mirror image. Of equally
    cheap cuts the one that removes most negatives.
    """
    n_pos, n_neg = pos.shape[0], neg.shape[0]
    best_cost, best_gone, end = n_pos, 0, 0.0
    for k in range(n_neg):
        v = neg[k]
        if upper:
            kept = np.searchsorted(pos, v, side="left")
            gone = n_neg - np.searchsorted(neg, v, side="left")
        else:
            kept = n_pos - np.searchsorted(pos, v, side="right")
            gone = np.searchsorted(neg, v, side="right")
        cost = n_pos - kept
        if kept == 0:
            continue
        if cost < best_cost or (cost == best_cost and gone > best_gone):
            best_cost, best_gone = cost, gone
            neighbor = pos[kept - 1] if upper else pos[n_pos - kept]
            end = v + (neighbor - v) / 2.0
            if end == v:  # there is no float between neighboring floats
                end = neighbor
    return best_cost, best_gone, end


@njit(nogil=True)
def _inside(X, low, high):
    out = np.ones(X.shape[0], np.bool_)
    for r in range(X.shape[0]):
        for f in range(X.shape[1]):
            if X[r, f] < low[f] or X[r, f] > high[f]:
                out[r] = False
                break
    return out


@njit(nogil=True, shapes={"pos": "p d", "neg": "q d", "low": "d", "high": "d"})
def eliminate(pos, neg, low, high):
    """Move sides past negative instances until none is inside (elim-count).

    Each step takes the side whose move costs fewest positive instances. `low` and
    `high` are changed; the number of steps is returned.
    """
    steps = 0
    while True:
        kept = pos[_inside(pos, low, high)]
        bad = neg[_inside(neg, low, high)]
        if bad.shape[0] == 0:
            return steps
        best_cost, best_gone = kept.shape[0], 0
        feature, side, end = -1, False, 0.0
        for f in range(pos.shape[1]):
            p = np.sort(kept[:, f])
            q = np.sort(bad[:, f])
            for upper in (False, True):
                cost, gone, new_end = _best_side(p, q, upper)
                if cost < best_cost or (cost == best_cost and gone > best_gone):
                    best_cost, best_gone = cost, gone
                    feature, side, end = f, upper, new_end
        if feature < 0:  # every cut would remove the last positive instance
            return steps
        if side:
            high[feature] = end
        else:
            low[feature] = end
        steps += 1


def cover(distance, margin):
    """Greedy set cover: features that discriminate the rows of `distance`.

    A feature covers a row that it leaves outside by `margin`; a row without such a
    feature is covered by the one that leaves it furthest outside. Rows inside on all
    features cannot be covered.
    """
    n, d = distance.shape
    chosen, counts = np.zeros(d, np.bool_), np.empty(d, np.int64)
    covers, open_row = np.zeros((n, d), np.bool_), np.empty(n, np.bool_)
    _cover(distance, margin, covers, open_row, counts, chosen)
    return chosen


@njit(
    nogil=True,
    shapes={
        "distance": "n d",
        "covers": "n d",
        "open_row": "n",
        "counts": "d",
        "chosen": "d",
    },
)
def _cover(distance, margin, covers, open_row, counts, chosen):
    n, d = distance.shape
    n_open = 0
    for r in range(n):
        furthest = 0.0
        at = -1
        strong = False
        for f in range(d):
            if distance[r, f] > 0.0 and distance[r, f] >= margin:
                covers[r, f] = True
                strong = True
            if distance[r, f] > furthest:
                furthest = distance[r, f]
                at = f
        if not strong and at >= 0:
            covers[r, at] = True
        open_row[r] = at >= 0
        n_open += at >= 0
    while n_open > 0:
        for f in range(d):
            counts[f] = 0
        for r in range(n):
            if open_row[r]:
                for f in range(d):
                    counts[f] += covers[r, f]
        best = 0
        for f in range(1, d):
            if counts[f] > counts[best]:
                best = f
        chosen[best] = True
        for r in range(n):
            if covers[r, best] and open_row[r]:
                open_row[r] = False
                n_open -= 1


_LARGEST = 1e150  # limit of the weights, against overflow


@njit(nogil=True, shapes={"hit": "g", "present": "g", "absent": "g"})
def weighted_sum(hit, present, absent):
    """Sum for one bag: `present` where a box is hit, `absent` where it is not."""
    total = 0.0
    for g in range(hit.shape[0]):
        total += present[g] if hit[g] else absent[g]
    return total


@njit(nogil=True)
def _update(hit, present, absent, factor, multiplicity):
    for g in range(hit.shape[0]):
        side = present if hit[g] else absent
        new = side[g] * factor
        if 1.0 / _LARGEST < new / multiplicity[g] < _LARGEST:
            side[g] = new


@njit(nogil=True, shapes={"hits": "n g", "signs": "n", "present": "g", "absent": "g"})
def count_errors(hits, signs, present, absent, theta):
    """Number of bags on the wrong side of the threshold."""
    errors = 0
    for i in range(hits.shape[0]):
        positive = weighted_sum(hits[i], present, absent) > theta
        errors += positive != (signs[i] > 0.0)
    return errors


@njit(
    nogil=True,
    shapes={
        "hits": "n g",
        "signs": "n",
        "order": "m in n",
        "present": "g",
        "absent": "g",
        "multiplicity": "g",
    },
)
def winnow_pass(hits, signs, order, present, absent, multiplicity, theta, alpha):
    """Go through the bags once; the weights carry their multiplicity.

    On a missed positive bag the active weights are multiplied by alpha, on a false
    alarm divided. Every box has one active attribute: hit or not hit.
    """
    mistakes = 0
    for i in order:
        positive = weighted_sum(hits[i], present, absent) > theta
        if positive != (signs[i] > 0.0):
            mistakes += 1
            factor = 1.0 / alpha if positive else alpha
            _update(hits[i], present, absent, factor, multiplicity)
    return mistakes
