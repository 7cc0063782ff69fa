"""Compiled passes of dual coordinate ascent; see `bagwise.solvers.dual_coordinate`."""

import numpy as np

from bagwise._jit import njit

RECHECK = 10  # passes between two passes over all coordinates
MOVES = 3  # moves made in one visit to a group


@njit()
def shuffle(active, n_active, state):
    """Fisher-Yates with a private xorshift state (no global random state)."""
    for i in range(n_active - 1, 0, -1):
        state ^= (state << np.uint64(13)) & np.uint64(0xFFFFFFFFFFFFFFFF)
        state ^= state >> np.uint64(7)
        state ^= (state << np.uint64(17)) & np.uint64(0xFFFFFFFFFFFFFFFF)
        j = np.int64(state % np.uint64(i + 1))
        active[i], active[j] = active[j], active[i]
    return state


@njit()
def _clipped_step(beta, gradient, curvature, cap):
    """Newton step on one dual variable, clipped to [0, cap]."""
    if curvature <= 0.0:
        return cap if gradient > 0.0 else (0.0 if gradient < 0.0 else beta)
    return min(max(beta + gradient / curvature, 0.0), cap)


@njit()
def _projected(gradient, beta, cap):
    if beta <= 0.0:
        return max(gradient, 0.0)
    if beta >= cap:
        return min(gradient, 0.0)
    return gradient


@njit()
def _begin(Z, index, sign, beta, a, G, q, mu):
    """Norms of the rows, radii of the balls, and v, sum of signs and kappa so far."""
    n_rows, n_balls = len(index), len(a)
    norms, radius = np.empty(n_rows), np.empty(n_balls)
    v = np.zeros(Z.shape[1])
    total, kappa = 0.0, 0.5
    for row in range(n_rows):
        z = Z[index[row]]
        norms[row] = np.dot(z, z)
        if beta[row] != 0.0:
            v += (sign[row] * beta[row]) * z
            total += sign[row] * beta[row]
    for i in range(n_balls):
        # R_i**2, floored: it vanishes when the centre itself is the only point.
        squared = np.dot(G[i], G[i]) / a[i] ** 2 - q[i] / a[i]
        radius[i] = np.sqrt(max(squared, 1e-18))
        kappa += a[i] * mu[i]
        if mu[i] != 0.0:
            v += (2.0 * mu[i]) * G[i]
    return norms, radius, v, total, kappa


@njit()
def _ball_pass(a, G, radius, mu, v, kappa):
    """Maximise the dual along every mu_i, in closed form: kappa, largest violation."""
    largest = 0.0
    for i in range(len(a)):
        shift = 2.0 * kappa / a[i]
        length = 0.0
        gap = 0.0
        for k in range(len(v)):
            length += (v[k] - shift * G[i, k]) ** 2
            gap += (v[k] / (2.0 * kappa) - G[i, k] / a[i]) ** 2
        violation = np.sqrt(gap) / radius[i] - 1.0
        if violation > 0.0 or mu[i] > 0.0:
            largest = max(largest, abs(violation))
        target = np.sqrt(length) / (2.0 * radius[i])
        new_mu = max(0.0, mu[i] + (target - kappa) / a[i])
        step = new_mu - mu[i]
        if step != 0.0:
            mu[i] = new_mu
            kappa += a[i] * step
            for k in range(len(v)):
                v[k] += 2.0 * step * G[i, k]
    return kappa, largest


