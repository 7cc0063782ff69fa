"""The runner's worker processes live beside joblib's own."""

import os
import subprocess
import sys
import warnings

from joblib import Parallel, delayed
from toy_methods import Toy

from bagwise.comparison import compare
from bagwise.comparison._pool import open_pool
from bagwise.datasets import make_bags


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


def test_a_worker_whose_runner_was_gone_before_it_started_ends():
    runner = subprocess.Popen([sys.executable, "-c", ""])
    runner.wait()  # its number belongs to nobody now
    worker = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, time\n"
            "from bagwise.comparison._pool import leave_with_parent\n"
            "leave_with_parent(int(sys.argv[1]))\n"
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
        "from bagwise.comparison._pool import leave_with_parent\n"
        "leave_with_parent(int(sys.argv[1]))\n"
        "time.sleep(1.5)\n"
    )
    words = [sys.executable, "-c", text, str(os.getpid())]
    assert subprocess.run(words, timeout=300, check=False).returncode == 0


def test_a_worker_that_is_replaced_is_not_worth_a_word():
    said = "A worker stopped while some jobs were given to the executor. This can be"
    limits = {"time_limit": 60.0, "memory_limit": None}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with open_pool(1, None, limits):
            warnings.warn(said, UserWarning, stacklevel=1)
            warnings.warn("another matter", UserWarning, stacklevel=1)
    assert [str(warning.message) for warning in heard] == ["another matter"]
