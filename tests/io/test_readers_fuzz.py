"""Readers under fire: what is written is read; anything else is a clear ValueError."""

import csv
import io
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bagwise.bags import Bags
from bagwise.io import read_bags, write_npz
from bagwise.io.files import MISSING_WORDS

COMMON = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NAME = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")),
    min_size=1,
    max_size=8,
).filter(lambda t: t == t.strip() and t.isprintable())

# Words for a missing value are no labels; "TRUE" reads as a boolean.
LABEL = NAME.filter(lambda t: t not in MISSING_WORDS and t.lower() != "true")


@st.composite
def tables(draw, max_features=3):
    """Bags as a list of (name, label, rows), names and labels of any kind."""
    n_features = draw(st.integers(1, max_features))
    names = draw(st.lists(NAME, min_size=1, max_size=4, unique=True))
    labels = draw(
        st.one_of(
            st.lists(st.integers(-5, 5), min_size=len(names), max_size=len(names)),
            st.lists(LABEL, min_size=len(names), max_size=len(names)),
        )
    )
    row = st.lists(FINITE, min_size=n_features, max_size=n_features)
    bags = [draw(st.lists(row, min_size=1, max_size=3)) for _ in names]
    return list(zip(names, labels, bags, strict=True))


def check(path, table, numeric_labels=False, **options):
    """Read the file and compare with the table, value by value."""
    X, y = read_bags(path, **options)
    assert [str(i) for i in X.ids] == [name for name, _, _ in table]
    for bag, (_, _, rows) in zip(X, table, strict=True):
        np.testing.assert_array_equal(bag, np.array(rows))
    for found, (_, label, _) in zip(y, table, strict=True):
        same = str(found) == str(label)
        assert same or float(found) == float(label)


def to_csv(table, delimiter=","):
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    width = len(table[0][2][0])
    writer.writerow(["bag id", "label", *(f"u{j}" for j in range(width))])
    for name, label, rows in table:
        for row in rows:
            writer.writerow([name, label, *map(repr, row)])
    return stream.getvalue()


def to_svmlight(table):
    lines = ["# instance:bag:label index:value"]
    for i, (_, label, rows) in enumerate(table):
        for row in rows:
            pairs = " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row))
            lines.append(f"{len(lines)}:{i}:{label} {pairs}")
    return "\n".join(lines) + "\n"


def to_musk(table):
    lines = []
    for i, (_, label, rows) in enumerate(table):
        for j, row in enumerate(rows):
            values = ",".join(map(repr, row))
            lines.append(f"M-{i},{i}_{j},{values},{label % 2}.")
    return "\n".join(lines) + "\n"


def _quoted(text):
    body = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + body.replace("\n", "\\n") + "'"


def to_arff(table):
    width = len(table[0][2][0])
    head = ["@relation t", "@attribute id string", "@attribute bag relational"]
    head += [f"  @attribute u{j} numeric" for j in range(width)]
    values = ",".join(sorted({_quoted(str(label)) for _, label, _ in table}))
    head += ["@end bag", f"@attribute class {{{values}}}", "@data"]
    for name, label, rows in table:
        inner = "\n".join(",".join(map(repr, row)) for row in rows)
        head.append(f"{_quoted(name)},{_quoted(inner)},{_quoted(str(label))}")
    return "\n".join(head) + "\n"


