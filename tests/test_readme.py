"""The code of the README runs, and its links exist."""

import re
from pathlib import Path

import pandas as pd

from bagwise.comparison import list_methods

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs(capsys):
    text = README.read_text(encoding="utf-8")
    first, second = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {}
    exec(compile(first, str(README), "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert float(printed[0]) > 0.7
    assert printed[1].startswith("[[")
    assert printed[-1].startswith("[")
    names["df"] = pd.DataFrame(
        {"molecule": ["a", "a", "b"], "u": [1.0, 2.0, 3.0], "active": [1, 1, 0]}
    )
    exec(compile(second, str(README), "exec"), names)
    assert len(names["X"]) == 2


def test_the_number_of_methods_is_that_of_the_catalog():
    text = README.read_text(encoding="utf-8")
    (number,) = re.findall(r"\| Methods in the catalog \| (\d+) \|", text)
    assert int(number) == len(list_methods())


def test_pictures_and_pages_exist():
    text = README.read_text(encoding="utf-8")
    for path in re.findall(r"\[[^\]]*\]\(([^)]+)\)", text):
        assert (README.parent / path).exists(), path
