"""The code of the README runs, and its links exist."""

import re
from pathlib import Path

import pandas as pd

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs(capsys):
    text = README.read_text(encoding="utf-8")
    first, stack, second = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {}
    exec(compile(first, str(README), "exec"), names)
    score, keys = capsys.readouterr().out.splitlines()
    assert float(score) > 0.7
    assert keys.startswith("[")
    exec(compile(stack, str(README), "exec"), names)
    probability, keys = capsys.readouterr().out.splitlines()
    assert probability.startswith("[[")
    assert keys.startswith("[")
    names["df"] = pd.DataFrame(
        {"molecule": ["a", "a", "b"], "u": [1.0, 2.0, 3.0], "active": [1, 1, 0]}
    )
    exec(compile(second, str(README), "exec"), names)
    assert len(names["X"]) == 2


def test_pictures_and_pages_exist():
    text = README.read_text(encoding="utf-8")
    for path in re.findall(r"\[[^\]]*\]\(([^)]+)\)", text):
        assert (README.parent / path).exists(), path
