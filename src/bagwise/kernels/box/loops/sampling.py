"""Random boxes: Monte Carlo counts for pairs of bags, and which boxes hit which bags.

The sets B(p and q) of the pairs in play have known sizes w and sum U. A box c is drawn
from the union with multiplicity: a pair with probability w / U, then corners uniformly.
With coverage(c) the number of pairs that hold c, 1 / coverage(c) has mean W / U; so has
the indicator that the drawn pair is the first to hold c, with a larger variance.

Hits are tested 64 instances at a time. For every dimension and level one bit set says
which instances are at least, and which at most, at that level. An instance lies in a
box iff its bit survives the AND of two sets per dimension; a bag is hit iff one of its
words is not zero.
"""

import numpy as np

from bagwise._jit import njit
from bagwise.kernels.box.loops.points import GROUP, LANES, next64

CLT, BERNSTEIN = 0, 1
FIRST_CHECK = 64
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_S11 = np.uint64(11)
_UNIT = 1.0 / 9007199254740992.0  # 2**-53


@njit(nogil=True, inline="always")
def draw_corners(bits, low, high, top):
    """Draw one side of a box: lo uniform on {0..low}, hi uniform on {high..top}.

    32 bits each by multiplication; the bias is at most 2**-16 for 65,536 levels.
    """
    lo = ((bits >> _HALF) * (np.uint64(low) + np.uint64(1))) >> _HALF
    room = np.uint64(top) - np.uint64(high) + np.uint64(1)
    hi = np.uint64(top) - (((bits & _LOW) * room) >> _HALF)
    return np.uint16(lo), np.uint16(hi)


@njit(nogil=True, inline="always")
def pick(bits, cumulative, n):
    """Index below n drawn with the probabilities whose running sum is given."""
    u = np.float64(bits >> _S11) * _UNIT * cumulative[n - 1]
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] <= u:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True)
def _survivors(local, n_points, a, b, top, state, mask, alive, base):
    """Draw a box around points a and b and list the points it holds, in order.

    Sides are drawn only while some other point is still inside: the rest of the box
    cannot change the list. Points are tested in vectors while many are left, and from
    a list when few are.
    """
    width = mask.shape[0]
    for k in range(width):
        mask[k] = k < n_points
    count = n_points
    in_list = False
    i = 0
    while True:
        over = count == base or i >= top.shape[0]
        if not in_list and (over or count * 16 < n_points):
            kept = 0
            for k in range(width):
                alive[kept] = k
                kept += mask[k]
            in_list = True
        if over:
            return state, count
        for g in range(i, i + GROUP):
            side = local[g * width : (g + 1) * width]
            p, q = side[a], side[b]
            state, bits = next64(state)
            low, high = (p, q) if p < q else (q, p)
            low, high = draw_corners(bits, low, high, top[g])
            span = np.uint16(high - low)
            # unsigned differences wrap around: one comparison tests both ends
            if in_list:
                kept = 0
                for j in range(count):
                    k = alive[j]
                    alive[kept] = k
                    kept += np.uint16(side[k] - low) <= span
                count = kept
            else:
                for k in range(width):
                    inside = np.uint16(side[k] - low) <= span
                    mask[k] = mask[k] if inside else np.uint16(0)
        if not in_list:
            total = np.uint32(0)  # twice as many per vector as 64-bit numbers
            for k in range(width):
                total = np.uint32(total + mask[k])
            count = np.int64(total)
        i += GROUP


def first_look(epsilon, z):
    """Draws before the first look at the stopping rule.

    z**2 / epsilon draws that all equal 1 have probability exp(-z**2) at most when the
    mean is below 1 - epsilon; fewer would say nothing about a relative error epsilon.
    """
    return max(FIRST_CHECK, int(np.ceil(z * z / epsilon)))