@njit(
    shapes={
        "Z": "n r",
        "index": "m in n",
        "sign": "m",
        "margin": "m",
        "cap": "m",
        "order": "m in m",
        "beta": "m",
        "a": "s",
        "G": "s r",
        "q": "s",
        "mu": "s",
    }
)
def ascend_dense(
    Z, index, sign, margin, cap, order, beta, a, G, q, mu, bias, tol, max_passes, seed
):
    """Ascend on rows with a slack each, and on balls: v, kappa, passes, violation."""
    rank, n_rows = Z.shape[1], len(index)
    norms, radius, v, total, kappa = _begin(Z, index, sign, beta, a, G, q, mu)
    active = order.copy()
    n_active = n_rows
    state = np.uint64(seed + 88172645463325252)
    slope = 0.0  # largest projected gradient of the last full pass
    worst = np.inf
    full = True
    n_pass = 0
    while n_pass < max_passes:
        n_pass += 1
        full = full or n_pass % RECHECK == 0
        if full:
            active[:] = order
            n_active = n_rows
        state = shuffle(active, n_active, state)
        largest = 0.0
        kept = 0
        for position in range(n_active):
            row = active[position]
            z = Z[index[row]]
            old = beta[row]
            gradient = margin[row] - sign[row] * (
                np.dot(z, v) / (2.0 * kappa) + bias * total
            )
            projected = abs(_projected(gradient, old, cap[row]))
            largest = max(largest, projected)
            if projected > 0.0:
                curvature = norms[row] / (2.0 * kappa) + bias
                new = _clipped_step(old, gradient, curvature, cap[row])
                if new != old:
                    step = sign[row] * (new - old)
                    beta[row] = new
                    total += step
                    for k in range(rank):
                        v[k] += step * z[k]
            # A coordinate at a bound that pulls outwards by more than the last full
            # pass' slope leaves the active list until the next full pass.
            if projected > 0.0 or abs(gradient) <= slope:
                active[kept], active[position] = row, active[kept]
                kept += 1
        n_active = kept
        kappa, violation = _ball_pass(a, G, radius, mu, v, kappa)
        largest = max(largest, violation)
        if full:
            worst = largest
            slope = largest
            if largest < tol:
                break
        # The active coordinates are solved: look at all of them again.
        full = largest < tol or n_active == 0
    return v, kappa, n_pass, worst


@njit()
def _visit_group(
    first, last, Z, index, sign, margin, limit, norms, beta, v, kappa, bias, total
):
    """Improve the rows of one group: violation before, how far it rests, and total."""
    violation, rest = 0.0, 0.0
    moves = 1 if last - first == 1 else MOVES
    for move in range(moves):
        up, down = -1, -1
        best, lowest, mass = -np.inf, np.inf, 0.0
        for row in range(first, last):
            score = np.dot(Z[index[row]], v) / (2.0 * kappa) + bias * total
            slope = margin[row] - sign[row] * score
            mass += beta[row]
            if slope > best:
                best, up = slope, row
            if beta[row] > 0.0 and slope < lowest:
                lowest, down = slope, row
        room = limit - mass
        if room <= 1e-14 * limit:
            room = 0.0
        rise = best if room > 0.0 else 0.0
        fall = -lowest if down >= 0 else 0.0
        transfer = 0.0
        if room == 0.0 and down >= 0 and up != down:
            transfer = best - lowest
        largest = max(rise, fall, transfer)
        if move == 0:
            violation = max(largest, 0.0)
            rest = lowest if down >= 0 and room == 0.0 else -best
        if largest <= 1e-15:
            break
        if transfer >= largest:
            z, other = Z[index[up]], Z[index[down]]
            curvature = norms[up] + norms[down]
            curvature -= 2.0 * sign[up] * sign[down] * np.dot(z, other)
            curvature /= 2.0 * kappa
            curvature += bias * (sign[up] - sign[down]) ** 2
            step = min(transfer / max(curvature, 1e-12), beta[down])
            beta[up] += step
            beta[down] = 0.0 if step >= beta[down] else beta[down] - step
            for k in range(len(v)):
                v[k] += step * (sign[up] * z[k] - sign[down] * other[k])
            total += (sign[up] - sign[down]) * step
            continue
        row, slope = (up, best) if rise >= fall else (down, lowest)
        curvature = max(norms[row] / (2.0 * kappa) + bias, 1e-12)
        step = slope / curvature
        step = min(step, room) if rise >= fall else max(step, -beta[row])
        beta[row] = max(beta[row] + step, 0.0)
        z = Z[index[row]]
        for k in range(len(v)):
            v[k] += sign[row] * step * z[k]
        total += sign[row] * step
    return violation, rest, total


