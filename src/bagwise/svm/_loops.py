"""Which choice of key instances is violated most: compiled search loops.

For a dual vector `delta` the search maximizes the squared norm of
``sum_i delta_i phi(x_{i, c_i}) - (negative part)`` over the choices ``c_i`` of one
instance in each positive bag. Coordinate ascent changes one bag at a time; it cannot
fall, but may stop at a local maximum. `enumerate_choices` is exact and meant for
small products of bag sizes.
"""

import numpy as np

from bagwise._jit import njit

# Minimum relative gain of a change, so that rounding errors cannot cause cycles.
_GAIN = 1e-12
_MAX_SWEEPS = 100


@njit(
    shapes={
        "kernel": "n n",
        "cross": "n",
        "delta": "b",
        "offsets": "b+1 to n",
        "choice": "b in n",
    }
)
def ascend_kernel(kernel, cross, delta, offsets, choice):
    """Coordinate ascent on kernel values; `choice` is changed in place.

    ``cross[j]`` is the inner product of instance `j` with the negative part. Returns
    the value without the constant of the negative part.
    """
    n_bags = choice.shape[0]
    held = np.zeros(kernel.shape[0])
    for i in range(n_bags):
        held += delta[i] * kernel[choice[i]]
    for _ in range(_MAX_SWEEPS):
        changed = False
        for i in range(n_bags):
            d, old = delta[i], choice[i]
            if d == 0.0:
                continue
            best, best_gain = old, -np.inf
            current = 0.0
            for j in range(offsets[i], offsets[i + 1]):
                gain = 2.0 * d * (held[j] - d * kernel[old, j] - cross[j])
                gain += d * d * kernel[j, j]
                if j == old:
                    current = gain
                if gain > best_gain:
                    best, best_gain = j, gain
            if best != old and best_gain > current + _GAIN * abs(current):
                held += d * (kernel[best] - kernel[old])
                choice[i] = best
                changed = True
        if not changed:
            break
    value = 0.0
    for i in range(n_bags):
        value += delta[i] * (held[choice[i]] - 2.0 * cross[choice[i]])
    return value


@njit(
    shapes={
        "rows": "n d",
        "norms": "n",
        "delta": "b",
        "offsets": "b+1 to n",
        "pull": "d",
        "choice": "b in n",
    }
)
def ascend_dense(rows, norms, delta, offsets, pull, choice):
    """Coordinate ascent on dense features; `pull` is the negative part."""
    n_bags, width = choice.shape[0], rows.shape[1]
    held = -pull
    for i in range(n_bags):
        for f in range(width):
            held[f] += delta[i] * rows[choice[i], f]
    for _ in range(_MAX_SWEEPS):
        changed = False
        for i in range(n_bags):
            d, old = delta[i], choice[i]
            if d == 0.0:
                continue
            for f in range(width):
                held[f] -= d * rows[old, f]
            best, best_gain, current = old, -np.inf, 0.0
            for j in range(offsets[i], offsets[i + 1]):
                inner = 0.0
                for f in range(width):
                    inner += held[f] * rows[j, f]
                gain = 2.0 * d * inner + d * d * norms[j]
                if j == old:
                    current = gain
                if gain > best_gain:
                    best, best_gain = j, gain
            if best == old or best_gain <= current + _GAIN * abs(current):
                best = old
            else:
                changed = True
            choice[i] = best
            for f in range(width):
                held[f] += d * rows[best, f]
        if not changed:
            break
    return np.dot(held, held)


@njit(
    shapes={
        "data": "e",
        "indices": "e in d",
        "indptr": "n+1 to e",
        "norms": "n",
        "delta": "b",
        "offsets": "b+1 to n",
        "pull": "d",
        "choice": "b in n",
    }
)
def ascend_csr(data, indices, indptr, norms, delta, offsets, pull, choice):
    """Coordinate ascent on CSR features; `pull` is the negative part."""
    n_bags = choice.shape[0]
    held = -pull
    for i in range(n_bags):
        for e in range(indptr[choice[i]], indptr[choice[i] + 1]):
            held[indices[e]] += delta[i] * data[e]
    for _ in range(_MAX_SWEEPS):
        changed = False
        for i in range(n_bags):
            d, old = delta[i], choice[i]
            if d == 0.0:
                continue
            for e in range(indptr[old], indptr[old + 1]):
                held[indices[e]] -= d * data[e]
            best, best_gain, current = old, -np.inf, 0.0
            for j in range(offsets[i], offsets[i + 1]):
                inner = 0.0
                for e in range(indptr[j], indptr[j + 1]):
                    inner += held[indices[e]] * data[e]
                gain = 2.0 * d * inner + d * d * norms[j]
                if j == old:
                    current = gain
                if gain > best_gain:
                    best, best_gain = j, gain
            if best == old or best_gain <= current + _GAIN * abs(current):
                best = old
            else:
                changed = True
            choice[i] = best
            for e in range(indptr[best], indptr[best + 1]):
                held[indices[e]] += d * data[e]
        if not changed:
            break
    return np.dot(held, held)


@njit(shapes={"kernel": "n n", "cross": "n", "delta": "b", "offsets": "b+1 to n"})
def enumerate_choices(kernel, cross, delta, offsets):
    """Exact maximizer by trying every choice; value as in `ascend_kernel`."""
    n_bags = offsets.shape[0] - 1
    choice = offsets[:-1].copy()
    best = choice.copy()
    best_value = -np.inf
    while True:
        value = 0.0
        for i in range(n_bags):
            row = choice[i]
            inner = -2.0 * cross[row]
            for k in range(n_bags):
                inner += delta[k] * kernel[row, choice[k]]
            value += delta[i] * inner
        if value > best_value:
            best_value = value
            best[:] = choice
        i = n_bags - 1
        while i >= 0:  # next combination of choices
            choice[i] += 1
            if choice[i] < offsets[i + 1]:
                break
            choice[i] = offsets[i]
            i -= 1
        if i < 0:
            return best, best_value
