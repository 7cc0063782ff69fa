"""Log counts for a list of bag pairs: bounds, exact tree or sampling for each."""

import numpy as np

from bagwise._jit import njit
from bagwise.kernels.box.loops.points import mix64
from bagwise.kernels.box.loops.sampler import sample_mean, self_adjusting
from bagwise.kernels.box.loops.screen import (
    gather_local,
    largest,
    pairs_that_matter,
    points_that_matter,
)
from bagwise.kernels.box.loops.tree import NEGLIGIBLE, line_count, tree_count

AUTO, EXACT, COVERAGE, INDICATOR, SELF_ADJUSTING = 0, 1, 2, 3, 4
HOW_EXACT, HOW_BOUNDS, HOW_SAMPLED, HOW_BOXES, HOW_FAILED = 0, 1, 2, 3, 4
_SAME = np.uint64(0xD6E8FEB86659FD93)


@njit(nogil=True)
def _equal(P, Q):
    if P.shape[0] != Q.shape[0]:
        return False
    for k in range(P.shape[0]):
        for i in range(P.shape[1]):
            if P[k, i] != Q[k, i]:
                return False
    return True


@njit(nogil=True)
def _estimate(P, Q, same, sets, top, method, rule, target, limits, seed):
    """Sample the ratio W / U of the sets in play; logs of the bounds come along."""
    first, second, logs, log_max = sets
    epsilon, delta, slack, z = target
    local, m_p, m, a, b = gather_local(P, Q, first, second, same)
    cumulative = np.empty(logs.shape[0])
    running = 0.0
    for k in range(logs.shape[0]):
        running += np.exp(logs[k] - log_max)
        cumulative[k] = running
    log_sum = log_max + np.log(cumulative[-1])
    max_samples = limits[1]
    inner = (epsilon - slack, delta, z)  # what was left out takes its part of epsilon
    if method == SELF_ADJUSTING:
        e = inner[0]
        tries = 2.0 * (1.0 + e) * (2.0 + e) * logs.shape[0] * np.log(2.0 / delta)
        budget = np.int64(np.ceil(tries / (e * e)))
        mean, n, capped = self_adjusting(
            local, a, b, cumulative, top, budget, max_samples, seed
        )
        error = np.nan
    else:
        mean, n, error, capped = sample_mean(
            local,
            (m_p, m),
            a,
            b,
            cumulative,
            top,
            same,
            method == INDICATOR,
            rule,
            inner,
            max_samples,
            seed,
        )
    log_count = log_sum + np.log(mean) if mean > 0.0 else log_max
    # W lies between the largest set and the sum: an estimate outside is moved there.
    log_count = min(max(log_count, log_max), log_sum)
    return log_count, n, error, capped


@njit(nogil=True)
def _marked(points, numbers):
    """Rows of `points` whose number occurs."""
    mark = np.zeros(points.shape[0], np.bool_)
    for k in range(numbers.shape[0]):
        mark[numbers[k]] = True
    count = 0
    for r in range(points.shape[0]):
        count += mark[r]
    out = np.empty((count, points.shape[1]), points.dtype)
    m = 0
    for r in range(points.shape[0]):
        if mark[r]:
            for i in range(points.shape[1]):
                out[m, i] = points[r, i]
            m += 1
    return out


@njit(nogil=True)
def _short_tree(P, Q, same, first, second, top, log_max, slack, limits):
    """Count on a tree cut short, or NaN when even that is too large.

    In many dimensions boxes around three points are rare, and few branches matter. At
    most `nodes` branches of at most slack / nodes are cut, which is `slack` in all; the
    points that were left out before are another `slack`.
    """
    _, _, _, nodes, most = limits
    points_p = _marked(P, first)
    points_q = points_p if same else _marked(Q, second)
    size = points_p.shape[0] if same else points_p.shape[0] + points_q.shape[0]
    if size > most:
        return np.nan
    cut = np.log(slack / nodes)
    return tree_count(points_p, points_q, same, top, log_max, nodes, cut)