def _save(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


@COMMON
@given(tables(), st.sampled_from([",", ";", "\t"]))
def test_csv_round_trip(tmp_path, table, delimiter):
    path = _save(tmp_path, "t.csv", to_csv(table, delimiter))
    check(path, table, bag="bag id", label="label")


@COMMON
@given(tables())
def test_arff_round_trip(tmp_path, table):
    check(_save(tmp_path, "t.arff", to_arff(table)), table)


@COMMON
@given(tables())
def test_svmlight_round_trip(tmp_path, table):
    numbered = [
        (str(i), label if isinstance(label, int) else i, rows)
        for i, (_, label, rows) in enumerate(table)
    ]
    check(_save(tmp_path, "t.svm", to_svmlight(numbered)), numbered)


@COMMON
@given(tables())
def test_musk_round_trip(tmp_path, table):
    numbered = [(f"M-{i}", i % 2, rows) for i, (_, _, rows) in enumerate(table)]
    check(_save(tmp_path, "t.data", to_musk(numbered)), numbered)


@COMMON
@given(tables())
def test_npz_round_trip(tmp_path, table):
    path = tmp_path / "t.npz"
    # NumPy drops trailing NUL characters of text; NAME has none.
    X = Bags.from_list(
        [np.array(rows) for _, _, rows in table], ids=[name for name, _, _ in table]
    )
    write_npz(path, X, [label for _, label, _ in table])
    check(path, table)


@settings(COMMON, max_examples=20)
@given(tables())
def test_parquet_round_trip(tmp_path, table):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [(name, label, *row) for name, label, bag in table for row in bag]
    names = ["g", "label", *(f"u{j}" for j in range(len(rows[0]) - 2))]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    check(tmp_path / "t.parquet", table, bag="g", label="label")


FORMATS = {
    "t.csv": (to_csv, {"bag": "bag id", "label": "label"}),
    "t.svm": (to_svmlight, {}),
    "t.data": (to_musk, {}),
    "t.arff": (to_arff, {}),
}
SOUND = [("a", 1, [[0.5, -2.0], [1e-3, 7.0]]), ("b", 0, [[3.0, 4.0]])]


def attempt(path, options):
    """Return what is read, or None for a ValueError that names the file."""
    try:
        return read_bags(path, **options)
    except ValueError as error:
        message = str(error)
    assert message.startswith(str(path)), message
    return None


@pytest.mark.parametrize("name", FORMATS)
@COMMON
@given(
    text=st.one_of(
        st.text(max_size=80),
        st.text("@abde0123456789.,:;'\"{}%#\\n \n\t-+eE?_", max_size=120),
    )
)
def test_any_text_gives_bags_or_a_message(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    result = attempt(path, FORMATS[name][1])
    if result is not None:
        assert np.isfinite(result[0].data).all()


@pytest.mark.parametrize("name", [*FORMATS, "t.npz", "t.parquet"])
@settings(COMMON, max_examples=30)
@given(raw=st.binary(max_size=60))
def test_any_bytes_give_a_message(tmp_path, name, raw):
    if name == "t.parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.write_bytes(raw)
    options = FORMATS.get(name, (None, {"bag": "g"} if "parquet" in name else {}))[1]
    result = attempt(path, options)
    if result is not None:
        assert np.isfinite(result[0].data).all()


_VALUE = re.compile(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")


def count_rows(name, text):
    """Count the instances of a text by the simplest means."""
    lines = [t for t in re.split(r"\r\n|\n|\r", text) if t.strip()]
    if name == "t.csv":
        return len(list(csv.reader(io.StringIO(text.strip("\n"))))) - 1
    if name == "t.arff":
        body = lines[[t.strip().lower() for t in lines].index("@data") + 1 :]
        body = [t for t in body if not t.strip().startswith("%")]
        return sum(len(re.split(r"(?:\\n|\\r)+", t.split("',")[1])) for t in body)
    comment = "#" if name == "t.svm" else None  # UCI's files know no comments
    return len([t for t in lines if not comment or not t.strip().startswith(comment)])


@pytest.mark.parametrize("name", ["t.csv", "t.svm", "t.data"])
@COMMON
@given(
    place=st.integers(0, 400),
    kind=st.sampled_from(["delete", "insert", "replace", "cut"]),
    character=st.sampled_from(list("0123456789.,:;-eE \n\"'#x_")),
)
def test_a_damaged_file_is_refused_or_read_as_it_stands(
    tmp_path, name, place, kind, character
):
    """No row and no number appears or vanishes between the text and the bags."""
    writer, options = FORMATS[name]
    text = writer(SOUND)
    place %= len(text)
    text = {
        "delete": text[:place] + text[place + 1 :],
        "insert": text[:place] + character + text[place:],
        "replace": text[:place] + character + text[place + 1 :],
        "cut": text[:place],
    }[kind]
    path = _save(tmp_path, name, text)
    result = attempt(path, options)
    if result is None:
        return
    X, _ = result
    assert X.n_instances == count_rows(name, text)
    spelt = {float(v) for v in _VALUE.findall(text) if _is_number(v)}
    quoted = re.sub("[\"']", "", text)
    spelt |= {float(v) for v in _VALUE.findall(quoted) if _is_number(v)}
    assert {float(v) for v in X.data.ravel() if v != 0} <= spelt


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


@settings(COMMON, max_examples=40)
@given(place=st.integers(0, 10**6), change=st.integers(0, 255))
def test_damaged_archives_are_refused_or_equal(tmp_path, place, change):
    """Zip checks its members: a changed byte never gives other numbers."""
    path = tmp_path / "t.npz"
    X = Bags.from_list([np.array(rows) for _, _, rows in SOUND])
    write_npz(path, X, [1, 0])
    raw = bytearray(path.read_bytes())
    place %= len(raw)
    if change:
        raw[place] ^= change
    else:
        del raw[place:]
    path.write_bytes(raw)
    result = attempt(path, {})
    if result is not None and change:
        np.testing.assert_array_equal(result[0].data, X.data)
        assert result[1] is None or result[1].tolist() == [1, 0]
