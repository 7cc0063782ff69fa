"""Labels that are left out, several labels per bag, and spreadsheets."""

import zipfile

import numpy as np
import pandas as pd
import pytest

import bagwise
from bagwise.comparison.problem import as_problem
from bagwise.exceptions import DataError, DataWarning, ParameterError

TABLE = pd.DataFrame(
    {
        "slide": ["a", "a", "b", "c", "c", "d"],
        "msi": [1, 1, 0, 1, 1, 0],
        "braf": [0, 0, 1, 1, 1, 0],
        "grade": ["1", "1", "unknown", "2", "2", "2"],
        "u": [0.5, 1.5, 2.0, 0.0, 1.0, 3.0],
        "v": [1.0, 0.0, 2.5, 0.5, 1.0, 4.0],
    }
)
SLIDES = TABLE.drop_duplicates("slide").drop(columns=["u", "v"])


def write(table, path):
    if path.suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        table.to_excel(path, index=False)
    elif path.suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False)
    return path


@pytest.fixture
def folder(tmp_path):
    """Write one file of features per slide, and one without a label."""
    rows = dict(list(TABLE.groupby("slide")[["u", "v"]]))
    (tmp_path / "features").mkdir()
    for name, own in rows.items():
        np.save(tmp_path / "features" / f"{name}.npy", own.to_numpy())
    return tmp_path / "features"


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_excluded_labels_of_tables(tmp_path, suffix):
    path = write(TABLE, tmp_path / f"t{suffix}")
    X, y = bagwise.read_bags(
        path, "slide", "grade", exclude_label="unknown", drop=["msi", "braf"]
    )
    assert X.ids.tolist() == ["a", "c", "d"]
    assert [str(label) for label in y] == ["1", "2", "2"]
    assert suffix != ".csv" or y.dtype.kind == "i"
    np.testing.assert_array_equal(X[2], [[3.0, 4.0]])


def test_excluded_labels_of_frames_and_weights():
    frame = TABLE.assign(w=[1.0, 1, 2, 3, 3, 4])
    X, y, weight = bagwise.from_frame(
        *(frame, "slide", "grade"),
        exclude_label=["1", "unknown"],
        weight="w",
        features=["u"],
    )
    assert X.ids.tolist() == ["c", "d"]
    assert weight.tolist() == [3.0, 4.0]
    with pytest.raises(DataError, match="all bags have a label"):
        bagwise.from_frame(TABLE, "slide", "msi", exclude_label=[0, 1], features=["u"])
    with pytest.warns(DataWarning, match="no bag has the label 'nowhere'"):
        bagwise.from_frame(
            TABLE, "slide", "grade", exclude_label="nowhere", features=["u"]
        )
    with pytest.raises(ParameterError, match="no single label"):
        bagwise.from_frame(TABLE, "slide", exclude_label="1", features=["u"])


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_excluded_labels_of_folders(folder, tmp_path, suffix):
    """Files of bags that are left out need not exist, and are not reported."""
    labels = write(SLIDES, tmp_path / f"labels{suffix}")
    (folder / "b.npy").unlink()
    options = {"bag": "slide", "label": "grade", "labels": labels}
    X, y = bagwise.read_bags(folder, **options, exclude_label="unknown")
    assert X.ids.tolist() == ["a", "c", "d"]
    assert [str(label) for label in y] == ["1", "2", "2"]
    with pytest.raises(DataError, match="no file for the label of"):
        bagwise.read_bags(folder, **options)


def test_several_labels(folder, tmp_path):
    expected = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    both = ["msi", "braf"]
    path = write(TABLE, tmp_path / "t.csv")
    X, y = bagwise.read_bags(path, "slide", both, drop=["grade"])
    np.testing.assert_array_equal(y, expected)
    assert X.feature_names.tolist() == ["u", "v"]
    assert as_problem(X, y).task == "multilabel"
    labels = write(SLIDES, tmp_path / "labels.csv")
    _, y = bagwise.read_bags(folder, "slide", both, labels=labels)
    np.testing.assert_array_equal(y, expected)
    with pytest.raises(DataError, match="'label grade' is '1', '2', 'unknown'"):
        bagwise.read_bags(path, "slide", ["msi", "grade"], drop=["braf"])
    with pytest.raises(DataError, match="'msi' is a label and has another role"):
        bagwise.read_bags(path, "slide", ["msi", "msi"], drop=["grade"])
    np.savez(tmp_path / "t.npz", X=np.ones((2, 1)), bag=[0, 1], a=[0, 1], b=[0, 1])
    with pytest.raises(ParameterError, match="label"):
        bagwise.read_bags(tmp_path / "t.npz", label=["a", "b"])


def test_spreadsheets(tmp_path, monkeypatch):
    path = write(TABLE, tmp_path / "t.xlsx")
    X, y = bagwise.read_bags(path, "slide", "msi", features=["u", "v"])
    expected, labels = bagwise.from_frame(TABLE, "slide", "msi", features=["u", "v"])
    np.testing.assert_array_equal(X.data, expected.data)
    np.testing.assert_array_equal(y, labels)
    gaps = TABLE.copy()
    gaps.loc[3, "u"] = None
    write(gaps, path)
    with pytest.raises(DataError, match=r"'u' \(1 of 6, first in row 5\)"):
        bagwise.read_bags(path, "slide", "msi", features=["u", "v"])
    with pd.ExcelWriter(path) as book:
        TABLE.to_excel(book, sheet_name="slides", index=False)
        TABLE.to_excel(book, sheet_name="notes", index=False)
    with pytest.warns(DataWarning, match="only the first, 'slides'"):
        bagwise.read_bags(path, "slide", "msi", features=["u"])
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match="not a readable xlsx file"):
        bagwise.read_bags(path, "slide", "msi")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"0" * 10**7)
    monkeypatch.setenv("BAGWISE_MEMORY", "1MB")
    with pytest.raises(DataError, match="more than the budget"):
        bagwise.read_bags(path, "slide", "msi")
