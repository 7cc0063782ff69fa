r"""Minimize a smooth function by the limited-memory method of Broyden and others.

The method asks for values instead of calling a function: `advance` is told the value
and the gradient at the trial point and answers with the next trial point. A compiled
objective is then minimized without a step through Python, and any other one from Python
by `minimize`.

Direction and line search ([1]_, Algorithms 7.4 and 3.5): the last pairs of moves and of
changes of the gradient stand for the Hessian, and a step ends where both conditions of
Wolfe hold. A line on which they cannot be met any more, as at a kink, is left at its
lowest point.

References
----------
.. [1] Nocedal, J. and Wright, S. J., "Numerical Optimization", Springer, 2006.
"""

import numpy as np

from bagwise._jit import njit

MEMORY = 40  # maximum number of stored pairs

# Return values of `advance`.
EVALUATE, CONVERGED, LIMIT = 0, 1, 2

# Rows of `vectors`, followed by MEMORY moves and MEMORY changes of the gradient.
POINT, GRADIENT, DIRECTION, TRIAL, TRIAL_GRADIENT, MOVES = 0, 1, 2, 3, 4, 5
CHANGES = MOVES + MEMORY
N_VECTORS = CHANGES + MEMORY

# Entries of `numbers`, followed by a product and a squared change for each pair.
_STARTED, _VALUE, _SLOPE, _STEP, _N_ITER, _N_PAIRS, _NEXT, _TRIES = range(8)
_BRACKETED, _LOW, _LOW_VALUE, _LOW_SLOPE = range(8, 12)
_HIGH, _HIGH_VALUE, _HIGH_SLOPE, _WIDTH, _MEMORY = range(12, 17)
_PRODUCTS = 17
_SQUARES = _PRODUCTS + MEMORY
N_NUMBERS = _SQUARES + MEMORY

# Wolfe conditions, maximum number of steps of a line search, and stopping criteria:
# relative decrease per iteration, and largest entry of the gradient.
_DECREASE, _CURVATURE = 1e-3, 0.9
_MOST_TRIES = 20
_SMALL_DECREASE, _SMALL_GRADIENT = 2.2e-9, 1e-5
_LONGEST, _NARROWEST = 1e10, 1e-12
_NO_CURVATURE = 2.2e-16


class Descent:
    """The state of a descent, which can be left and taken up again.

    Parameters
    ----------
    x : ndarray of shape (n,)
        The start.

    Attributes
    ----------
    memory : int
        Pairs that are used, 10 unless set, at most `MEMORY`, which are kept: with more
        of them there are fewer steps, and each costs more.
    vectors, numbers : ndarray
        What `advance` works on.
    status : int
        EVALUATE before the first run, LIMIT where one ended by `max_iter`.
    """

    def __init__(self, x):
        self.vectors = np.empty((N_VECTORS, len(x)))
        self.vectors[[POINT, TRIAL]] = x
        self.numbers = np.zeros(N_NUMBERS)
        self.status = EVALUATE
        self.memory = 10

    @property
    def memory(self):
        """Pairs that are used."""
        return int(self.numbers[_MEMORY])

    @memory.setter
    def memory(self, n_pairs):
        self.numbers[_MEMORY] = min(n_pairs, MEMORY)

    @property
    def x(self):
        """The lowest point so far."""
        return self.vectors[POINT]

    @property
    def fun(self):
        """The value there."""
        return float(self.numbers[_VALUE])

    @property
    def n_iter(self):
        """Iterations so far."""
        return int(self.numbers[_N_ITER])

    @property
    def converged(self):
        """Whether it ended by itself."""
        return self.status == CONVERGED


def minimize(objective, descent, max_iter):
    """Descend until convergence, or until `max_iter` iterations in all.

    Parameters
    ----------
    objective : callable
        Returns the value and the gradient at a point.
    descent : Descent
        A new one, or one to be taken up again; changed in place.
    max_iter : int
        Maximum number of iterations, those of earlier runs included.

    Returns
    -------
    Descent
        The one that was given.
    """
    vectors, numbers = descent.vectors, descent.numbers
    while descent.status != CONVERGED and descent.n_iter < max_iter:
        value, vectors[TRIAL_GRADIENT] = objective(vectors[TRIAL])
        descent.status = advance(vectors, numbers, value, max_iter)
    return descent


