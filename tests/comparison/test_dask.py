import os
import signal
import time

import pytest
from toy_methods import toy

from bagwise.comparison import runner
from bagwise.comparison._data_files import DataFileError
from bagwise.comparison.runner import run_all
from bagwise.comparison.store import Store

distributed = pytest.importorskip("distributed")


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_loses_a_worker_loses_no_run_and_does_none_twice(
    two_workers, tmp_path, toy_runs, problems
):
    runs = toy_runs(toy("a", "Sleeps", seconds=0.15), toy("b"), n_splits=8)
    killed = []
    with Store(tmp_path / "s.sqlite") as store:
        pids = [nanny.pid for nanny in two_workers.workers.values()]

        def kill(event):
            if event.n_done == 4:
                os.kill(pids[0], signal.SIGKILL)
                killed.append(time.monotonic())

        seen = []
        keys = run_all(
            runs,
            problems,
            store,
            scheduler=two_workers.scheduler_address,
            on_event=lambda event: (seen.append(event.row["key"]), kill(event)),
        )
        rows = store.rows(keys)
        n_rows = len(store)
    assert killed
    assert sorted(seen) == sorted(keys)
    assert n_rows == len(rows) == 16
    assert {row["status"] for row in rows} == {"ok"}
    with Store(tmp_path / "local.sqlite") as local:
        run_all(runs, problems, local)
        expected = {row["key"]: row["accuracy"] for row in local.rows()}
    assert {row["key"]: row["accuracy"] for row in rows} == expected


def test_no_scheduler_is_one_clear_line(tmp_path, toy_runs, problems, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("Timed out trying to connect")

    monkeypatch.setattr(distributed, "Client", refuse)
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(ConnectionError, match="no dask scheduler answers at"):
            run_all(toy_runs(toy("a")), problems, store, scheduler="tcp://127.0.0.1:1")


@pytest.mark.filterwarnings("ignore")
def test_a_lost_scheduler_blames_no_run(tmp_path, toy_runs, problems):
    runs = toy_runs(toy("a", "Sleeps", seconds=0.2), n_splits=8)
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    cluster = distributed.LocalCluster(processes=False, silence_logs=50, **options)
    with Store(tmp_path / "s.sqlite") as store:

        def lose(event):
            if event.n_done == 2:
                cluster.close()

        with pytest.raises(
            ConnectionError, match=r"is no longer available.* the same call"
        ):
            run_all(
                runs,
                problems,
                store,
                scheduler=cluster.scheduler_address,
                on_event=lose,
            )
        assert {row["status"] for row in store.rows()} == {"ok"}
        assert 2 <= len(store) < 8
        run_all(runs, problems, store)
        assert len(store) == 8


@pytest.fixture
def cluster(request):
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "processes": False}
    with distributed.LocalCluster(
        n_workers=request.param, silence_logs=50, **options
    ) as found:
        yield found.scheduler_address


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cluster", [0], indirect=True)
def test_a_cluster_without_workers_is_refused(
    cluster, tmp_path, toy_runs, problems, monkeypatch
):
    monkeypatch.setattr(runner, "WORKER_SECONDS", 0.2)
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(ConnectionError, match=r"has no workers; start .* dask wor"):
            run_all(toy_runs(toy("a")), problems, store, scheduler=cluster)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_workers_of_another_version_are_refused(
    cluster, tmp_path, toy_runs, problems, monkeypatch
):
    monkeypatch.setattr(runner, "__version__", "99.0")
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(ConnectionError, match=r"has bagwise .*, this process 99.0"):
            run_all(toy_runs(toy("a")), problems, store, scheduler=cluster)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_data_that_a_worker_does_not_have_are_no_failed_run(
    cluster, tmp_path, toy_runs, problems, monkeypatch
):
    monkeypatch.setattr(runner, "write_problem", lambda problem, folder: None)
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(DataFileError, match="does not find"):
            run_all(toy_runs(toy("a")), problems, store, scheduler=cluster)
        assert len(store) == 0