@njit(
    shapes={
        "Z": "n r",
        "index": "m in n",
        "sign": "m",
        "margin": "m",
        "cap": "g",
        "order": "g in g",
        "beta": "m",
        "a": "s",
        "G": "s r",
        "q": "s",
        "mu": "s",
        "start": "g+1 to m",
    }
)
def ascend_groups(
    Z,
    index,
    sign,
    margin,
    cap,
    order,
    beta,
    a,
    G,
    q,
    mu,
    start,
    bias,
    tol,
    max_passes,
    seed,
):
    """Ascend on rows that share slacks, and on balls: as `ascend_dense`."""
    n_groups = len(cap)
    norms, radius, v, total, kappa = _begin(Z, index, sign, beta, a, G, q, mu)
    active = order.copy()
    n_active = n_groups
    state = np.uint64(seed + 88172645463325252)
    slope, worst, full, n_pass = 0.0, np.inf, True, 0
    while n_pass < max_passes:
        n_pass += 1
        full = full or n_pass % RECHECK == 0
        if full:
            active[:] = order
            n_active = n_groups
        state = shuffle(active, n_active, state)
        largest, kept = 0.0, 0
        for position in range(n_active):
            g = active[position]
            violation, rest, total = _visit_group(
                start[g],
                start[g + 1],
                Z,
                index,
                sign,
                margin,
                cap[g],
                norms,
                beta,
                v,
                kappa,
                bias,
                total,
            )
            largest = max(largest, violation)
            if violation > 0.0 or rest <= slope:
                active[kept], active[position] = g, active[kept]
                kept += 1
        n_active = kept
        kappa, violation = _ball_pass(a, G, radius, mu, v, kappa)
        largest = max(largest, violation)
        if full:
            worst, slope = largest, largest
            if largest < tol:
                break
        full = largest < tol or n_active == 0
    return v, kappa, n_pass, worst


@njit(
    shapes={
        "data": "e",
        "indices": "e in r",
        "indptr": "n+1 to e",
        "index": "m in n",
        "sign": "m",
        "margin": "m",
        "cap": "m",
        "order": "m in m",
        "beta": "m",
        "v": "r",
    }
)
def ascend_csr(
    data,
    indices,
    indptr,
    index,
    sign,
    margin,
    cap,
    order,
    beta,
    v,
    bias,
    tol,
    max_passes,
    seed,
):
    """Ascend on sparse rows with a slack each: passes, violation; `v` comes as zero."""
    n_rows = len(index)
    norms = np.zeros(n_rows)
    total = 0.0
    for row in range(n_rows):
        for k in range(indptr[index[row]], indptr[index[row] + 1]):
            norms[row] += data[k] * data[k]
            v[indices[k]] += sign[row] * beta[row] * data[k]
        total += sign[row] * beta[row]
    active = order.copy()
    n_active = n_rows
    state = np.uint64(seed + 88172645463325252)
    slope = 0.0
    worst = np.inf
    full = True
    n_pass = 0
    while n_pass < max_passes:
        n_pass += 1
        full = full or n_pass % RECHECK == 0
        if full:
            active[:] = order
            n_active = n_rows
        state = shuffle(active, n_active, state)
        largest = 0.0
        kept = 0
        for position in range(n_active):
            row = active[position]
            start, stop = indptr[index[row]], indptr[index[row] + 1]
            score = bias * total
            for k in range(start, stop):
                score += data[k] * v[indices[k]]
            old = beta[row]
            gradient = margin[row] - sign[row] * score
            projected = abs(_projected(gradient, old, cap[row]))
            largest = max(largest, projected)
            if projected > 0.0:
                new = _clipped_step(old, gradient, norms[row] + bias, cap[row])
                if new != old:
                    step = sign[row] * (new - old)
                    beta[row] = new
                    total += step
                    for k in range(start, stop):
                        v[indices[k]] += step * data[k]
            if projected > 0.0 or abs(gradient) <= slope:
                active[kept], active[position] = row, active[kept]
                kept += 1
        n_active = kept
        if full:
            worst = largest
            slope = largest
            if largest < tol:
                break
        full = largest < tol or n_active == 0
    return n_pass, worst
