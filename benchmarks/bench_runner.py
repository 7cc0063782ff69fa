"""What the runner costs beyond the work itself, and how fast it resumes.

python benchmarks/bench_runner.py [--quick]
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from bagwise import Bags
from bagwise.comparison import KFold, Method, Problem, Store
from bagwise.comparison._compare import make_runs
from bagwise.comparison._limits import single_thread
from bagwise.comparison.frozen import freeze
from bagwise.comparison.keys import run_key
from bagwise.comparison.many_runs import run_all
from bagwise.comparison.one_run import library_version, run_one


class Trivial(ClassifierMixin, BaseEstimator):
    """Says the first class of every bag."""

    def fit(self, X, y):
        """Remember the classes."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        """Return -1 for every bag."""
        return -np.ones(len(X))

    def predict(self, X):
        """Return the first class for every bag."""
        return np.repeat(self.classes_[0], len(X))


def make(folder, n_runs):
    rng = np.random.default_rng(0)
    X = Bags.from_list([rng.normal(size=(3, 4)) for _ in range(40)])
    problem = Problem("trivial", X, np.arange(40) % 2)
    ref = freeze(problem, folder)
    method = Method("trivial", "bench_runner.Trivial", scale="none")
    protocol = KFold(10, n_runs // 10)
    return make_runs([method], ref, protocol, protocol.folds(40))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    n_runs, n_rows = (100, 1_000) if quick else (1_000, 10_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = make(folder / "data", n_runs)
        run_one(runs[0])
        started = time.perf_counter()
        with single_thread():
            for run in runs:
                run_one(run)
        work = time.perf_counter() - started
        with Store(folder / "a.sqlite") as store:
            started = time.perf_counter()
            run_all(runs, store)
            here = time.perf_counter() - started
        with Store(folder / "b.sqlite") as store:
            run_all(make(folder / "data", 20)[:8], store, n_jobs=2)  # start workers
            started = time.perf_counter()
            run_all(runs, store, n_jobs=2)
            there = time.perf_counter() - started
        many = make(folder / "data", n_rows)
        version = library_version()
        outcome = run_one(many[0])
        with Store(folder / "c.sqlite") as store:
            store._db.execute("PRAGMA synchronous=OFF")
            for run in many:
                store.put(run_key(run, version), run, outcome)
        started = time.perf_counter()
        with Store(folder / "c.sqlite") as store:
            keys = run_all(many, store)
            ready = time.perf_counter() - started
            store.rows(keys)
            table = time.perf_counter() - started
    print(f"work itself                      {1e3 * work / n_runs:8.2f} ms a run")
    for label, spent, share in (
        ("in this process", here, 1),
        ("two workers", there, 2),
    ):
        extra = 1e3 * (spent - work / share) / n_runs
        print(f"overhead, {label:<16}       {extra:8.2f} ms a run   (bar: 10 ms)")
    print(f"resume of {n_rows:,} finished runs {ready:8.2f} s           (bar: 2 s)")
    print(f"  and their table               {table:8.2f} s")


if __name__ == "__main__":
    main()
