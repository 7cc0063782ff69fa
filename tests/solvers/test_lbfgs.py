"""The limited-memory method against scipy's and against known minima."""

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize
from scipy.optimize import rosen, rosen_der

from bagwise.solvers.lbfgs import MEMORY, Descent, minimize


def rosenbrock(x):
    return rosen(x), rosen_der(x)


def logistic(seed=0, n=60, k=12):
    rng = np.random.default_rng(seed)
    A, t = rng.normal(size=(n, k)), np.where(rng.random(n) < 0.5, -1.0, 1.0)

    def objective(w):
        margin = t * (A @ w)
        slope = -t / (1.0 + np.exp(margin))
        return np.logaddexp(0.0, -margin).sum() + 0.05 * w @ w, A.T @ slope + 0.1 * w

    return objective, np.zeros(k)


def quadratic(k=30):
    steep = 10.0 ** np.linspace(0, 3, k)
    return lambda x: (0.5 * steep @ (x - 1.0) ** 2, steep * (x - 1.0)), np.zeros(k)


@pytest.mark.parametrize("memory", [1, 5, 10, MEMORY])
@pytest.mark.parametrize(
    "problem",
    [logistic(), quadratic(), (rosenbrock, np.array([-1.2, 1.0] * 5))],
    ids=["logistic", "quadratic", "rosenbrock"],
)
def test_reaches_the_minimum_of_scipy(problem, memory):
    objective, start = problem
    theirs = scipy_minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxcor": memory, "ftol": 1e-14, "gtol": 1e-8},
    )
    descent = Descent(start)
    descent.memory = memory
    run = minimize(objective, descent, 5000)
    assert run is descent
    assert run.converged
    assert run.fun == pytest.approx(theirs.fun, rel=1e-6, abs=1e-6)
    assert run.fun == objective(run.x)[0]
    np.testing.assert_allclose(run.x, theirs.x, atol=5e-3)


def test_needs_no_more_evaluations_than_scipy():
    counts = []
    for solve in ("ours", "theirs"):
        calls = []

        def objective(x, calls=calls):
            calls.append(1)
            return rosenbrock(x)

        start = np.array([-1.2, 1.0] * 20)
        if solve == "ours":
            minimize(objective, Descent(start), 5000)
        else:
            scipy_minimize(objective, start, jac=True, method="L-BFGS-B")
        counts.append(len(calls))
    assert counts[0] <= 1.2 * counts[1]


def test_every_step_goes_down_and_can_be_the_last():
    whole = minimize(rosenbrock, Descent(np.array([-1.2, 1.0, 0.3])), 1000)
    stepwise, values = Descent(np.array([-1.2, 1.0, 0.3])), []
    for k in range(1, 1000):
        minimize(rosenbrock, stepwise, k)
        values.append(stepwise.fun)
        if stepwise.converged:
            break
    assert (np.diff(values) < 0.0).all()
    # Taken up again, it goes the same way.
    np.testing.assert_array_equal(stepwise.x, whole.x)
    assert stepwise.n_iter == whole.n_iter == len(values)
    assert not minimize(rosenbrock, Descent(np.array([-1.2, 1.0])), 3).converged


def test_start_at_the_minimum_and_one_variable():
    run = minimize(rosenbrock, Descent(np.ones(4)), 10)
    assert run.converged
    assert run.n_iter == 0
    np.testing.assert_array_equal(run.x, 1.0)
    run = minimize(lambda x: (x[0] ** 4, 4.0 * x**3), Descent(np.array([3.0])), 200)
    assert run.converged
    assert run.fun < 1e-6


def test_kinks_and_infinite_values_end_no_higher_than_the_start():
    def kink(x):
        return np.abs(x).sum() + x @ x, np.sign(x) + 2.0 * x

    start = np.array([1.3, -5.0, 0.7])
    run = minimize(kink, Descent(start), 500)
    assert run.converged
    assert run.fun < 0.5

    def barrier(x):
        if (x <= 0.0).any():
            return np.inf, np.full_like(x, np.nan)
        return (x - np.log(x)).sum(), 1.0 - 1.0 / x

    run = minimize(barrier, Descent(np.array([1e-3, 20.0])), 500)
    assert run.converged
    np.testing.assert_allclose(run.x, 1.0, atol=1e-3)


def test_a_line_that_never_ends():
    run = minimize(lambda x: (-x.sum(), -np.ones_like(x)), Descent(np.zeros(3)), 50)
    assert np.isfinite(run.x).all()
    assert run.fun < 0.0
