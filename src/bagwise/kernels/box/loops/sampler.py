"""Monte Carlo counts of the boxes that hit two bags, one random stream per pair.

The sets B(p and q) of the pairs in play have known sizes w and sum U. A box c is drawn
from the union with multiplicity: a pair with probability w / U, then corners uniformly.
With coverage(c) the number of pairs that hold c, 1 / coverage(c) has mean W / U; so has
the indicator that the drawn pair is the first to hold c, with a larger variance.
"""

import numpy as np

from bagwise._jit import njit
from bagwise.kernels.box.loops.points import GROUP, LANES, next64
from bagwise.kernels.box.loops.screen import INDICATOR

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


@njit(nogil=True, inline="always")
def _cut(mask, r0, r1, r2, r3, lo, span):
    """Clear the mask of points outside four sides (lo, lo + span) of a box; count."""
    l0, l1, l2, l3 = lo[0], lo[1], lo[2], lo[3]
    s0, s1, s2, s3 = span[0], span[1], span[2], span[3]
    for k in range(mask.shape[0]):
        # unsigned differences wrap around: one comparison tests both ends
        inside = (
            (np.uint16(r0[k] - l0) <= s0)
            & (np.uint16(r1[k] - l1) <= s1)
            & (np.uint16(r2[k] - l2) <= s2)
            & (np.uint16(r3[k] - l3) <= s3)
        )
        mask[k] = mask[k] if inside else np.uint16(0)
    count = 0
    for k in range(mask.shape[0]):
        count += mask[k]
    return count


@njit(nogil=True, inline="always")
def _listed(local, i, lo, span, alive, count):
    """Keep the listed points inside four sides of a box, beginning with side i."""
    for g in range(GROUP):
        low, width = lo[g], span[g]
        kept = 0
        for j in range(count):
            k = alive[j]
            alive[kept] = k
            kept += np.uint16(local[i + g, k] - low) <= width
        count = kept
    return count


@njit(nogil=True)
def _survivors(local, n_points, a, b, top, state, mask, alive, base, lo, span):
    """Draw a box around points a and b and list the points it holds, in order.

    Sides are drawn only while some other point is still inside: the rest of the box
    cannot change the list. Points are tested in vectors while many are left, and from
    a list when few are.
    """
    for k in range(mask.shape[0]):
        mask[k] = np.uint16(k < n_points)
    count = n_points
    in_list = False
    i = 0
    while True:
        over = count == base or i >= local.shape[0]
        if not in_list and (over or count * 16 < n_points):
            kept = 0
            for k in range(mask.shape[0]):
                alive[kept] = k
                kept += mask[k]
            in_list = True
        if over:
            return state, count
        for g in range(GROUP):
            p, q = local[i + g, a], local[i + g, b]
            state, bits = next64(state)
            low, high = draw_corners(bits, min(p, q), max(p, q), top[i + g])
            lo[g] = low
            span[g] = high - low
        if in_list:
            count = _listed(local, i, lo, span, alive, count)
        else:
            r0, r1, r2, r3 = local[i], local[i + 1], local[i + 2], local[i + 3]
            count = _cut(mask, r0, r1, r2, r3, lo, span)
        i += GROUP


@njit(nogil=True, inline="always")
def _value(alive, count, m_p, a, b, same, indicator):
    """One draw of the estimator of W / U from the points inside the box."""
    if same:
        if indicator:
            return 1.0 if alive[0] == a else 0.0
        return 1.0 / count
    of_p = 0
    while of_p < count and alive[of_p] < m_p:
        of_p += 1
    if indicator:  # the list is in order: the first survivors are the first pair
        return 1.0 if alive[0] == a and alive[of_p] == b else 0.0
    return 1.0 / (of_p * (count - of_p))


@njit(nogil=True, inline="always")
def first_look(epsilon, z):
    """Draws before the first look at the stopping rule.

    z**2 / epsilon draws that all equal 1 have probability exp(-z**2) at most when the
    mean is below 1 - epsilon; fewer would say nothing about a relative error epsilon.
    """
    return max(FIRST_CHECK, np.int64(np.ceil(z * z / epsilon)))


@njit(nogil=True, inline="always")
def is_enough(total, squares, n, check, rule, epsilon, delta, z):
    """Whether the mean of n draws in [0, 1] is known to a relative error epsilon.

    CLT: a normal interval whose variance is raised by mu (1 - mu) / n, so that draws
    which happen to be equal do not stop at once. BERNSTEIN: the empirical Bernstein
    bound h at level delta / (k (k + 1)) on the k-th look; |mean - mu| <= h and
    h (1 + epsilon) <= epsilon * mean give |mean - mu| <= epsilon * mu.
    """
    mean = total / n
    variance = max(squares / n - mean * mean, 0.0)
    if rule == CLT:
        spread = variance + mean * (1.0 - mean) / n
        return z * np.sqrt(spread / n) <= epsilon * mean
    log_term = np.log(3.0 * check * (check + 1.0) / delta)
    half = np.sqrt(2.0 * variance * log_term / n) + 3.0 * log_term / n
    return half * (1.0 + epsilon) <= epsilon * mean


