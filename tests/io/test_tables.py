"""One way into bags: a file and the same table in memory say the same."""

import gzip
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bagwise.exceptions import DataError, DataWarning, NotNumericError
from bagwise.io import (
    from_frame,
    read_bags,
    to_frame,
    write_npz,
)

CELLS = {
    "number": st.floats(-1e6, 1e6).map(repr),
    "whole": st.integers(-50, 50).map(str),
    "truth": st.sampled_from(["True", "False"]),
    "hole": st.sampled_from(["1.5", "", "NA", "nan", "-2"]),
    "text": st.sampled_from(["red", "green", "12 mm"]),
}


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    kinds=st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=4),
    label=st.sampled_from(["number", "whole", "truth", "text"]),
    missing=st.sampled_from(["error", "keep"]),
    data=st.data(),
)
def test_a_file_reads_like_its_frame(tmp_path, kinds, label, missing, data):
    """Booleans, missing values, labels and refusals: the same both ways."""
    n = data.draw(st.integers(1, 6))
    labels = [data.draw(CELLS[label]) for _ in range(n)]
    columns = {"g": [f"b{i}" for i in range(n)], "y": labels}
    for j, kind in enumerate(kinds):
        columns[f"u{j}"] = [data.draw(CELLS[kind]) for _ in range(n)]
    path = tmp_path / "t.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    table = pd.read_csv(path)
    for name, kind in zip(list(columns)[1:], [label, *kinds], strict=True):
        if kind == "number":  # some versions of pandas lose the last digit
            table[name] = [float(cell) for cell in columns[name]]
    results = []
    for read in (
        lambda: read_bags(path, "g", "y", missing=missing),
        lambda: from_frame(table, "g", "y", missing=missing),
    ):
        try:
            results.append(read())
        except DataError as error:
            results.append(error)
    one, two = results
    assert type(one) is type(two), results
    if isinstance(one, DataError):
        assert [s[0] for s in one.settings] == [s[0] for s in two.settings]
        assert one.settings[:1] == two.settings[:1]
        assert one.columns == two.columns
    else:
        np.testing.assert_array_equal(one[0].data, two[0].data)
        assert one[0].ids.tolist() == two[0].ids.tolist()
        assert one[1].tolist() == two[1].tolist()
        assert one[1].dtype.kind == two[1].dtype.kind


WIDE = (
    ",mol,y,smiles,when,u,site\n"
    "0,a,1,CCO,2024-01-02,1.5,P\n"
    "1,a,1,CC,2024-03-01,2,P\n"
    "2,b,0,CN,2024-03-01,2,P\n"
    "3,c,0,CF,2024-03-01,x,Q\n"
)


def _saved(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.filterwarnings("ignore::bagwise.exceptions.DataWarning")
def test_columns_that_are_no_features_are_listed_at_once(tmp_path):
    path = _saved(tmp_path, WIDE)
    with pytest.raises(DataError) as caught:
        read_bags(path, "mol", "y")
    message = str(caught.value)
    assert "4 columns are not numeric" in message
    assert "'smiles' (a different name in every row, 'CCO' in line 2)" in message
    assert "'when' (dates, '2024-01-02' in line 2)" in message
    assert "'u' (1 of 4 values are not numbers: 'x' in line 5)" in message
    assert (
        "'site' (text that is constant within every bag and shared by several bags"
        in message
    )
    assert "drop=['smiles', 'when', 'u', 'site']" in message
    assert "instance_id='smiles'" in message
    assert "group='site'" in message
    assert isinstance(caught.value, NotNumericError)
    assert caught.value.columns == ("smiles", "when", "u", "site")
    assert caught.value.settings == (
        ("drop", ["smiles", "when", "u", "site"]),
        ("features", ...),
        ("instance_id", "smiles"),
        ("group", "site"),
        ("encode", ["smiles", "when", "u", "site"]),
        ("smiles", "smiles"),
    )
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), vars(again)) == (message, vars(caught.value))
    X, _ = read_bags(path, "mol", "y", features=["Unnamed: 0"])
    assert X.data.ravel().tolist() == [0, 1, 2, 3]


