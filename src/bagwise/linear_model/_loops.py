"""Compiled loops of poolings and losses: arrays in, arrays out."""

import math

from bagwise._jit import njit

# Lower limit of a probability before its logarithm is taken.
FLOOR = 1e-300

# The loops below run over slices of one bag. Their index starts at zero, so that the
# compiler knows that it is not negative and can use vector instructions. An index that
# starts at an offset prevents this.


@njit(error_model="numpy", shapes={"z": "n", "out": "n"})
def minus_abs(z, out):
    for j in range(z.shape[0]):
        out[j] = -abs(z[j])


@njit(error_model="numpy")
def sigmoid(z, t):
    """Sigmoid of `z` and of `-z`, given ``t = exp(-|z|)``: no digit is lost."""
    s = 1.0 / (1.0 + t)
    c = t * s
    return (s, c) if z >= 0.0 else (c, s)


@njit(error_model="numpy", shapes={"z": "n", "slope": "n", "p": "n", "q": "n"})
def sigmoid_exponents(z, slope, p, q, alpha):
    """Fill `p`, `q`, and put ``alpha * (p - 1)`` in place of `slope`."""
    for j in range(z.shape[0]):
        p[j], q[j] = sigmoid(z[j], slope[j])
        slope[j] = -alpha * q[j]


@njit(
    error_model="numpy",
    shapes={"z": "n", "slope": "n", "p": "n", "q": "n", "offsets": "b+1 to n"},
)
def sigmoid_gaps(z, slope, p, q, offsets, alpha):
    """Fill `p`, `q`, and put ``alpha * (p - max p of the bag)`` in place of `slope`."""
    for j in range(z.shape[0]):
        p[j], q[j] = sigmoid(z[j], slope[j])
    for i in range(offsets.shape[0] - 1):
        bag = slice(offsets[i], offsets[i + 1])
        z_i, p_i, q_i, gap = z[bag], p[bag], q[bag], slope[bag]
        top = argmax(z_i)
        # p - p_top and q_top - q are equal; use the one without cancellation.
        if z_i[top] > 0.0:
            least = q_i[top]
            for j in range(gap.shape[0]):
                gap[j] = alpha * (least - q_i[j])
        else:
            most = p_i[top]
            for j in range(gap.shape[0]):
                gap[j] = alpha * (p_i[j] - most)


@njit(error_model="numpy")
def argmax(values):
    top, largest = 0, values[0]
    for j in range(1, values.shape[0]):
        if values[j] > largest:
            top, largest = j, values[j]
    return top


@njit(
    error_model="numpy",
    shapes={
        "p": "n",
        "q": "n",
        "slope": "n",
        "offsets": "b+1 to n",
        "prob": "b",
        "complement": "b",
    },
)
def pool_softmax(p, q, slope, offsets, alpha, prob, complement):
    for i in range(offsets.shape[0] - 1):
        bag = slice(offsets[i], offsets[i + 1])
        p_i, q_i, weight = p[bag], q[bag], slope[bag]
        mass = 0.0
        pos = 0.0
        neg = 0.0
        for j in range(weight.shape[0]):
            mass += weight[j]
            pos += weight[j] * p_i[j]
            neg += weight[j] * q_i[j]
        pos /= mass
        share = 1.0 / mass
        for j in range(weight.shape[0]):
            weight[j] *= share * (1.0 + alpha * (p_i[j] - pos)) * p_i[j] * q_i[j]
        prob[i] = pos
        complement[i] = neg / mass


@njit(
    error_model="numpy",
    shapes={
        "p": "n",
        "q": "n",
        "slope": "n",
        "offsets": "b+1 to n",
        "prob": "b",
        "complement": "b",
    },
)
def pool_lse(p, q, slope, offsets, alpha, prob, complement):
    for i in range(offsets.shape[0] - 1):
        bag = slice(offsets[i], offsets[i + 1])
        p_i, q_i, slope_i = p[bag], q[bag], slope[bag]
        n = slope_i.shape[0]
        excess = 0.0
        top = 0
        for j in range(n):
            excess += slope_i[j]  # exp(gap) - 1, zero for the largest
            if slope_i[j] == 0.0:
                top = j
        shift = math.log1p(excess / n) / alpha
        share = 1.0 / (n + excess)
        for j in range(n):
            slope_i[j] = share * (slope_i[j] + 1.0) * p_i[j] * q_i[j]
        prob[i] = p_i[top] + shift
        complement[i] = q_i[top] - shift


@njit(
    error_model="numpy",
    shapes={
        "z": "n",
        "slope": "n",
        "offsets": "b+1 to n",
        "prob": "b",
        "complement": "b",
    },
)
def pool_max(z, slope, offsets, alpha, prob, complement):
    for i in range(offsets.shape[0] - 1):
        bag = slice(offsets[i], offsets[i + 1])
        z_i, slope_i = z[bag], slope[bag]
        top = argmax(z_i)
        prob[i], complement[i] = sigmoid(z_i[top], slope_i[top])
        slope_i[:] = 0.0
        # One of the subgradients where the maximum is not unique.
        slope_i[top] = prob[i] * complement[i]


