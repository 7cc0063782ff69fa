"""Simulated bags with two equally good halves of the features.

`DEVELOPMENT` generators were used to choose the estimator of the library,
`VERIFICATION` generators were first run when it was final.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

Rng = np.random.Generator
Half = Callable[[Any, Any, Rng], Any]
GROUPED = {"visits": 2, "patients": 3}
RATIO = {"1:3": 0.25, "1:9": 0.1}


def simulate(kind: str, n: int, rng: Rng, halves: int = 2) -> tuple[Any, Any, Any]:
    """Return features (halves, bags, columns), labels and groups of bags."""
    groups = np.arange(n) // GROUPED.get(kind, 1)
    y = (rng.random(groups[-1] + 1) < RATIO.get(kind, 0.5)).astype(np.int64)[groups]
    half = {**DEVELOPMENT, **VERIFICATION}[kind]
    return np.stack([half(y, groups, rng) for _ in range(halves)]), y, groups


def pooled(X: Any) -> Any:
    """Return mean and maximum of the instances of every bag."""
    return np.hstack([X.mean(axis=1), X.max(axis=1)])


# Generators to choose the estimator ---------------------------------------------------


def _gauss(y: Any, groups: Any, rng: Rng) -> Any:
    return rng.normal(size=(len(y), 10)) + 0.4 * y[:, None]


def _xor(y: Any, groups: Any, rng: Rng) -> Any:
    X = rng.normal(size=(len(y), 4))
    sign = np.where(rng.random(len(y)) < 0.5, 1.0, -1.0)
    X[:, 0] += 1.5 * sign
    X[:, 1] += 1.5 * sign * (2 * y - 1)
    return X


def _noise(y: Any, groups: Any, rng: Rng) -> Any:
    return rng.normal(size=(len(y), 5))


def _heavy(y: Any, groups: Any, rng: Rng) -> Any:
    X = rng.standard_t(3, size=(len(y), 8, 2))
    X[:, :3, 0] += 1.6 * y[:, None]
    return pooled(X)


def _easy(y: Any, groups: Any, rng: Rng) -> Any:
    return rng.normal(size=(len(y), 3)) + 2.2 * y[:, None]


def _rare(y: Any, groups: Any, rng: Rng) -> Any:
    return rng.normal(size=(len(y), 4)) + 0.8 * y[:, None]


def _visits(y: Any, groups: Any, rng: Rng) -> Any:
    own = rng.normal(size=(groups[-1] + 1, 5))[groups]
    return 0.8 * own + 0.6 * rng.normal(size=(len(y), 5)) + 0.6 * y[:, None]


DEVELOPMENT: dict[str, Half] = {
    "gauss": _gauss,
    "xor": _xor,
    "noise": _noise,
    "heavy": _heavy,
    "easy": _easy,
    "1:3": _rare,
    "visits": _visits,
}

# Generators to verify it --------------------------------------------------------------


def _witness(y: Any, groups: Any, rng: Rng) -> Any:
    X = rng.normal(size=(len(y), 8, 4))
    X[:, 0, :2] += 2.0 * y[:, None]
    return pooled(X)


def _counts(y: Any, groups: Any, rng: Rng) -> Any:
    X = rng.normal(size=(len(y), 10, 3))
    count = rng.binomial(10, np.where(y == 1, 0.5, 0.25))
    X[:, :, 0] += 2.5 * (np.arange(10) < count[:, None])
    return pooled(X)


def _shift(y: Any, groups: Any, rng: Rng) -> Any:
    """Three kinds of instances; one is more frequent in positive bags."""
    shares = np.where(y[:, None] == 1, [0.5, 0.3, 0.2], [0.3, 0.3, 0.4])
    kind = (rng.random((len(y), 12, 1)) > shares.cumsum(1)[:, None]).sum(2)
    centers = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    return (centers[kind] + rng.normal(size=(len(y), 12, 3))).mean(axis=1) * 2.0


def _digits(y: Any, groups: Any, rng: Rng) -> Any:
    """Maxima over four digit images; a positive bag contains a zero."""
    images, zeros, others = _images()
    chosen = rng.choice(others, (len(y), 4))
    chosen[y == 1, 0] = rng.choice(zeros, int(y.sum()))
    return images[chosen].max(axis=1)


def _imbalanced(y: Any, groups: Any, rng: Rng) -> Any:
    X = rng.normal(size=(len(y), 6, 3))
    X[:, :2] += 1.2 * y[:, None, None]
    return pooled(X)


def _patients(y: Any, groups: Any, rng: Rng) -> Any:
    X = rng.normal(size=(len(y), 6, 3))
    X += 0.6 * rng.standard_exponential((groups[-1] + 1, 1, 3))[groups]
    X[:, :3, :2] += 1.2 * y[:, None, None]
    return pooled(X)


VERIFICATION: dict[str, Half] = {
    "witness": _witness,
    "counts": _counts,
    "shift": _shift,
    "digits": _digits,
    "1:9": _imbalanced,
    "patients": _patients,
}


@cache
def _images() -> tuple[Any, Any, Any]:
    images, digit = load_digits(return_X_y=True)
    shared = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(len(digit), 16)
    shared = (shared - shared.mean(axis=0)) / np.maximum(shared.std(axis=0), 1.0)
    return shared[:, 4:12], np.flatnonzero(digit == 0), np.flatnonzero(digit != 0)