def test_an_unnamed_index_is_left_out_with_a_word(tmp_path):
    text = ",mol,y,u\n0,a,1,5\n1,b,0,6\n"
    with pytest.warns(DataWarning, match=r"'Unnamed: 0' has no name .* excluded"):
        X, _ = read_bags(_saved(tmp_path, text), "mol", "y")
    assert X.feature_names.tolist() == ["u"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_bags(tmp_path / "t.csv", "mol", "y", drop=["Unnamed: 0"])
    # An unnamed column that does not count is a feature like any other.
    X, _ = read_bags(_saved(tmp_path, text.replace("1,b", "7,b")), "mol", "y")
    assert X.n_features == 2


def test_numbers_that_look_like_names_or_groups_are_called_out():
    n = 60
    table = pd.DataFrame(
        {
            "g": np.arange(n) // 5,
            "conf_id": np.arange(n) * 1000,
            "serial": np.arange(n),
            "patient": np.arange(n) // 15,
            "count": np.arange(n) % 7,
            "mass": np.arange(n) * 1000,
        }
    )
    with pytest.warns(DataWarning) as caught:
        X = from_frame(table, "g")
    message = str(caught[0].message)
    assert "'conf_id' (a different whole number in every row)" in message
    assert "'serial' (a different" in message
    assert "'patient' (whole numbers shared by all rows of several bags)" in message
    assert "drop=['conf_id', 'serial', 'patient']" in message
    assert ("group", "patient") in caught[0].message.settings
    assert X.n_features == 5
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_frame(table, "g", features=["conf_id", "count"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "g;y;u;v\na;ja, gut;1,5;2\nb;nein;-,25;3e0\n"),
        ("t.tsv", "\ufeffg\ty\tu\tv\na\tja, gut\t1,5\t2\nb\tnein\t-0,25\t3\n"),
        ("t.csv", '"g";"y";"u";"v"\r\n"a";"ja, gut";"1,5";2\r\nb;nein;-0,25;3\r\n'),
        ("t.txt", 'g,y,u,v\na,"ja, gut",1.5,2\nb,nein,-.25,+3\n'),
    ],
    ids=["semicolons", "tabs", "quotes", "commas"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_spellings_of_the_same_table(tmp_path, name, text, packed):
    path = tmp_path / (name + ".gz" if packed else name)
    raw = text.encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    X, y = read_bags(path, "g", "y")
    np.testing.assert_array_equal(X.data, [[1.5, 2], [-0.25, 3]])
    assert y.tolist() == ["ja, gut", "nein"]


def test_thousands_are_not_guessed(tmp_path):
    path = _saved(tmp_path, "g;u\na;1.234,5\nb;2,5\n")
    with pytest.raises(DataError, match=r"'u' .*'1\.234,5' in line 2"):
        read_bags(path, "g")


def test_a_damaged_gzip_names_the_file(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"g,u\na,1\n" * 50)[:-9])
    with pytest.raises(ValueError, match=r"t\.csv\.gz: the gzip file is damaged"):
        read_bags(path, "g")


def test_missing_values_are_kept_on_request(tmp_path):
    path = _saved(tmp_path, 'g,u,v,w\na,,1,x\na,2,NA,"y"\nb,?,3,\n')
    with pytest.raises(DataError, match=r"'u' \(2 of 3, first in line 2\), 'v'"):
        read_bags(path, "g", drop=["w"])
    X, _ = read_bags(path, "g", drop=["w"], missing="keep")
    nan = np.nan
    np.testing.assert_array_equal(X.data, [[nan, 1], [2, nan], [nan, 3]])
    for frame in (
        pd.DataFrame({"g": [1, 1], "u": pd.array([None, 2], dtype="Int64")}),
        pl.DataFrame({"g": [1, 1], "u": [None, 2]}),
        pd.DataFrame({"g": [1, 1], "u": np.array([None, 2], dtype=object)}),
    ):
        X = from_frame(frame, "g", missing="keep")
        np.testing.assert_array_equal(X.data, [[nan], [2]])
        with pytest.raises(DataError, match="missing='keep'"):
            from_frame(frame, "g")
    with pytest.raises(ValueError, match="'error' or 'keep'"):
        from_frame(frame, "g", missing="drop")
    with pytest.raises(DataError, match="holds infinity"):
        from_frame(pd.DataFrame({"g": [1], "u": [np.inf]}), "g", missing="keep")


def test_numbers_after_the_first_rows_may_change(tmp_path):
    """What the first rows look like decides how, never what is read."""
    rows = [f"b{i},{i}" for i in range(300)]
    text = "g,u\n" + "\n".join([*rows, "z,", "z,True", "z,4"]) + "\n"
    path = _saved(tmp_path, text)
    with pytest.raises(DataError, match=r"1 of 302 values .* 'True' in line 303"):
        read_bags(path, "g")
    path = _saved(tmp_path, text.replace("True", "-inf"))
    with pytest.raises(DataError, match="line 303: column 'u' holds infinity"):
        read_bags(path, "g", missing="keep")
    path = _saved(tmp_path, text.replace("True", " 7 "))
    X, _ = read_bags(path, "g", missing="keep")
    np.testing.assert_array_equal(X.data[-3:, 0], [np.nan, 7, 4])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.to_datetime(["2024-01-01", "2024-01-02"]), "dates"),
        (pd.to_datetime(["2024-01-01", None]), "dates"),
        (np.array([1 + 2j, 3]), "'u'"),
        (pd.to_timedelta([1, 2], unit="s"), "Duration"),
        ([[1], [2, 3]], "lists of different lengths, 1 and 2"),
        ([["a"], ["b"]], "'u'"),
        (["1", "2"], "numbers stored as text"),
    ],
)
def test_values_that_would_turn_into_wrong_numbers(column, message):
    table = pd.DataFrame({"g": ["a", "b"]})
    table["u"] = column
    with pytest.raises(DataError, match=message):
        from_frame(table, "g")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["x", None], r"row 1: column 'y', the label, is empty .*\(1 of 2"),
        ([1.0, np.nan], "row 1: column 'y', the label"),
        ([1.0, np.inf], "row 1: the label 'y' is infinite"),
        (pd.to_datetime(["2024-01-01", "2024-01-02"]), "the label 'y' holds dates"),
        ([1 + 2j, 3], "label 'y'"),
        (["x", 1], "mixes int and str"),
    ],
)
def test_labels_that_are_none(labels, message):
    table = pd.DataFrame({"g": ["a", "b"], "u": [1.0, 2.0]})
    table["y"] = labels
    with pytest.raises(DataError, match=message):
        from_frame(table, "g", "y")