@njit(nogil=True, inline="always")
def is_enough(total, squares, n, check, rule, epsilon, delta, z):
    """Whether the mean of n draws in [0, 1] is known to a relative error epsilon.

    CLT: a normal interval whose variance is raised by mu (1 - mu) / n, so that draws
    which happen to be equal do not stop at once. BERNSTEIN: the empirical Bernstein
    bound h at level delta / (k (k + 1)) on the k-th look; |mean - mu| <= h and
    h (1 + epsilon) <= epsilon * mean give |mean - mu| <= epsilon * mu.
    """
    mean = total / n
    variance = squares / n - mean * mean
    if variance < 0.0:
        variance = 0.0
    if rule == CLT:
        spread = variance + mean * (1.0 - mean) / n
        return z * np.sqrt(spread / n) <= epsilon * mean
    log_term = np.log(3.0 * check * (check + 1.0) / delta)
    half = np.sqrt(2.0 * variance * log_term / n) + 3.0 * log_term / n
    return half * (1.0 + epsilon) <= epsilon * mean


@njit(nogil=True, inline="always")
def _accumulate(weights, begin, end):
    """Turn the sizes of the sets into their running sums."""
    for s in range(begin + 1, end):
        weights[s] += weights[s - 1]


@njit(
    nogil=True,
    shapes={
        "rows": "n g",
        "top": "g",
        "points": "p in n",
        "starts": "k+1 to p",
        "n_first": "k",
        "sets": "2 s",
        "weights": "s",
        "ends": "k+1 to s",
        "seeds": "k",
        "local": "*",
        "mask": "w",
        "alive": "w+1",
        "sums": "k 4",
    },
)
def sample_pairs(
    rows,
    top,
    points,
    starts,
    n_first,
    sets,
    weights,
    ends,
    seeds,
    indicator,
    rule,
    target,
    look,
    max_samples,
    local,
    mask,
    alive,
    sums,
):
    """Draw boxes for pairs of bags until `rule` is satisfied.

    The points in play of pair k are ``points[starts[k] : starts[k + 1]]``, the first
    ``n_first[k]`` of them those of the first bag; a bag with itself has no others. The
    sets ``ends[k]`` to ``ends[k + 1]`` are pairs of numbers in this list, with sizes
    `weights`, which become their running sums. Rows and `top` are padded to groups of
    sides; `target` is (epsilon, delta, z), and the rule is first tried after `look`
    draws. `sums` gets the sum of the draws, of their squares, their number, and whether
    the rule was satisfied.
    """
    epsilon, delta, z = target
    for t in range(sums.shape[0]):
        begin, at = ends[t], starts[t]
        m, n_p = starts[t + 1] - at, n_first[t]
        same = n_p == m
        width = -(-m // LANES) * LANES
        for k in range(m):
            for i in range(top.shape[0]):
                local[i * width + k] = rows[points[at + k], i]
        _accumulate(weights, begin, ends[t + 1])
        cumulative = weights[begin : ends[t + 1]]
        state = seeds[t]
        own = mask[:width]
        total = squares = 0.0
        n = check = 0
        done = False
        until = look
        while not done and n < until:
            state, bits = next64(state)
            s = begin + pick(bits, cumulative, cumulative.shape[0])
            a, b = sets[0, s], sets[1, s]
            state, count = _survivors(
                local, m, a, b, top, state, own, alive, 1 if same else 2
            )
            of_p = 0
            while of_p < count and alive[of_p] < n_p:
                of_p += 1
            value = 1.0 / (of_p if same else of_p * (count - of_p))
            if indicator:  # sorted: its first points are the first pair
                is_first = alive[0] == a and (same or alive[of_p] == b)
                value = 1.0 if is_first else 0.0
            total += value
            squares += value * value
            n += 1
            if n == until:
                check += 1
                done = is_enough(total, squares, n, check, rule, epsilon, delta, z)
                until = n + n // 4
                if until > max_samples:
                    until = max_samples
        sums[t, 0], sums[t, 1], sums[t, 2], sums[t, 3] = total, squares, n, done


@njit(nogil=True)
def _in_box(row, lo, hi):
    for i in range(lo.shape[0]):
        if row[i] < lo[i] or row[i] > hi[i]:
            return False
    return True


@njit(
    nogil=True,
    shapes={
        "rows": "n d",
        "top": "d",
        "points": "p in n",
        "starts": "k+1 to p",
        "sets": "2 s",
        "weights": "s",
        "ends": "k+1 to s",
        "seeds": "k",
        "budgets": "k",
        "sums": "k 2",
    },
)
def adjust_pairs(
    rows, top, points, starts, sets, weights, ends, seeds, budgets, max_samples, sums
):
    """Self-adjusting coverage: draw sets until one holds the box, `budgets[k]` in all.

    With M sets a box c needs M / coverage(c) draws on average, so draws per box
    estimate M W / U. Points and sets are those of `sample_pairs`; `sums` gets the
    numbers of draws and of boxes.
    """
    lo = np.empty(top.shape[0], np.uint16)
    hi = np.empty(top.shape[0], np.uint16)
    for t in range(sums.shape[0]):
        begin, at = ends[t], starts[t]
        _accumulate(weights, begin, ends[t + 1])
        cumulative = weights[begin : ends[t + 1]]
        n_sets = cumulative.shape[0]
        state = seeds[t]
        tries = 0
        boxes = 0
        while tries < budgets[t] and boxes < max_samples:
            state, bits = next64(state)
            s = begin + pick(bits, cumulative, n_sets)
            p_row, q_row = rows[points[at + sets[0, s]]], rows[points[at + sets[1, s]]]
            for f in range(top.shape[0]):
                p, q = p_row[f], q_row[f]
                state, bits = next64(state)
                lo[f], hi[f] = draw_corners(bits, min(p, q), max(p, q), top[f])
            boxes += 1
            while tries < budgets[t]:
                state, bits = next64(state)
                s = begin + np.int64(((bits >> _HALF) * np.uint64(n_sets)) >> _HALF)
                tries += 1
                if _in_box(rows[points[at + sets[0, s]]], lo, hi):
                    if _in_box(rows[points[at + sets[1, s]]], lo, hi):
                        break
        sums[t, 0], sums[t, 1] = tries, boxes


_ONE, _ZERO = np.uint64(1), np.uint64(0)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_M1 = np.uint64(0x5555555555555555)
_M2 = np.uint64(0x3333333333333333)
_M4 = np.uint64(0x0F0F0F0F0F0F0F0F)
_H01 = np.uint64(0x0101010101010101)
_S32 = np.uint64(32)
_TWO53 = 9007199254740992.0
_S1, _S2, _S4, _S56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


@njit(nogil=True, shapes={"offsets": "b+1"})
def word_offsets(offsets):
    """First word of every bag: bags begin on a word of their own."""
    words = np.zeros(offsets.shape[0], np.int64)
    for b in range(offsets.shape[0] - 1):
        words[b + 1] = words[b] + (offsets[b + 1] - offsets[b] + 63) // 64
    return words


@njit(nogil=True)
def _intersect(out, other):
    for k in range(out.shape[0]):
        out[k] &= other[k]


@njit(nogil=True)
def _unite(out, other):
    for k in range(out.shape[0]):
        out[k] |= other[k]


def pack_levels(rows, offsets, words, n_levels):
    """Bit sets `at_least[i, v]` and `at_most[i, v]` over the instances of all bags.

    Bits behind the last instance of a bag stay zero everywhere: they are in no box.
    """
    at_least = np.zeros((rows.shape[1], n_levels, words[-1]), np.uint64)
    at_most = np.zeros_like(at_least)
    _pack(rows, offsets, words, at_least, at_most)
    return at_least, at_most


@njit(
    nogil=True,
    shapes={
        "rows": "n d in v",
        "offsets": "b+1 to n",
        "words": "b+1 to w",
        "at_least": "d v w",
        "at_most": "d v w",
    },
)
def _pack(rows, offsets, words, at_least, at_most):
    d, n_levels = at_least.shape[0], at_least.shape[1]
    for b in range(offsets.shape[0] - 1):
        for k in range(offsets[b + 1] - offsets[b]):
            word = words[b] + k // 64
            bit = _ONE << np.uint64(k % 64)
            for i in range(d):
                v = rows[offsets[b] + k, i]
                at_least[i, v, word] |= bit
                at_most[i, v, word] |= bit
    for i in range(d):
        for v in range(1, n_levels):
            _unite(at_most[i, v], at_most[i, v - 1])
            u = n_levels - 1 - v
            _unite(at_least[i, u], at_least[i, u + 1])


@njit(nogil=True)
def _inside(at_least, at_most, lo, hi, top, out):
    """Bit set of the instances inside one box; whole sides change nothing.

    A side from level 0 to the top still has to clear the padding bits, which the
    first AND does.
    """
    out[:] = at_least[0, lo[0]]
    for i in range(lo.shape[0]):
        if lo[i] > 0 and i > 0:
            _intersect(out, at_least[i, lo[i]])
        if hi[i] < top[i]:
            _intersect(out, at_most[i, hi[i]])


@njit(nogil=True)
def _bit_count(words):
    """Number of set bits, by the usual sums of neighboring fields."""
    total = 0
    for k in range(words.shape[0]):
        x = words[k]
        x = x - ((x >> _S1) & _M1)
        x = (x & _M2) + ((x >> _S2) & _M2)
        x = (x + (x >> _S4)) & _M4
        total += np.int64((x * _H01) >> _S56)
    return total


@njit(
    nogil=True,
    shapes={
        "at_least": "d v w",
        "at_most": "d v w",
        "words": "b+1 to w",
        "low": "t d in v",
        "high": "t d in v",
        "top": "d",
    },
)
def packed_hits(at_least, at_most, words, low, high, top):
    """Matrix (n_boxes, n_bags) of 0 and 1: which boxes hold a point of which bag."""
    n_boxes = low.shape[0]
    n_bags = words.shape[0] - 1
    hits = np.zeros((n_boxes, n_bags), np.uint8)
    inside = np.empty(words[-1], np.uint64)
    for t in range(n_boxes):
        _inside(at_least, at_most, low[t], high[t], top, inside)
        for b in range(n_bags):
            any_bit = _ZERO
            for w in range(words[b], words[b + 1]):
                any_bit |= inside[w]
            hits[t, b] = any_bit != _ZERO
    return hits


@njit(
    nogil=True,
    shapes={
        "at_least": "d v w",
        "at_most": "d v w",
        "low": "t d in v",
        "high": "t d in v",
        "top": "d",
    },
)
def packed_counts(at_least, at_most, low, high, top):
    """Number of packed instances inside each box."""
    counts = np.empty(low.shape[0], np.int64)
    inside = np.empty(at_least.shape[2], np.uint64)
    for t in range(low.shape[0]):
        _inside(at_least, at_most, low[t], high[t], top, inside)
        counts[t] = _bit_count(inside)
    return counts


@njit(
    nogil=True,
    shapes={"rows": "n d", "offsets": "b+1 to n", "low": "t d", "high": "t d"},
)
def plain_hits(rows, offsets, low, high):
    """`packed_hits` one instance after the other, for grids of very many levels."""
    n_bags = offsets.shape[0] - 1
    hits = np.zeros((low.shape[0], n_bags), np.uint8)
    for t in range(low.shape[0]):
        for b in range(n_bags):
            for r in range(offsets[b], offsets[b + 1]):
                inside = True
                for i in range(rows.shape[1]):
                    if rows[r, i] < low[t, i] or rows[r, i] > high[t, i]:
                        inside = False
                        break
                if inside:
                    hits[t, b] = 1
                    break
    return hits


@njit(nogil=True, shapes={"rows": "n d", "low": "t d", "high": "t d"})
def plain_counts(rows, low, high):
    """`packed_counts` one instance after the other."""
    counts = np.zeros(low.shape[0], np.int64)
    for t in range(low.shape[0]):
        for r in range(rows.shape[0]):
            inside = True
            for i in range(rows.shape[1]):
                if rows[r, i] < low[t, i] or rows[r, i] > high[t, i]:
                    inside = False
                    break
            counts[t] += inside
    return counts


@njit(nogil=True)
def _any_interval(bits, top):
    """Uniform interval of the levels 0 to top: two distinct ones of top + 2 ends."""
    a = np.int64(((bits >> _S32) * (np.uint64(top) + np.uint64(2))) >> _S32)
    b = np.int64(((bits & _LOW) * (np.uint64(top) + np.uint64(1))) >> _S32)
    b += b >= a
    return np.uint16(min(a, b)), np.uint16(max(a, b) - 1)


@njit(nogil=True, shapes={"points": "n d", "cumulative": "n", "top": "d"})
def draw_boxes(points, cumulative, top, share, n_boxes, state):
    """Boxes around points drawn with given weights; corners uniform for the point.

    A `share` of the boxes is uniform on all boxes of the grid instead.
    """
    d = points.shape[1]
    low = np.empty((n_boxes, d), np.uint16)
    high = np.empty((n_boxes, d), np.uint16)
    for t in range(n_boxes):
        state, bits = next64(state)
        anywhere = np.float64(bits >> _S11) < share * _TWO53
        state, bits = next64(state)
        p = pick(bits, cumulative, cumulative.shape[0])
        for i in range(d):
            state, bits = next64(state)
            if anywhere:
                low[t, i], high[t, i] = _any_interval(bits, top[i])
            else:
                v = points[p, i]
                low[t, i], high[t, i] = draw_corners(bits, v, v, top[i])
    return low, high, state


@njit(
    nogil=True,
    shapes={
        "left": "t a",
        "right": "t b",
        "values": "t",
        "totals": "a b",
        "squares": "a b",
    },
)
def add_common_boxes(left, right, values, totals, squares):
    """Add the values of the boxes that hit both bags, box after box.

    The inner loop runs over the bags on the right, so that every pair sums in the
    order of the boxes: the result does not depend on which bags come together.
    """
    n_right = right.shape[1]
    hit = np.empty(n_right)
    for t in range(values.shape[0]):
        value = values[t]
        for j in range(n_right):
            hit[j] = right[t, j]
        for i in range(left.shape[1]):
            if left[t, i]:
                row, row2 = totals[i], squares[i]
                for j in range(n_right):
                    row[j] += value * hit[j]
                    row2[j] += value * value * hit[j]


@njit(
    nogil=True, shapes={"hits": "t a", "values": "t", "totals": "a 1", "squares": "a 1"}
)
def add_own_boxes(hits, values, totals, squares):
    """The diagonal of `add_common_boxes`, in the one column of the totals."""
    for t in range(values.shape[0]):
        value = values[t]
        for i in range(hits.shape[1]):
            hit = np.float64(hits[t, i])
            totals[i, 0] += value * hit
            squares[i, 0] += value * value * hit


@njit(
    nogil=True,
    shapes={
        "totals": "a b",
        "squares": "a b",
        "means": "a b",
        "errors": "a b",
        "draws": "a b",
    },
)
def settle(totals, squares, n, check, rule, target, means, errors, draws):
    """Freeze the pairs that satisfy the stopping rule; how many are still open."""
    epsilon, delta, z = target
    still_open = 0
    for i in range(totals.shape[0]):
        for j in range(totals.shape[1]):
            if draws[i, j] > 0:
                continue
            total = totals[i, j]
            if total > 0.0 and is_enough(
                total, squares[i, j], n, check, rule, epsilon, delta, z
            ):
                mean = total / n
                means[i, j] = mean
                variance = max(squares[i, j] / n - mean * mean, 0.0)
                errors[i, j] = np.sqrt(variance / n) / mean
                draws[i, j] = n
            else:
                still_open += 1
    return still_open
