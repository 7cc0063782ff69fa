import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from joblib import Parallel, delayed
from toy_methods import Toy, toy

from bagwise.comparison import compare, runner
from bagwise.comparison._data_files import DataFileError
from bagwise.comparison.run_one import run_one
from bagwise.comparison.runner import run_all
from bagwise.comparison.store import Store
from bagwise.datasets import make_bags

STABLE = ("key", "status", "method", "fold", "accuracy", "auroc", "params", "error")


def table(store, keys):
    return [tuple(str(row[name]) for name in STABLE) for row in store.rows(keys)]


def test_run_one_is_pure(toy_runs, problem):
    run = toy_runs(toy("a"))[0]
    one, two = run_one(run, problem), run_one(run, problem)
    assert one.metrics == two.metrics
    assert one.status == "ok"


def test_processes_give_the_same_table_as_one(tmp_path, toy_runs, problems):
    runs = toy_runs(toy("a"), toy("b", "CountsThreads"), n_splits=4)
    with Store(tmp_path / "1.sqlite") as one, Store(tmp_path / "2.sqlite") as two:
        keys = run_all(runs, problems, one)
        assert run_all(runs, problems, two, n_jobs=2) == keys
        assert table(one, keys) == table(two, keys)
        assert list(one.status().values()) == ["ok"] * 8


def test_failures_are_rows_and_are_tried_again_on_request(tmp_path, toy_runs, problems):
    flag = tmp_path / "flag"
    runs = toy_runs(toy("bad", "RaisesOnce", flag=str(flag)), toy("nan", "ReturnsNaN"))
    events = []
    with Store(tmp_path / "s.sqlite") as store:
        keys = run_all(runs, problems, store)
        rows = store.rows(keys)
        assert {row["status"] for row in rows} == {"failed"}
        assert "ArithmeticError: not yet" in rows[0]["error"]
        assert "in act" in rows[0]["traceback"]
        assert "NaN" in rows[1]["error"]
        flag.touch()
        run_all(runs, problems, store, on_event=events.append)
        assert all(event.cached for event in events)
        run_all(runs, problems, store, retry_failed=True)
        assert Counter(store.status().values()) == {"ok": 2, "failed": 2}


@pytest.mark.skipif(sys.platform != "linux", reason="memory limits are Linux's")
def test_limits_and_deaths_end_as_rows_and_spare_the_others(
    tmp_path, toy_runs, problems
):
    """A hang in a compiled loop holds the interpreter; only the watchdog ends it."""
    methods = [
        toy("fine"),
        toy("hangs", "Hangs"),
        toy("hangs deep", "Hangs", compiled=True),
        toy("hungry", "Hungry"),
        toy("dies", "Dies"),
    ]
    runs = toy_runs(*methods)[:5]
    with Store(tmp_path / "s.sqlite") as store:
        limits = {"time_limit": 3.0, "memory_limit": 10**9}
        keys = run_all(runs, problems, store, n_jobs=2, **limits)
        rows = {row["method"]: row for row in store.rows(keys)}
    assert rows["fine"]["status"] == "ok"
    assert "limit of 3 s" in rows["hangs"]["error"]
    assert "limit of 3 s" in rows["hangs deep"]["error"]
    assert "toy_methods.py" in rows["hangs deep"]["traceback"]
    assert "MemoryError" in rows["hungry"]["error"]
    assert "died" in rows["dies"]["error"]
    assert len(rows) == 5


SCRIPT = """
import pickle, sys
from bagwise.comparison.store import Store
from bagwise.comparison.description import trust
from bagwise.comparison.runner import run_all
from bagwise.datasets import make_bags
runs, problems = pickle.load(open(sys.argv[1], "rb"))  # the file of this test
trust({"toy_methods.Sleeps": None})
with Store(sys.argv[2]) as store:
    run_all(runs, problems, store, n_jobs=int(sys.argv[3]))
"""


def start(tmp_path, runs, problems, store, n_jobs=1, **variables):
    (tmp_path / "runs.pickle").write_bytes(pickle.dumps((runs, problems)))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    words = [str(tmp_path / "runs.pickle"), str(store), str(n_jobs)]
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *words], env=env, start_new_session=True
    )


def wait_for_rows(path, n):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if Path(path).exists():
            with Store(path) as store:
                if len(store) >= n:
                    return
        time.sleep(0.02)
    raise AssertionError(f"no {n} rows in 60 s")


def test_killed_and_resumed_is_the_same_as_never_killed(tmp_path, toy_runs, problems):
    log = tmp_path / "log"
    runs = toy_runs(toy("slow", "Sleeps", seconds=0.1, log=str(log)), n_splits=10)
    path = tmp_path / "killed.sqlite"
    for n_rows in (1, 3, 5):  # killed again and again, each time further on
        process = start(tmp_path, runs, problems, path)
        wait_for_rows(path, n_rows)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with Store(path) as store:
        n_before = len(store)
        assert 5 <= n_before < 10
        n_fits = len(log.read_text().splitlines())
        keys = run_all(runs, problems, store)
        killed = table(store, keys)
    # Only what was not finished was done again.
    assert len(log.read_text().splitlines()) - n_fits == 10 - n_before
    with Store(tmp_path / "whole.sqlite") as store:
        whole = table(store, run_all(runs, problems, store))
    assert killed == whole
    assert len(whole) == 10


