"""Readers: each format gives the same bags, each kind of damage its message."""

import numpy as np
import pytest
import scipy.sparse as sp

from bagwise.bags import Bags
from bagwise.io import read_bags, write_npz

CSV = "mol,active,u,v\na,1,0.5,2\nb,0,1e3,-4\na,1,.25,7\n"
MUSK = "MUSK-1,1_1,42.,-198.,1.\nMUSK-1,1_2,40.,7.,1.\nNON-2,2_1,3.,0.,0.\n"
SVM = "# a comment\n0:0:1 1:0.5 3:2\n1:0:1 2:-1e-3\n\n2:7:-1 1:4\n"
ARFF = r"""% a comment
@RELATION toy

@attribute id {m1,'m 2'}
@attribute bag relational
  @attribute f1 numeric
  @attribute 'f 2' REAL
@end bag
@attribute class {0,1}
@data
m1,"1,2\n3,-4e1",1
'm 2','5, 6',0
"""


def _write(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


def test_csv(tmp_path):
    X, y = read_bags(_write(tmp_path, "t.csv", CSV), bag="mol", label="active")
    assert X.ids.tolist() == ["a", "b"]
    assert X.feature_names.tolist() == ["u", "v"]
    np.testing.assert_array_equal(X[0], [[0.5, 2], [0.25, 7]])
    np.testing.assert_array_equal(X[1], [[1000, -4]])
    assert y.tolist() == [1, 0]
    assert y.dtype == np.int64


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_csv_delimiters_line_ends_and_byte_order_mark(tmp_path, delimiter):
    content = "\ufeff" + CSV.replace(",", delimiter).replace("\n", "\r\n")
    path = _write(tmp_path, "t.txt", content)
    X, y = read_bags(path, bag="mol", label="active")
    np.testing.assert_array_equal(X.data, [[0.5, 2], [0.25, 7], [1000, -4]])
    assert y.tolist() == [1, 0]


def test_csv_without_label_and_with_dropped_columns(tmp_path):
    path = _write(tmp_path, "t.csv", "g,name,u\n1,x,5\n2,y,6\n")
    X, y = read_bags(path, bag="g", drop=["name"])
    assert y is None
    assert X.feature_names.tolist() == ["u"]
    assert X.ids.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("labels", "expected", "kind"),
    [
        (["1", "0"], [1, 0], "i"),
        (["1.5", "2"], [1.5, 2.0], "f"),
        (["yes", "no"], ["yes", "no"], "U"),
        (["01", "1"], [1.0, 1.0], "f"),
        (["True", "false"], [True, False], "b"),
        (["True", "1"], ["True", "1"], "U"),
        (["none", "some"], ["none", "some"], "U"),
        (["1_0", "2"], ["1_0", "2"], "U"),
    ],
)
def test_label_types(tmp_path, labels, expected, kind):
    text = f"g,y,u\na,{labels[0]},1\nb,{labels[1]},2\n"
    y = read_bags(_write(tmp_path, "t.csv", text), bag="g", label="y")[1]
    assert y.dtype.kind == kind
    assert y.tolist() == expected


