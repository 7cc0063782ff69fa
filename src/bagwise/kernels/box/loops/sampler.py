"""Monte Carlo counts of the boxes that hit two bags, one random stream per pair.

The sets B(p and q) of the pairs in play have known sizes w and sum U. A box c is drawn
from the union with multiplicity: a pair with probability w / U, then corners uniformly.
With coverage(c) the number of pairs that hold c, 1 / coverage(c) has mean W / U; so has
the indicator that the drawn pair is the first to hold c, with a larger variance.
"""

import numpy as np

from bagwise._jit import njit
from bagwise.kernels.box.loops.points import GROUP, next64

COVERAGE, INDICATOR = 0, 1
CLT, BERNSTEIN = 0, 1
FIRST_CHECK = 64
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_S11 = np.uint64(11)
_UNIT = 1.0 / 9007199254740992.0  # 2**-53


@njit(nogil=True)
def draw_corners(bits, low, high, top):
    """Draw one side of a box: lo uniform on {0..low}, hi uniform on {high..top}.

    32 bits each by multiplication; the bias is at most 2**-16 for 65,536 levels.
    """
    lo = ((bits >> _HALF) * (np.uint64(low) + np.uint64(1))) >> _HALF
    room = np.uint64(top) - np.uint64(high) + np.uint64(1)
    hi = np.uint64(top) - (((bits & _LOW) * room) >> _HALF)
    return np.uint16(lo), np.uint16(hi)


@njit(nogil=True)
def pick(bits, cumulative):
    """Index drawn with the probabilities whose running sum is given."""
    u = np.float64(bits >> _S11) * _UNIT * cumulative[-1]
    k = np.searchsorted(cumulative, u, side="right")
    return min(k, cumulative.shape[0] - 1)


@njit(nogil=True)
def _cut(mask, r0, r1, r2, r3, lo, span):
    """Clear the mask of points outside four sides (lo, lo + span) of a box."""
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


@njit(nogil=True)
def _total(mask):
    count = 0
    for k in range(mask.shape[0]):
        count += mask[k]
    return count


@njit(nogil=True)
def _listed(local, i, lo, span, alive, count):
    """Keep the listed points inside four sides of a box, beginning with side i."""
    for g in range(GROUP):
        row = local[i + g]
        low, width = lo[g], span[g]
        kept = 0
        for j in range(count):
            k = alive[j]
            alive[kept] = k
            kept += np.uint16(row[k] - low) <= width
        count = kept
    return count


@njit(nogil=True)
def _survivors(local, n_points, a, b, top, state, mask, alive, base, sides):
    """Draw a box around points a and b and list the points it holds, in order.

    Sides are drawn only while some other point is still inside: the rest of the box
    cannot change the list. Points are tested in vectors while many are left, and from
    a list when few are.
    """
    lo, span = sides
    for k in range(mask.shape[0]):
        mask[k] = np.uint16(k < n_points)
    count = n_points
    in_list = False
    for i in range(0, local.shape[0], GROUP):
        if count == base:
            break
        for g in range(GROUP):
            row = local[i + g]
            state, bits = next64(state)
            low, high = draw_corners(
                bits, min(row[a], row[b]), max(row[a], row[b]), top[i + g]
            )
            lo[g] = low
            span[g] = high - low
        if in_list:
            count = _listed(local, i, lo, span, alive, count)
            continue
        _cut(mask, local[i], local[i + 1], local[i + 2], local[i + 3], lo, span)
        count = _total(mask)
        if count * 16 < n_points:
            _write_list(mask, alive)
            in_list = True
    if not in_list:
        _write_list(mask, alive)
    return state, count


@njit(nogil=True)
def _write_list(mask, alive):
    count = 0
    for k in range(mask.shape[0]):
        alive[count] = k
        count += mask[k]


@njit(nogil=True)
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


@njit(nogil=True)
def first_look(epsilon, z):
    """Draws before the first look at the stopping rule.

    z**2 / epsilon draws that all equal 1 have probability exp(-z**2) at most when the
    mean is below 1 - epsilon; fewer would say nothing about a relative error epsilon.
    """
    return max(FIRST_CHECK, np.int64(np.ceil(z * z / epsilon)))


@njit(nogil=True)
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
def sample_mean(
    local,
    counts,
    a,
    b,
    cumulative,
    top,
    same,
    indicator,
    rule,
    target,
    max_samples,
    state,
):
    """Draw until `rule` is satisfied: mean, draws, relative standard error, capped.

    `counts` is the number of points of the first bag and of both, `target` is
    (epsilon, delta, z).
    """
    epsilon, delta, z = target
    m_p, m = counts
    mask = np.empty(local.shape[1], np.uint16)
    alive = np.empty(local.shape[1] + 1, np.int32)
    sides = (np.empty(GROUP, np.uint16), np.empty(GROUP, np.uint16))
    ends = np.zeros(local.shape[0], np.uint16)
    for i in range(top.shape[0]):
        ends[i] = top[i]
    base = 1 if same else 2
    total = 0.0
    squares = 0.0
    n = 0
    look = min(first_look(epsilon, z), max_samples)
    check = 0
    while True:
        while n < look:
            state, bits = next64(state)
            k = pick(bits, cumulative)
            p, q = a[k], b[k]
            state, count = _survivors(
                local, m, p, q, ends, state, mask, alive, base, sides
            )
            value = _value(alive, count, m_p, p, q, same, indicator)
            total += value
            squares += value * value
            n += 1
        check += 1
        done = is_enough(total, squares, n, check, rule, epsilon, delta, z)
        if done or n >= max_samples:
            break
        look = min(n + n // 4, max_samples)
    mean = total / n
    variance = max(squares / n - mean * mean, 0.0)
    error = np.sqrt(variance / n) / mean if mean > 0.0 else np.inf
    return mean, n, error, not done


@njit(nogil=True)
def _in_box(local, k, lo, hi):
    for i in range(lo.shape[0]):
        if local[i, k] < lo[i] or local[i, k] > hi[i]:
            return False
    return True


@njit(nogil=True)
def self_adjusting(local, a, b, cumulative, top, budget, max_samples, state):
    """Self-adjusting coverage: draw sets until one holds the box, `budget` in all.

    With M sets a box c needs M / coverage(c) draws on average, so draws per box
    estimate M W / U. Returns W / U, boxes drawn, and whether the cap came first.
    """
    d = top.shape[0]
    n_sets = a.shape[0]
    lo = np.empty(d, np.uint16)
    hi = np.empty(d, np.uint16)
    tries = 0
    boxes = 0
    while tries < budget and boxes < max_samples:
        state, bits = next64(state)
        k = pick(bits, cumulative)
        for i in range(d):
            row = local[i]
            state, bits = next64(state)
            low = min(row[a[k]], row[b[k]])
            high = max(row[a[k]], row[b[k]])
            lo[i], hi[i] = draw_corners(bits, low, high, top[i])
        boxes += 1
        while tries < budget:
            state, bits = next64(state)
            j = np.int64(((bits >> _HALF) * np.uint64(n_sets)) >> _HALF)
            tries += 1
            if _in_box(local, a[j], lo, hi) and _in_box(local, b[j], lo, hi):
                break
    return tries / (np.float64(n_sets) * boxes), boxes, tries < budget