@njit(nogil=True)
def _one_pair(P, Q, same, blocks, top, coarse, method, rule, target, limits, seed):
    """Log count, how, draws, relative standard error and whether the cap came first.

    `coarse` is (unit, error); `target` (epsilon, delta, slack, z); `limits` the nodes
    of an exact tree, the largest number of draws, then for AUTO the points of an exact
    tree, the nodes of a tree, and the points of one that is cut short.
    """
    epsilon, _, slack, _ = target
    if (method == EXACT or method == AUTO) and top.shape[0] == 1:
        return line_count(P, Q, top), HOW_EXACT, 0, 0.0, False
    if same:
        first, second, logs = points_that_matter(P, top, slack)
    else:
        first, second, logs = pairs_that_matter(
            P, Q, blocks[0], blocks[1], top, coarse[1], coarse[0], slack
        )
    log_max = largest(logs)
    if method == EXACT:
        log_count = tree_count(P, Q, same, top, log_max, limits[0], NEGLIGIBLE)
        how = HOW_FAILED if np.isnan(log_count) else HOW_EXACT
        return log_count, how, 0, 0.0, False
    if method == AUTO:
        size = P.shape[0] if same else P.shape[0] + Q.shape[0]
        if P.shape[0] == 1 and (same or Q.shape[0] == 1):  # one set: its size
            return log_max, HOW_EXACT, 0, 0.0, False
        total = slack
        for k in range(logs.shape[0]):
            total += np.exp(logs[k] - log_max)
        if total <= (1.0 + epsilon) / (1.0 - epsilon):
            # The harmonic middle of the bounds is off by (U - max) / (U + max) at most.
            log_count = log_max + np.log(2.0 * total / (1.0 + total))
            return log_count, HOW_BOUNDS, 0, (total - 1.0) / (total + 1.0), False
        if size <= limits[2]:
            log_count = tree_count(P, Q, same, top, log_max, limits[3], NEGLIGIBLE)
            if not np.isnan(log_count):
                return log_count, HOW_EXACT, 0, 0.0, False
        log_count = _short_tree(P, Q, same, first, second, top, log_max, slack, limits)
        if not np.isnan(log_count):
            return log_count, HOW_BOUNDS, 0, 2.0 * slack, False
    sets = (first, second, logs, log_max)
    log_count, n, error, capped = _estimate(
        P, Q, same, sets, top, method, rule, target, limits, seed
    )
    return log_count, HOW_SAMPLED, n, error, capped


@njit(nogil=True)
def count_pairs(
    coded, left, right, coarse, method, rule, target, limits, seed, log_counts, details
):
    """Fill `log_counts` and `details` for the bag pairs (left[k], right[k]).

    `coded` is (rows, offsets, keys, blocks, starts, height, top). The stream of a pair
    is seeded by the content of its two bags in the order of their hashes, so that it
    depends neither on the order of the bags nor on what else is computed.
    """
    rows, offsets, keys, blocks, starts, height, top = coded
    how, draws, errors, capped = details
    for k in range(left.shape[0]):
        i, j = left[k], right[k]
        if keys[i] > keys[j]:
            i, j = j, i
        P = rows[offsets[i] : offsets[i + 1]]
        Q = rows[offsets[j] : offsets[j + 1]]
        same = i == j or (keys[i] == keys[j] and _equal(P, Q))
        block_p = blocks[height * starts[i] : height * starts[i + 1]]
        block_q = blocks[height * starts[j] : height * starts[j + 1]]
        pair = (
            block_p.reshape(height, starts[i + 1] - starts[i]),
            block_q.reshape(height, starts[j + 1] - starts[j]),
        )
        stream = mix64(mix64(seed ^ keys[i]) + (_SAME if same else keys[j]))
        result = _one_pair(
            P, Q, same, pair, top, coarse, method, rule, target, limits, stream
        )
        log_counts[k] = result[0]
        how[k] = result[1]
        draws[k] = result[2]
        errors[k] = result[3]
        capped[k] = result[4]
