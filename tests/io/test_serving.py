"""Models in production: predictions in threads, and the service of the guide."""

import asyncio
import importlib.util
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import bagwise
from bagwise.bags import Bags
from bagwise.comparison import list_methods
from bagwise.comparison.tuning import fit_method
from bagwise.datasets import make_bags
from bagwise.ensemble import BagRegressor

X, Y = make_bags(40, random_state=0)
EXAMPLE = Path(__file__).parents[2] / "examples" / "serving.py"
FRESH = """
import sys, threading
import numpy as np
import bagwise
model = bagwise.load(sys.argv[1])
parts = [np.load(sys.argv[2])[k] for k in range(8)]
start, found = threading.Barrier(8), [None] * 8
def predict(k):
    start.wait()
    found[k] = model.decision_function([parts[k]])
threads = [threading.Thread(target=predict, args=(k,)) for k in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
np.save(sys.argv[3], np.concatenate(found))
heavy = {"torch", "matplotlib", "sphinx", "dask", "typer"} & set(sys.modules)
print(" ".join(sorted(heavy)))
"""


def fitted(name):
    method = next(m for m in list_methods() if m.name == name)
    return fit_method(method.spec(), X, Y, scale=method.scale, random_state=0).model


@pytest.mark.parametrize(
    "name",
    [
        "SimpleMI",
        "MILR",
        "MI-SVM",
        "MI-Kernel",
        "miGraph",
        "EMD + SVC",
        "Box kernel SVC",
        "SAFE",
        "MILES",
        "miFV",
        "MILBoost",
        "Citation-kNN",
        "WrapperMI (forest)",
    ],
)
def test_threads_predict_what_one_thread_predicts(name):
    model = fitted(name)
    new, _ = make_bags(48, random_state=1)
    expected = [model.predict(new[k : k + 4]) for k in range(0, 48, 4)]
    with ThreadPoolExecutor(8) as pool:
        parts = [new[k : k + 4] for k in range(0, 48, 4)] * 4
        for k, found in enumerate(pool.map(model.predict, parts)):
            np.testing.assert_array_equal(found, expected[k % 12])


def test_stacks_predict_in_threads():
    y = np.array([bag[:, 0].mean() for bag in X])
    new, _ = make_bags(16, random_state=1)
    for model in (
        bagwise.BagClassifier(random_state=0).fit(X, Y),
        BagRegressor(random_state=0).fit(X, y),
    ):
        expected = [model.predict(new[k : k + 2]) for k in range(0, 16, 2)]
        with ThreadPoolExecutor(8) as pool:
            parts = [new[k : k + 2] for k in range(0, 16, 2)]
            for one, two in zip(pool.map(model.predict, parts), expected, strict=True):
                np.testing.assert_array_equal(one, two)


def test_the_first_calls_of_a_process_may_be_in_threads(tmp_path):
    """Compiled code is loaded once; no package for plots or networks is imported."""
    model = fitted("MILR")
    bagwise.save(model, tmp_path / "m.bagwise")
    new = np.random.default_rng(0).normal(size=(8, 5, X.n_features))
    np.save(tmp_path / "new.npy", new)
    files = [tmp_path / name for name in ("m.bagwise", "new.npy", "out.npy")]
    done = subprocess.run(
        [sys.executable, "-c", FRESH, *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == ""
    found = np.load(tmp_path / "out.npy")
    np.testing.assert_allclose(found, model.decision_function(Bags.from_list(new)))


def test_the_service_of_the_guide(tmp_path, monkeypatch):
    pytest.importorskip("fastapi")
    httpx = pytest.importorskip("httpx")
    model = fitted("MILR")
    bagwise.save(model, tmp_path / "m.bagwise")
    monkeypatch.setenv("MODEL", str(tmp_path / "m.bagwise"))
    spec = importlib.util.spec_from_file_location("serving", EXAMPLE)
    serving = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(serving)

    async def ask(requests):
        transport = httpx.ASGITransport(app=serving.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as web:
            posts = [web.post("/predict", json={"bags": bags}) for bags in requests]
            return await asyncio.gather(*posts)

    def answers_to(requests):
        """In a thread of its own: a browser test may have left a loop in this one."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(ask(requests))).result()

    new, _ = make_bags(32, random_state=1)
    answers = answers_to([[np.asarray(bag).tolist()] for bag in new])
    found = [answer.json() for answer in answers]
    np.testing.assert_array_equal([f["label"][0] for f in found], model.predict(new))
    scores = [f["score"][0] for f in found]
    np.testing.assert_allclose(scores, model.decision_function(new))
    for answer, message in zip(
        answers_to([[[[1.0, 2.0]]], [[]]]), ("features", "bag 0"), strict=True
    ):
        assert answer.status_code == 422
        assert message in answer.json()["detail"]
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 30
