"""The README runs, and its figures are those of the studies."""

import csv
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


def test_the_rank_of_the_stack_is_that_of_the_study():
    text = README.read_text(encoding="utf-8")
    claim = r"Over (\d+) sets .*?rank ([\d.]+) of (\d+) by AUROC, ([\d.]+) by"
    found = re.search(claim, text, re.DOTALL)
    n_sets, by_auroc, n_methods, by_accuracy = found.groups()
    for metric, rank in (("auroc", by_auroc), ("accuracy", by_accuracy)):
        path = README.parent / "results" / "bag-classifier" / f"{metric}.csv"
        with path.open(encoding="utf-8", newline="") as file:
            head, first, *others = list(csv.reader(file))
        assert first[0] == "BagClassifier"
        assert f"{float(first[1]):.1f}" == rank
        assert len(head) - 3 == int(n_sets)
        assert len(others) + 1 == int(n_methods)


def test_what_a_basis_costs_is_that_of_the_table():
    root = README.parent
    text = " ".join((root / "docs" / "limits.md").read_text(encoding="utf-8").split())
    with (root / "results" / "miodm-table3.csv").open(newline="") as file:
        rows = {(row["row"], row["column"]): row for row in csv.DictReader(file)}
    for name, row in (("MISVM", "MI-SVM"), ("MiSVM", "mi-SVM")):
        claim = rf"`{name}` (?:had )?([\d.]+)% instead of ([\d.]+)%"
        basis, exact = re.search(claim, text).groups()
        assert (
            f"{float(rows[f'{row}, basis of 300', 'Musk2']['measured']):.1f}" == basis
        )
        assert f"{float(rows[row, 'Musk2']['measured']):.1f}" == exact
