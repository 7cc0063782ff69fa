"""Folders with one file of features a bag: every format, every kind of trouble."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bagwise.exceptions import DataError, DataWarning
from bagwise.io import _slides, read_bags

h5py = pytest.importorskip("h5py")

RNG = np.random.default_rng(0)
SLIDES = {f"s{i}": RNG.normal(size=(3 + i, 4)).astype(np.float16) for i in range(4)}
COORDS = {
    name: np.arange(2 * len(rows)).reshape(-1, 2) for name, rows in SLIDES.items()
}
TABLE = "slide_id,patient_id,MSI\ns2,p1,yes\ns0,p0,no\ns1,p0,no\ns3,p1,yes\n"
COLUMNS = {"bag": "slide_id", "label": "MSI", "group": "patient_id"}


def write_h5(folder, *, key="features", axis=False, coords=True, slides=SLIDES):
    folder.mkdir(exist_ok=True)
    for name, rows in slides.items():
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file[key] = rows[None] if axis else rows
            if coords:
                places = COORDS[name]
                file["coords"] = places[None] if axis else places
    (folder / "clini.csv").write_text(TABLE, encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_h5(tmp_path / "features")


def check(X, y, order=("s2", "s0", "s1", "s3")):
    assert X.ids.tolist() == list(order)
    for name, bag in zip(order, X, strict=True):
        np.testing.assert_array_equal(bag, SLIDES[name])
    truth = {"s0": "no", "s1": "no", "s2": "yes", "s3": "yes"}
    assert y.tolist() == [truth[name] for name in order]


@pytest.mark.parametrize("key", ["features", "feats", "patch_embeddings"])
@pytest.mark.parametrize("axis", [False, True])
def test_h5(tmp_path, key, axis):
    folder = write_h5(tmp_path / "f", key=key, axis=axis)
    X, y = read_bags(folder, labels=folder / "clini.csv", **COLUMNS)
    check(X, y)
    assert X.dtype == np.float16
    assert X.groups.tolist() == ["p1", "p0", "p0", "p1"]
    np.testing.assert_array_equal(X[[1]].coords, COORDS["s0"])


def save_npy(path, rows):
    np.save(path.with_suffix(".npy"), rows)


def save_npz(path, rows):
    np.savez_compressed(path.with_suffix(".npz"), features=rows)


def save_pt(path, rows):
    torch = pytest.importorskip("torch")
    torch.save(torch.from_numpy(rows)[None], path.with_suffix(".pt"))


def save_pt_dict(path, rows):
    torch = pytest.importorskip("torch")
    torch.save({"feats": torch.from_numpy(rows)}, path.with_suffix(".pt"))


def save_zarr(path, rows):
    zarr = pytest.importorskip("zarr")
    zarr.save_group(str(path.with_suffix(".zarr")), features=rows)


def save_zarr_array(path, rows):
    zarr = pytest.importorskip("zarr")
    zarr.save_array(str(path.with_suffix(".zarr")), rows)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "writer",
    [save_npy, save_npz, save_pt, save_pt_dict, save_zarr, save_zarr_array],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("on_disk", [False, True])
def test_other_formats(tmp_path, writer, on_disk):
    for name, rows in SLIDES.items():
        writer(tmp_path / name, rows)
    cache = tmp_path / "cache" if on_disk else False
    labels = pd.DataFrame(
        {"slide_id": ["s2.svs", "s0", "s1", "s3"], "MSI": ["yes", "no", "no", "yes"]}
    )
    X, y = read_bags(tmp_path, labels=labels, bag="slide_id", label="MSI", cache=cache)
    check(X, y)
    assert X.dtype == np.float16
    assert X.coords is None
    assert isinstance(X.data, np.memmap) == on_disk


def test_files_alone(folder):
    X, y = read_bags(folder)
    assert y is None
    assert X.ids.tolist() == ["s0", "s1", "s2", "s3"]
    with pytest.raises(DataError, match="labels=") as caught:
        read_bags(folder, label="MSI")
    assert caught.value.settings == (("labels", ...),)


def test_types_meet_in_the_wider_one(tmp_path):
    slides = {"a": np.ones((2, 3), np.float16), "b": np.ones((2, 3), np.float32)}
    for name, rows in slides.items():
        save_npy(tmp_path / name, rows)
    assert read_bags(tmp_path)[0].dtype == np.float32
    save_npy(tmp_path / "c", np.ones((2, 3), np.int64))
    assert read_bags(tmp_path)[0].dtype == np.float32


@pytest.mark.parametrize("room", [0, 2, 100])
@pytest.mark.parametrize("cache", [False, True])
def test_files_are_opened_once(folder, tmp_path, monkeypatch, room, cache):
    opened, File = [], h5py.File
    monkeypatch.setattr(_slides, "_most_open", lambda: room)
    monkeypatch.setattr(h5py, "File", lambda *a: opened.append(File(*a)) or opened[-1])
    X, _ = read_bags(folder, cache=tmp_path / "cache" if cache else False)
    for name, bag in zip(SLIDES, X, strict=True):
        np.testing.assert_array_equal(bag, SLIDES[name])
        np.testing.assert_array_equal(X[[int(name[1:])]].coords, COORDS[name])
    # A file without room is opened for its sizes, its rows and its coordinates.
    kept = min(room, len(SLIDES))
    assert len(opened) <= kept + 3 * (len(SLIDES) - kept)
    if room == 100:
        assert len(opened) == len(SLIDES)
    opened.clear()  # no file stays open
    for name in SLIDES:
        with File(folder / f"{name}.h5", "a") as file:
            file.attrs["seen"] = True


def test_the_cache_is_found_again_and_notices_changes(folder, tmp_path, monkeypatch):

    cache = tmp_path / "cache"
    read_bags(folder, cache=cache)
    with monkeypatch.context() as patch:
        patch.setattr(_slides.SlideFile, "blocks", None)
        X, _ = read_bags(folder, cache=cache)
    assert isinstance(X.data, np.memmap)
    np.testing.assert_array_equal(X[0], SLIDES["s0"])
    with h5py.File(folder / "s0.h5", "w") as file:
        file["features"] = SLIDES["s0"] * 0
        file["coords"] = COORDS["s0"]
    X, _ = read_bags(folder, cache=cache)
    np.testing.assert_array_equal(X[0], SLIDES["s0"] * 0)
    names = sorted(p.suffix for p in cache.iterdir())
    assert names == [".bin", ".bin", ".npz", ".npz"]


@pytest.mark.parametrize("missing", ["error", "keep"])
def test_a_changed_cache_is_written_again(folder, tmp_path, missing):
    """One bit of the copy is changed, and its size and the notes stay as they are."""
    cache = tmp_path / "cache"
    with h5py.File(folder / "s1.h5", "r+") as file:
        file["features"][0] = np.inf  # left out, so that later slides move up
    options = {"cache": cache, "missing": missing, "on_missing": "drop"}
    with pytest.warns(DataWarning, match="'s1' holds infinity"):
        expected = np.array(read_bags(folder, **options)[0].data)
    (copy,) = cache.glob("*.bin")
    raw = bytearray(copy.read_bytes())
    raw[-1] ^= 1
    copy.write_bytes(raw)
    with pytest.warns(DataWarning) as caught:
        after, _ = read_bags(folder, **options)
    assert any("the copy of the rows, was changed" in str(w.message) for w in caught)
    np.testing.assert_array_equal(after.data, expected)
    assert after.ids.tolist() == ["s0", "s2", "s3"]
    np.testing.assert_array_equal(after[2], SLIDES["s3"])


def test_pool(folder):
    X, y = read_bags(folder, labels=folder / "clini.csv", pool="patient_id", **COLUMNS)
    assert X.ids.tolist() == ["p1", "p0"]
    assert y.tolist() == ["yes", "no"]
    np.testing.assert_array_equal(X[0], np.concatenate([SLIDES["s2"], SLIDES["s3"]]))
    np.testing.assert_array_equal(
        X[[1]].coords, np.concatenate([COORDS["s0"], COORDS["s1"]])
    )
    assert X[[1]].instance_ids.tolist() == ["s0"] * 3 + ["s1"] * 4
    assert X.groups.tolist() == ["p1", "p0"]
    for labels in (folder / "clini.csv", pd.read_csv(folder / "clini.csv")):
        short, _ = read_bags(folder, labels=labels, pool="patient", **COLUMNS)
        assert short.ids.tolist() == ["p1", "p0"]
    text = TABLE.replace("s3,p1,yes", "s3,p1,no")
    (folder / "clini.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"slides of 'p1' .*'s2' has yes, 's3' has no"):
        read_bags(folder, labels=folder / "clini.csv", pool="patient_id", **COLUMNS)
    with pytest.raises(DataError, match="no column 'case' to pool by"):
        read_bags(folder, labels=folder / "clini.csv", pool="case", **COLUMNS)


def test_names_of_rows_and_weights(folder):
    for name, rows in SLIDES.items():
        with h5py.File(folder / f"{name}.h5", "a") as file:
            file["instance_ids"] = [f"{name}-{i}" for i in range(len(rows))]
    labels = pd.DataFrame(
        {"slide_id": list(SLIDES), "MSI": [0, 1, 0, 1], "w": [1, 2, 3, 4]}
    )
    X, y, weight = read_bags(folder, "slide_id", "MSI", labels=labels, weight="w")
    assert X[[2]].instance_ids.tolist() == [f"s2-{i}" for i in range(5)]
    assert y.tolist() == [0, 1, 0, 1]
    assert weight.tolist() == [1, 2, 3, 4]


@pytest.fixture
def broken(folder):
    """Every kind of trouble in one folder; s2 and s3 are sound."""
    with h5py.File(folder / "s1.h5", "w") as file:
        file["features"] = np.ones((3, 7), np.float16)
    with h5py.File(folder / "empty.h5", "w") as file:
        file["features"] = np.ones((0, 4), np.float16)
    with h5py.File(folder / "other.h5", "w") as file:
        file["things"] = np.ones((3, 4))
    raw = (folder / "s0.h5").read_bytes()
    (folder / "s0.h5").write_bytes(raw[: len(raw) // 2])
    np.save(folder / "s2.npy", SLIDES["s2"])
    np.save(folder / "words.npy", np.array([["a"]]))
    np.save(folder / "objects.npy", np.array([[None]]), allow_pickle=True)
    rows = ["absent,p5,yes", "empty,p6,yes", "other,p6,no", "words,p6,no"]
    np.save(folder / "gap.npy", np.full((2, 4), np.nan, np.float16))
    rows += ["objects,p6,no", "gap,p6,no", "s3,p1,yes", "s9,p1,"]
    text = TABLE + "\n".join(rows) + "\n"
    np.save(folder / "s9.npy", SLIDES["s2"])
    (folder / "clini.csv").write_text(text, encoding="utf-8")
    return folder


def test_all_that_is_wrong_is_said_at_once(broken, monkeypatch):
    with pytest.raises(DataError) as caught:
        read_bags(broken, labels=broken / "clini.csv", **COLUMNS)
    message = str(caught.value)
    for part in (
        "no file for the label of (1): 'absent'",
        "no label for the file of (1): 's9'",
        "two rows of one slide (1): 's3' in line 12",
        "two files of one slide (1): s2.h5, s2.npy",
        "without rows (1): 'empty'",
        "another width than the usual 4 (1): 's1' has 7",
        "'other' (it has 'things', none of features",
        "'words' (its features are <U1, not numbers",
        "'objects'",
        "'s0' (",
        "invalid (1): 'gap' holds NaN (row 0, feature 0)",
        "on_missing='drop'",
    ):
        assert part in message
    assert caught.value.settings == (("on_missing", "drop"),)
    monkeypatch.setattr("bagwise.io.folder._CHECKED_BYTES", 10)
    with pytest.raises(DataError, match=r"not yet checked for NaN \(1\): the rows"):
        read_bags(broken, labels=broken / "clini.csv", **COLUMNS)


def test_what_is_wrong_is_left_out_on_request(broken):
    with pytest.warns(DataWarning, match="left out: .*'absent'.*'gap'") as told:
        X, y = read_bags(
            broken, labels=broken / "clini.csv", on_missing="drop", **COLUMNS
        )
    assert len(told) == 1
    check(X, y, ("s2", "s3"))
    with pytest.raises(ValueError, match="'error' or 'drop'"):
        read_bags(broken, on_missing="ignore")


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rows_that_are_not_finite(tmp_path, dtype):
    rows = np.ones((4, 3), dtype=dtype)
    save_npy(tmp_path / "a", rows)
    save_npy(tmp_path / "c", rows * 2)
    rows[2, 1] = np.nan
    save_npy(tmp_path / "b", rows)
    with pytest.raises(DataError, match=r"'b' holds NaN \(row 2, feature 1\)"):
        read_bags(tmp_path)
    with pytest.warns(DataWarning, match="'b' holds NaN"):
        X, _ = read_bags(tmp_path, on_missing="drop", cache=tmp_path / "cache")
    assert X.ids.tolist() == ["a", "c"]
    assert X[1][0, 0] == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X, _ = read_bags(tmp_path, missing="keep")
    assert np.isnan(X[1][2, 1])
    rows[2, 1] = np.inf
    save_npy(tmp_path / "b", rows)
    with pytest.raises(DataError, match="'b' holds infinity"):
        read_bags(tmp_path, missing="keep")


def test_tensors_are_loaded_without_code(tmp_path):
    torch = pytest.importorskip("torch")

    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("a pickle ran",))

    torch.save(Evil(), tmp_path / "a.pt")
    with pytest.raises(DataError, match=r"cannot be read .*besides tensors"):
        read_bags(tmp_path)
    rows = torch.from_numpy(SLIDES["s0"])
    torch.save(rows, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    np.testing.assert_array_equal(read_bags(tmp_path)[0][0], SLIDES["s0"])


@pytest.mark.parametrize("pool", [None, "patient_id"])
def test_slides_of_unknown_patients_are_not_one_patient(folder, pool):
    text = TABLE.replace("s1,p0", "s1,").replace("s3,p1", "s3,")
    (folder / "clini.csv").write_text(text, encoding="utf-8")
    how = {"labels": folder / "clini.csv", "pool": pool, **COLUMNS}
    with pytest.raises(DataError, match=r"no patient_id for the slide \(2\): 's1', 's"):
        read_bags(folder, **how)
    with pytest.warns(DataWarning, match="left out: no patient_id"):
        X, _ = read_bags(folder, on_missing="drop", **how)
    assert X.groups.tolist() == ["p1", "p0"]
    assert X.ids.tolist() == (["s2", "s0"] if pool is None else ["p1", "p0"])
    # Gaps turn numbers into floats: patient 7 is still called "7".
    patients = pd.DataFrame(
        {"slide_id": list(SLIDES), "MSI": 1, "patient_id": [7, 7, np.nan, 8]}
    )
    with pytest.warns(DataWarning, match="no patient_id for the slide"):
        X, _ = read_bags(folder, on_missing="drop", **how | {"labels": patients})
    assert X.ids.tolist() == (["s0", "s1", "s3"] if pool is None else ["7", "8"])


def test_coordinates_that_do_not_fit(folder):
    def place(name, coords):
        with h5py.File(folder / f"{name}.h5", "a") as file:
            del file["coords"]
            if coords is not None:
                file["coords"] = coords

    place("s1", np.zeros((4, 3)))
    with pytest.raises(DataError, match=r"coordinates than the usual 2 .*'s1' has 3"):
        read_bags(folder)
    place("s1", np.full((4, 2), np.nan))
    with pytest.raises(DataError, match="'s1' .*'coords' holds values that are not"):
        read_bags(folder)
    with pytest.warns(DataWarning, match="'s1'"):
        X, _ = read_bags(folder, on_missing="drop")
    assert len(X.coords) == X.n_instances
    place("s1", np.zeros((5, 2)))
    with pytest.raises(DataError, match=r"'s1' .*has the shape \(5, 2\) for 4 rows"):
        read_bags(folder)
    with h5py.File(folder / "s1.h5", "a") as file:
        del file["coords"]
    with pytest.warns(DataWarning, match="are ignored: no coordinates .*: 's1'"):
        X, _ = read_bags(folder)
    assert X.coords is None
    assert X.n_bags == 4


def test_slips(tmp_path, folder):
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        read_bags(tmp_path / "absent")
    (tmp_path / "clini.xls").write_bytes(b"PK")
    with pytest.raises(
        DataError,
        match="xlsx is the only spreadsheet format that is read. Save the sheet",
    ):
        read_bags(folder, labels=tmp_path / "clini.xls", **COLUMNS)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DataError, match="no file of features"):
        read_bags(tmp_path / "nothing")
    with pytest.raises(DataError, match="there is no column 'slide'"):
        read_bags(folder, bag="slide", labels=folder / "clini.csv")
    with pytest.raises(ValueError, match="labels is for folders.* not for csv"):
        read_bags(folder / "clini.csv", bag="slide_id", labels="x.csv")
    with pytest.raises(
        ValueError, match="features is for csv files, parquet files, xlsx files and"
    ):
        read_bags(folder, features=["a"])
    with pytest.raises(DataError, match="it has 'coords', 'features', not 'feats'"):
        read_bags(folder, dataset="feats")


def test_a_missing_library_is_named(folder, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"needs h5py: pip install .bagwise\[h5\]"):
        read_bags(folder)


def test_files_that_point_elsewhere_are_refused(tmp_path):
    """An h5 file may name other files to read from; ours must hold its rows itself."""
    secret = tmp_path / "secret.bin"
    np.ones((2, 3)).tofile(secret)
    folder = tmp_path / "features"
    folder.mkdir()
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["features"] = np.ones((2, 3))
    with h5py.File(folder / "stored.h5", "w") as file:
        file.create_dataset("features", (2, 3), "f8", external=[(str(secret), 0, 48)])
    with h5py.File(folder / "linked.h5", "w") as file:
        file["features"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "features")
    with h5py.File(folder / "soft.h5", "w") as file:
        file["features"] = h5py.SoftLink("/elsewhere")
    with h5py.File(folder / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((2, 3), "f8")
        layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "features", (2, 3))
        file.create_virtual_dataset("features", layout)
    with h5py.File(folder / "group.h5", "w") as file:
        file.create_group("features")
    with pytest.raises(DataError) as caught:
        read_bags(folder)
    message = str(caught.value)
    assert "cannot be read (5)" in message
    assert "'stored' ('features' is stored in another file)" in message
    assert "'virtual' ('features' is stored in another file)" in message
    assert "'linked' ('features' is a link to another place)" in message
    assert "'soft' ('features' is a link" in message
    assert "'group' ('features' is not a dataset)" in message


def test_features_inside_a_group(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["deep/er"] = SLIDES["s0"]
    X, _ = read_bags(tmp_path, dataset="deep/er")
    np.testing.assert_array_equal(X[0], SLIDES["s0"])


def test_an_archive_that_lies_about_its_size(tmp_path):
    import io
    import zipfile

    buffer = io.BytesIO()
    np.save(buffer, np.ones((5, 3)))
    raw = buffer.getvalue().replace(b"(5, 3)", b"(9, 3)")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("features.npy", raw)
    with pytest.raises(DataError, match="does not have the size it declares"):
        read_bags(tmp_path)


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("layout", ["one piece", "chunks", "axis", "squeezed", "wider"])
def test_rows_are_read_a_few_at_a_time(tmp_path, monkeypatch, layout, on_disk):
    """Whatever the layout, and where a slide in the middle turns out to be invalid."""
    monkeypatch.setattr(_slides, "BLOCK_BYTES", 6 * 2 * 3)
    rng = np.random.default_rng(0)
    slides = {f"s{k}": rng.normal(size=(n, 3)) for k, n in enumerate((7, 20, 1, 13))}
    slides["s1"][17, 2] = np.nan
    kept = {name: rows.astype(np.float16) for name, rows in slides.items()}
    more = {
        "chunks": {"chunks": (4, 3), "maxshape": (None, 3)},
        "squeezed": {"chunks": (2, 3), "maxshape": (None, 3), "compression": "gzip"},
    }.get(layout, {})
    folder = tmp_path / "features"
    folder.mkdir()
    for name, rows in kept.items():
        rows = rows.astype(np.float32) if (layout, name) == ("wider", "s3") else rows
        with h5py.File(folder / f"{name}.h5", "w") as file:
            rows = rows[None] if layout == "axis" else rows
            file.create_dataset("features", data=rows, **more)
    cache = tmp_path / "cache" if on_disk else False
    with pytest.warns(DataWarning, match=r"'s1' holds NaN \(row 17, feature 2\)"):
        X, _ = read_bags(folder, on_missing="drop", cache=cache)
    assert X.dtype == (np.float32 if layout == "wider" else np.float16)
    assert X.ids.tolist() == ["s0", "s2", "s3"]
    for i, name in enumerate(X.ids):
        np.testing.assert_array_equal(X[i], kept[name])
    X, _ = read_bags(folder, missing="keep", cache=cache)
    np.testing.assert_array_equal(X[1], kept["s1"])
