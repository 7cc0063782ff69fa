r"""Mirror prox for the restricted minimax problem, accelerated and stochastic.

The saddle point of :math:`G(u, v) = \sum_k v_k D(u, c_k)` over :math:`u \ge 0` and the
simplex is a zero of the monotone operator :math:`g = [-\partial_u G; \partial_v G]`.
One iteration takes two mirror steps from the same point, the second with the operator
at the end of the first. Distances are Euclidean in :math:`u = [\alpha; \beta]` with
one weight per coordinate, and entropic in :math:`v`.
"""

import numpy as np

from bagwise.svm.miodm._solvers import Mixture, saddle_gap

_CHECK_EVERY = 25


class _Point:
    """A point of the product space, ``u`` (two rows) and ``v``."""

    def __init__(self, u, v):
        self.u, self.v = u, v

    @property
    def delta(self):
        return self.u[0] - self.u[1]

    def towards(self, other, share):
        return _Point(
            (1 - share) * self.u + share * other.u,
            (1 - share) * self.v + share * other.v,
        )


class _Geometry:
    """Distances and prox steps of the product space."""

    def __init__(self, units, loss, choices, weight):
        top = _largest_eigenvalue(units, choices, weight)
        ridge = 1.0 / loss.slope
        upper = ridge / loss.nu if loss.nu else np.full_like(ridge, np.inf)
        self.scale = 2.0 * top + np.stack([ridge, upper])
        self.ridge = np.stack([ridge, upper])
        self.sides = np.array([[loss.low], [-loss.high]])
        self.entropy = 1.0

    def operator(self, point, margins, values):
        """Return the monotone operator: minus the gradient in u, gradient in v."""
        signs = np.array([[1.0], [-1.0]])
        with np.errstate(invalid="ignore"):
            held = np.where(point.u > 0, self.ridge * point.u, 0.0)
        return signs * margins + held - self.sides, values

    def step(self, point, operator, eta):
        """Mirror step from `point` against `operator`."""
        du, dv = operator
        u = np.maximum(point.u - eta * du / self.scale, 0.0)
        exponent = -eta * (dv - dv.mean()) / self.entropy
        v = point.v * np.exp(exponent - exponent.max())
        return _Point(u, v / v.sum())

    def distance(self, to, start):
        """Bregman distance of `to` seen from `start`."""
        with np.errstate(invalid="ignore"):
            move = np.where(to.u == start.u, 0.0, self.scale * (to.u - start.u) ** 2)
        kept = to.v > 0
        ratio = np.log(to.v[kept] / np.maximum(start.v[kept], 1e-300))
        return 0.5 * move.sum() + self.entropy * max(to.v[kept] @ ratio, 0.0)


def _largest_eigenvalue(units, choices, weight, n_iter=50):
    """Power method on the mixed kernel, with a margin for its lower bias."""
    x = np.ones(units.n_rows)
    value = 1.0
    for _ in range(n_iter):
        y, _ = units.mixed(choices, weight, x)
        value = np.linalg.norm(y)
        if value == 0:
            return 1.0
        x = y / value
    return 1.05 * value


class _Problem:
    """Operator evaluations and gaps of one restricted problem."""

    def __init__(self, units, loss, choices, geometry):
        self.units, self.loss, self.choices = units, loss, choices
        self.geometry = geometry
        self.baseline = 0.0

    def full(self, point):
        """Return the operator at a point (all choices)."""
        margins, norms = self.units.mixed(self.choices, point.v, point.delta)
        return self.geometry.operator(point, margins, -0.5 * norms)

    def sampled(self, point, rng):
        """Return an unbiased estimate: one choice for `u`, one for `v`.

        The entry drawn for `v` is taken relative to a running mean: adding a constant
        to all entries changes nothing on the simplex, but most of the variance.
        """
        n = len(self.choices)
        i, j = rng.choice(n, p=point.v), rng.integers(n)
        pair = self.units.products(self.choices[[i, j]], point.delta)
        norms = point.delta @ pair
        values = np.zeros(n)
        values[j] = n * (-0.5 * norms[1] - self.baseline)
        self.baseline += 0.1 * (-0.5 * norms[0] - self.baseline)
        return self.geometry.operator(point, pair[:, 0], values)

    def evaluate(self, point):
        """Return the gap and the mixture at a point."""
        delta = point.delta
        margins, norms = self.units.mixed(self.choices, point.v, delta)
        primal = 0.5 * (delta @ margins) + self.loss.value(margins)
        gap = saddle_gap(self.loss, delta, margins, norms.max())
        return gap, Mixture(self.choices, point.v, delta, margins, norms, primal, 0)


