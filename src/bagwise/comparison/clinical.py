r"""Calibration, operating points and decision curves of one fixed model.

Functions of arrays: truth (1 is the positive class), scores or probabilities, and
groups of bags that are not independent of each other.

References
----------
.. [1] Van Calster, B., McLernon, D. J., van Smeden, M., Wynants, L. and Steyerberg, E.
   W., "Calibration: the Achilles heel of predictive analytics", BMC Medicine 17, 230,
   2019. :doi:`10.1186/s12916-019-1466-7`
.. [2] Vickers, A. J. and Elkin, E. B., "Decision curve analysis", Medical Decision
   Making 26, 565-574, 2006. :doi:`10.1177/0272989X06295361`
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import beta
from scipy.stats import t as student

from bagwise.comparison.contributions import contributions
from bagwise.comparison.inference import Interval, interval

__all__ = [
    "calibration_bins",
    "calibration_line",
    "decision_curve",
    "operating_point",
    "threshold_for",
]

Array = NDArray[np.float64]
NAN = float("nan")
LEVEL = 0.95
SMALLEST = 1e-9  # probabilities are clipped to this distance from 0 and 1
SEPARATED = 50.0  # above this slope, probabilities separate the classes perfectly
THRESHOLDS = np.round(np.arange(0.01, 1.0, 0.01), 2)


def calibration_bins(
    hit: NDArray[Any], p: Array, n_bins: int = 8
) -> list[dict[str, float]]:
    """Return observed against predicted frequency in bins of about equal count.

    Parameters
    ----------
    hit : ndarray of bool of shape (n,)
        What happened.
    p : ndarray of shape (n,)
        Its probability. Equal probabilities share a bin.
    n_bins : int, default=8
        Maximum number of bins.

    Returns
    -------
    list of dict
        With 95% intervals of Clopper and Pearson.
    """
    n_bins = int(min(n_bins, max(2, len(p) // 12)))
    inner = np.linspace(0.0, 1.0, n_bins + 1)[1:-1]
    edges = np.unique(np.quantile(p, inner, method="lower"))
    place = np.searchsorted(edges, p)
    bins = []
    for b in np.unique(place):
        chosen = place == b
        n, hits = int(chosen.sum()), int(hit[chosen].sum())
        low = float(beta.ppf(0.025, hits, n - hits + 1)) if hits else 0.0
        high = float(beta.ppf(0.975, hits + 1, n - hits)) if hits < n else 1.0
        bins.append(
            {
                "predicted": float(p[chosen].mean()),
                "observed": hits / n,
                "low": low,
                "high": high,
                "n": n,
            }
        )
    return bins


def calibration_line(
    truth: NDArray[Any], values: Array, groups: Any = None, *, values_are: str
) -> dict[str, Interval]:
    r"""Return the slope and the intercept of a calibration, with 95% intervals.

    Of probabilities :math:`p`, the slope is that of a logistic regression of the truth
    on :math:`\log(p / (1 - p))`, and the intercept is the one of the same regression
    with a slope of 1 (calibration in the large). Of predicted values, both are those of
    a linear regression of the truth on the prediction. Ideal are 1 and 0. Intervals use
    the sandwich variance, with groups as its clusters.

    Parameters
    ----------
    truth : ndarray of shape (n,)
        1 for the positive class, or true values.
    values : ndarray of shape (n,)
        Probabilities, or predicted values.
    groups : ndarray of shape (n,), optional
        Bags of a group are not independent.
    values_are : {"probability", "value"}
        What `values` holds.

    Returns
    -------
    dict of str to Interval
        "slope" and "intercept"; NaN where they do not exist: one class only, equal
        predictions, or classes that are perfectly separated.
    """
    y = np.asarray(truth, dtype=np.float64)
    _, unit = np.unique(
        np.arange(len(y)) if groups is None else groups, return_inverse=True
    )
    none = Interval(NAN, NAN, NAN)
    if np.ptp(y) == 0:
        return {"slope": none, "intercept": none}
    if values_are == "value":
        if np.ptp(values) == 0:
            return {"slope": none, "intercept": none}
        A = np.column_stack([np.ones(len(y)), values])
        line = np.asarray(np.linalg.lstsq(A, y, rcond=None)[0], dtype=np.float64)
        found = _sandwich(A, y - A @ line, np.ones(len(y)), unit, line)
        return {"slope": found[1], "intercept": found[0]}
    x = logit(np.clip(values, SMALLEST, 1.0 - SMALLEST))
    intercept = _in_the_large(x, y, unit)
    if np.ptp(x) == 0:
        return {"slope": none, "intercept": intercept}
    A = np.column_stack([np.ones(len(y)), x])
    coef = _logistic(A, y)
    if coef is None or abs(coef[1]) > SEPARATED:
        return {"slope": none, "intercept": intercept}
    p = expit(A @ coef)
    slope = _sandwich(A, y - p, p * (1 - p), unit, coef)[1]
    return {"slope": slope, "intercept": intercept}


def _logistic(A: Array, y: Array) -> Array | None:
    """Return the estimate of maximum likelihood by Newton's method, or None."""
    coef = np.zeros(A.shape[1])

    def loss(c: Array) -> float:
        z = A @ c
        return float(np.sum(np.logaddexp(0.0, z) - y * z))

    for _ in range(100):
        p = expit(A @ coef)
        H = (A * (p * (1 - p))[:, None]).T @ A
        try:
            step = np.linalg.solve(H, A.T @ (y - p))
        except np.linalg.LinAlgError:
            return None
        size = 1.0
        while size > 1e-6 and loss(coef + size * step) > loss(coef) + 1e-12:
            size /= 2
        coef = coef + size * step
        if np.abs(coef).max() > 1e4:
            return None
        if np.abs(size * step).max() < 1e-10 * max(1.0, np.abs(coef).max()):
            return coef
    return None


