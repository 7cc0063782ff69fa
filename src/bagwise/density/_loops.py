"""Negative log diverse density, its gradient, and descents along it.

An evaluation reads the instances twice: by columns for the distances and by rows for
the gradient, so that the processor works on neighboring numbers in both.

Far away from everything p = exp(-d) is zero in floating point, while the slope is a
softmax of -d and never vanishes: such bags are worked out in logarithms.
"""

import numpy as np

from bagwise._jit import njit
from bagwise.solvers.lbfgs import (
    EVALUATE,
    N_NUMBERS,
    N_VECTORS,
    TRIAL,
    TRIAL_GRADIENT,
    advance,
)

# d is kept away from zero, where log(1 - exp(-d)) is minus infinity.
SMALLEST = 1e-10

# Beyond this, exp(-d) is inaccurate or zero.
_FAR = 600.0
_TINY = 1e-200


@njit(
    error_model="numpy",
    shapes={
        "d": "n",
        "offsets": "b+1 to n",
        "positive": "b",
        "weight": "b",
        "slope": "n",
    },
)
def noisy_or(d, offsets, positive, weight, slope):
    """Value for P = 1 - prod_j (1 - p_j); the slopes by d are written to `slope`."""
    value = 0.0
    for i in range(positive.shape[0]):
        start, stop = offsets[i], offsets[i + 1]
        near = d[start]
        for j in range(start + 1, stop):
            near = min(near, d[j])
        if positive[i] and near > _FAR:
            total = 0.0
            for j in range(start, stop):
                slope[j] = np.exp(near - d[j])
                total += slope[j]
            for j in range(start, stop):
                slope[j] *= weight[i] / total
            value += weight[i] * (near - np.log(total))
            continue
        # The slope of log(1 - p) is p / (1 - p) = 1 / (e^d - 1).
        rest, log_rest = 1.0, 0.0
        for j in range(start, stop):
            p = np.exp(-d[j])
            q = 1.0 - p if d[j] > 0.7 else -np.expm1(-d[j])
            slope[j] = p / q
            rest *= q
            if rest < _TINY:
                log_rest += np.log(rest)
                rest = 1.0
        factor = -weight[i]
        if not positive[i]:
            value -= weight[i] * (log_rest + np.log(rest))
        elif log_rest == 0.0 and rest > 0.5:
            # All are small, so that 1 - rest is inaccurate.
            a = 0.0
            for j in range(start, stop):
                a -= np.log1p(-np.exp(-d[j]))
            value -= weight[i] * np.log(-np.expm1(-a))
            factor = weight[i] / np.expm1(a)
        else:
            rest *= np.exp(log_rest)
            value -= weight[i] * np.log1p(-rest)
            factor = weight[i] * rest / (1.0 - rest)
        for j in range(start, stop):
            slope[j] *= factor
    return value


@njit(
    error_model="numpy",
    shapes={
        "d": "n",
        "offsets": "b+1 to n",
        "positive": "b",
        "weight": "b",
        "slope": "n",
    },
)
def nearest(d, offsets, positive, weight, slope):
    """Value for P = max_j p_j: the nearest instance represents its bag."""
    value = 0.0
    for i in range(positive.shape[0]):
        best = offsets[i]
        for j in range(offsets[i], offsets[i + 1]):
            slope[j] = 0.0
            if d[j] < d[best]:
                best = j
        if positive[i]:
            value += weight[i] * d[best]
            slope[best] = weight[i]
        else:
            p, q = np.exp(-d[best]), -np.expm1(-d[best])
            value -= weight[i] * (np.log1p(-p) if p < 0.5 else np.log(q))
            slope[best] = -weight[i] * p / q
    return value


@njit(error_model="numpy", shapes={"columns": "d n", "theta": "2d", "d": "n"})
def distances(columns, theta, d):
    """Write the scaled squared distances of all instances to `d`."""
    n_features, n = columns.shape
    for j in range(n):
        d[j] = 0.0
    for k in range(0, n_features, 2):
        other = min(k + 1, n_features - 1)
        a, b = theta[k], theta[other]
        on_a, on_b = theta[n_features + k], theta[n_features + other]
        on_a *= on_a
        on_b *= on_b if other > k else 0.0
        for j in range(n):
            from_a, from_b = columns[k, j] - a, columns[other, j] - b
            d[j] += on_a * from_a * from_a + on_b * from_b * from_b
    for j in range(n):
        d[j] = max(d[j], SMALLEST)


@njit(
    error_model="numpy",
    shapes={
        "rows": "4q d",
        "columns": "d n",
        "bags": ("b+1 to n", "b", "b"),
        "theta": "2d",
        "gradient": "2d",
        "room": "2 4q",
    },
)
def evaluate(rows, columns, bags, combine_all, theta, gradient, room):
    """Value at theta = (h, s); the gradient is written to `gradient`.

    `bags` are offsets, labels and weights; `room` holds two numbers of each row, zeros
    at first.
    """
    offsets, positive, weight = bags
    d, slope = room[0], room[1]
    distances(columns, theta, d)
    if combine_all:
        value = noisy_or(d, offsets, positive, weight, slope)
    else:
        value = nearest(d, offsets, positive, weight, slope)
    n_features = rows.shape[1]
    _gradient(rows, slope, theta, gradient[:n_features], gradient[n_features:])
    return value


@njit(error_model="numpy")
def _gradient(rows, slope, theta, on_point, on_scale):
    """Add up the terms of instances with a slope, four at a time.

    The last rows fill up a number that four divides; their slopes are zero.
    """
    n, n_features = rows.shape
    for k in range(n_features):
        on_point[k] = 0.0
        on_scale[k] = 0.0
    for j in range(0, n, 4):
        g0, g1, g2, g3 = slope[j], slope[j + 1], slope[j + 2], slope[j + 3]
        if g0 == 0.0 and g1 == 0.0 and g2 == 0.0 and g3 == 0.0:
            continue
        for k in range(n_features):
            h = theta[k]
            t0, t1 = rows[j, k] - h, rows[j + 1, k] - h
            t2, t3 = rows[j + 2, k] - h, rows[j + 3, k] - h
            f0, f1, f2, f3 = g0 * t0, g1 * t1, g2 * t2, g3 * t3
            on_point[k] += (f0 + f1) + (f2 + f3)
            on_scale[k] += (f0 * t0 + f1 * t1) + (f2 * t2 + f3 * t3)
    for k in range(n_features):
        s = theta[n_features + k]
        on_point[k] *= -2.0 * s * s
        on_scale[k] *= 2.0 * s


@njit(
    error_model="numpy",
    shapes={
        "rows": "4q d",
        "columns": "d n",
        "bags": ("b+1 to n", "b", "b"),
        "vectors": f"{N_VECTORS} 2d",
        "numbers": f"{N_NUMBERS}",
        "room": "2 4q",
    },
)
def descend(rows, columns, bags, combine_all, vectors, numbers, room, max_iter):
    """Minimize from a new state of `bagwise.solvers.lbfgs`; return why it ended.

    `room` holds two numbers of each row, zeros at first.
    """
    status = EVALUATE
    while status == EVALUATE:
        value = evaluate(
            rows,
            columns,
            bags,
            combine_all,
            vectors[TRIAL],
            vectors[TRIAL_GRADIENT],
            room,
        )
        status = advance(vectors, numbers, value, max_iter)
    return status