@njit(
    error_model="numpy",
    shapes={"vectors": f"{N_VECTORS} n", "numbers": f"{N_NUMBERS}"},
)
def advance(vectors, numbers, value, max_iter):
    """Take the value and gradient at the trial point; set the next one.

    Returns
    -------
    int
        EVALUATE as long as the trial point is to be evaluated, CONVERGED, or LIMIT
        after `max_iter` iterations: then the trial point is the next one to evaluate.
    """
    started = numbers[_STARTED] == 1.0
    accepted = True
    if started:
        if not np.isfinite(value):
            value = np.inf
        slope = _dot(vectors, TRIAL_GRADIENT, DIRECTION)
        needed = _DECREASE * numbers[_STEP] * numbers[_SLOPE]
        accepted = value <= numbers[_VALUE] + needed
        if not (accepted and abs(slope) <= -_CURVATURE * numbers[_SLOPE]):
            if _next_step(numbers, value, slope, accepted):
                _set_trial(vectors, numbers[_STEP])
                return EVALUATE
            if not accepted and numbers[_N_PAIRS] == 0.0:
                return CONVERGED
    status = EVALUATE
    if accepted:
        before = numbers[_VALUE]
        largest = _accept(vectors, numbers, value)
        if largest <= _SMALL_GRADIENT:
            return CONVERGED
        if started:
            scale = max(abs(before), abs(value), 1.0)
            if before - value <= _SMALL_DECREASE * scale:
                return CONVERGED
            if numbers[_N_ITER] >= max_iter:
                status = LIMIT
    else:
        # No further accuracy along this direction; try once along the gradient.
        numbers[_N_PAIRS] = 0.0
    _new_line(vectors, numbers)
    _set_trial(vectors, numbers[_STEP])
    return status


@njit(error_model="numpy")
def _accept(vectors, numbers, value):
    """Go to the trial point and return the largest entry of its gradient.

    The move and the change of the gradient are kept where the curvature is positive.
    """
    k = int(numbers[_NEXT])
    largest = product = square = 0.0
    for i in range(vectors.shape[1]):
        move = vectors[TRIAL, i] - vectors[POINT, i]
        change = vectors[TRIAL_GRADIENT, i] - vectors[GRADIENT, i]
        product += move * change
        square += change * change
        vectors[MOVES + k, i] = move
        vectors[CHANGES + k, i] = change
        vectors[POINT, i] = vectors[TRIAL, i]
        vectors[GRADIENT, i] = vectors[TRIAL_GRADIENT, i]
        largest = max(largest, abs(vectors[GRADIENT, i]))
    numbers[_VALUE] = value
    if numbers[_STARTED] == 0.0:
        numbers[_STARTED] = 1.0
        return largest
    numbers[_N_ITER] += 1.0
    if product > _NO_CURVATURE * square:
        numbers[_PRODUCTS + k] = product
        numbers[_SQUARES + k] = square
        numbers[_NEXT] = (k + 1) % MEMORY
        numbers[_N_PAIRS] = min(numbers[_N_PAIRS] + 1.0, MEMORY)
    return largest


@njit(error_model="numpy")
def _new_line(vectors, numbers):
    """Set the direction and the first step along it.

    The pairs stand for a Hessian, with whose inverse the gradient is multiplied; where
    there are none it goes a length of one down the gradient.
    """
    n, newest = vectors.shape[1], int(numbers[_NEXT]) - 1 + MEMORY
    n_pairs = int(min(numbers[_N_PAIRS], numbers[_MEMORY]))
    shares = np.empty(MEMORY)
    slope = 0.0
    while not slope < 0.0:
        for i in range(n):
            vectors[DIRECTION, i] = -vectors[GRADIENT, i]
        # Two-loop recursion: from the newest pair to the oldest, and back.
        for turn in range(2 * n_pairs):
            down = turn < n_pairs
            age = turn if down else 2 * n_pairs - 1 - turn
            k = (newest - age) % MEMORY
            along = (MOVES if down else CHANGES) + k
            other = (CHANGES if down else MOVES) + k
            share = _dot(vectors, along, DIRECTION) / numbers[_PRODUCTS + k]
            if down:
                shares[age] = share
                share = 2.0 * share
            factor, keep = shares[age] - share, 1.0
            if turn == n_pairs - 1:
                k = newest % MEMORY
                keep = numbers[_PRODUCTS + k] / numbers[_SQUARES + k]
            for i in range(n):
                vectors[DIRECTION, i] += factor * vectors[other, i]
                vectors[DIRECTION, i] *= keep
        slope = _dot(vectors, DIRECTION, GRADIENT)
        if n_pairs == 0:
            break
        if not slope < 0.0:
            numbers[_N_PAIRS] = n_pairs = 0
    numbers[_SLOPE] = slope
    numbers[_STEP] = 1.0 if n_pairs else 1.0 / np.sqrt(-slope)
    numbers[_TRIES] = 0.0
    numbers[_BRACKETED] = 0.0
    numbers[_LOW] = 0.0
    numbers[_LOW_VALUE] = numbers[_VALUE]
    numbers[_LOW_SLOPE] = slope