def test_weights(tmp_path):
    text = "g,y,u,w\na,1,1,2\na,1,2,2\nb,0,3,0.5\n"
    path = _saved(tmp_path, text)
    X, y, weight = read_bags(path, "g", "y", weight="w")
    assert weight.tolist() == [2, 0.5]
    assert X.feature_names.tolist() == ["u"]
    X, weight = from_frame(pd.read_csv(path), "g", weight="w", drop=["y"])
    assert weight.tolist() == [2, 0.5]
    for bad, message in (
        (",2\nb", "line 3: column 'w', the weight, holds a missing value"),
        ("2,-2\nb", "line 3: the weight -2 is negative"),
        ("2,3\nb", "line 3: bag a has the weight 'w' 3.0 here and 2.0 before"),
        ("2,x\nb", "column 'w', the weight, is not numeric"),
    ):
        changed = text.replace("2,2\nb", bad if bad[0] != "," else "2,\nb")
        with pytest.raises(DataError, match=message):
            read_bags(_saved(tmp_path, changed), "g", "y", weight="w")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bag": "q", "group": "r"}, "there is no column 'q', 'r'; the table has 'g'"),
        ({"bag": "g", "label": "g"}, "bag and label are the same column, 'g'"),
        ({"bag": "g", "label": "y", "group": "y"}, "label and group are the same"),
        ({"bag": "g", "coords": ["u", "u"]}, "coords and coords are the same"),
        ({"bag": "g", "label": "y", "features": ["y"]}, "a feature and as the label"),
        ({"bag": "g", "features": ["u", "u"]}, "features lists 'u' twice"),
        ({"bag": "g", "features": []}, "features lists no column"),
        ({"bag": "g", "drop": ["y", "u"]}, "no feature column"),
        ({"bag": None}, "bags is not given; the table has 'g', 'y', 'u'"),
    ],
)
def test_parts_that_make_no_sense(tmp_path, given, message):
    with pytest.raises(DataError, match=message):
        read_bags(_saved(tmp_path, "g,y,u\na,1,1\n"), **given)


def test_cubes_in_archives(tmp_path):
    rows = np.arange(24.0).reshape(2, 3, 4)
    np.savez(tmp_path / "t.npz", X=rows, y=[1, 0])
    X, y = read_bags(tmp_path / "t.npz")
    assert X.sizes.tolist() == [3, 3]
    np.testing.assert_array_equal(X[1], rows[1])
    assert y.tolist() == [1, 0]
    np.savez(tmp_path / "t.npz", X=rows[:0], y=[])
    with pytest.raises(ValueError, match="no instance"):
        read_bags(tmp_path / "t.npz")


def test_archives_may_keep_missing_values(tmp_path):
    rows = np.array([[1.0, np.nan], [2, 3]])
    np.savez(tmp_path / "t.npz", X=rows, bag=[0, 1])
    with pytest.raises(DataError, match="missing='keep'"):
        read_bags(tmp_path / "t.npz")
    X, _ = read_bags(tmp_path / "t.npz", missing="keep")
    np.testing.assert_array_equal(X.data, rows)
    for y in (["2024-01-01", "NaT"], [1 + 2j, 1]):
        kind = "datetime64[D]" if isinstance(y[0], str) else complex
        np.savez(tmp_path / "t.npz", X=np.eye(2), bag=[0, 1], y=np.array(y, kind))
        with pytest.raises(ValueError, match="'y' must be numbers or text"):
            read_bags(tmp_path / "t.npz")


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path, monkeypatch):
    from bagwise.bags import Bags

    monkeypatch.setattr("bagwise._sizes._LARGE", 10_000)
    write_npz(tmp_path / "t.npz", Bags(np.zeros((500, 1000)), [0, 500]))
    with pytest.raises(ValueError, match=r"declare 4,00.*without compression"):
        read_bags(tmp_path / "t.npz")


