"""Tables whose cells are lists, from every library and from files."""

import numpy as np
import pytest

from bagwise.exceptions import DataError
from bagwise.io import from_frame, read_bags

pa = pytest.importorskip("pyarrow")

ROLES = {"bag": "slide", "label": "msi", "group": "patient"}


def slides(n=6, kind=np.float32):
    """Return features and places of some slides."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 6, n)
    rows = [rng.normal(size=(size, 3)).astype(kind) for size in sizes]
    return rows, [rng.integers(0, 99, (size, 2)) for size in sizes]


def bag_a_row(rows, places):
    """A table with one row per slide."""
    n, kind = len(rows), pa.from_numpy_dtype(rows[0].dtype)
    return pa.table(
        {
            "slide": [f"s{i}" for i in range(n)],
            "msi": [i % 2 for i in range(n)],
            "patient": [f"p{i // 2}" for i in range(n)],
            "features": pa.array(
                [[list(row) for row in bag] for bag in rows], pa.list_(pa.list_(kind))
            ),
            "coords": pa.array([bag.tolist() for bag in places]),
            "tile": pa.array([[f"t{j}" for j in range(len(bag))] for bag in rows]),
        }
    )


def instance_a_row(rows, places, width=-1):
    """A table with one row per instance; lists of a fixed size with a `width`."""
    of_bag = np.repeat(np.arange(len(rows)), [len(bag) for bag in rows])
    kind = pa.list_(pa.from_numpy_dtype(rows[0].dtype), width)
    x, y = np.concatenate(places).T
    return pa.table(
        {
            "slide": [f"s{i}" for i in of_bag],
            "msi": of_bag % 2,
            "patient": [f"p{i // 2}" for i in of_bag],
            "features": pa.array([list(row) for bag in rows for row in bag], kind),
            "x": x,
            "y": y,
        }
    )


def native(table, library):
    """Return the table as the library has it."""
    if library == "polars":
        polars = pytest.importorskip("polars")
        if "halffloat" in str(table.schema) and not hasattr(polars, "Float16"):
            pytest.skip("this version of polars has no half precision")
        return polars.from_arrow(table)
    return table.to_pandas() if library == "pandas" else table


def assert_read(X, y, rows, places):
    np.testing.assert_array_equal(X.data, np.concatenate(rows))
    np.testing.assert_array_equal(X.coords, np.concatenate(places))
    assert X.dtype == rows[0].dtype  # half precision is kept
    assert X.sizes.tolist() == [len(bag) for bag in rows]
    assert X.groups.tolist() == [f"p{i // 2}" for i in range(len(rows))]
    assert y.tolist() == [i % 2 for i in range(len(rows))]


@pytest.mark.parametrize("kind", [np.float16, np.float64])
@pytest.mark.parametrize("library", ["pyarrow", "polars", "pandas"])
def test_a_row_is_a_bag(library, kind):
    rows, places = slides(kind=kind)
    table = native(bag_a_row(rows, places), library)
    X, y = from_frame(table, **ROLES, instance_id="tile")
    assert_read(X, y, rows, places)
    assert X.instance_ids.tolist() == [f"t{j}" for bag in rows for j in range(len(bag))]
    X, y = from_frame(table, **ROLES, coords=["coords"], drop=["tile"])
    assert_read(X, y, rows, places)


@pytest.mark.parametrize("width", [-1, 3])
@pytest.mark.parametrize("library", ["pyarrow", "polars", "pandas"])
def test_a_row_is_an_instance(library, width):
    rows, places = slides()
    table = native(instance_a_row(rows, places, width), library)
    X, y = from_frame(table, **ROLES, coords=["x", "y"])
    assert_read(X, y, rows, places)
    assert X.feature_names.tolist() == ["features_0", "features_1", "features_2"]


@pytest.mark.parametrize("make", [bag_a_row, instance_a_row])
def test_files(tmp_path, make):
    import pyarrow.parquet as pq

    rows, places = slides(kind=np.float16)
    pq.write_table(make(rows, places), tmp_path / "t.parquet")
    whole = make is bag_a_row
    more = {"drop": ["tile"]} if whole else {"coords": ["x", "y"]}
    X, y = read_bags(tmp_path / "t.parquet", **ROLES, **more)
    assert_read(X, y, rows, places)


def test_what_is_wrong_with_lists():
    rows, places = slides()
    torn = [row.tolist() for bag in rows for row in bag]
    torn[4] = torn[4][:2]
    table = instance_a_row(rows, places).drop_columns("features")
    with pytest.raises(DataError, match="lists of different lengths, 2 and 3"):
        from_frame(table.append_column("features", pa.array(torn)), **ROLES)
    torn[4] = [0.0, None, 1.0]
    with pytest.raises(DataError, match=r"missing values \(NaN\) in 'features_1'"):
        from_frame(table.append_column("features", pa.array(torn)), **ROLES)
    torn[4] = None
    with pytest.raises(DataError, match="'features'"):
        from_frame(table.append_column("features", pa.array(torn)), **ROLES)
    spots = [[0.0, 1.0]] * len(torn)
    spots[2] = [np.nan, 1.0]
    odd = instance_a_row(rows, places).append_column("coords", pa.array(spots))
    with pytest.raises(DataError, match="row 2: column 'coords', the coords, holds a"):
        from_frame(odd, **ROLES)


@pytest.mark.parametrize("library", ["pyarrow", "polars", "pandas"])
def test_bags_without_instances_do_not_vanish(library, tmp_path):
    import pyarrow.parquet as pq

    rows, places = slides()
    rows[0], places[0] = rows[0][:0], places[0][:0]
    rows[3], places[3] = rows[3][:0], places[3][:0]
    table = bag_a_row(rows, places)
    with pytest.raises(DataError, match=r"row 0 \(and 1 more\) is a bag without inst"):
        from_frame(native(table, library), **ROLES)
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t.parquet: row 0 .*Remove it from"):
        read_bags(tmp_path / "t.parquet", **ROLES)
