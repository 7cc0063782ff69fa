"""Estimators that misbehave, for tests of the runner; workers import them by name."""

import os
import signal
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info

from bagwise import Bags
from bagwise.comparison import Method
from bagwise.comparison.problem import Problem


class Toy(ClassifierMixin, BaseEstimator):
    """Score a bag by the mean of its first feature."""

    def fit(self, X, y):
        self.act(X)
        self.classes_ = np.unique(y)
        self.cut_ = np.mean([bag[:, 0].mean() for bag in X])
        return self

    def act(self, X):
        """Do nothing."""

    def decision_function(self, X):
        return np.array([bag[:, 0].mean() for bag in X]) - self.cut_

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


class Unsavable(Toy):
    """Holds code, which no model file takes."""

    def act(self, X):
        self.code_ = lambda bag: bag.mean()


class Sleeps(Toy):
    """Takes its time, and notes each fit in a file."""

    def __init__(self, seconds=0.0, log=None, bag=None):
        self.seconds = seconds
        self.log = log
        self.bag = bag

    def act(self, X):
        if len(X) <= 12:  # the warm-up of a process
            return
        if self.bag is not None and self.bag not in X.ids.tolist():
            return
        if self.log is not None:
            with Path(self.log).open("a") as file:
                file.write(f"{os.getpid()} {X.ids[0]} {len(X)}\n")
        gate = os.environ.get("BAGWISE_TEST_GATE")
        while gate and not Path(gate).exists():
            time.sleep(0.01)
        time.sleep(self.seconds)


class Unsettled(Toy):
    """Does not converge, by a gap that differs between fits."""

    def __init__(self, level=0.0):
        self.level = level

    def act(self, X):
        gap = float(X.data.sum())
        warnings.warn(f"a gap of {gap:.3e}", ConvergenceWarning, stacklevel=2)


class InThisProcess(Toy):
    """Refuses to be fitted elsewhere."""

    def __init__(self, pid=0):
        self.pid = pid

    def act(self, X):
        assert os.getpid() == self.pid


class CountsThreads(Toy):
    """Refuses to share a core with its own threads."""

    def act(self, X):
        pools = threadpool_info()
        assert pools
        assert max(pool["num_threads"] for pool in pools) == 1, pools


class Raises(Toy):
    """Cannot be fitted."""

    def act(self, X):
        raise ArithmeticError("no such luck <b>")


class RaisesOnce(Toy):
    """Can be fitted once a file is there."""

    def __init__(self, flag=""):
        self.flag = flag

    def act(self, X):
        if not Path(self.flag).exists():
            raise ArithmeticError("not yet")


class Hangs(Toy):
    """Never returns, in Python code or in a compiled loop that holds the lock."""

    def __init__(self, compiled=False):
        self.compiled = compiled

    def act(self, X):
        if len(X) <= 12:
            return
        if self.compiled:
            sum(range(10**12))
        while True:
            time.sleep(0.01)


class Hungry(Toy):
    """Allocates a lot."""

    def act(self, X):
        if len(X) > 12:
            np.ones(400_000_000)


class Dies(Toy):
    """Ends its process."""

    def act(self, X):
        if len(X) > 12:
            os.kill(os.getpid(), signal.SIGKILL)


class ReturnsNaN(Toy):
    """Gives no number."""

    def decision_function(self, X):
        return np.full(len(X), np.nan)

    def predict(self, X):
        return np.repeat(self.classes_[0], len(X))


def make_problem(n_bags=40, seed=0, shift=1.0, name="toy"):
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    bags = []
    for label in y:
        bag = rng.normal(size=(rng.integers(2, 6), 3))
        bag[0] += shift * label
        bags.append(bag)
    X = Bags.from_list(bags, ids=np.arange(n_bags))
    first = np.zeros(X.n_instances, dtype=bool)
    first[X.offsets[:-1]] = y == 1
    return Problem(name, X, y, instance_labels=first)


def toy(name, cls=None, **params):
    cls = cls or "Toy"
    return Method(name, f"toy_methods.{cls}", params, scale="none", kind="own")
