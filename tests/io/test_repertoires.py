"""AIRR folders: sequences to k-mers, counts of clones, and what is refused."""

import gzip
import itertools

import numpy as np
import pytest

import bagwise
from bagwise.comparison.choose import find_method
from bagwise.comparison.description import build_estimator
from bagwise.datasets import make_repertoires
from bagwise.exceptions import DataError, DataWarning, ParameterError
from bagwise.inspection import explain
from bagwise.io._repertoires import AMINO_ACIDS, kmer_counts

HEADER = "sequence_id\tproductive\tjunction_aa\tduplicate_count\tv_call\n"
ROLES = {"bag": "person", "label": "status", "format": "airr"}


def write(folder, tables, labels=None):
    folder.mkdir(exist_ok=True)
    for name, rows in tables.items():
        lines = ["\t".join(map(str, row)) for row in rows]
        text = HEADER + "\n".join(lines) + "\n"
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")
    if labels is not None:
        lines = [f"{name},{label}" for name, label in labels.items()]
        text = "person,status\n" + "\n".join(lines) + "\n"
        (folder / "labels.csv").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path):
    tables = {
        "ann": [
            ("s1", "T", "CASSLGDEQYF", 4, "TRBV1"),
            ("s2", "F", "CASSPPPPQYF", 9, "TRBV1"),
            ("s3", "T", "CASSLGDEQYF", 4, "TRBV2"),
            ("s4", "T", "CAW*RRRREQYF", 1, ""),
            ("s5", "T", "CARRRRF", "", ""),
        ],
        "bob": [("s1", "true", "CASSQQEQYF", 1, ""), ("s2", "T", "CASF", 2, "")],
    }
    return write(tmp_path / "persons", tables, {"bob": "case", "ann": "control"})


def counted(sequence, k):
    """Return the k-mers of a sequence, one by one."""
    found = {}
    for i in range(len(sequence) - k + 1):
        found[sequence[i : i + k]] = found.get(sequence[i : i + k], 0) + 1
    return found


def test_rows_are_counts_of_clones(folder):
    X, y = bagwise.read_bags(folder, labels=folder / "labels.csv", **ROLES)
    assert X.ids.tolist() == ["bob", "ann"]
    assert y.tolist() == ["case", "control"]
    assert X.instance_ids.tolist() == ["CASSQQEQYF", "CASSLGDEQYF", "CARRRRF"]
    assert X.is_sparse
    column = {name: j for j, name in enumerate(X.feature_names)}
    assert X.n_features == 20**4
    # 4 copies of one rearrangement and 4 of another are 8 of one sequence.
    for i, copies in enumerate([1, 8, 1]):
        row = X.data[[i]].toarray()[0]
        truth = counted(X.instance_ids[i][1:-1], 4)
        assert {n: row[column[n]] / (1 + np.log2(copies)) for n in truth} == truth
        assert np.count_nonzero(row) == len(truth)


def test_files_may_be_compressed_and_labels_may_be_left_out(folder):
    for path in folder.glob("*.tsv"):
        raw = gzip.compress(path.read_bytes())
        path.with_suffix(".tsv.gz").write_bytes(raw)
        path.unlink()
    X, y = bagwise.read_bags(folder, format="airr")
    assert X.ids.tolist() == ["ann", "bob"]
    assert y is None
    with pytest.raises(DataError, match="one row per person.*labels="):
        bagwise.read_bags(folder, **ROLES)