def test_ids_that_look_alike_stay_apart(tmp_path):
    text = "g,u\n1,1\n01,2\n1.0,3\n"
    X, _ = read_bags(_write(tmp_path, "t.csv", text), bag="g")
    assert X.ids.tolist() == ["1", "01", "1.0"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        ("mol,active,u\n", "no data"),
        ("mol,active\na,1\n", "there is no feature column"),
        ("mol,x,u\na,1,2\n", "there is no column 'active'; the table has 'mol', 'x'"),
        ("mol,active,u,u\na,1,2,3\n", "line 1: two columns are called 'u'"),
        ("mol,active,u\na,1,2\na,1\n", "line 3: the row has 2 fields.*truncated"),
        ("mol,active,u\na,1,2,3\n", "line 2: the row has 4 fields"),
        ("mol,active,u\na,1,\n", r"missing values .*'u' \(1 of 1, first in line 2\)"),
        ("mol,active,u\na,1,2\na,1,NaN\n", r"'u' \(1 of 2, first in line 3\)"),
        ("mol,active,u\na,1,?\n", "missing values .*first in line 2.*missing='keep'"),
        ("mol,active,u\na,1,inf\n", "line 2: column 'u' holds infinity"),
        ("mol,active,u\na,1,-1e999\n", "line 2: column 'u' .* too large"),
        ("mol,active,u\na,1,red\n", r"'u' \(text, 'red' in line 2\).*drop=\['u'\]"),
        ("mol,active,u\na,1,1_000\n", "not numeric.*'1_000' in line 2"),
        ("mol,active,u\na,1,1+2j\n", "not numeric.*'1\\+2j' in line 2"),
        ("mol,active,u\na,1,٣\n", "not numeric.*'u'"),
        ("mol,active,u\na,1,2024-01-31\n", "dates, '2024-01-31' in line 2"),
        ("mol,active,u\n,1,2\n", "line 2: column 'mol', the bag, is empty"),
        ("mol,active,u\na,,2\n", "line 2: column 'active', the label, is empty"),
        ("mol,active,u\na,nan,2\n", "line 2: column 'active', the label"),
        ("mol,active,u\na,1,2\nb,NA,2\n", r"line 3: .*\(1 of 2 rows\)"),
        ("mol,active,u\na,1,2\n\na,0,2\n", "line 4: bag a has the label 0"),
        ('mol,active,u\na,1,"2\n', "line .*quoting"),
        ("mol,active,u\na,1,2\0\n", "line 2: .* NUL"),
    ],
)
def test_csv_errors_name_file_and_line(tmp_path, content, message):
    path = _write(tmp_path, "bad.csv", content)
    with pytest.raises(ValueError, match=rf"bad\.csv.*{message}"):
        read_bags(path, bag="mol", label="active")


def test_line_numbers_count_quoted_line_breaks(tmp_path):
    path = _write(tmp_path, "bad.csv", 'g,u\n"a\nb",1\nc,x\n')
    with pytest.raises(ValueError, match="line 4"):
        read_bags(path, bag="g")


def test_files_that_are_no_text(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_bytes(b"g,u\na,1\n\xff\xfe,2\n")
    with pytest.raises(ValueError, match=r"bad\.csv, line 3: .*UTF-8"):
        read_bags(path, bag="g")


def test_musk(tmp_path):
    X, y = read_bags(_write(tmp_path, "clean1.data", MUSK))
    assert X.ids.tolist() == ["MUSK-1", "NON-2"]
    np.testing.assert_array_equal(X.data, [[42, -198], [40, 7], [3, 0]])
    assert X.feature_names.tolist() == ["f1", "f2"]
    assert y.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b,1.\n", "line 1: .* 3 field"),
        (MUSK + "MUSK-3,3_1,4", "line 4: the line has 3 fields.*truncated"),
        (MUSK + "MUSK-3,3_1,4.,x,1.\n", "line 4: column 'f2' holds 'x'"),
        (MUSK + "MUSK-3,3_1,4.,5.,2.\n", "line 4: the class must be 0 or 1"),
        (MUSK + "MUSK-1,1_3,4.,5.,0.\n", "line 4: bag MUSK-1 has the label 0"),
        (MUSK + ",1_3,4.,5.,0.\n", "line 4: the molecule has no name"),
    ],
)
def test_musk_errors(tmp_path, content, message):
    with pytest.raises(ValueError, match=rf"bad\.data.*{message}"):
        read_bags(_write(tmp_path, "bad.data", content))


def test_svmlight(tmp_path):
    path = _write(tmp_path, "t.svm", SVM)
    X, y = read_bags(path)
    np.testing.assert_array_equal(X.data, [[0.5, 0, 2], [0, -1e-3, 0], [4, 0, 0]])
    assert X.ids.tolist() == [0, 7]
    assert y.tolist() == [1, -1]
    wide, _ = read_bags(path, n_features=10, sparse=True)
    assert wide.is_sparse
    assert wide.n_features == 10
    np.testing.assert_array_equal(wide.data.toarray()[:, :3], X.data)


