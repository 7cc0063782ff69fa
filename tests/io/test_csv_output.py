"""CSV that we write: spreadsheets run none of it, and numbers stay numbers."""

import csv
import io

import numpy as np
import pytest

from bagwise.bags import Bags
from bagwise.cli import main
from bagwise.compose import SimpleMI
from bagwise.datasets import make_bags
from bagwise.inspection import explain
from bagwise.io import read_bags, save
from bagwise.io.csv_files import write_csv

FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\uff1d1", " =1"]
HARMLESS = ["", "a=1", "-1", "+1.5e-3", "-.5", "'=1", "b-1", -1, -0.5, np.int64(-3)]
HARMLESS += [True, None, np.float32(-2)]


def written(value, **options):
    stream = io.StringIO(newline="")
    write_csv(stream, ["name"], [[value]], **options)
    stream.seek(0)
    return list(csv.reader(stream))[1]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_become_text(text):
    assert written(text) == [f"'{text}"]
    assert written(text, escape=False) == [text]


@pytest.mark.parametrize("value", HARMLESS)
def test_everything_else_stays_as_it_is(value):
    assert written(value) == written(value, escape=False)


def test_names_of_columns_are_text_as_well():
    stream = io.StringIO(newline="")
    write_csv(stream, ["=1", "u"], [["a", 1]])
    assert stream.getvalue().splitlines()[0] == "'=1,u"


@pytest.fixture
def hostile(tmp_path):
    """Bags, features and labels with names that are formulas."""
    X, y = make_bags(12, n_features=2, random_state=0)
    names = np.array([f"=HYPERLINK({i})" for i in range(12)], dtype=object)
    X = Bags(X.data, X.offsets, ids=names, feature_names=np.array(["@u", "v"], object))
    model = SimpleMI().fit(X, np.where(y > 0, "+bad", "-good"))
    save(model, tmp_path / "m.bagwise")
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        rows = zip(X.ids[X.bag_index], *X.data.T, strict=True)
        write_csv(file, ["bag", "@u", "v"], rows, escape=False)
    return tmp_path, model, X


def cells(path):
    with path.open(newline="", encoding="utf-8") as file:
        return [cell for row in csv.reader(file) for cell in row]


def dangerous(path):
    return [c for c in cells(path) if c[:1] in "=+-@" and not written(c) == [c]]


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_commands_escape_unless_they_are_told_not_to(hostile, command):
    folder, _, X = hostile
    out = folder / ("p.csv" if command == "predict" else "explained")
    table = out if command == "predict" else out / "instances.csv"
    words = [command, str(folder / "m.bagwise"), str(folder / "t.csv"), "--bag", "bag"]
    for more, names in (([], [f"'{n}" for n in X.ids]), (["--no-csv-escape"], X.ids)):
        with pytest.raises(SystemExit) as status:
            main([*words, "--out", str(out), *more])
        assert status.value.code == 0
        assert bool(dangerous(table)) == bool(more)
        assert {*names} <= {*cells(table)}


def test_tables_of_explanations_escape_unless_they_are_told_not_to(hostile):
    folder, model, X = hostile
    found = explain(model, X)
    assert not dangerous(found.to_csv(folder / "a.csv"))
    assert dangerous(found.to_csv(folder / "b.csv", escape=False))


def test_what_is_written_unescaped_is_read_as_it_was(hostile):
    folder, _, X = hostile
    again = read_bags(folder / "t.csv", bag="bag")[0]
    assert again.ids.tolist() == X.ids.tolist()
    np.testing.assert_array_equal(again.data, X.data)
