"""Change one kind of file many times and read it; runs in a process of its own.

``PYTHONPATH=tests/io python tests/hostile/worker.py KIND FOLDER SEED FIRST LAST``
prints the number of every change before it is tried, so that the parent process knows
which one ended this process. Unexpected errors are printed and do not end it.
"""

import collections
import faulthandler
import json
import os
import resource
import shutil
import sys
import traceback
import warnings
import zipfile
from pathlib import Path

import numpy as np
import sklearn.ensemble
from model_helpers import read_parts, write_parts
from mutations import mutate_array, mutate_bytes, mutate_json, mutate_text, pick
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise import BagClassifier, compose, embedding, ensemble, least_squares, svm
from bagwise.datasets import make_bags
from bagwise.inspection import instance_scores
from bagwise.io import read_bags, write_npz
from bagwise.neighbors import CitationKNN

MEMORY = 3 * 2**30  # bytes that a change may take
SECONDS = 90  # that a change may take
LARGEST_FILE = 2**28

# ---------------------------------------------------------------------- data files


def _table():
    X, y = make_bags(4, n_features=3, random_state=0)
    return [(f"b{i}", int(y[i]), X[i].tolist()) for i in range(4)]


def _columns():
    rows = [(name, label, *row) for name, label, bag in _table() for row in bag]
    columns = map(np.array, zip(*rows, strict=True))
    return dict(zip(("bag id", "label", "u", "v", "w"), columns, strict=True))


def write_text_file(writer):
    def write(rng, path, changed):
        text = writer(_table())
        for _ in range(int(rng.integers(1, 3)) if changed else 0):
            text = mutate_text(rng, text)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))

    return write


def write_archive(rng, path, changed):
    X, y = make_bags(4, n_features=3, random_state=0)
    write_npz(path, X, y)
    if changed:
        with np.load(path) as archive:
            arrays = _mutate_one(rng, dict(archive))
        np.savez(path, **arrays)


def write_parquet(rng, path, changed):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = _mutate_one(rng, _columns()) if changed else _columns()
    columns = {name: pa.array(v.tolist()) for name, v in columns.items()}
    pq.write_table(pa.table(columns), path)


def write_folder(save):
    """Return a function that writes two files, and may change one of them."""

    def write(rng, path, changed):
        path.mkdir()
        slides = {"a": np.eye(3, 4, dtype="f4"), "b": np.ones((2, 4), dtype="f4")}
        for name, rows in (_mutate_one(rng, slides) if changed else slides).items():
            save(path / name, rows)

    return write


def _mutate_one(rng, arrays):
    """Return the arrays with one of them changed, or two exchanged."""
    one, two = (pick(rng, list(arrays)) for _ in range(2))
    if one == two or rng.random() < 0.8:
        return {**arrays, one: mutate_array(rng, arrays[one])}
    return {**arrays, one: arrays[two], two: arrays[one]}


def save_h5(path, rows):
    import h5py

    with h5py.File(path.with_suffix(".h5"), "w") as file:
        file["features"] = rows
        file["coords"] = np.arange(2 * len(rows)).reshape(-1, 2)


def write_sheet(rng, path, changed):
    import openpyxl

    columns = _mutate_one(rng, _columns()) if changed else _columns()
    book = openpyxl.Workbook()
    book.active.append(list(columns))
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        book.active.append(row)
    book.save(path)


def write_cells(rng, path, changed):
    import anndata
    import pandas as pd

    columns = _mutate_one(rng, _columns()) if changed else _columns()
    obs = pd.DataFrame({name: columns.pop(name) for name in ("bag id", "label")})
    obs.index = obs.index.astype(str)
    X = np.stack([*columns.values()], axis=1)
    anndata.AnnData(X, obs).write_h5ad(path)


def write_repertoires(rng, path, changed):
    path.mkdir()
    lines = ["junction_aa\tproductive\tduplicate_count"]
    lines += [f"CASS{'LGTD'[i:]}TQYF\tT\t{i + 1}" for i in range(4)]
    for name in ("a.tsv", "b.tsv"):
        text = "\n".join(lines)
        if changed and rng.random() < 0.6:
            text = mutate_text(rng, text)
        (path / name).write_bytes(text.encode("utf-8", "surrogatepass"))


