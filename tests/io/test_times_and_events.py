"""Times and events: each bag keeps its own pair, from every format."""

import numpy as np
import pandas as pd
import pytest

from bagwise.bags import Bags
from bagwise.exceptions import DataError, DataWarning, ParameterError
from bagwise.io import from_frame, read_bags, write_npz

N = 30
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "slide": [f"s{i}" for i in range(N)],
        "patient": [f"p{i // 2}" for i in range(N)],
        "days": np.arange(N) // 2 + 1.5,
        "died": (np.arange(N) // 2) % 3 == 0,
    }
)
COLUMNS = {"time": "days", "event": "died"}


@pytest.fixture
def folder(tmp_path):
    """One slide per row of the table; its only feature is its number."""
    folder = tmp_path / "features"
    folder.mkdir()
    for i in range(N):
        np.save(folder / f"s{i}.npy", np.full((2, 1), float(i)))
    return folder


def check(X, y, expected):
    """Compare with the rows of a table, which pandas selected."""
    numbers = X.data[X.offsets[:-1], 0].astype(int)
    assert numbers.tolist() == expected.index.tolist()
    assert y.dtype.names == ("event", "time")
    assert y["time"].tolist() == expected["days"].tolist()
    assert y["event"].tolist() == (expected["died"] == 1).tolist()


@pytest.mark.parametrize("as_file", [False, True])
def test_a_time_without_an_event_is_no_label(folder, tmp_path, as_file):
    """Slides without a time or without an event are left out, and shift no pair."""
    table = TABLE.astype({"died": float})
    table.loc[4, "days"] = np.nan
    table.loc[[11, 20], "died"] = np.nan
    labels = table
    if as_file:
        labels = tmp_path / "t.csv"
        table.to_csv(labels, index=False)
    options = {"bag": "slide", "labels": labels, **COLUMNS}
    with pytest.warns(DataWarning, match=r"no label .*\(3\): 's11', 's20', 's4'"):
        X, y = read_bags(folder, on_missing="drop", **options)
    check(X, y, table.dropna())
    with pytest.raises(DataError, match=r"no label for the file of \(3\)"):
        read_bags(folder, **options)


def test_pooled_slides_share_one_time_and_event(folder):
    X, y = read_bags(folder, bag="slide", labels=TABLE, pool="patient", **COLUMNS)
    check(X, y, TABLE.iloc[::2])
    mixed = TABLE.copy()
    mixed.loc[1, "died"] = not mixed.loc[0, "died"]
    with pytest.raises(DataError, match="different values of the event"):
        read_bags(folder, bag="slide", labels=mixed, pool="patient", **COLUMNS)


def long_table():
    rows = TABLE.loc[TABLE.index.repeat(2)].drop(columns="patient")
    rows.insert(0, "u", rows.index.to_numpy(dtype=float))
    return rows.sample(frac=1.0, random_state=0)


@pytest.mark.parametrize("source", ["frame", "csv", "parquet"])
def test_tables(tmp_path, source):
    table = long_table()
    options = {"bag": "slide", "weight": "w", **COLUMNS}
    table["w"] = table["u"] + 1
    if source == "frame":
        found = from_frame(table, **options)
    elif source == "csv":
        table.to_csv(tmp_path / "t.csv", index=False)
        found = read_bags(tmp_path / "t.csv", **options)
    else:
        pytest.importorskip("pyarrow")
        table.to_parquet(tmp_path / "t.parquet", index=False)
        found = read_bags(tmp_path / "t.parquet", **options)
    X, y, weight = found
    assert X.feature_names.tolist() == ["u"]
    check(X, y, TABLE.loc[pd.unique(table["slide"].str[1:].astype(int))])
    assert weight.tolist() == (X.data[X.offsets[:-1], 0] + 1).tolist()


@pytest.mark.parametrize("column", ["days", "died"])
def test_tables_with_a_missing_time_or_event(tmp_path, column):
    table = long_table().astype({"died": float})
    table.iloc[7, table.columns.get_loc(column)] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match=f"line 9: column '{column}', the .*is empty"):
        read_bags(tmp_path / "t.csv", bag="slide", **COLUMNS)


def test_archives(tmp_path):
    X = Bags(np.arange(N, dtype=float)[:, None], np.arange(N + 1))
    days, died = TABLE["days"].to_numpy(), TABLE["died"].to_numpy()
    write_npz(tmp_path / "t.npz", X, days=days, died=died)
    check(*read_bags(tmp_path / "t.npz", **COLUMNS), TABLE)


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (
            {"time": "days"},
            ParameterError,
            r"time is given alone.*Give event=",
        ),
        ({"event": "died"}, ParameterError, "event is given alone"),
        ({**COLUMNS, "label": "u"}, ParameterError, "label cannot be combined with"),
        ({"time": "days", "event": "days"}, DataError, "time and event are the same"),
        ({"time": "days", "event": "dead"}, DataError, "no column 'dead'"),
        ({"time": "died", "event": "days"}, DataError, "event must be true or false"),
        ({**COLUMNS, "features": ["u", "days"]}, DataError, "feature and as the time"),
    ],
)
def test_columns_that_do_not_fit(given, kind, message):
    with pytest.raises(kind, match=message):
        from_frame(long_table(), bag="slide", **given)


def test_formats_without_times(tmp_path):
    (tmp_path / "t.svm").write_text("0:0:1 1:1\n", encoding="utf-8")
    with pytest.raises(ParameterError, match="time is for .*, not for svmlight"):
        read_bags(tmp_path / "t.svm", **COLUMNS)
