"""Molecules: SMILES and SDF to conformers, scaffolds, fingerprints, and refusals."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import bagwise
from bagwise import Bags
from bagwise.comparison import CrossValidation, compare
from bagwise.comparison.choose import choose_methods
from bagwise.comparison.problem import as_problem
from bagwise.compose import SimpleMI, SimpleMIRegressor
from bagwise.exceptions import DataError, DataWarning, UnknownColumnError

Chem = pytest.importorskip("rdkit.Chem")
AllChem = pytest.importorskip("rdkit.Chem.AllChem")

RINGS = {
    "phenol": "Oc1ccccc1",
    "pyridine": "c1ccncc1",
    "naphthalene": "c1ccc2ccccc2c1",
    "cyclohexanol": "OC1CCCCC1",
    "indole": "c1ccc2[nH]ccc2c1",
    "toluene": "Cc1ccccc1",
}
CHAINS = {"butanol": "CCCCO", "octane": "CCCCCCCC"}


def table(folder, molecules, labels=None, name="m.csv"):
    labels = labels or {key: int(key in CHAINS) for key in molecules}
    rows = [f"{key},{text},{labels[key]}" for key, text in molecules.items()]
    path = folder / name
    path.write_text("\n".join(["name,smiles,active", *rows]) + "\n", encoding="utf-8")
    return path


def read(path, **options):
    options = {"conformers": 2, **options}
    return bagwise.read_bags(path, "name", "active", smiles="smiles", **options)


def sdf(folder, molecules, n_conformers=2, properties=True):
    """Write records with 3-D coordinates and return the path."""
    path = folder / "m.sdf"
    writer = Chem.SDWriter(str(path))
    for name, text in molecules.items():
        molecule = Chem.AddHs(Chem.MolFromSmiles(text))
        molecule.SetProp("_Name", name)
        if properties:
            molecule.SetProp("active", str(int(name in CHAINS)))
        places = AllChem.EmbedMultipleConfs(molecule, n_conformers, randomSeed=3)
        for place in places:
            writer.write(molecule, confId=place)
    writer.close()
    return path


def test_a_table_of_smiles(tmp_path):
    X, y = read(table(tmp_path, RINGS | CHAINS))
    assert X.ids.tolist() == [*RINGS, *CHAINS]
    assert X.sizes.tolist() == [2] * 8
    assert y.tolist() == [0] * 6 + [1] * 2
    assert X.instance_ids[:2].tolist() == ["phenol_0", "phenol_1"]
    groups = dict(zip(X.ids, X.groups, strict=True))
    assert groups["phenol"] == groups["toluene"] == "c1ccccc1"
    assert len({groups[name] for name in (*CHAINS, "indole", "pyridine")}) == 4
    again, _ = read(table(tmp_path, RINGS | CHAINS))
    np.testing.assert_array_equal(X.data, again.data)


def test_descriptors_of_given_conformers(tmp_path):
    """The radius of gyration and the mean distance from the center, by hand."""
    path = sdf(tmp_path, RINGS)
    X, y = bagwise.read_bags(path, label="active")
    assert y.tolist() == [0] * 6
    assert X.sizes.tolist() == [2] * 6
    names = X.feature_names.tolist()
    supplier = Chem.SDMolSupplier(str(path))  # (without hydrogens)
    for row, molecule in zip(X.data, supplier, strict=True):
        places = molecule.GetConformer().GetPositions()
        mass = np.array([atom.GetMass() for atom in molecule.GetAtoms()])
        center = mass @ places / mass.sum()
        square = mass @ ((places - center) ** 2).sum(axis=1) / mass.sum()
        assert row[names.index("RadiusOfGyration")] == pytest.approx(np.sqrt(square))
        far = np.linalg.norm(places - places.mean(axis=0), axis=1).mean()
        assert row[names.index("all center mean")] == pytest.approx(far, rel=1e-4)


def test_records_of_one_name_and_new_conformers(tmp_path):
    path = sdf(tmp_path, RINGS, n_conformers=3)
    assert bagwise.read_bags(path)[0].sizes.tolist() == [3] * 6
    assert bagwise.read_bags(path, conformers=1)[0].sizes.tolist() == [1] * 6


def test_fingerprints_are_those_of_the_molecules(tmp_path):
    X, _ = read(table(tmp_path, RINGS))
    make = pytest.importorskip("rdkit.Chem.rdFingerprintGenerator")
    morgan = make.GetMorganGenerator(radius=2, fpSize=1024)
    known = [morgan.GetFingerprint(Chem.MolFromSmiles(t)) for t in RINGS.values()]
    np.testing.assert_array_equal(X.bag_rows, np.array([list(bits) for bits in known]))


def test_smiles_without_a_table(tmp_path):
    lines = ["smiles name", *(f"{text} {name}" for name, text in RINGS.items())]
    path = tmp_path / "m.smi"
    path.write_text("\n".join([*lines, "CCCO"]) + "\n", encoding="utf-8")
    X, y = bagwise.read_bags(path, conformers=1)
    assert X.ids.tolist() == [*RINGS, "CCCO"]
    assert y is None
    with pytest.raises(DataError, match="separate table"):
        bagwise.read_bags(path, label="active")
    labels = table(tmp_path, RINGS)
    with pytest.raises(DataError, match=r"no label for the record of \(1\): 'CCCO'"):
        bagwise.read_bags(path, "name", "active", labels=labels, conformers=1)
    with pytest.warns(DataWarning, match="CCCO"):
        X, y = bagwise.read_bags(
            path, "name", "active", labels=labels, conformers=1, on_missing="drop"
        )
    assert X.ids.tolist() == [*RINGS]
    assert y.tolist() == [0] * 6


def test_all_failures_in_one_message(tmp_path):
    wrong = {"typo": "c1ccccc", "none": "", "small": "O", "fluorine": "C1CC"}
    path = table(tmp_path, RINGS | wrong)
    with pytest.raises(DataError) as caught:
        read(path)
    message = str(caught.value)
    for name in wrong:
        assert repr(name) in message
    assert "on_missing" in message
    with pytest.warns(DataWarning, match="left out"):
        X, y = read(path, on_missing="drop")
    assert X.ids.tolist() == [*RINGS]
    assert len(y) == len(RINGS)


def test_wrong_columns_and_records(tmp_path):
    path = table(tmp_path, RINGS)
    with pytest.raises(UnknownColumnError, match="'smi' of SMILES"):
        bagwise.read_bags(path, "name", "active", smiles="smi")
    path = sdf(tmp_path, {"": "Oc1ccccc1"})
    with pytest.raises(DataError, match="no record has a title"):
        bagwise.read_bags(path)
    path = sdf(tmp_path, RINGS)
    for wrong in ({"label": "potency"}, {"bag": "Id"}):
        with pytest.raises(UnknownColumnError, match="the table has '_Name'"):
            bagwise.read_bags(path, **wrong)
    one, other = (sdf(tmp_path, {"x": t}).read_text() for t in ("CCCC", "CCCN"))
    path.write_text(one + other, encoding="utf-8")
    with pytest.raises(DataError, match="another molecule of the same name"):
        bagwise.read_bags(path)
    flat = Chem.MolToMolBlock(Chem.MolFromSmiles("CCCS")).replace("\n", "flat\n", 1)
    path.write_text(one + flat + "$$$$\nbroken\n\n\nxx\n$$$$\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        bagwise.read_bags(path)
    assert "without 3-D coordinates, which others have (1): 'flat'" in str(caught.value)
    assert "cannot be read (1): 'broken' in record 4" in str(caught.value)


def test_few_scaffolds_are_no_groups(tmp_path):
    names = [f"x{k}" for k in range(6)]
    path = table(tmp_path, {n: "C" * k + "c1ccccc1" for k, n in enumerate(names)})
    with pytest.warns(DataWarning, match="only 1 Bemis-Murcko"):
        X, _ = read(path, conformers=1)
    assert X.groups is None


def test_salts_are_described_by_their_largest_part(tmp_path):
    X, _ = read(table(tmp_path, {"salt": "Oc1ccccc1.[Na+].[Cl-]"}))
    same, _ = read(table(tmp_path, {"acid": "Oc1ccccc1"}))
    np.testing.assert_array_equal(X.data, same.data)


def test_models_of_bag_rows():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (30, 8)).astype(np.uint8)
    y = rows[:, 0].astype(int)
    X = Bags.from_list([rng.normal(size=(3, 2)) for _ in range(30)])
    X = Bags(X.data, X.offsets, bag_rows=rows)
    model = SimpleMI(LogisticRegression(), pooling="bag_rows").fit(X[:20], y[:20])
    plain = LogisticRegression().fit(rows[:20], y[:20])
    np.testing.assert_allclose(
        model.decision_function(X[20:]), plain.decision_function(rows[20:])
    )
    assert not hasattr(model, "instance_scores")
    part = Bags.concatenate([X[5:7], X[[1]]]).with_data(np.ones((9, 1)))
    np.testing.assert_array_equal(part.bag_rows, rows[[5, 6, 1]])
    with pytest.raises(ValueError, match="needs bags with one row each"):
        model.predict(Bags(X.data, X.offsets))
    with pytest.raises(ValueError, match="one row of numbers for each of the 30"):
        Bags(X.data, X.offsets, bag_rows=rows[:3])
    value = SimpleMIRegressor(pooling="bag_rows").fit(X, y)
    assert value.score(X, y) > 0.9


def test_the_comparison_has_a_row_of_fingerprints(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (40, 16)).astype(np.uint8)
    X = Bags(rng.normal(size=(80, 3)), np.arange(0, 81, 2), bag_rows=rows)
    y = rows[:, 0].astype(int)
    name = "2-D fingerprint + logistic"
    assert choose_methods(as_problem(X, y))[0].method.name == name
    plain = as_problem(Bags(X.data, X.offsets), y)
    assert name not in [choice.method.name for choice in choose_methods(plain)]
    found = compare(
        *(X, y),
        methods=[name, "Mean + logistic"],
        protocol=CrossValidation(2),
        n_jobs=1,
        progress=False,
        out=tmp_path / "out",
    )
    assert not found.failures
    assert found.ranking[0].method == name
