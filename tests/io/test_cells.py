"""AnnData: cells to bags of donors, scores back, and files that are refused."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import bagwise
from bagwise.comparison import CrossValidation
from bagwise.exceptions import DataError, DataWarning, UnknownColumnError
from bagwise.inspection import explain, instance_scores, write_scores
from bagwise.inspection.types import type_table
from bagwise.linear_model import MILogisticRegression
from bagwise.report._page import render_report, report_context

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    anndata = pytest.importorskip("anndata")
h5py = pytest.importorskip("h5py")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
ROLES = {"bag": "donor", "label": "disease", "group": "donor"}
MATRICES = [None, "X", "obsm:X_pca", "obsm:scores", "layers:counts", "layers:dense"]


@pytest.fixture
def adata():
    rng = np.random.default_rng(0)
    donor = rng.permutation(np.repeat([f"d{i}" for i in range(8)], 6))
    obs = pd.DataFrame(
        {
            "donor": pd.Categorical(donor),
            "disease": pd.Categorical(["ill" if d > "d3" else "well" for d in donor]),
            "cell_type": pd.Categorical(rng.choice(["B", "NK", "T"], 48)),
            "batch": pd.array(rng.integers(0, 3, 48), dtype="Int64"),
            "weight": [1.0 + int(d[1:]) for d in donor],
        },
        index=[f"cell{i}" for i in range(48)],
    )
    counts = sp.random(48, 7, 0.4, format="csr", dtype=np.float32, random_state=0)
    genes = pd.DataFrame(index=[f"gene{j}" for j in range(7)])
    found = anndata.AnnData(counts, obs=obs, var=genes)
    found.obsm["X_pca"] = rng.normal(size=(48, 3))
    found.obsm["scores"] = pd.DataFrame(
        {"s1": rng.normal(size=48), "s2": 1.0}, index=obs.index
    )
    found.layers["counts"] = counts.tocsc()
    found.layers["dense"] = counts.toarray()
    return found


@pytest.fixture
def path(adata, tmp_path):
    file = tmp_path / "cells.h5ad"
    del adata.obsm["scores"]  # a table, which files are not read from
    adata.write_h5ad(file)
    return file


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


@pytest.mark.parametrize("features", MATRICES)
def test_an_object_becomes_bags(adata, features):
    X, y = bagwise.from_frame(adata, features=features, **ROLES)
    place, _, key = (features or "X").partition(":")
    truth = dense(adata.X if place == "X" else getattr(adata, place)[key])
    assert X.ids.tolist() == adata.obs["donor"].unique().tolist()
    assert X.groups.tolist() == X.ids.tolist()
    for i, donor in enumerate(X.ids):
        rows = np.flatnonzero(adata.obs["donor"] == donor)
        np.testing.assert_array_equal(dense(X[i]), truth[rows])
        assert X[[i]].instance_ids.tolist() == adata.obs_names[rows].tolist()
        assert y[i] == ("ill" if donor > "d3" else "well")
    first = {"obsm:X_pca": "X_pca_0", "obsm:scores": "scores_s1"}
    assert X.feature_names[0] == first.get(features, "gene0")
    assert X.is_sparse == (features in (None, "X", "layers:counts"))


@pytest.mark.parametrize("features", [m for m in MATRICES if m != "obsm:scores"])
def test_a_file_gives_the_same_bags(adata, path, features):
    more = {"features": features, "instance_type": "cell_type", "weight": "weight"}
    X, y, weight = bagwise.read_bags(path, **ROLES, **more)
    same, labels, weights = bagwise.from_frame(adata, **ROLES, **more)
    np.testing.assert_array_equal(dense(X.data), dense(same.data))
    for part in ("ids", "groups", "instance_ids", "instance_types", "feature_names"):
        assert getattr(X, part).tolist() == getattr(same, part).tolist()
    assert y.tolist() == labels.tolist()
    assert weight.tolist() == weights.tolist()
    assert X.is_sparse == same.is_sparse
    backed = anndata.read_h5ad(path, backed="r")
    again, _ = bagwise.from_frame(backed, features=features, **ROLES)
    np.testing.assert_array_equal(dense(again.data), dense(X.data))
    backed.file.close()


def test_only_what_was_asked_for_is_read(path):
    with h5py.File(path, "a") as file:  # nothing else needs to be valid
        del file["uns"], file["varm"]
        file["obs/age"] = h5py.ExternalLink("/etc/passwd", "/")
        file["obsm/X_umap"] = h5py.ExternalLink("/etc/passwd", "/")
    X, _ = bagwise.read_bags(path, features="obsm:X_pca", **ROLES)
    assert X.n_features == 3


def test_what_is_wrong_is_said(path, tmp_path):
    read = bagwise.read_bags
    with pytest.raises(DataError, match="donor of each cell is not given; obs has"):
        read(path)
    with pytest.raises(UnknownColumnError, match=r"'patient' \(the bag\) in obs"):
        read(path, bag="patient", label="disease")
    with pytest.raises(ValueError, match="obsm:X_umap.*obsm: X_pca; layers: counts"):
        read(path, features="obsm:X_umap", **ROLES)
    with pytest.raises(ValueError, match="'X', 'obsm:NAME' or 'layers:NAME'"):
        read(path, features=["gene0", "gene1"], **ROLES)
    with pytest.raises(DataError, match="cell 'cell.*a bag has one label"):
        read(path, bag="donor", label="cell_type")
    with pytest.raises(ValueError, match="drop is for csv"):
        read(path, drop=["batch"], **ROLES)
    (tmp_path / "no.h5ad").write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError, match="no.h5ad: not a readable h5ad file"):
        read(tmp_path / "no.h5ad", **ROLES)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent.h5ad", **ROLES)


def test_cells_without_a_donor_or_label_are_listed_together(adata, tmp_path):
    adata.obs.loc[["cell0", "cell7"], "donor"] = np.nan
    adata.obs.loc["cell9", "disease"] = np.nan
    del adata.obsm["scores"]
    adata.write_h5ad(tmp_path / "gaps.h5ad")
    with pytest.raises(DataError) as caught:
        bagwise.read_bags(tmp_path / "gaps.h5ad", **ROLES)
    assert "no 'donor' for the cell (2): 'cell0', 'cell7'" in str(caught.value)
    assert "no 'disease' for the cell (1): 'cell9'" in str(caught.value)
    assert caught.value.settings == (("on_missing", "drop"),)
    with pytest.warns(DataWarning, match="left out"):
        X, _ = bagwise.read_bags(tmp_path / "gaps.h5ad", on_missing="drop", **ROLES)
    assert {*adata.obs_names} - {*X.instance_ids} == {"cell0", "cell7", "cell9"}
    row = adata.obs_names.get_loc(X.instance_ids[0])
    np.testing.assert_array_equal(dense(X.data)[0], dense(adata.X)[row])


def test_missing_and_infinite_values(adata, tmp_path):
    del adata.obsm["scores"]
    for name, value in (("nan", np.nan), ("inf", np.inf)):
        adata.obsm["X_pca"][3, 1] = value
        adata.write_h5ad(tmp_path / f"{name}.h5ad")
    with pytest.raises(DataError, match="missing values"):
        bagwise.read_bags(tmp_path / "nan.h5ad", features="obsm:X_pca", **ROLES)
    X, _ = bagwise.read_bags(
        tmp_path / "nan.h5ad", features="obsm:X_pca", missing="keep", **ROLES
    )
    assert np.isnan(X.data).sum() == 1
    with pytest.raises(DataError, match="infinity"):
        bagwise.read_bags(tmp_path / "inf.h5ad", features="obsm:X_pca", **ROLES)


def external(file, other):
    del file["X/data"]
    file["X/data"] = h5py.ExternalLink(other, "/features")


def soft(file, other):
    del file["obs/donor"]
    file["obs/donor"] = h5py.SoftLink("/obs/disease")


def virtual(file, other):
    layout = h5py.VirtualLayout(shape=file["X/data"].shape, dtype="f4")
    layout[:] = h5py.VirtualSource(other, "features", shape=layout.shape)
    del file["X/data"]
    file.create_virtual_dataset("X/data", layout)


def outside(file, other):
    file["X/indices"][3] = 2**30


def falling(file, other):
    file["X/indptr"][4] = 2**30


def wide(file, other):
    file["X"].attrs["shape"] = np.array([48, 2**40])


def short(file, other):
    del file["obs/weight"]
    file["obs/weight"] = np.ones(3)


def codes(file, other):
    file["obs/donor/codes"][0] = 100


def bomb(file, other):
    del file["X"]
    file.create_dataset("X", (2**20, 2**20), "f4", chunks=(1024, 1024))


def deep(file, other):
    file["X/loop"] = file["X"]


def words(file, other):
    del file["obsm/X_pca"]
    file["obsm/X_pca"] = np.array([["a"] * 3] * 48, dtype="S1")


def old(file, other):
    del file["obs"]
    file["obs"] = np.zeros(48, dtype=[("index", "S8"), ("donor", "i4")])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (external, "link to another place"),
        (soft, "link to another place"),
        (virtual, "stored in another file"),
        (outside, "cells.h5ad"),
        (falling, "cells.h5ad"),
        (wide, "has the shape"),
        (short, "3 of 48"),
        (codes, "cells.h5ad"),
        (bomb, "declare"),
        (deep, "neither a column nor a matrix"),
        (words, "not numbers"),
        (old, "old version of anndata"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_hostile_files_are_refused(path, tmp_path, change, message):
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["features"] = np.ones(500, "f4")
    with h5py.File(path, "a") as file:
        change(file, str(other))
    features = "obsm:X_pca" if change is words else "X"
    with pytest.raises(DataError, match=message) as caught:
        bagwise.read_bags(path, features=features, weight="weight", **ROLES)
    assert str(path) in str(caught.value)


def test_scores_are_those_of_the_cells(adata):
    X, y = bagwise.from_frame(adata, features="obsm:X_pca", **ROLES)
    model = MILogisticRegression().fit(X, y == "ill")
    adata.obs.loc["cell5", "donor"] = np.nan
    found = write_scores(model, adata, bag="donor", features="obsm:X_pca", key="mil")
    scores = adata.obs["mil_score"].to_numpy()
    for i, row in enumerate(adata.obsm["X_pca"]):
        alone = instance_scores(model, [row[None]]).values[0]
        assert np.isnan(scores[i]) if i == 5 else scores[i] == pytest.approx(alone)
    best = adata.obs.query("mil_rank == 1").set_index("donor")["mil_score"]
    most = adata.obs.groupby("donor", observed=True)["mil_score"].max()
    assert best.sort_index().tolist() == most.tolist()
    told = adata.obs.dropna().groupby("donor", observed=True)["mil_predicted"].first()
    assert told.to_dict() == dict(zip(found.X.ids, found.labels, strict=True))
    with pytest.raises(UnknownColumnError, match="'patient'"):
        write_scores(model, adata, bag="patient", features="obsm:X_pca")


def test_types_of_cells_are_summarized(adata):
    X, y = bagwise.from_frame(adata, instance_type="cell_type", **ROLES)
    scores = np.random.default_rng(1).normal(size=X.n_instances)
    positive = y == "ill"
    rows = {row["type"]: row for row in type_table(X, scores, positive)}
    assert set(rows) == {"B", "NK", "T"}
    own = [X[[i]].instance_types for i in range(len(X))]
    key = [own[i][np.argmax(scores[slice(*X.offsets[i : i + 2])])] for i in range(8)]
    percentile = 100 * (scores.argsort().argsort() + 0.5) / len(scores)
    for name, row in rows.items():
        shares = np.array([(types == name).mean() for types in own])
        assert row["share"] == pytest.approx(shares.mean())
        assert row["positive"] == pytest.approx(shares[positive].mean())
        assert row["negative"] == pytest.approx(shares[~positive].mean())
        assert row["top"] == pytest.approx(np.mean([k == name for k in key]))
        here = X.instance_types == name
        assert row["percentile"] == pytest.approx(percentile[here].mean())
        assert row["count"] == here.sum()


def test_explanations_and_tables_keep_types(adata, tmp_path):
    X, y = bagwise.from_frame(
        adata, features="obsm:X_pca", instance_type="cell_type", **ROLES
    )
    found = explain(MILogisticRegression().fit(X, y == "ill"), X)
    assert found.columns()["type"] == X.instance_types.tolist()
    again, _ = bagwise.from_frame(
        bagwise.to_frame(X, y), "bag", "label", group="group",
        instance_id="instance_id", instance_type="instance_type",
    )  # fmt: skip
    assert again.instance_types.tolist() == X.instance_types.tolist()
    both = bagwise.Bags.concatenate([X[:2], X[2:]])
    assert both.instance_types.tolist() == X.instance_types.tolist()
    bagwise.io.write_npz(tmp_path / "cells.npz", X, y)
    stored, _ = bagwise.read_bags(tmp_path / "cells.npz")
    assert stored.instance_types.tolist() == X.instance_types.tolist()


def test_the_report_shows_types_and_names(adata):
    X, y = bagwise.from_frame(
        adata, features="obsm:X_pca", instance_type="cell_type", **ROLES
    )
    result = bagwise.compare(
        X,
        y,
        methods=["MILR"],
        grid="none",
        protocol=CrossValidation(3),
        pos_label="ill",
        n_jobs=1,
        progress=False,
    )
    context = report_context(result)
    assert {row["type"] for row in context["types"][0]["rows"]} == {"B", "NK", "T"}
    names = context["data"]["browser"]["names"]
    pairs = zip(X.instance_ids, X.instance_types, strict=True)
    assert set(names) <= {f"{cell} · {kind}" for cell, kind in pairs}
    assert "Types of instances" in render_report(context)