@pytest.mark.parametrize("gapped", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_kmers_are_those_that_a_loop_finds(k, gapped):
    rng = np.random.default_rng(k)
    texts = ["".join(rng.choice(list(AMINO_ACIDS), n)) for n in (k, 5, 9, 14)]
    shapes = [list(range(k))]
    if gapped:
        shapes += [[i for i in range(k + 1) if i != gap] for gap in range(1, k)]
    found = kmer_counts(texts, k, gapped, 10**6).toarray()
    assert found.shape == (4, len(shapes) * 20**k)
    every = ["".join(word) for word in itertools.product(AMINO_ACIDS, repeat=k)]
    for text, row in zip(texts, found, strict=True):
        truth = np.zeros((len(shapes), len(every)))
        for s, shape in enumerate(shapes):
            for i in range(len(text) - shape[-1]):
                word = "".join(text[i + place] for place in shape)
                truth[s, every.index(word)] += 1
        np.testing.assert_array_equal(row, truth.ravel())


def test_hashed_columns_hold_all_counts():
    texts = ["CASSLGDEQYF", "AAAAAAA"]
    exact = kmer_counts(texts, 3, True, 10**6)
    hashed = kmer_counts(texts, 3, True, 64)
    assert hashed.shape == (2, 64)
    np.testing.assert_array_equal(hashed.sum(axis=1), exact.sum(axis=1))
    one = kmer_counts(["CASS"], 3, False, 64)
    more = kmer_counts(["AAAA", "CASS"], 3, False, 64)
    np.testing.assert_array_equal(one.toarray()[0], more.toarray()[1])


def test_names_of_columns(folder):
    exact, _ = bagwise.read_bags(folder, format="airr", kmer=2, gapped=True)
    assert exact.feature_names[[0, 1, 399, 400, 401]].tolist() == [
        "AA", "AC", "YY", "A.A", "A.C",
    ]  # fmt: skip
    hashed, _ = bagwise.read_bags(folder, format="airr", n_features=100)
    assert hashed.n_features == 100
    assert hashed.feature_names is None


@pytest.fixture
def broken(folder):
    write(folder, {"empty": [], "idle": [("s1", "F", "CASSLGDEQYF", 1, "")]})
    (folder / "void.tsv").write_text("", encoding="utf-8")
    (folder / "odd.tsv").write_text("sequence\tcount\nACGT\t1\n", encoding="utf-8")
    write(folder, {"bad": [("s1", "T", "CASSLGDEQYF", "many", "")]})
    write(folder, {"cut": [("s1", "T", "CASSLGDEQYF", 1)]})
    (folder / "bin.tsv.gz").write_bytes(b"\x1f\x8bnothing")
    (folder / "bob.tsv.gz").write_bytes(gzip.compress(HEADER.encode()))
    names = ["ann", "bob", "empty", "idle", "void", "odd", "bad", "cut", "bin", "gone"]
    lines = "".join(f"{name},{k % 2}\n" for k, name in enumerate(names))
    (folder / "labels.csv").write_text("person,status\n" + lines, encoding="utf-8")
    write(folder, {"extra": [("s1", "T", "CASSLGDEQYF", 1, "")]})
    return folder


def test_all_that_is_wrong_is_said_at_once(broken):
    labels = broken / "labels.csv"
    with pytest.raises(DataError) as caught:
        bagwise.read_bags(broken, labels=labels, **ROLES)
    for part in (
        "two files of one person (1): bob.tsv, bob.tsv.gz",
        "no file for the label of (1): 'gone'",
        "no label for the file of (1): 'extra'",
        "without a productive sequence (2): 'empty', 'idle'",
        "cannot be read (5): 'void'",
        "the file is empty",
        "there is neither 'junction_aa' nor 'cdr3_aa'; it has 'sequence', 'count'",
        "line 2: duplicate_count is 'many', not a number of copies",
        "line 2: 4 fields where the header has 5",
        "damaged",
    ):
        assert part in str(caught.value)
    with pytest.warns(DataWarning, match="left out"):
        X, y = bagwise.read_bags(broken, labels=labels, on_missing="drop", **ROLES)
    assert X.ids.tolist() == ["ann", "bob"]
    assert y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kmer": 0}, "kmer must be from 1 to 7"),
        ({"kmer": 2.5}, "kmer must be from 1 to 7"),
        ({"n_features": 1}, "n_features must be from 2"),
        ({"conformers": 3}, "conformers is for sdf files"),
        ({"pool": "person"}, "pool is for folders"),
    ],
)
def test_options_out_of_range(folder, options, message):
    with pytest.raises(ParameterError, match=message):
        bagwise.read_bags(folder, format="airr", **options)


def test_no_folder_and_no_files(folder, tmp_path):
    with pytest.raises(ParameterError, match="one file per person"):
        bagwise.read_bags(folder / "ann.tsv", format="airr")
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="no AIRR file"):
        bagwise.read_bags(tmp_path / "none", format="airr")
    with pytest.raises(DataError, match="repertoires .*format='airr'"):
        bagwise.read_bags(folder)


def test_a_motif_is_found(tmp_path):
    """Three sequences in a hundred have it: persons and sequences are ranked by it."""
    labels, motif = make_repertoires(tmp_path / "p", 60, 300, rate=0.03, random_state=1)
    X, y = bagwise.read_bags(tmp_path / "p", labels=labels, pos_label="case", **ROLES)
    model = build_estimator(find_method("Mean + L1 SVM").spec())
    model.set_params(estimator__classify__C=1.0).fit(X[:40], y[:40])
    found = explain(model, X[40:])
    auroc = found.bag_scores[y[40:] == 1][:, None] > found.bag_scores[y[40:] == 0]
    assert auroc.mean() > 0.9
    columns = found.columns()
    best = np.argsort(columns["score"])[::-1][:15]
    assert np.mean([motif in columns["id"][k] for k in best]) > 0.8


def test_the_simulation_does_what_it_says(tmp_path):
    labels, motif = make_repertoires(tmp_path / "a", 6, 50, rate=0.1, random_state=3)
    again, same = make_repertoires(
        tmp_path / "b", 6, 50, rate=0.1, random_state=3, compress=True
    )
    assert motif == same
    X, y = bagwise.read_bags(labels.parent, labels=labels, **ROLES)
    Z, _ = bagwise.read_bags(again.parent, labels=again, **ROLES)
    assert X.instance_ids.tolist() == Z.instance_ids.tolist()
    with_motif = [sum(motif in s for s in X[[i]].instance_ids) for i in range(6)]
    assert y.tolist() == ["control", "case"] * 3
    assert all(n >= 5 for n in with_motif[1::2])
    assert not any(with_motif[::2])
    with pytest.raises(ValueError, match="1 to 5 residues"):
        make_repertoires(tmp_path, motif="CASSLGD")