SLIDES = {
    "g": ["a", "a", "b"],
    "y": [1, 1, 0],
    "patient": ["p", "p", "p"],
    "tile": ["a0", "a1", "b0"],
    "px": [0, 256, 0],
    "py": [0.0, 0.0, 512.0],
    "u": [1.5, 2.5, 3.5],
}


@pytest.mark.parametrize("kind", ["pandas", "polars", "csv"])
def test_groups_names_and_places_travel(tmp_path, kind):
    parts = {"group": "patient", "instance_id": "tile", "coords": ["px", "py"]}
    if kind == "csv":
        pd.DataFrame(SLIDES).to_csv(tmp_path / "t.csv", index=False)
        X, y = read_bags(tmp_path / "t.csv", "g", "y", **parts)
    else:
        frame = pd.DataFrame(SLIDES) if kind == "pandas" else pl.DataFrame(SLIDES)
        X, y = from_frame(frame, "g", "y", **parts)
    assert X.feature_names.tolist() == ["u"]
    assert X.groups.tolist() == ["p", "p"]
    assert X[[1]].instance_ids.tolist() == ["b0"]
    np.testing.assert_array_equal(X[[0]].coords, [[0, 0], [256, 0]])
    assert y.tolist() == [1, 0]
    # There and back again.
    names = {"bag": "g", "label": "y", "group": "patient", "instance_id": "tile"}
    again = to_frame(X, y, coords=["px", "py"], **names)
    pd.testing.assert_frame_equal(
        again[list(SLIDES)], pd.DataFrame(SLIDES), check_dtype=False
    )
    write_npz(tmp_path / "t.npz", X, y)
    stored, labels = read_bags(tmp_path / "t.npz")
    assert stored.groups.tolist() == ["p", "p"]
    assert stored.instance_ids.tolist() == SLIDES["tile"]
    np.testing.assert_array_equal(stored.coords, X.coords)
    assert labels.tolist() == [1, 0]


def test_rows_out_of_order_keep_what_belongs_to_them():
    table = pd.DataFrame(SLIDES).iloc[[2, 0, 1]].iloc[[1, 0, 2]]
    X = from_frame(table, "g", instance_id="tile", coords=["px", "py"], features=["u"])
    assert X.ids.tolist() == ["a", "b"]
    assert X.instance_ids.tolist() == ["a0", "a1", "b0"]
    np.testing.assert_array_equal(X.coords[:, 0], [0, 256, 0])
    np.testing.assert_array_equal(X.data[:, 0], [1.5, 2.5, 3.5])


def test_a_group_that_changes_inside_a_bag():
    table = pd.DataFrame(SLIDES | {"patient": ["p", "q", "p"]})
    with pytest.raises(DataError, match="row 1: bag a has the group 'patient' q here"):
        from_frame(table, "g", group="patient", features=["u"])
    with pytest.raises(DataError, match="'tile', the coords, is not numeric"):
        from_frame(table, "g", coords=["px", "tile"], features=["u"])


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "parquet"])
def test_a_column_of_lists_is_a_matrix(tmp_path, kind):
    pa = pytest.importorskip("pyarrow")
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    table = {"g": ["a", "a", "b"], "y": [1, 1, 0], "emb": rows}
    if kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(pa.table(table), tmp_path / "t.parquet")
        X, y = read_bags(tmp_path / "t.parquet", "g", "y")
    else:
        make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
        X, y = from_frame(make[kind](table), "g", "y")
    np.testing.assert_array_equal(X.data, rows)
    assert X.feature_names.tolist() == ["emb_0", "emb_1"]
    assert y.tolist() == [1, 0]


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_a_row_may_hold_a_whole_bag(kind):
    pa = pytest.importorskip("pyarrow")
    table = {
        "g": ["a", "b"],
        "y": ["no", "yes"],
        "emb": [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]],
    }
    frame = pl.DataFrame(table) if kind == "polars" else pa.table(table)
    X, y = from_frame(frame, "g", "y")
    assert X.sizes.tolist() == [2, 1]
    np.testing.assert_array_equal(X.data, [[1, 2], [3, 4], [5, 6]])
    assert y.tolist() == ["no", "yes"]


def test_missing_values_in_a_matrix_are_found():
    table = pd.DataFrame({"g": ["a", "b"], "emb": [[1.0, 2.0], [3.0, np.nan]]})
    with pytest.raises(DataError, match=r"'emb_1' \(1 of 2, first in row 1\)"):
        from_frame(table, "g")
    assert np.isnan(from_frame(table, "g", missing="keep").data[1, 1])
