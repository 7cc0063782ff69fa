"""Which pairs of points matter for the number of boxes that hit two bags.

A pair (p, q) covers |B(p and q)| boxes. In many dimensions these numbers differ by
hundreds of orders of magnitude, and only a few pairs carry the sum. All pairs are
compared in 16-bit logarithms first; those whose total is provably below `slack` times
the largest pair are left out, and only the others are counted in floats.
"""

import numpy as np

from bagwise._jit import njit
from bagwise.kernels.box.loops.points import UNROLL, log_product

AUTO, EXACT, COVERAGE, INDICATOR, SELF_ADJUSTING = 0, 1, 2, 3, 4
HOW_EXACT, HOW_BOUNDS, HOW_SAMPLED, HOW_BOXES, HOW_FAILED = 0, 1, 2, 3, 4
STORE = 1 << 23  # coarse sums kept between the two passes (16 MB), else recomputed


@njit(nogil=True)
def _coarse_row(own, p, block, acc):
    """Coarse log counts of point `p` against every point of a block; the largest."""
    for q in range(acc.shape[0]):
        acc[q] = 0
    for k in range(0, block.shape[0], UNROLL):
        r0, r1, r2, r3 = block[k], block[k + 1], block[k + 2], block[k + 3]
        r4, r5, r6, r7 = block[k + 4], block[k + 5], block[k + 6], block[k + 7]
        a0, a1, a2, a3 = own[k, p], own[k + 1, p], own[k + 2, p], own[k + 3, p]
        a4, a5, a6, a7 = own[k + 4, p], own[k + 5, p], own[k + 6, p], own[k + 7, p]
        for q in range(acc.shape[0]):
            acc[q] += np.uint16(
                min(r0[q], a0)
                + min(r1[q], a1)
                + min(r2[q], a2)
                + min(r3[q], a3)
                + min(r4[q], a4)
                + min(r5[q], a5)
                + min(r6[q], a6)
                + min(r7[q], a7)
            )
    top = np.uint16(0)
    for q in range(acc.shape[0]):
        top = max(top, acc[q])
    return top


@njit(nogil=True)
def screen(
    rows,
    offsets,
    blocks,
    starts,
    top,
    left,
    right,
    same,
    begin,
    coarse,
    target,
    method,
    sums,
    factors,
    where,
    first,
    second,
    logs,
    points,
    ends,
    places,
    log_counts,
    how,
    errors,
):
    """Pairs of points with their log counts for the pairs of bags from `begin` on.

    `coarse` is (unit, error): `error` bounds how far a coarse sum times `unit` lies
    below its true logarithm. A bag with itself has the sets of its points instead.
    `first`, `second` and `logs` are filled up to ``ends[k + 1]`` behind pair k of bags,
    and `points`, the rows that occur in them, up to ``places[k + 1, 0]``: those of the
    first bag, ``places[k, 1]`` of them, then those of the second. `first` and `second`
    count in this list. AUTO keeps none of the pairs whose bounds agree: their count is
    known. Returns the pair of bags where the room was spent, and the room it needs.
    """
    unit, error = coarse
    epsilon, slack = target
    height = blocks.shape[0] // starts[-1]
    used = 0
    for k in range(begin, left.shape[0]):
        i, j = left[k], right[k]
        n_p = offsets[i + 1] - offsets[i]
        n_q = offsets[j + 1] - offsets[j]
        at_p, at_q = offsets[i], offsets[j]
        n_pairs = n_p if same[k] else n_p * n_q
        count = 0
        if same[k]:
            count = n_p
            if used + count <= first.shape[0]:
                for p in range(n_p):
                    first[used + p] = p
                    second[used + p] = p
        else:
            # The longer side is the block, as long as its sums can be kept: the order
            # of the pairs must not depend on it.
            flip = n_q < n_p and n_q * (starts[i + 1] - starts[i]) <= sums.shape[0]
            if flip:
                i, j = j, i
            n_own = offsets[i + 1] - offsets[i]
            own_width = starts[i + 1] - starts[i]
            width = starts[j + 1] - starts[j]
            own = blocks[height * starts[i] : height * starts[i + 1]]
            own = own.reshape(height, own_width)
            block = blocks[height * starts[j] : height * starts[j + 1]]
            block = block.reshape(height, width)
            stored = n_own * width <= sums.shape[0]
            largest = np.uint16(0)
            for p in range(n_own):
                line = p * width if stored else 0
                acc = sums[line : line + width]
                largest = max(largest, _coarse_row(own, p, block, acc))
            margin = (error + np.log(n_pairs / slack)) / unit
            cut = np.float64(largest) - margin
            for p in range(n_p):
                if not stored:
                    _coarse_row(own, p, block, sums[:width])
                for q in range(n_q):
                    line = q * width + p if flip else p * width + q
                    if sums[line if stored else q] >= cut:
                        if used + count < first.shape[0]:
                            first[used + count] = p
                            second[used + count] = q
                        count += 1
        if used + count > first.shape[0]:
            return k, count
        log_max = -np.inf
        for m in range(used, used + count):
            p, q = at_p + first[m], at_q + second[m]
            for f in range(top.shape[0]):
                a, b = rows[p, f], rows[q, f]
                low, high = np.float64(min(a, b)), np.float64(max(a, b))
                factors[f] = (low + 1.0) * (np.float64(top[f]) - high + 1.0)
            logs[m] = log_product(factors)
            log_max = max(log_max, logs[m])
        # Drop the pairs that together hold less than `slack` times the largest.
        cut = log_max - np.log(n_pairs / slack)
        end = used
        total = slack
        for m in range(used, used + count):
            if logs[m] >= cut:
                first[end] = first[m]
                second[end] = second[m]
                logs[end] = logs[m]
                total += np.exp(logs[m] - log_max)
                end += 1
        log_counts[k] = log_max
        how[k] = HOW_SAMPLED
        if method == AUTO and n_pairs == 1:  # one set: its size
            how[k] = HOW_EXACT
            end = used
        elif method == AUTO and total <= (1.0 + epsilon) / (1.0 - epsilon):
            # The harmonic middle of the bounds is off by (U - max) / (U + max) at most.
            log_counts[k] = log_max + np.log(2.0 * total / (1.0 + total))
            errors[k] = (total - 1.0) / (total + 1.0)
            how[k] = HOW_BOUNDS
            end = used
        # Number the points that are left.
        n_all = n_p if same[k] else n_p + n_q
        for r in range(n_all):
            where[r] = -1
        for m in range(used, end):
            where[first[m]] = 0
            if not same[k]:
                second[m] += n_p
                where[second[m]] = 0
        count = 0
        for r in range(n_all):
            if r == n_p:
                places[k, 1] = count
            if where[r] == 0:
                where[r] = count
                points[places[k, 0] + count] = at_p + r if r < n_p else at_q + r - n_p
                count += 1
        if same[k]:
            places[k, 1] = count
        for m in range(used, end):
            first[m] = where[first[m]]
            second[m] = where[second[m]]
        places[k + 1, 0] = places[k, 0] + count
        used = end
        ends[k + 1] = used
    return left.shape[0], 0