def to_smiles(table):
    """Write two molecules, the second with a charge."""
    return "CCO ethanol\nCC[NH3+] ethylammonium\n"


def to_sdf(table):
    """Write two molecules of three atoms, one with two conformers."""
    block = (
        "{0}\n     RDKit          3D\n\n  3  2  0  0  0  0  0  0  0  0999 V2000\n"
        "    0.0000    0.0000    0.0000 C   0  0\n"
        "    1.5000    0.0000    0.0000 C   0  0\n"
        "    2.0000    1.1000    0.7000 O   0  0\n"
        "  1  2  1  0\n  2  3  1  0\nM  END\n>  <label>\n{1}\n\n$$$$\n"
    )
    return block.format("a", 1) + block.format("a", 1) + block.format("b", 0)


def _data_kinds():
    import test_folders as folders
    import test_readers_fuzz as texts

    named = {"bag": "bag id", "label": "label"}
    return {
        "csv": ("t.csv", write_text_file(texts.to_csv), named),
        "arff": ("t.arff", write_text_file(texts.to_arff), {}),
        "svmlight": ("t.svm", write_text_file(texts.to_svmlight), {}),
        "musk": ("t.data", write_text_file(texts.to_musk), {}),
        "npz": ("t.npz", write_archive, {}),
        "parquet": ("t.parquet", write_parquet, named),
        "h5": ("t", write_folder(save_h5), {}),
        "zarr": ("t", write_folder(folders.save_zarr), {}),
        "pt": ("t", write_folder(folders.save_pt_dict), {}),
        "npy": ("t", write_folder(folders.save_npy), {}),
        "npz folder": ("t", write_folder(folders.save_npz), {}),
        "xlsx": ("t.xlsx", write_sheet, named),
        "h5ad": ("t.h5ad", write_cells, named),
        "airr": ("t", write_repertoires, {"format": "airr"}),
        "sdf": ("t.sdf", write_text_file(to_sdf), {"label": "label"}),
        "smi": ("t.smi", write_text_file(to_smiles), {"conformers": 1}),
    }


def damage(rng, path):
    """Change the bytes of a file, or the JSON document that it is."""
    inside = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    file = pick(rng, sorted(inside))
    raw = file.read_bytes()
    if raw[:1] == b"{" and rng.random() < 0.7:  # the description of a zarr store
        raw = json.dumps(mutate_json(rng, json.loads(raw))).encode()
    else:
        raw = mutate_bytes(rng, raw)
    file.write_bytes(raw)


def attempt_data(kind, folder):
    """Return a function that tries one change of a data file."""
    name, write, options = _data_kinds()[kind]
    path = folder / name

    def attempt(rng):
        structured = rng.random() < 0.5
        while not _written(lambda path: write(rng, path, structured), path):
            pass  # the format cannot hold the changed arrays: take the next change
        if not structured or rng.random() < 0.2:
            damage(rng, path)
        try:
            X, _ = read_bags(path, **options)
        except ValueError as error:
            return _refused(path, error)
        rows = X.data.data if X.is_sparse else X.data
        assert np.isfinite(rows).all()
        assert X.offsets[-1] == X.data.shape[0]
        return "read"

    return attempt


def _refused(path, error):
    if str(path) not in str(error):
        raise AssertionError("the message does not name the file") from error
    return "refused"


def _written(write, path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    try:
        write(path)
    except Exception:
        return False
    return True


# --------------------------------------------------------------------- model files

MODELS = {
    "BagClassifier": lambda: BagClassifier(cv=2, random_state=0),
    "MiFV": lambda: make_pipeline(embedding.MiFV(2), LogisticRegression()),
    "SlicedWasserstein": lambda: make_pipeline(
        compose.OnInstances(StandardScaler()),
        embedding.SlicedWassersteinEmbedding(10),
        LogisticRegression(),
    ),
    "MISVM": lambda: svm.MISVM(),
    "BagSVC": lambda: svm.BagSVC(),
    "MILES": lambda: embedding.MILES(),
    "SAFE": lambda: least_squares.SAFE(),
    "MILBoost": lambda: ensemble.MILBoost(5, random_state=0),
    "forest": lambda: compose.WrapperMI(
        sklearn.ensemble.RandomForestClassifier(5, random_state=0)
    ),
    "boosted trees": lambda: compose.SimpleMI(
        sklearn.ensemble.HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=3)
    ),
    "network": lambda: _network(),
    "BoxKernelSVC": lambda: svm.BoxKernelSVC(),
    "CitationKNN": lambda: CitationKNN(),
    "TwoLevelClassifier": lambda: embedding.TwoLevelClassifier(),
    "BagRegressor": lambda: ensemble.BagRegressor(cv=2, random_state=0),
    "MILDE": lambda: embedding.MILDE(),
    "transformer": lambda: _network("transmil"),
    "encoded": lambda: make_pipeline(
        compose.EncodeColumns(), compose.OnNeighbors(2), svm.MISVM(kernel="linear")
    ),
}