def _start(loss, choices, weight, delta):
    u = np.stack([np.maximum(delta, 0.0), np.maximum(-delta, 0.0)])
    if loss.nu == 0:
        u[1] = 0.0
    # Entropy steps never leave a face of the simplex: start inside.
    v = 0.9 * weight + 0.1 / len(choices)
    return _Point(u, v / v.sum())


def mirror_prox_mixture(
    units,
    loss,
    choices,
    weight,
    delta,
    *,
    tol,
    max_iter=20000,
    variant="adaptive",
    rng=None,
    trace=None,
):
    r"""Best mixture of the given choices by mirror prox.

    Parameters
    ----------
    units, loss, choices, weight, delta, tol
        As in `newton_mixture`.
    max_iter : int
        Cap on iterations (two operator evaluations each).
    variant : {"adaptive", "accelerated", "stochastic"}
        "adaptive": plain mirror prox; the step is halved until
        :math:`\eta\langle g(y)-g(w), y-w_+\rangle \le V(y,w)+V(w_+,y)` holds and grows
        afterwards, the answer is the average of the extrapolated points.
        "accelerated": the operator of the first step is taken at
        :math:`(1-\gamma_t)\bar w_t + \gamma_t w_t`, :math:`\gamma_t = 2/(t+1)`,
        :math:`t \ge 1`, and the extrapolated points are averaged with
        :math:`\gamma_t`; the step is one in this metric. "stochastic": the same with
        sampled operators and steps falling as :math:`1/\sqrt t`.
    rng : numpy.random.Generator
        Draws the samples.
    trace : callable, optional
        Called with every gap that is computed.

    Returns
    -------
    Mixture

    Notes
    -----
    The run restarts from its best point whenever the gap has halved.
    """
    geometry = _Geometry(units, loss, choices, weight)
    problem = _Problem(units, loss, choices, geometry)
    point = _start(loss, choices, weight, delta)
    best_gap, best = problem.evaluate(point)
    best_point, n_iter = point, 0
    run = _adaptive_run if variant == "adaptive" else _accelerated_run
    while n_iter < max_iter:
        geometry.entropy = 0.3 * max(abs(best.objective), 1e-12)
        goal = tol * max(1.0, abs(best.objective))
        if best_gap <= goal:
            break
        halved = max(0.5 * best_gap, goal)
        best_gap, best, best_point, used = run(
            problem,
            (best_gap, best, best_point),
            halved,
            max_iter - n_iter,
            rng if variant == "stochastic" else None,
            trace,
        )
        n_iter += used
    return best._replace(n_iter=n_iter)


def _keep_best(problem, best, points, trace):
    for point in points:
        gap, mixture = problem.evaluate(point)
        if trace is not None:
            trace(gap)
        if gap < best[0]:
            best = (gap, mixture, point)
    return best


def _adaptive_run(problem, best, goal, max_iter, rng, trace):
    """Plain mirror prox with a tested step, until the gap reaches `goal`."""
    geometry = problem.geometry
    point = best[2]
    mean_u, mean_v, total, eta, n_iter = 0.0, 0.0, 0.0, 1.0, 0
    while n_iter < max_iter and best[0] > goal:
        here = problem.full(point)
        while True:
            n_iter += 1
            middle = geometry.step(point, here, eta)
            there = problem.full(middle)
            end = geometry.step(point, there, eta)
            lost = np.sum((there[0] - here[0]) * (middle.u - end.u))
            lost += (there[1] - here[1]) @ (middle.v - end.v)
            room = geometry.distance(middle, point) + geometry.distance(end, middle)
            if eta * lost <= room + 1e-15 or eta < 1e-6:
                break
            eta *= 0.5
        mean_u, mean_v = mean_u + eta * middle.u, mean_v + eta * middle.v
        total += eta
        point = end
        eta *= 1.2
        if n_iter % _CHECK_EVERY == 0 or n_iter >= max_iter:
            average = _Point(mean_u / total, mean_v / total)
            best = _keep_best(problem, best, [average, point], trace)
    return *best, n_iter


def _accelerated_run(problem, best, goal, max_iter, rng, trace):
    """Accelerated mirror prox from the best point, until the gap reaches `goal`."""
    geometry = problem.geometry
    point = average = best[2]
    t = 0
    while t < max_iter and best[0] > goal:
        t += 1
        gamma = 2.0 / (t + 1.0)
        between = average.towards(point, gamma)
        if rng is None:
            eta = 1.0
            middle = geometry.step(point, problem.full(between), eta)
            point = geometry.step(point, problem.full(middle), eta)
        else:
            eta = 1.0 / np.sqrt(t)
            middle = geometry.step(point, problem.sampled(between, rng), eta)
            point = geometry.step(point, problem.sampled(middle, rng), eta)
        average = average.towards(middle, gamma)
        if t % _CHECK_EVERY == 0 or t == max_iter:
            best = _keep_best(problem, best, [average, point], trace)
    return *best, t
