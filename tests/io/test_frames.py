"""Tables in and out, for three libraries."""

import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bagwise import from_frame, load, read_bags, save, to_frame
from bagwise.cli import main
from bagwise.compose import SimpleMI

TABLE = {
    "molecule": ["b", "a", "b", "a", "c"],
    "u": [1.0, 2.0, 3.0, 4.0, 5.0],
    "v": [10, 20, 30, 40, 50],
    "active": ["yes", "no", "yes", "no", "no"],
}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_from_frame(make):
    X, y = from_frame(make(TABLE), bag="molecule", label="active")
    assert list(X.ids) == ["b", "a", "c"]
    assert list(y) == ["yes", "no", "no"]
    assert list(X.feature_names) == ["u", "v"]
    np.testing.assert_array_equal(X[1], [[2.0, 20.0], [4.0, 40.0]])
    only = from_frame(make(TABLE), bag="molecule", features=["v"])
    assert only.n_features == 1


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_round_trip(backend):
    X, y = from_frame(pd.DataFrame(TABLE), bag="molecule", label="active")
    frame = to_frame(X, y, bag="molecule", label="active", backend=backend)
    again, labels = from_frame(frame, bag="molecule", label="active")
    np.testing.assert_array_equal(again.data, X.data)
    np.testing.assert_array_equal(again.offsets, X.offsets)
    assert list(again.ids) == list(X.ids)
    assert list(labels) == list(y)


def test_a_label_that_changes_inside_a_bag_names_the_bag():
    table = pd.DataFrame(TABLE)
    table.loc[3, "active"] = "yes"
    with pytest.raises(ValueError, match="row 3: bag a has the label yes here and no"):
        from_frame(table, bag="molecule", label="active")


def test_other_bad_tables():
    table = pd.DataFrame(TABLE)
    with pytest.raises(ValueError, match="'mol'"):
        from_frame(table, bag="mol")
    with pytest.raises(ValueError, match=r"'active' \(text.*drop=\['active'\]"):
        from_frame(table, bag="molecule")
    table.loc[2, "molecule"] = None
    with pytest.raises(ValueError, match="row 2"):
        from_frame(table, bag="molecule", label="active")
    with pytest.raises(ValueError, match="no feature column"):
        from_frame(table[["molecule"]], bag="molecule")
    X = from_frame(pd.DataFrame({"bag": [1], "x": [2.0]}), bag="bag")
    with pytest.raises(ValueError, match="'x'"):
        to_frame(X, bag="x")


def test_numbers_as_names_of_columns(tmp_path):
    rng = np.random.default_rng(0)
    array = np.column_stack([np.repeat(np.arange(20), 2), rng.normal(size=(40, 3))])
    X = from_frame(pd.DataFrame(array), bag=0)
    np.testing.assert_array_equal(X.data, array[:, 1:])
    with pytest.raises(ValueError, match="no column '0'; the table has 0, 1, 2, 3"):
        from_frame(pd.DataFrame(array), bag="0")
    # Models and reports take such names as text.
    y = np.arange(20) % 2
    model = SimpleMI().fit(X, y)
    save(model, tmp_path / "model.zip")
    again = load(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    mixed = from_frame(pd.DataFrame(array)[[3, 0, 1, 2]], bag=0)
    np.testing.assert_array_equal(again.predict(mixed), model.predict(X))


@pytest.mark.parametrize("names", [["bag", "x", "x"], ["bag", "bag", "x"]])
def test_columns_with_the_same_name_are_refused(names):
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=names)
    with pytest.raises(ValueError, match=f"two columns are called '{names[1]}'"):
        from_frame(frame, bag="bag")


def test_a_file_name_that_is_not_utf8(tmp_path, capsys):
    path = os.fsencode(tmp_path) + b"/na\xefve.csv"
    try:
        with open(path, "w") as file:
            file.write("bag,label,x\n0,0,1\n1,1,2\n")
    except OSError:
        pytest.skip("this file system has no such names")
    with pytest.raises(ValueError, match="name of the file is not UTF-8"):
        read_bags(os.fsdecode(path), bag="bag", label="label")
    with pytest.raises(SystemExit) as status:
        main(["compare", os.fsdecode(path), "--bag", "bag"])
    assert status.value.code == 1
    assert "name of the file is not UTF-8" in capsys.readouterr().err
