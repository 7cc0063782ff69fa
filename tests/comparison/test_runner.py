import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from toy_methods import toy

from bagwise.comparison import Store
from bagwise.comparison.many_runs import run_all
from bagwise.comparison.one_run import run_one

STABLE = ("key", "status", "method", "fold", "accuracy", "auroc", "params", "error")


def table(store, keys):
    return [tuple(str(row[name]) for name in STABLE) for row in store.rows(keys)]


def test_run_one_is_pure(toy_runs):
    run = toy_runs(toy("a"))[0]
    one, two = run_one(run), run_one(run.to_dict())
    assert one.metrics == two.metrics
    assert one.status == "ok"


def test_processes_give_the_same_table_as_one(tmp_path, toy_runs):
    runs = toy_runs(toy("a"), toy("b", "CountsThreads"), n_splits=4)
    with Store(tmp_path / "1.sqlite") as one, Store(tmp_path / "2.sqlite") as two:
        keys = run_all(runs, one)
        assert run_all(runs, two, n_jobs=2) == keys
        assert table(one, keys) == table(two, keys)
        assert list(one.status().values()) == ["ok"] * 8


def test_failures_are_rows_and_are_tried_again_on_request(tmp_path, toy_runs):
    flag = tmp_path / "flag"
    runs = toy_runs(toy("bad", "RaisesOnce", flag=str(flag)), toy("nan", "ReturnsNaN"))
    events = []
    with Store(tmp_path / "s.sqlite") as store:
        keys = run_all(runs, store)
        rows = store.rows(keys)
        assert {row["status"] for row in rows} == {"failed"}
        assert "ArithmeticError: not yet" in rows[0]["error"]
        assert "in act" in rows[0]["traceback"]
        assert "NaN" in rows[1]["error"]
        flag.touch()
        run_all(runs, store, on_event=events.append)
        assert all(event.cached for event in events)
        run_all(runs, store, retry_failed=True)
        assert Counter(store.status().values()) == {"ok": 2, "failed": 2}


@pytest.mark.skipif(sys.platform != "linux", reason="memory limits are Linux's")
def test_limits_and_deaths_end_as_rows_and_spare_the_others(tmp_path, toy_runs):
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
        keys = run_all(runs, store, n_jobs=2, **limits)
        rows = {row["method"]: row for row in store.rows(keys)}
    assert rows["fine"]["status"] == "ok"
    assert "limit of 3 s" in rows["hangs"]["error"]
    assert "limit of 3 s" in rows["hangs deep"]["error"]
    assert "toy_methods.py" in rows["hangs deep"]["traceback"]
    assert "MemoryError" in rows["hungry"]["error"]
    assert "died" in rows["dies"]["error"]
    assert len(rows) == 5


SCRIPT = """
import sys
from bagwise.comparison import Store
from bagwise.comparison.description import Run, classes_in, trust
from bagwise.comparison.many_runs import run_all
import json
told = json.load(open(sys.argv[1]))
trust(classes_in(told))  # the file is this test's own
runs = [Run.from_dict(d) for d in told]
with Store(sys.argv[2]) as store:
    run_all(runs, store, n_jobs=int(sys.argv[3]))
"""


def start(tmp_path, runs, store, n_jobs=1, **variables):
    (tmp_path / "runs.json").write_text(json.dumps([run.to_dict() for run in runs]))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    words = [str(tmp_path / "runs.json"), str(store), str(n_jobs)]
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


def test_killed_and_resumed_is_the_same_as_never_killed(tmp_path, toy_runs):
    log = tmp_path / "log"
    runs = toy_runs(toy("slow", "Sleeps", seconds=0.1, log=str(log)), n_splits=10)
    path = tmp_path / "killed.sqlite"
    for n_rows in (1, 3, 5):  # killed again and again, each time further on
        process = start(tmp_path, runs, path)
        wait_for_rows(path, n_rows)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with Store(path) as store:
        n_before = len(store)
        assert 5 <= n_before < 10
        n_fits = len(log.read_text().splitlines())
        keys = run_all(runs, store)
        killed = table(store, keys)
    # Only what was not finished was done again.
    assert len(log.read_text().splitlines()) - n_fits == 10 - n_before
    with Store(tmp_path / "whole.sqlite") as store:
        whole = table(store, run_all(runs, store))
    assert killed == whole
    assert len(whole) == 10


def test_two_runners_share_the_work_and_do_nothing_twice(tmp_path, toy_runs):
    """The first runner is held in its first run until the second has done one."""
    log, gate, path = tmp_path / "log", tmp_path / "gate", tmp_path / "s.sqlite"
    runs = toy_runs(toy("slow", "Sleeps", log=str(log)), n_splits=12)
    process = start(tmp_path, runs, path, BAGWISE_TEST_GATE=str(gate))
    deadline = time.monotonic() + 60
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    with Store(path) as store:
        keys = run_all(runs, store, on_event=lambda event: gate.touch())
        assert process.wait(timeout=60) == 0
        assert len(store.rows(keys)) == len(store) == 12
    fits = [line.split() for line in log.read_text().splitlines()]
    assert len(fits) == 12
    assert len({pid for pid, *_ in fits}) == 2