def test_two_processes_on_one_store_give_the_table_of_one(tmp_path, toy_runs, problems):
    """The second one starts while the first one is held in a run."""
    log, gate, path = tmp_path / "log", tmp_path / "gate", tmp_path / "s.sqlite"
    runs = toy_runs(toy("slow", "Sleeps", log=str(log)), n_splits=12)
    process = start(tmp_path, runs, problems, path, BAGWISE_TEST_GATE=str(gate))
    deadline = time.monotonic() + 60
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    with Store(path) as store:
        keys = run_all(runs, problems, store, on_event=lambda event: gate.touch())
        assert process.wait(timeout=60) == 0
        both = table(store, keys)
        assert len(store) == 12
    with Store(tmp_path / "one.sqlite") as store:
        assert both == table(store, run_all(runs, problems, store))


def test_one_job_needs_no_process_and_no_file(tmp_path, toy_runs, problems):
    """Runs happen here, from memory, and limits hold."""
    here = toy("here", "InThisProcess", pid=os.getpid())
    runs, folder = toy_runs(here, toy("hangs", "Hangs")), tmp_path / "data"
    with Store(tmp_path / "s.sqlite") as store:
        keys = run_all(runs, problems, store, time_limit=0.5, folder=folder)
        rows = {row["method"]: row for row in store.rows(keys)}
    assert rows["here"]["status"] == "ok"
    assert "limit of 0.5 s" in rows["hangs"]["error"]
    assert not folder.exists()


def test_the_time_is_limited_in_a_thread_too(tmp_path, toy_runs, problems):
    """A signal reaches the main thread only, so that a process does the work."""
    runs = toy_runs(toy("hangs", "Hangs", compiled=True))[:1]
    with Store(tmp_path / "s.sqlite") as store:
        work = Thread(
            target=run_all, args=(runs, problems, store), kwargs={"time_limit": 1.0}
        )
        work.start()
        work.join(60)
        (row,) = store.rows()
    assert "limit of 1 s" in row["error"]


def test_workers_get_the_data_of_this_call(tmp_path, toy_runs, problems):
    """Files of an earlier call, which may have been changed since, do not count."""
    runs, folder = toy_runs(toy("a")), tmp_path / "data"
    with Store(tmp_path / "1.sqlite") as store:
        first = table(store, run_all(runs, problems, store, n_jobs=2, folder=folder))
    (written,) = folder.glob("*/data.npy")
    np.save(written, np.zeros_like(np.load(written)))
    with Store(tmp_path / "2.sqlite") as store:
        again = table(store, run_all(runs, problems, store, n_jobs=2, folder=folder))
    assert again == first


def test_data_that_workers_do_not_find_are_no_failed_run(
    tmp_path, toy_runs, problems, monkeypatch
):
    monkeypatch.setattr(runner, "write_problem", lambda problem, folder: None)
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(DataFileError, match="on a file system that every worker"):
            run_all(toy_runs(toy("a")), problems, store, n_jobs=2)
        assert len(store) == 0


def test_joblib_works_after_a_comparison():
    X, y = make_bags(12, random_state=0)
    compare(X, y, methods=["SimpleMI"], grid="none", n_jobs=2, progress=False)
    assert Parallel(n_jobs=2)(delayed(abs)(-i) for i in range(4)) == [0, 1, 2, 3]


def test_workers_build_an_estimator_of_ones_own():
    """Its class is on no list; the runner says that it may be built."""
    X, y = make_bags(12, random_state=0)
    found = compare(X, y, methods=[("own", Toy())], n_jobs=2, progress=False)
    assert not found.failures
    assert {row["status"] for row in found.rows} == {"ok"}
    spec = found.rows[0]["description"]["estimator"]
    assert spec == {"class": "toy_methods.Toy", "params": {}}


def test_workers_build_a_class_of_a_script(tmp_path):
    """Its module is the script itself, which workers do not import."""
    script = tmp_path / "script.py"
    script.write_text(
        "from bagwise.comparison import compare\n"
        "from bagwise.compose import SimpleMI\n"
        "from bagwise.datasets import make_bags\n"
        "class Mine(SimpleMI):\n"
        "    pass\n"
        "X, y = make_bags(12, random_state=0)\n"
        "found = compare(X, y, methods=[Mine()], n_jobs=2, progress=False)\n"
        "print({row['status'] for row in found.rows}, found.failures[:1])\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    text = subprocess.run(
        [sys.executable, script], env=env, capture_output=True, text=True, timeout=300
    )
    assert text.stdout.strip() == "{'ok'} []", text.stderr


def test_a_worker_whose_runner_was_gone_before_it_started_ends():
    runner = subprocess.Popen([sys.executable, "-c", ""])
    runner.wait()  # its number belongs to nobody now
    worker = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, time\n"
            "from bagwise.comparison.runner import exit_with_parent\n"
            "exit_with_parent(int(sys.argv[1]))\n"
            "time.sleep(600)\n",
            str(runner.pid),
        ],
        timeout=300,
        check=False,
    )
    assert worker.returncode == 1


def test_a_worker_stays_while_its_runner_is_there():
    text = (
        "import sys, time\n"
        "from bagwise.comparison.runner import exit_with_parent\n"
        "exit_with_parent(int(sys.argv[1]))\n"
        "time.sleep(1.5)\n"
    )
    words = [sys.executable, "-c", text, str(os.getpid())]
    assert subprocess.run(words, timeout=300, check=False).returncode == 0


def test_a_replaced_worker_causes_no_warning(tmp_path, toy_runs, problems):
    text = "A worker stopped while some jobs were given to the executor. This can be"

    def warn(event):
        warnings.warn(text, UserWarning, stacklevel=1)
        warnings.warn("another matter", UserWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Store(tmp_path / "s.sqlite") as store:
            run_all(toy_runs(toy("a"))[:1], problems, store, n_jobs=2, on_event=warn)
    assert [str(warning.message) for warning in caught] == ["another matter"]