@njit(nogil=True)
def _gather(rows, points, begin, end):
    """Coordinates (dimension, point) of the points in play, padded with zeros."""
    d, m = rows.shape[1], end - begin
    local = np.zeros((-(-d // GROUP) * GROUP, -(-m // LANES) * LANES), np.uint16)
    for k in range(m):
        for i in range(d):
            local[i, k] = rows[points[begin + k], i]
    return local


@njit(nogil=True)
def _sums(logs, begin, end, log_max, cumulative):
    """Fill the running sums of the sizes of the sets; the logarithm of their total."""
    running = 0.0
    for k in range(begin, end):
        running += np.exp(logs[k] - log_max)
        cumulative[k - begin] = running
    return log_max + np.log(running)


@njit(nogil=True, inline="always")
def _within(log_sum, mean, log_max):
    """W lies between the largest set and the sum: an estimate outside is moved."""
    log_count = log_sum + np.log(mean) if mean > 0.0 else log_max
    return min(max(log_count, log_max), log_sum)


@njit(nogil=True)
def sample_pairs(
    rows,
    top,
    same,
    todo,
    first,
    second,
    logs,
    points,
    ends,
    places,
    seeds,
    method,
    rule,
    target,
    max_samples,
    scratch,
    log_counts,
    draws,
    errors,
    capped,
):
    """Draw boxes for the pairs `todo` of bags until `rule` is satisfied.

    `top` is padded like the points in play; `log_counts` comes with the logarithm of
    the largest set; `target` is (epsilon, delta, z).
    """
    epsilon, delta, z = target
    cumulative, alive, mask, sides = scratch
    lo, span = sides[0], sides[1]
    for t in range(todo.shape[0]):
        k = todo[t]
        begin, end = ends[k], ends[k + 1]
        n_sets = end - begin
        m = places[k + 1, 0] - places[k, 0]
        local = _gather(rows, points, places[k, 0], places[k + 1, 0])
        log_max = log_counts[k]
        log_sum = _sums(logs, begin, end, log_max, cumulative)
        base = 1 if same[k] else 2
        state = seeds[k]
        own = mask[: local.shape[1]]
        total = 0.0
        squares = 0.0
        n = 0
        check = 0
        done = False
        look = min(first_look(epsilon, z), max_samples)
        while not done and n < look:
            state, bits = next64(state)
            s = begin + pick(bits, cumulative, n_sets)
            a, b = first[s], second[s]
            state, count = _survivors(
                local, m, a, b, top, state, own, alive, base, lo, span
            )
            value = _value(
                alive, count, places[k, 1], a, b, same[k], method == INDICATOR
            )
            total += value
            squares += value * value
            n += 1
            if n == look:
                check += 1
                done = is_enough(total, squares, n, check, rule, epsilon, delta, z)
                look = min(n + n // 4, max_samples)
        mean = total / n
        variance = max(squares / n - mean * mean, 0.0)
        errors[k] = np.sqrt(variance / n) / mean if mean > 0.0 else np.inf
        log_counts[k] = _within(log_sum, mean, log_max)
        draws[k] = n
        capped[k] = not done


@njit(nogil=True)
def _in_box(local, k, lo, hi):
    for i in range(lo.shape[0]):
        if local[i, k] < lo[i] or local[i, k] > hi[i]:
            return False
    return True


@njit(nogil=True)
def adjust_pairs(
    rows,
    top,
    same,
    todo,
    first,
    second,
    logs,
    points,
    ends,
    places,
    seeds,
    target,
    max_samples,
    scratch,
    log_counts,
    draws,
    capped,
):
    """Self-adjusting coverage: draw sets until one holds the box, `budget` in all.

    With M sets a box c needs M / coverage(c) draws on average, so draws per box
    estimate M W / U. Draws are counted in boxes; capped means that they ended first.
    """
    e, delta, _ = target
    cumulative = scratch[0]
    d = rows.shape[1]
    lo = np.empty(d, np.uint16)
    hi = np.empty(d, np.uint16)
    for t in range(todo.shape[0]):
        k = todo[t]
        begin, end = ends[k], ends[k + 1]
        n_sets = end - begin
        local = _gather(rows, points, places[k, 0], places[k + 1, 0])
        log_max = log_counts[k]
        log_sum = _sums(logs, begin, end, log_max, cumulative)
        most = 2.0 * (1.0 + e) * (2.0 + e) * n_sets * np.log(2.0 / delta)
        budget = np.int64(np.ceil(most / (e * e)))
        state = seeds[k]
        tries = 0
        boxes = 0
        while tries < budget and boxes < max_samples:
            state, bits = next64(state)
            s = begin + pick(bits, cumulative, n_sets)
            for f in range(d):
                p, q = local[f, first[s]], local[f, second[s]]
                state, bits = next64(state)
                lo[f], hi[f] = draw_corners(bits, min(p, q), max(p, q), top[f])
            boxes += 1
            while tries < budget:
                state, bits = next64(state)
                s = begin + np.int64(((bits >> _HALF) * np.uint64(n_sets)) >> _HALF)
                tries += 1
                if _in_box(local, first[s], lo, hi):
                    if _in_box(local, second[s], lo, hi):
                        break
        mean = tries / (np.float64(n_sets) * boxes)
        log_counts[k] = _within(log_sum, mean, log_max)
        draws[k] = boxes
        capped[k] = tries < budget