def test_large_and_empty_svmlight_stays_sparse(tmp_path):
    lines = "".join(f"{i}:{i}:1 {100000 + i}:1\n" for i in range(100))
    X, _ = read_bags(_write(tmp_path, "t.svm", lines))
    assert X.is_sparse
    assert X.n_features == 100099


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("# only a comment\n", "only comments"),
        ("1 1:2\n", "line 1: a line begins with instance:bag:label"),
        ("0:0:1\n", "no line has a feature"),
        ("0:0:x 1:2\n", "line 1: the label 'x' is not a number"),
        (SVM + "3:8:1 1:2 5", "line 6: expected index:value.*truncated"),
        (SVM + "3:8:1 1:2 5:", "line 6: expected index:value"),
        (SVM + "3:8:1 0:2", "line 6: expected index:value"),
        (SVM + "3:8:1 2:1 2:2", "line 6: index 2 comes after 2"),
        (SVM + "3:8:1 2:nan", "line 6: expected index:value"),
        (SVM + "3:7:1 2:1", "line 6: bag 7 has the label 1 here and -1 before"),
    ],
)
def test_svmlight_errors(tmp_path, content, message):
    with pytest.raises(ValueError, match=rf"bad\.svm.*{message}"):
        read_bags(_write(tmp_path, "bad.svm", content))


def test_svmlight_index_beyond_n_features(tmp_path):
    with pytest.raises(ValueError, match="line 2: index 3 exceeds the 2 features"):
        read_bags(_write(tmp_path, "bad.svm", SVM), n_features=2)


def test_arff(tmp_path):
    X, y = read_bags(_write(tmp_path, "t.arff", ARFF))
    assert X.ids.tolist() == ["m1", "m 2"]
    assert X.feature_names.tolist() == ["f1", "f 2"]
    np.testing.assert_array_equal(X.data, [[1, 2], [3, -40], [5, 6]])
    assert y.tolist() == [1, 0]
    swapped, labels = read_bags(tmp_path / "t.arff", bag="class", label="id")
    assert swapped.ids.tolist() == [1, 0]
    assert labels.tolist() == ["m1", "m 2"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@data", "", "expected @attribute, @end or @data, got 'm1"),
        ("@end bag", "", "@end bag is missing"),
        ("@end bag", "@end box", "no matching @attribute"),
        ("@attribute f1 numeric", "@attribute f1 {a,b}", "feature 'f1' is nominal"),
        ("@attribute f1 numeric", "@attribute f1", "a name and a type"),
        ("f1 numeric", "f1 date", "the type 'date'"),
        ("bag relational", "bag string", "no matching @attribute"),
        ("'f 2' REAL", "f1 REAL", "two attributes are called 'f1'"),
        ("{0,1}", "{0,1", "no closing brace"),
        ('4e1",1', '4e1",2', "line 11: '2' is not a declared value of 'class'"),
        ('4e1",1', '4e1",?', "line 11: attribute 'class' is missing"),
        ('4e1",1', '4e1"', "line 11: the row has 2 values.*truncated"),
        ('4e1",1', "4e1", "line 11: a quotation mark is not closed"),
        ('4e1",1', '4e1"x,1', "line 11: there is text after a closing quote"),
        ("1,2\\n", "1\\n", "line 11: an instance has 1 values, 2 are declared"),
        ("1,2\\n", "1,?\\n", "line 11: column 'f 2' holds '\\?', a missing"),
        ('"1,2\\n3,-4e1"', '""', "line 11: the bag is empty"),
        ('"1,2\\n3,-4e1"', '"{0 1}"', "line 11: sparse instances"),
        ("'m 2','5", "m1,'5", "two rows are the bag 'm1'"),
    ],
)
def test_arff_errors(tmp_path, old, new, message):
    assert ARFF.count(old) >= 1
    path = _write(tmp_path, "bad.arff", ARFF.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"bad\.arff.*{message}"):
        read_bags(path)


def test_arff_label_that_is_none(tmp_path):
    text = ARFF.replace("{0,1}", "{nan,1}").replace("'5, 6',0", "'5, 6',nan")
    with pytest.raises(ValueError, match=r"bad\.arff, line 12: the label 'nan'"):
        read_bags(_write(tmp_path, "bad.arff", text))


