"""Parts that share a task: the same sums in the same order, in fewer tasks."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from bagwise.compose import OnInstances
from bagwise.distributed import _partitions, fit
from bagwise.distributed._partitions import (
    Partitions,
    _add_pairwise,
    _is_small,
    _parts_per_task,
)
from bagwise.embedding import MiFV
from bagwise.linear_model import MILinearRegression, MILogisticRegression

dask = pytest.importorskip("dask")
pytestmark = pytest.mark.usefixtures("here")


class Term:
    """Records the order of additions."""

    def __init__(self, text):
        self.text = text

    def __add__(self, other):
        return Term(f"({self.text}{other.text})")


def name_of(part):
    return Term(f"{part.y[0]}.")


@pytest.mark.parametrize("n_parts", [1, 2, 3, 5, 7, 8, 11])
def test_the_order_of_additions_is_that_of_loose_parts(n_parts, monkeypatch):
    parts = [(np.zeros((1, 2, 1)), [k]) for k in range(n_parts)]
    loose = Partitions(parts)
    wanted = loose.sum(name_of).text
    assert _add_pairwise([Term(f"{k}.") for k in range(n_parts)]).text == wanted
    for n_threads in (0, 1, 2, 3):
        monkeypatch.setattr(_partitions, "_threads", lambda n=n_threads: ["here"] * n)
        kept = Partitions(parts).persist()
        assert len(kept) == n_parts
        assert kept.sum(name_of).text == wanted
        assert [one.text for one in kept.each(name_of)] == [
            f"{k}." for k in range(n_parts)
        ]


def test_threads_share_evenly():
    for n_parts in range(1, 200):
        assert _parts_per_task(n_parts, 0) == 1
        for n_threads in (1, 2, 3, 8, 50):
            width = _parts_per_task(n_parts, n_threads)
            assert width & (width - 1) == 0
            groups = -(-n_parts // width)
            most = width * -(-groups // n_threads)
            assert most <= 1.25 * -(-n_parts // n_threads)
    assert _parts_per_task(8, 2) == 4  # one task per thread and pass
    assert _parts_per_task(1000, 100) == 4


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(OnInstances(), MILogisticRegression(n_init=3, random_state=0)),
        MILinearRegression(pooling="prime", n_init=3, random_state=0),
        MiFV(max_samples=60, random_state=0),
    ],
    ids=["logistic", "per bag", "rows taken"],
)
def test_a_fit_on_kept_parts_is_the_same_bit_by_bit(model, draw, cut, monkeypatch):
    X, y = draw()
    method = "transform" if hasattr(model, "transform") else "predict"
    method = "decision_function" if hasattr(model, "decision_function") else method
    loose = getattr(fit(model, cut(X, y)), method)(X)
    monkeypatch.setattr(_partitions, "_threads", lambda: ["here"] * 2)
    kept = getattr(fit(model, cut(X, y), persist=True), method)(X)
    np.testing.assert_array_equal(kept, loose)


def test_few_numbers_travel_with_the_tasks():
    assert _is_small((np.zeros(100), {"alpha": 2.0, "pooling": "max"}, None, name_of))
    assert not _is_small([np.zeros(10_000)])
    assert not _is_small((MiFV(),))
    assert not _is_small((np.array([None]),))


def test_each_worker_keeps_its_own(monkeypatch):
    distributed = pytest.importorskip("distributed")
    parts = [(np.full((1, 2, 1), float(k)), [k]) for k in range(8)]
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address=":0",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
        dask.config.set(scheduler=client),
    ):
        places = _partitions._threads()
        assert len(set(places)) == 2
        # Both assignments, so that the test does not pass by chance.
        for order in (places, places[::-1], places[:1] * 2):
            monkeypatch.setattr(_partitions, "_threads", lambda order=order: order)
            kept = Partitions(parts).persist()
            held = [distributed.futures_of(one)[0] for _, one in kept._groups]
            distributed.wait(held)
            where = client.who_has(held)
            assert [list(where[one.key]) for one in held] == [[w] for w in order]
            assert kept.sum(name_of).text == Partitions(parts).sum(name_of).text