@njit(
    error_model="numpy",
    shapes={
        "z": "n",
        "slope": "n",
        "offsets": "b+1 to n",
        "prob": "b",
        "complement": "b",
    },
)
def pool_mean(z, slope, offsets, alpha, prob, complement):
    for i in range(offsets.shape[0] - 1):
        bag = slice(offsets[i], offsets[i + 1])
        z_i, slope_i = z[bag], slope[bag]
        n = z_i.shape[0]
        pos = 0.0
        neg = 0.0
        for j in range(n):
            p, q = sigmoid(z_i[j], slope_i[j])
            pos += p
            neg += q
            slope_i[j] = p * q / n
        prob[i] = pos / n
        complement[i] = neg / n


@njit(
    error_model="numpy",
    shapes={
        "z": "n",
        "slope": "n",
        "log1p": "n",
        "offsets": "b+1 to n",
        "prob": "b",
        "complement": "b",
    },
)
def pool_noisy_or(z, slope, log1p, offsets, prob, complement):
    for i in range(offsets.shape[0] - 1):
        bag = slice(offsets[i], offsets[i + 1])
        z_i, slope_i, log1p_i = z[bag], slope[bag], log1p[bag]
        # log(1 - p) = -softplus(z) is summed: the product underflows in big bags.
        log_none = 0.0
        for j in range(z_i.shape[0]):
            log_none -= max(z_i[j], 0.0) + log1p_i[j]
        none = math.exp(log_none)
        for j in range(z_i.shape[0]):
            slope_i[j] = none * sigmoid(z_i[j], slope_i[j])[0]
        prob[i] = -math.expm1(log_none)
        complement[i] = none


@njit(
    error_model="numpy",
    shapes={
        "z": "n",
        "slope": "n",
        "offsets": "b+1 to n",
        "prob": "b",
        "complement": "b",
    },
)
def pool_gmean(z, slope, offsets, alpha, prob, complement):
    for i in range(offsets.shape[0] - 1):
        z_i = z[offsets[i] : offsets[i + 1]]
        n = z_i.shape[0]
        mean = 0.0
        for j in range(n):
            mean += z_i[j]
        mean /= n
        prob[i], complement[i] = sigmoid(mean, math.exp(-abs(mean)))
        slope[offsets[i] : offsets[i + 1]] = prob[i] * complement[i] / n


@njit(
    error_model="numpy",
    shapes={
        "z": "n",
        "slope": "n",
        "offsets": "b+1 to n",
        "prob": "b",
        "complement": "b",
    },
)
def pool_power(z, slope, offsets, alpha, prob, complement):
    for i in range(offsets.shape[0] - 1):
        n = offsets[i + 1] - offsets[i]
        top = 0.0
        for j in range(offsets[i], offsets[i + 1]):
            top = max(top, sigmoid(z[j], slope[j])[0])
        total = 0.0
        missing = 0.0  # sum of 1 - p**alpha, which is accurate where P is near 1
        for j in range(offsets[i], offsets[i + 1]):
            p, q = sigmoid(z[j], slope[j])
            if p > 0.0:
                total += (p / top) ** alpha
            missing += -math.expm1(alpha * math.log1p(-q)) if q < 1.0 else 1.0
        pos = top * (total / n) ** (1.0 / alpha)
        prob[i] = pos
        complement[i] = 1.0 - pos
        if pos > 0.5:
            complement[i] = -math.expm1(math.log1p(-missing / n) / alpha)
        for j in range(offsets[i], offsets[i + 1]):
            p, q = sigmoid(z[j], slope[j])
            slope[j] = 0.0
            if p > 0.0:
                slope[j] = (p / pos) ** (alpha - 1.0) * p * q / n


@njit(
    error_model="numpy",
    shapes={
        "prob": "b",
        "complement": "b",
        "target": "b",
        "weight": "b",
        "slope": "n",
        "offsets": "b+1 to n",
    },
)
def apply_loss(prob, complement, target, weight, log, slope, offsets):
    """Return the weighted loss and turn slopes into derivatives of it, in place.

    The loss of a bag is (P - y)^2 or, with `log`, -y log P - (1 - y) log(1 - P).
    """
    total = 0.0
    for i in range(offsets.shape[0] - 1):
        positive = target[i] > 0.5
        if log:
            observed = max(prob[i] if positive else complement[i], FLOOR)
            total -= weight[i] * math.log(observed)
            factor = weight[i] * (-1.0 if positive else 1.0) / observed
        else:
            error = prob[i] - target[i]
            total += weight[i] * error * error
            factor = 2.0 * weight[i] * error
        slope_i = slope[offsets[i] : offsets[i + 1]]
        for j in range(slope_i.shape[0]):
            slope_i[j] *= factor
    return total