def test_arff_without_data_or_relation(tmp_path):
    head = ARFF.split("@data")[0]
    with pytest.raises(ValueError, match="there is no @data"):
        read_bags(_write(tmp_path, "bad.arff", head))
    with pytest.raises(ValueError, match="no data"):
        read_bags(_write(tmp_path, "bad.arff", head + "@data\n"))
    flat = "@relation t\n@attribute u numeric\n@attribute c {0,1}\n@data\n1,0\n"
    with pytest.raises(ValueError, match="one relational attribute, found 0"):
        read_bags(_write(tmp_path, "bad.arff", flat))
    with pytest.raises(ValueError, match="no attribute 'q'; there are 'id', 'class'"):
        read_bags(_write(tmp_path, "t.arff", ARFF), label="q")


def _frame(backend):
    module = pytest.importorskip(backend)
    columns = {"g": ["a", "b", "a"], "y": [1, 0, 1], "u": [1.0, 2.0, 3.0]}
    if backend == "pyarrow":
        return module.table(columns)
    return module.DataFrame(columns)


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_parquet(tmp_path, backend, monkeypatch):
    frame = _frame(backend)
    path = tmp_path / "t.parquet"
    (frame.to_parquet if backend == "pandas" else frame.write_parquet)(path)
    for reader in ("pyarrow", "polars"):
        pytest.importorskip(reader)
        _only(monkeypatch, reader)
        X, y = read_bags(path, bag="g", label="y")
        assert X.ids.tolist() == ["a", "b"]
        np.testing.assert_array_equal(X.data, [[1], [3], [2]])
        assert y.tolist() == [1, 0]
        assert read_bags(path, bag="g", drop=["y"])[1] is None


def _only(monkeypatch, *installed):
    from bagwise.io import formats

    monkeypatch.setattr(
        formats, "find_spec", lambda name: True if name in installed else None
    )


def test_parquet_errors(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "bad.parquet"
    pq.write_table(_frame("pyarrow"), path)
    raw = path.read_bytes()
    with pytest.raises(ValueError, match=r"not given; the table has 'g', 'y', 'u'"):
        read_bags(path)
    with pytest.raises(ValueError, match="no column 'q'"):
        read_bags(path, bag="g", label="q")
    for content in (b"", b"PAR1", raw[:-20], raw[: len(raw) // 2], b"g,u\n1,2\n"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"bad\.parquet: not a readable Parquet"):
            read_bags(path, bag="g")
    for columns, message in (
        ({"g": ["a", None], "u": [1.0, 2.0]}, "row 1: column 'g', the bag, is empty"),
        ({"g": ["a", "b"], "u": [None, 2.0]}, "missing values .* first in row 0"),
        ({"g": ["a", "b"], "u": [1.0, np.nan]}, "missing values .* first in row 1"),
        ({"g": ["a", "b"], "u": ["x", "y"]}, "'u' .text, 'x' in row 0."),
        ({"g": ["a", "a"], "u": [1, 2], "y": [0, 1]}, "row 1: bag a has the label 1"),
    ):
        pq.write_table(pa.table(columns), path)
        with pytest.raises(ValueError, match=rf"bad\.parquet.*{message}"):
            read_bags(path, bag="g", label="y" if "y" in columns else None)
    _only(monkeypatch)
    with pytest.raises(ImportError, match=r"bagwise\[arrow\]"):
        read_bags(path, bag="g")
    with pytest.raises(FileNotFoundError):
        read_bags(tmp_path / "absent.parquet", bag="g")


def _toy(sparse=False):
    data = np.array([[1.0, 0], [0, 2], [3, 4]])
    return Bags(sp.csr_array(data) if sparse else data, [0, 2, 3])


@pytest.mark.parametrize("sparse", [False, True])
def test_npz_round_trip(tmp_path, sparse):
    path = tmp_path / "t.npz"
    X = _toy(sparse)
    X = Bags(X.data, X.offsets, ids=["p", "q"], feature_names=["u", "v"])
    write_npz(path, X, [1, 0], y_other=[5, 6])
    again, y = read_bags(path)
    assert again.is_sparse == sparse
    assert again.ids.tolist() == ["p", "q"]
    assert again.feature_names.tolist() == ["u", "v"]
    dense = again.data.toarray() if sparse else again.data
    np.testing.assert_array_equal(dense, [[1, 0], [0, 2], [3, 4]])
    assert y.tolist() == [1, 0]
    assert read_bags(path, label="y_other")[1].tolist() == [5, 6]
    write_npz(path, X)
    assert read_bags(path)[1] is None
    assert [p.name for p in tmp_path.iterdir()] == ["t.npz"]


GOOD = {"X": np.eye(3), "bag": np.array([0, 0, 1]), "y": np.array([1, 0])}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": None}, "neither 'X' nor the CSR parts"),
        ({"X": np.eye(3) * np.nan}, r"missing values \(NaN\)"),
        ({"X": np.full((3, 3), np.inf)}, "hold infinity"),
        ({"X": np.array([["a"] * 2] * 3)}, "matrix of numbers"),
        ({"X": np.ones(3)}, "matrix of numbers"),
        ({"bag": None}, "no array 'bag'; the file has X, y"),
        ({"bag": np.array([0, 1])}, "3 integers"),
        ({"bag": np.array([0.0, 0, 1])}, "3 integers"),
        ({"bag": np.array([0, 0, 2])}, "without gaps"),
        ({"bag": np.array([1, 1, 2])}, "without gaps"),
        ({"bag": np.array([0, 1, 0])}, "without gaps"),
        ({"y": np.array([1, 0, 1])}, "one entry for each of the 2 bags"),
        ({"y": np.array([1, np.nan])}, "'y' holds NaN"),
        ({"y": np.array(["a", "nan"])}, "'y' is 'nan' for bag 1"),
        ({"ids": np.array(["a"])}, "ids must have one entry"),
        ({"X": np.empty((0, 2)), "bag": np.empty(0, dtype=int)}, "no instance"),
        ({"y": np.array([None, 1])}, "not a readable npz"),
    ],
)
def test_npz_errors(tmp_path, change, message):
    path = tmp_path / "bad.npz"
    arrays = {k: v for k, v in (GOOD | change).items() if v is not None}
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=rf"bad\.npz: .*{message}"):
        read_bags(path)


