"""Compiling ahead: every method with loops of its own is fitted once."""

import itertools

from bagwise import compile as ahead
from bagwise.compile import compile_all


def test_fits_are_run_and_named(monkeypatch, capsys):
    first = list(itertools.islice(ahead._fits(), 4))
    monkeypatch.setattr(ahead, "_fits", lambda: iter(first))
    compile_all(verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        name.split(",")[0] for name, _ in first
    ]
    compile_all()
    assert capsys.readouterr().out == ""


def test_methods_with_loops_of_their_own_are_there():
    names = [name for name, _ in ahead._fits()]
    assert {"MI-SVM", "PC-SVM", "IAPR", "box kernel", "MILES"} <= set(names)
    assert any(name.endswith("sparse") for name in names)
