"""Files that hold far more than they take: refused before they are read."""

import gzip
import tracemalloc

import numpy as np
import pytest

from bagwise import _sizes
from bagwise.io import read_bags
from bagwise.io.formats import choose_storage

MEGABYTE = 2**20


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make 1 MB large, so that small files stand for files of gigabytes."""
    monkeypatch.setattr(_sizes, "_LARGE", MEGABYTE)


def refused(message, path, *args, **options):
    """Read, which must fail before much memory was taken."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message):
            read_bags(path, *args, **options)
        assert tracemalloc.get_traced_memory()[1] < 20 * MEGABYTE
    finally:
        tracemalloc.stop()


def folder_of(tmp_path):
    folder = tmp_path / "slides"
    folder.mkdir()
    return folder


def test_gzip_bomb(tmp_path):
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"bag,u\na,1\n")
        for _ in range(40):
            file.write(b"\n" * MEGABYTE)
    refused("t.csv.gz: .*declare", path, "bag")


def test_text_beyond_the_memory_budget(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("bag,u\n" + "a,1\n" * 300_000, encoding="utf-8")
    monkeypatch.setenv("BAGWISE_MEMORY", "3MB")
    refused("t.csv: reading the text would take 3.6 MB, .*budget", path, "bag")
    monkeypatch.setenv("BAGWISE_MEMORY", "100MB")
    assert read_bags(path, "bag")[0].n_instances == 300_000


def test_parquet_bomb(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    n = 2_000_000
    pq.write_table(pa.table({"bag": np.zeros(n, int), "u": np.zeros(n)}), path)
    assert path.stat().st_size < 32 * n / 200
    refused("t.parquet: .*declare 32,000,000", path, "bag")
    monkeypatch.setattr(_sizes, "_LARGE", 2**30)
    monkeypatch.setenv("BAGWISE_MEMORY", "8MB")
    refused("t.parquet: the table would take 64 MB", path, "bag")


def test_parquet_bomb_of_text(tmp_path, monkeypatch):
    """A text that is stored once and meant by every row."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    n = 60_000
    names = pa.array(["x" * 1000]).take(pa.array(np.zeros(n, int)))
    table = pa.table({"bag": np.arange(n), "name": names, "u": np.zeros(n)})
    pq.write_table(table, path)
    monkeypatch.setenv("BAGWISE_MEMORY", "60MB")
    refused("t.parquet: .*", path, "bag", drop=["name"])


def test_spreadsheet_with_a_cell_far_away(tmp_path):
    pytest.importorskip("pandas")
    openpyxl = pytest.importorskip("openpyxl")
    book, path = openpyxl.Workbook(), tmp_path / "t.xlsx"
    for row in (["bag", "label", "u"], ["a", 0, 1.0], ["b", 1, 2.0]):
        book.active.append(row)
    book.save(path)
    assert read_bags(path, "bag", label="label")[0].n_bags == 2
    book.active.cell(2_000, 16_384, 1.0)
    book.save(path)
    refused("t.xlsx: .*declare", path, "bag")


def test_npz_of_zeros(tmp_path):
    path = tmp_path / "t.npz"
    np.savez_compressed(path, X=np.zeros((50_000, 80)), bag=np.zeros(50_000, int))
    refused("t.npz: .*declare 32,", path)


def test_folder_of_npz_of_zeros(tmp_path):
    folder = folder_of(tmp_path)
    np.savez_compressed(folder / "a.npz", features=np.zeros((50_000, 80)))
    refused("'a'.*declare 32,000,000", folder)


def test_many_files_that_are_each_small_enough(tmp_path):
    folder = folder_of(tmp_path)
    for k in range(40):
        np.savez_compressed(folder / f"a{k}.npz", features=np.zeros((1600, 80)))
    refused("declare 40,960,000", folder)


@pytest.mark.parametrize("shape", [(50_000, 80), (1, 50_000, 80)])
def test_tensor_that_repeats_one_number(tmp_path, shape):
    torch = pytest.importorskip("torch")
    folder = folder_of(tmp_path)
    torch.save(torch.zeros(()).expand(*shape), folder / "a.pt")
    refused("'a'.*its tensor declares 16,000,000 bytes and contains 4", folder)


def test_sparse_tensor(tmp_path):
    torch = pytest.importorskip("torch")
    folder = folder_of(tmp_path)
    torch.save({"features": torch.eye(3).to_sparse()}, folder / "a.pt")
    refused("'a'.*torch.sparse_coo", folder)


def test_h5_that_was_never_filled(tmp_path):
    h5py = pytest.importorskip("h5py")
    folder = folder_of(tmp_path)
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("features", (50_000, 80), "f8", chunks=(100, 80))
    refused("'a'.*declare 32,000,000", folder)


def test_h5_with_coordinates_that_were_never_filled(tmp_path):
    h5py = pytest.importorskip("h5py")
    folder = folder_of(tmp_path)
    with h5py.File(folder / "a.h5", "w") as file:
        file["features"] = np.ones((3, 2))
        file.create_dataset("coords", (3, 10**6), "f8", chunks=(1, 1000))
    refused("'a'.*declare 24,000,000", folder)


def test_zarr_that_was_never_filled(tmp_path):
    zarr = pytest.importorskip("zarr")
    folder = folder_of(tmp_path)
    group = zarr.open_group(str(folder / "a.zarr"), mode="w")
    group.create_array("features", shape=(50_000, 80), chunks=(100, 80), dtype="f8")
    refused("'a'.*declare 32,000,000", folder)


def test_rows_beyond_the_memory_or_the_disk(tmp_path, monkeypatch):
    folder = folder_of(tmp_path)
    rows = np.random.default_rng(0).normal(size=(50_000, 8))
    np.save(folder / "a.npy", rows)
    monkeypatch.setattr("bagwise.io._row_cache._memory", lambda: 10 * MEGABYTE)
    with monkeypatch.context() as patch:
        patch.setenv("BAGWISE_MEMORY", "2MB")
        refused("the rows in memory would take 3.2 MB.*cache", folder, cache=False)
    cache = tmp_path / "cache"
    with monkeypatch.context() as patch:
        usage = type("Usage", (), {"free": MEGABYTE})
        patch.setattr(_sizes.shutil, "disk_usage", lambda folder: usage)
        refused("the rows of all files would take 3.2 MB.*free in", folder, cache=cache)
        assert not list(cache.iterdir())
    np.testing.assert_array_equal(read_bags(folder, cache=cache)[0].data, rows)


def test_svmlight_that_would_be_dense(tmp_path, monkeypatch):
    path = tmp_path / "t.svm"
    path.write_text("0:0:1 1:1 999999999:1\n", encoding="utf-8")
    monkeypatch.setenv("BAGWISE_MEMORY", "1GB")
    refused("would take 8.0 GB.*sparse", path, sparse=False)
    assert read_bags(path)[0].is_sparse
    assert choose_storage(read_bags(path)[0].data, None).shape[1] == 999999999


# ----------------------------------------------- work that grows with the file, no more


def test_a_table_of_very_many_columns(tmp_path):
    """Comparing every name with every other would take minutes."""
    n = 60_000
    names = [f"u{j}" for j in range(n)]
    path = tmp_path / "wide.csv"
    text = f"bag,{','.join(names)}\na{',1' * n}\nb{',2' * n}\n"
    path.write_text(text, encoding="utf-8")
    X = read_bags(path, bag="bag", drop=names[: n // 2])[0]
    assert X.feature_names.tolist() == names[n // 2 :]
    path.write_text(text.replace("u59999", "u7"), encoding="utf-8")
    with pytest.raises(ValueError, match="two columns are called 'u7'"):
        read_bags(path, bag="bag")


@pytest.mark.parametrize("quotes", ["x" + "'" * 200_000, "'" + "\\'" * 200_000 + "'"])
def test_arff_of_very_many_quotes(tmp_path, quotes):
    path = tmp_path / "t.arff"
    header = "@relation t\n@attribute id string\n@attribute bag relational\n"
    header += "@attribute u numeric\n@end bag\n@attribute y {0,1}\n@data\n"
    path.write_text(f'{header}{quotes},"1\\n2",1\n', encoding="utf-8")
    X, y = read_bags(path)
    assert X.n_instances == 2
    assert len(X.ids[0]) > 199_999


def test_arff_of_very_many_attributes_and_bags(tmp_path):
    n = 30_000
    path = tmp_path / "t.arff"
    header = "@relation t\n@attribute id string\n@attribute bag relational\n"
    header += "".join(f"@attribute u{j} numeric\n" for j in range(n))
    path.write_text(
        f'{header}@end bag\n@attribute y {{0,1}}\n@data\na,"{",".join("1" * n)}",1\n',
        encoding="utf-8",
    )
    assert read_bags(path)[0].n_features == n
    header = "@relation t\n@attribute id string\n@attribute bag relational\n"
    header += "@attribute u numeric\n@end bag\n@attribute y {0,1}\n@data\n"
    rows = [f'b{i},"1",1\n' for i in range(n)]
    path.write_text(header + "".join(rows) + 'b7,"1",1\n', encoding="utf-8")
    with pytest.raises(ValueError, match="two rows are the bag 'b7'"):
        read_bags(path)