def _network(pooling="gated"):
    from bagwise.neural import NeuralBagClassifier

    size = {"hidden": 8, "attention": 4, "n_models": 1, "max_epochs": 3}
    return NeuralBagClassifier(pooling=pooling, **size)


def attempt_model(kind, folder):
    """Return a function that tries one change of a model file."""
    X, y = make_bags(20, n_features=4, random_state=0)
    sound, path = folder / "sound.bagwise", folder / "evil.bagwise"
    if not sound.exists():
        bagwise.save(MODELS[kind]().fit(X, y), sound)
    description, arrays = read_parts(sound)
    raw, few = sound.read_bytes(), X[:3]
    _use(bagwise.load(sound), few)

    def attempt(rng):
        if (what := rng.random()) < 0.1:
            path.write_bytes(mutate_bytes(rng, raw))
        elif what < 0.15:
            _write_with_old_hashes(rng, path, sound)
        else:
            _write_changed(rng, path, what, description, arrays)
        try:
            model = bagwise.load(path)
        except ValueError as error:
            return _refused(path, error)
        if 0.1 <= what < 0.15:
            raise AssertionError("the hashes do not fit and the file is read")
        # A method may fail on a changed value with any Python error. It must not end
        # the process, exceed the memory or run without end.
        try:
            _use(model, few)
        except MemoryError:
            raise
        except Exception as error:
            return f"read, then {type(error).__name__}"
        return "read"

    return attempt


def _write_with_old_hashes(rng, path, sound):
    """Change one member and keep the hashes, as an accident would."""
    with zipfile.ZipFile(sound) as source, zipfile.ZipFile(path, "w") as target:
        members = {name: source.read(name) for name in source.namelist()}
        name = pick(rng, list(members))
        before = members[name]
        while members[name] == before:
            members[name] = mutate_bytes(rng, before)
        for name, content in members.items():
            target.writestr(name, content)
        target.comment = source.comment


def _write_changed(rng, path, what, description, arrays):
    members, own = {}, dict(arrays)
    if what < 0.25 and arrays:  # the bytes of an array, with its header
        number = pick(rng, list(arrays))
        np.save(path.with_suffix(".npy"), own.pop(number))
        content = mutate_bytes(rng, path.with_suffix(".npy").read_bytes())
        members = {f"arrays/{number}.npy": content}
    elif what < 0.6 and arrays:
        own = _mutate_one(rng, arrays)
    else:
        for _ in range(int(rng.integers(1, 3))):
            changed = mutate_json(rng, description["model"])
            description = {**description, "model": changed}
    write_parts(path, description, own, raw=members)


def _use(model, X):
    model.predict(X)
    instance_scores(model, X)


# ------------------------------------------------------------------------- process


def main(kind, folder, seed, first, last):
    """Try the changes `first` to `last` and print what happened."""
    warnings.simplefilter("ignore")
    faulthandler.enable()
    prepare = attempt_model if kind in MODELS else attempt_data
    attempt = prepare(kind, Path(folder))
    _limit()
    counts = collections.Counter()
    for number in range(int(first), int(last)):
        print(json.dumps({"number": number}), flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            result = attempt(np.random.default_rng([int(seed), number]))
        except Exception:
            print(json.dumps({"unexpected": traceback.format_exc()}), flush=True)
            result = "unexpected"
        counts[result] += 1
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps({"counts": counts}), flush=True)


def _limit():
    """Limit memory and files, on top of what the libraries have mapped already."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
