"""Fits that take more than a minute say so, once and from the main process."""

import re
import threading

import numpy as np
import pytest

from bagwise import Bags, compare
from bagwise.comparison import CrossValidation
from bagwise.datasets import make_bags
from bagwise.ensemble import MIBoosting
from bagwise.kernels import set_kernel
from bagwise.neighbors import CitationKNN
from bagwise.solvers import pace
from bagwise.svm import MIODM

LINE = re.compile(r"(.+): (\d+) of at most (\d+) (.+) in \d+ s, at most \d+ s left")
X, y = make_bags(30, n_features=3, random_state=0)


@pytest.fixture
def patience(monkeypatch):
    """Let every loop count as long."""
    for name in ("_FIRST", "_EVERY", "_LONG"):
        monkeypatch.setattr(pace, name, -1.0)


def lines(capsys):
    out, err = capsys.readouterr()
    assert out == ""
    found = [LINE.fullmatch(line) for line in err.splitlines()]
    assert all(found), err
    return {(match[1], match[4]) for match in found}


def test_loops_tell_how_far_they_are(capsys, patience):
    MIODM().fit(X, y)
    assert ("the relaxation", "rounds") in lines(capsys)
    MIBoosting(n_estimators=3).fit(X, y)
    assert ("MIBoosting", "rounds") in lines(capsys)
    set_kernel(Bags(np.zeros((3000, 1)), np.arange(0, 3001, 100)))
    assert ("the kernel matrix", "blocks of rows") in lines(capsys)


def test_estimates_are_proportional(capsys, monkeypatch):
    """After 2 of 10 items in 20 s, 80 s are left; the next line is due after 30 s."""
    now = iter([0.0] + [10.0 * i for i in range(1, 11)])
    monkeypatch.setattr(pace.time, "monotonic", lambda: next(now))
    assert list(pace.paced(range(10), "a fit", "steps")) == list(range(10))
    assert capsys.readouterr().err.splitlines() == [
        "a fit: 2 of at most 10 steps in 20 s, at most 80 s left",
        "a fit: 5 of at most 10 steps in 50 s, at most 50 s left",
        "a fit: 8 of at most 10 steps in 80 s, at most 20 s left",
    ]


def test_what_is_compiled_first_is_not_extrapolated(capsys, monkeypatch):
    """The first item takes 40 s, each of the nine others one second."""
    now = iter([0.0] + [40.0 + i for i in range(10)])
    monkeypatch.setattr(pace.time, "monotonic", lambda: next(now))
    assert list(pace.paced(range(10), "a fit", "steps")) == list(range(10))
    assert capsys.readouterr().err == ""


def test_short_loops_say_nothing(capsys):
    MIODM().fit(X, y)
    CitationKNN().fit(X, y).predict(X)
    set_kernel(X)
    assert capsys.readouterr().err == ""


def test_nothing_is_printed_where_others_report(capsys, patience):
    options = {"protocol": CrossValidation(2), "grid": "none", "progress": False}
    compare(X, y, methods=["MI-ODM"], **options)
    thread = threading.Thread(target=MIODM().fit, args=(X, y))
    thread.start()
    thread.join()
    assert capsys.readouterr().err == ""
