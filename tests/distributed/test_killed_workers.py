"""The result does not change if a worker is killed during a fit."""

import os
import signal
import time
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bagwise.compose import OnInstances, SimpleMI
from bagwise.distributed import fit, predict
from bagwise.embedding import MiFV
from bagwise.least_squares import SAFE, SAFERegressor
from bagwise.linear_model import MILinearRegression, MILogisticRegression

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

N_PARTS = 4
SAFE_OPTIONS = {"n_components": 15, "random_state": 0}

# The model, the number of the read of the last part at which its worker is killed, and
# the compared attributes: one case per kind of fit. Few steps, so rounding is harmless.
FITS = {
    "SAFE": (SAFE(variance_weight=0.5, **SAFE_OPTIONS), 3, "decision_function"),
    "SAFERegressor": (SAFERegressor(kernel="linear"), 2, "predict"),
    "scaler": (OnInstances(), 2, "transform"),
    "statistics": (
        SimpleMI(LogisticRegression(tol=1e-3), pooling="mean+std"),
        2,
        "decision_function",
    ),
    "miFV": (MiFV(max_samples=100, random_state=0), 3, "transform"),
    "MILR": (MILogisticRegression(n_init=1, tol=1e-2), 5, "decision_function"),
    "linear regression": (MILinearRegression(n_init=1, tol=1e-2), 4, "predict"),
}


@pytest.fixture
def client(two_workers):
    with distributed.Client(two_workers) as client:
        yield client


def deadly_parts(folder, X, y, when):
    """Return parts; reading the last one kills its worker once."""

    def load(i):
        if i == N_PARTS - 1:
            (folder / f"{time.monotonic_ns()}-{os.getpid()}").touch()
            readings = list(folder.glob("*-*"))
            if len(readings) == when and not (folder / "killed").exists():
                (folder / "killed").write_text(str(os.getpid()), encoding="utf-8")
                os.kill(os.getpid(), signal.SIGKILL)
        size = len(y) // N_PARTS
        return X[size * i : size * i + size], y[size * i : size * i + size]

    return [dask.delayed(load)(i) for i in range(N_PARTS)]


def answers(model, method, X):
    found = getattr(model, method)(X)
    return found.data if method == "transform" and hasattr(found, "offsets") else found


def kill_while(use, client, folder, X, y, when):
    """Return ``use(parts)``, during which one of the two workers is killed."""
    folder.mkdir()
    client.wait_for_workers(2, timeout=60)
    workers = set(client.run(os.getpid).values())
    found = use(deadly_parts(folder, X, y, when))
    assert int((folder / "killed").read_text(encoding="utf-8")) in workers
    return found


# Starting a cluster takes longer than the fits: one case by default.
rest = pytest.mark.skipif(
    "BAGWISE_KILL_ALL" not in os.environ, reason="one kind of fit; BAGWISE_KILL_ALL=1"
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "SAFE" else rest) for n in FITS]
)
def test_a_killed_worker_changes_no_fit(name, client, tmp_path, draw):
    X, y = draw(120)
    model, when, method = FITS[name]
    found = kill_while(partial(fit, model), client, tmp_path / "parts", X, y, when)
    np.testing.assert_allclose(
        answers(found, method, X),
        answers(model.fit(X, y), method, X),
        rtol=1e-8,
        atol=1e-8,
    )


@rest
def test_a_killed_worker_changes_no_answer(client, tmp_path, draw):
    X, y = draw(120)
    model = SAFE(kernel="linear").fit(X, y)
    use = partial(predict, model)
    found = kill_while(use, client, tmp_path / "parts", X, y, 1)
    np.testing.assert_array_equal(found, model.predict(X))