@njit(error_model="numpy")
def _set_trial(vectors, step):
    for i in range(vectors.shape[1]):
        vectors[TRIAL, i] = vectors[POINT, i] + step * vectors[DIRECTION, i]


@njit(error_model="numpy")
def _next_step(numbers, value, slope, falls):
    """Narrow the interval that holds a good step, or go on; False when it is spent.

    Of a spent interval the lowest point is tried again, to be taken.
    """
    numbers[_TRIES] += 1.0
    if numbers[_TRIES] > _MOST_TRIES + 1.0:
        return False
    step, low = numbers[_STEP], numbers[_LOW]
    low_value, low_slope = numbers[_LOW_VALUE], numbers[_LOW_SLOPE]
    bracketed = numbers[_BRACKETED] == 1.0
    if not falls or value >= low_value:
        numbers[_HIGH] = step
        numbers[_HIGH_VALUE] = value
        numbers[_HIGH_SLOPE] = slope
        numbers[_BRACKETED] = 1.0
    else:
        numbers[_LOW] = step
        numbers[_LOW_VALUE] = value
        numbers[_LOW_SLOPE] = slope
        ahead = numbers[_HIGH] - low if bracketed else 1.0
        if slope * ahead >= 0.0:
            numbers[_HIGH] = low
            numbers[_HIGH_VALUE] = low_value
            numbers[_HIGH_SLOPE] = low_slope
            numbers[_BRACKETED] = 1.0
    if numbers[_BRACKETED] == 0.0:
        guess = _cubic(low, low_value, low_slope, step, value, slope)
        least, most = step + 1.1 * (step - low), step + 4.0 * (step - low)
        numbers[_STEP] = min(max(guess, least), most) if guess > step else most
        return numbers[_STEP] < _LONGEST and numbers[_TRIES] <= _MOST_TRIES
    low, high = numbers[_LOW], numbers[_HIGH]
    width = abs(high - low)
    guess = _cubic(
        low,
        numbers[_LOW_VALUE],
        numbers[_LOW_SLOPE],
        high,
        numbers[_HIGH_VALUE],
        numbers[_HIGH_SLOPE],
    )
    # Bisect if the cubic leads to an end or has not narrowed the interval.
    edge = 0.05 * width
    inside = min(low, high) + edge <= guess <= max(low, high) - edge
    if not inside or (bracketed and width > 0.66 * numbers[_WIDTH]):
        guess = 0.5 * (low + high)
    numbers[_WIDTH] = width
    numbers[_STEP] = guess
    if width > _NARROWEST * max(low, high) and numbers[_TRIES] <= _MOST_TRIES:
        return True
    numbers[_STEP], numbers[_TRIES] = low, _MOST_TRIES + 1.0
    return low > 0.0 and low != step


@njit(error_model="numpy")
def _cubic(a, value_a, slope_a, b, value_b, slope_b):
    """Minimum of the cubic through two values and slopes; nan where it has none."""
    mixed = slope_a + slope_b - 3.0 * (value_a - value_b) / (a - b)
    square = mixed * mixed - slope_a * slope_b
    if not (np.isfinite(square) and square >= 0.0):
        return np.nan
    root = np.sqrt(square) if b > a else -np.sqrt(square)
    return b - (b - a) * (slope_b + root - mixed) / (slope_b - slope_a + 2.0 * root)


@njit(error_model="numpy")
def _dot(vectors, a, b):
    """Product of two rows in eight sums, which need not wait for each other."""
    n = vectors.shape[1]
    p = q = r = s = t = u = v = w = 0.0
    for i in range(0, n - n % 8, 8):
        p += vectors[a, i] * vectors[b, i]
        q += vectors[a, i + 1] * vectors[b, i + 1]
        r += vectors[a, i + 2] * vectors[b, i + 2]
        s += vectors[a, i + 3] * vectors[b, i + 3]
        t += vectors[a, i + 4] * vectors[b, i + 4]
        u += vectors[a, i + 5] * vectors[b, i + 5]
        v += vectors[a, i + 6] * vectors[b, i + 6]
        w += vectors[a, i + 7] * vectors[b, i + 7]
    for i in range(n - n % 8, n):
        p += vectors[a, i] * vectors[b, i]
    return ((p + q) + (r + s)) + ((t + u) + (v + w))
