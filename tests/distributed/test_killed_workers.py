"""A worker that is killed costs time, not the result, whatever is being fitted."""

import os
import signal
import time

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

# What is fitted, in which reading of the last part its reader dies, what is compared:
# one of every way to fit on parts.
FITS = {
    "SAFE": (SAFE(variance_weight=0.5, **SAFE_OPTIONS), 3, "decision_function"),
    "SAFERegressor": (SAFERegressor(kernel="linear"), 2, "predict"),
    "scaler": (OnInstances(), 2, "transform"),
    "statistics": (
        SimpleMI(LogisticRegression(tol=1e-10), pooling="mean+std"),
        2,
        "decision_function",
    ),
    "miFV": (MiFV(max_samples=100, random_state=0), 3, "transform"),
    "MILR": (MILogisticRegression(n_init=1, tol=1e-2), 5, "decision_function"),
    "linear regression": (MILinearRegression(n_init=1, tol=1e-2), 4, "predict"),
}


@pytest.fixture(scope="module")
def client():
    """Two worker processes; a dead one is started again."""
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def deadly_parts(folder, X, y, when):
    """Return parts of which the last takes its reader along, once."""

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


@pytest.mark.parametrize("name", FITS)
def test_a_killed_worker_changes_no_fit(name, client, tmp_path, draw):
    model, when, method = FITS[name]
    X, y = draw(120)
    client.wait_for_workers(2)
    workers = set(client.run(os.getpid).values())
    found = fit(model, deadly_parts(tmp_path, X, y, when))
    assert int((tmp_path / "killed").read_text(encoding="utf-8")) in workers
    expected = answers(model.fit(X, y), method, X)
    np.testing.assert_allclose(
        answers(found, method, X), expected, rtol=1e-8, atol=1e-8
    )


def test_a_killed_worker_changes_no_answer(client, tmp_path, draw):
    X, y = draw(120)
    model = SAFE(kernel="linear").fit(X, y)
    client.wait_for_workers(2)
    workers = set(client.run(os.getpid).values())
    found = predict(model, deadly_parts(tmp_path, X, y, 1))
    assert int((tmp_path / "killed").read_text(encoding="utf-8")) in workers
    np.testing.assert_array_equal(found, model.predict(X))
