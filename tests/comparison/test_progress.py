"""What is shown while runs go on: a table on a terminal, lines in a log."""

import io

import pytest
from rich.console import Console
from toy_methods import toy

from bagwise.comparison import _progress as module
from bagwise.comparison._progress import LiveProgress
from bagwise.comparison.runner import run_all
from bagwise.comparison.store import Store


def follow(runs, problems, store, *, terminal, names=("a", "b")):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=90)
    n_folds = len(runs) // len(names)
    with LiveProgress(names, n_folds, "accuracy", console=console) as progress:
        run_all(runs, problems, store, on_event=progress)
        return progress, text


def test_a_log_gets_lines(tmp_path, toy_runs, problems, monkeypatch):
    monkeypatch.setattr(module, "LINE_SECONDS", 0.0)
    runs = toy_runs(toy("a"), toy("b", "Raises"), n_splits=3)
    with Store(tmp_path / "s.sqlite") as store:
        _, text = follow(runs, problems, store, terminal=False)
    lines = text.getvalue().splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("1/6 a, fold 1: Accuracy ")
    assert [line for line in lines if "failed" in line] == [
        line for line in lines if " b, " in line
    ]
    assert lines[-1].startswith("6/6 ")


def test_a_log_is_not_flooded(tmp_path, toy_runs, problems, monkeypatch):
    monkeypatch.setattr(module, "LINE_SECONDS", 1e9)
    runs = toy_runs(toy("a"), toy("b"), n_splits=5)
    with Store(tmp_path / "s.sqlite") as store:
        _, text = follow(runs, problems, store, terminal=False)
    lines = text.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["1/10", "10/10"]


def test_what_the_store_has_stands_in_the_table(tmp_path, toy_runs, problems):
    runs = toy_runs(toy("a"), toy("b", "Raises"), n_splits=4)
    with Store(tmp_path / "s.sqlite") as store:
        run_all(runs[:5], problems, store)
        stored = {row["method"]: [] for row in store.rows()}
        for row in store.rows():
            stored[row["method"]].append(row["accuracy"])
        first = next(iter(stored["a"]))
        again, text = follow(runs[:2], problems, store, terminal=False)
        whole, _ = follow(runs, problems, store, terminal=True)
    assert text.getvalue() == ""  # nothing was run
    assert again.values["a"] == pytest.approx([first])
    assert again.failed == {"a": 0, "b": 1}
    assert len(whole.values["a"]) == 4
    shown = io.StringIO()
    Console(file=shown, width=90).print(whole.table())
    assert "4/4 (4 failed)" in shown.getvalue()
