"""How many modules one call enters: what a reader has to open to follow it."""

import sys
import threading

import pytest

import bagwise
from bagwise.cli import main
from bagwise.datasets import make_bags
from bagwise.decomposition import MIDR
from bagwise.least_squares import SAFE
from bagwise.svm import MIODM, PCSVM, BoxKernelSVC

FRONT = {"cli", "io", "comparison", "report", "inspection"}
SHARED = {"bags", "base"}


def entered(call):
    """Return the modules of bagwise whose functions run during a second call."""
    call()  # imports and caches
    found = set()

    def note(frame, event, argument):
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("bagwise"):
            found.add(name)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return found


def subpackage(module):
    return module.split(".")[1] if "." in module else ""


@pytest.fixture
def bags():
    return make_bags(40, random_state=0)


def test_compare_from_the_command_line(bags, tmp_path, monkeypatch, capsys):
    X, y = bags
    table = bagwise.to_frame(X, y, bag="bag", label="label")
    table.to_csv(tmp_path / "own.csv", index=False)
    counter = iter(range(9))

    def call():
        arguments = f"compare {tmp_path / 'own.csv'} --bag bag --label label --methods"
        arguments += f" SimpleMI --jobs 1 --out {tmp_path / str(next(counter))}"
        monkeypatch.setattr(sys, "argv", ["bagwise", *arguments.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code

    found = {module for module in entered(call) if subpackage(module) in FRONT}
    assert {subpackage(module) for module in found} == FRONT
    assert len(found) <= 45, sorted(found)


def test_bag_classifier(bags):
    X, y = bags
    found = entered(lambda: bagwise.BagClassifier(random_state=0).fit(X, y).predict(X))
    assert 10 < len(found) <= 45, sorted(found)


@pytest.mark.parametrize("method", [SAFE, MIODM, PCSVM, MIDR, BoxKernelSVC])
def test_the_part_that_methods_share(method, bags):
    """Bags, the estimator contract and modules at the root: at most twelve."""
    X, y = bags
    found = entered(lambda: method().fit(X, y).predict(X))
    trunk = {
        module
        for module in found
        if subpackage(module) in SHARED or module.count(".") < 2
    }
    assert 2 < len(trunk) <= 12, sorted(trunk)