def _in_the_large(x: Array, y: Array, unit: NDArray[np.int64]) -> Interval:
    """Return the intercept of a logistic regression with the offset `x`."""
    low, high = -100.0, 100.0
    for _ in range(200):  # the sum of the residuals decreases with the intercept
        middle = (low + high) / 2
        if np.sum(y - expit(x + middle)) > 0:
            low = middle
        else:
            high = middle
    a = (low + high) / 2
    p = expit(x + a)
    A = np.ones((len(y), 1))
    return _sandwich(A, y - p, p * (1 - p), unit, np.array([a]))[0]


def _sandwich(
    A: Array, residual: Array, weight: Array, unit: NDArray[np.int64], coef: Array
) -> list[Interval]:
    """Return the coefficients with intervals from clustered contributions."""
    H = (A * weight[:, None]).T @ A
    n = int(unit.max()) + 1
    if n < 2 or np.linalg.matrix_rank(H) < len(coef):
        return [Interval(float(c), NAN, NAN) for c in coef]
    psi = np.linalg.solve(H, (A * residual[:, None]).T)
    totals = np.array([np.bincount(unit, row, n) for row in psi])
    error = np.sqrt(np.sum(totals**2, axis=1) * n / (n - 1))
    half = student.ppf(0.5 + LEVEL / 2, n - 1) * error
    return [
        Interval(float(c), float(c - h), float(c + h))
        for c, h in zip(coef, half, strict=True)
    ]


def threshold_for(truth: NDArray[Any], values: Array, sensitivity: float) -> float:
    """Return the highest threshold that reaches a sensitivity.

    Parameters
    ----------
    truth : ndarray of shape (n,)
        1 for the positive class.
    values : ndarray of shape (n,)
        Scores or probabilities; at least the threshold is called positive.
    sensitivity : float
        Share of the positive bags that are to be found.

    Examples
    --------
    >>> threshold_for(np.array([0, 1, 1, 1, 1]), np.array([0.9, 0.1, 0.2, 0.3, 0.4]),
    ...               0.75)
    0.2
    """
    positive = np.sort(values[np.asarray(truth) == 1])[::-1]
    if not len(positive):
        raise ValueError(
            "no held-out training bag is positive: there is no sensitivity"
        )
    needed = int(np.ceil(sensitivity * len(positive) - 1e-9))
    return float(positive[max(needed, 1) - 1])


def operating_point(
    truth: NDArray[Any], called: NDArray[Any], groups: Any = None, *, fixed: bool = True
) -> dict[str, Interval]:
    """Return the shares that a threshold gives, with intervals.

    Parameters
    ----------
    truth, called : ndarray of shape (n,)
        1 for the positive class.
    groups : ndarray of shape (n,), optional
        Bags of a group are not independent.
    fixed : bool, default=True
        Whether all predictions are those of one model, and not of the models of folds,
        whose intervals are wider.

    Returns
    -------
    dict of str to Interval
        "sensitivity", "specificity", "ppv", "npv" and "accuracy"; NaN where no bag
        counts.
    """
    rows = {"truth": np.asarray(truth), "label": np.asarray(called)}
    parts = {
        "sensitivity": rows["truth"] == 1,
        "specificity": rows["truth"] == 0,
        "ppv": rows["label"] == 1,
        "npv": rows["label"] == 0,
        "accuracy": np.ones(len(rows["truth"]), dtype=bool),
    }
    bag = np.arange(len(rows["truth"]))
    found = {}
    for name, kept in parts.items():
        own = None if groups is None else np.asarray(groups)[kept]
        some = {key: values[kept] for key, values in rows.items()}
        figure = contributions("accuracy", some, bag[kept], groups=own, fixed=fixed)
        found[name] = interval(figure)
    return found


def decision_curve(truth: NDArray[Any], p: Array) -> dict[str, list[float]]:
    r"""Return the net benefit of acting on a probability above a threshold.

    .. math:: \frac{TP}{n} - \frac{FP}{n} \frac{t}{1 - t}

    at the threshold :math:`t`, which is also the odds at which a false alarm is worth
    a missed case. Acting on nobody has a net benefit of 0.

    Parameters
    ----------
    truth : ndarray of shape (n,)
        1 for the positive class.
    p : ndarray of shape (n,)
        Its probability.

    Returns
    -------
    dict of str to list of float
        "threshold", "model" and "all" (acting on every bag).
    """
    y = np.asarray(truth) == 1
    odds = THRESHOLDS / (1.0 - THRESHOLDS)
    called = p >= THRESHOLDS[:, None]
    true, false = (called & y).mean(axis=1), (called & ~y).mean(axis=1)
    share = float(y.mean())
    return {
        "threshold": THRESHOLDS.tolist(),
        "model": (true - false * odds).tolist(),
        "all": (share - (1.0 - share) * odds).tolist(),
    }
