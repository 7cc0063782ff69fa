"""The command as a process: signals, completion."""

import os
import signal
import subprocess
import sys
import time

import pytest

from bagwise import __version__
from bagwise._signals import hold_signals

MAIN = "from bagwise.cli import main; main()"
COMMAND = [sys.executable, "-c", MAIN]
# A shell that runs the tests in the background has them ignore Ctrl-C, and what they
# start does as they do.
HEAR = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    " signal.signal(signal.SIGHUP, signal.SIG_DFL); "
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("bagwise comp", "compare"), ("bagwise compare --instance-i", "--instance-id")],
)
def test_bash_completes(words, expected):
    position = str(len(words.split()) - 1)
    asked = {"_BAGWISE_COMPLETE": "complete_bash", "COMP_WORDS": words}
    found = subprocess.run(
        COMMAND,
        env={**os.environ, **asked, "COMP_CWORD": position},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout.split() == [expected]


def test_the_package_can_be_run():
    """Where scripts are not on the path."""
    words = [sys.executable, "-m", "bagwise", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"bagwise {__version__}\n")


@pytest.mark.parametrize(
    ("signum", "jobs"), [("SIGINT", 1), ("SIGINT", 2), ("SIGTERM", 2), ("SIGHUP", 1)]
)
def test_ended_by_a_signal_says_how_to_go_on(tmp_path, signum, jobs):
    number = getattr(signal, signum)
    words = ["compare", "digits", "--methods", "SimpleMI,MI-SVM", "--jobs", str(jobs)]
    process = subprocess.Popen(
        [sys.executable, "-c", HEAR + MAIN, *words, "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    store, deadline = tmp_path / "out" / "runs.sqlite", time.monotonic() + 300
    while not store.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(number)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert "the same command continues" in err
    for word in ("Traceback", "leaked", "resource_tracker"):
        assert word not in err


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("fails", [False, True])
def test_held_signals_take_effect_afterwards(signum, fails):
    done, before = [], signal.getsignal(signum)

    @hold_signals()
    def work():
        signal.raise_signal(signum)
        done.append(time.sleep(0.01))
        if fails:
            raise ValueError

    signal.signal(signum, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert signal.getsignal(signum) is signal.default_int_handler
    finally:
        signal.signal(signum, before)
    assert done == [None]


def test_workers_end_without_a_word(tmp_path):
    path = tmp_path / "few.csv"
    rows = [f"b{i},{i % 2},{i % 2}.{i}" for i in range(12) for _ in range(2)]
    path.write_text("bag,y,u\n" + "\n".join(rows) + "\n", encoding="utf-8")
    words = ["compare", str(path), "--bag", "bag", "--label", "y", "--folds", "2"]
    words += ["--methods", "SimpleMI", "--grid", "none", "--jobs", "2", "--json"]
    done = subprocess.run(
        [*COMMAND, *words, "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    # (The column that is the label is named, once; workers say nothing.)
    assert [line[:9] for line in done.stderr.splitlines()] == ["warning: "]