def test_npz_csr_parts_must_fit(tmp_path):
    path = tmp_path / "bad.npz"
    write_npz(path, _toy(sparse=True))
    arrays = dict(np.load(path))
    for key, value in (
        ("indices", np.array([0, 1, 0, 9])),
        ("indptr", np.array([0, 1, 9, 4])),
        ("shape", np.array([3])),
        ("shape", np.array([-3, 2])),
        ("indices", np.array([0.0, 1, 0, 1])),
    ):
        np.savez(path, **(arrays | {key: value}))
        with pytest.raises(ValueError, match=r"bad\.npz: the CSR parts"):
            read_bags(path)


def test_single_array_is_no_archive(tmp_path):
    path = tmp_path / "bad.npz"
    with path.open("wb") as stream:
        np.save(stream, np.eye(2))
    with pytest.raises(ValueError, match="single array"):
        read_bags(path)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("t.xyz", {}, "cannot be inferred from the extension '.xyz'"),
        ("t.csv", {"format": "excel"}, "format must be one of airr, arff, csv"),
        ("t.data", {"bag": "g"}, "is for csv files, .*, not for"),
        ("t.svm", {"label": "y"}, "is for csv files, .*, not for"),
        (
            "t.npz",
            {"drop": ["u"]},
            "drop is for csv .*, not for npz",
        ),
        (
            "t.csv",
            {"bag": "g", "sparse": True},
            "sparse is for svmlight",
        ),
        ("t.csv", {"bag": "mol", "label": "mol"}, "are the same"),
        ("t.csv", {}, "ids of the bags is not given"),
    ],
)
def test_options_that_make_no_sense(tmp_path, name, arguments, message):
    path = _write(tmp_path, name, CSV)
    with pytest.raises(ValueError, match=message):
        read_bags(path, **arguments)


def test_other_mistakes(tmp_path):
    with pytest.raises(TypeError, match="list of column names"):
        read_bags(_write(tmp_path, "t.csv", CSV), bag="mol", drop="u")
    for name in ("a.csv", "a.npz", "a.data", "a.svm", "a.arff"):
        with pytest.raises(FileNotFoundError):
            read_bags(tmp_path / name)
    X, _ = read_bags(
        _write(tmp_path, "musk.txt", MUSK),
        format="musk",
    )
    assert X.n_bags == 2
