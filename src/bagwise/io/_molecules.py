"""Molecules: SMILES or SDF to bags of conformers, with RDKit.

The features of a conformer are descriptors of its 3-D shape. The 2-D fingerprint of
each molecule is kept as well (`Bags.bag_rows`), for the baseline that does without
conformers.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import cpu_count

from bagwise.bags import Bags
from bagwise.exceptions import (
    DataError,
    DataWarning,
    ParameterError,
    UnknownColumnError,
)
from bagwise.io.files import MISSING_WORDS, numbered_lines, read_text
from bagwise.io.folder import (
    Annotations,
    bag_annotations,
    label_table,
    match_rows,
    name_of,
)
from bagwise.io.problems import Problems, check_on_missing
from bagwise.io.roles import Roles
from bagwise.io.table import Column, Table

_TITLE = "_Name"  # as RDKit calls the first line of a record
_N_CONFORMERS, _MOST_CONFORMERS = 10, 1_000
# Limits for small molecules, which can be embedded in reasonable time.
_LARGEST, _LONGEST = 200, 2_000
_SEED, _TIMEOUT = 7, 60
_N_BITS, _RADIUS = 1024, 2
# With fewer scaffolds, no folds can keep them together.
_FEWEST_SCAFFOLDS = 5
_SHAPES = (
    *("RadiusOfGyration", "Asphericity", "Eccentricity", "InertialShapeFactor"),
    *("NPR1", "NPR2", "PMI1", "PMI2", "PMI3", "SpherocityIndex", "PBF"),
)
_ATOMS = ("all", "hydrophobic", "aromatic", "acceptor", "donor")
_PLACES = ("center", "nearest", "farthest", "opposite")
_MOMENTS = ("mean", "spread", "skewness")
FEATURES = (
    *_SHAPES,
    *(f"{a} {p} {m}" for a in _ATOMS for p in _PLACES for m in _MOMENTS),
)


@dataclass
class _Molecule:
    """The records of one molecule.

    Parameters
    ----------
    found : list of Mol
        One per record; all but the first are further conformers.
    text : str
        How the molecule is written, for messages.
    """

    found: list[Any]
    text: str


def read_molecules(
    path: Path,
    kind: str,
    roles: Roles,
    *,
    labels: Any = None,
    smiles: str | None = None,
    conformers: int | None = None,
    on_missing: str = "error",
) -> tuple[Bags, Any, Any]:
    """Read molecules from a file; see `read_bags`."""
    check_on_missing(on_missing)
    try:
        from rdkit import rdBase
    except ImportError as error:
        text = "molecules need RDKit: pip install 'bagwise[chem]'"
        raise ImportError(f"{path}: {text}") from error
    if conformers is not None and not (
        isinstance(conformers, int) and 1 <= conformers <= _MOST_CONFORMERS
    ):
        told = f"must be from 1 to {_MOST_CONFORMERS:,}, got {conformers!r}"
        raise ParameterError("conformers", told)
    problems = Problems(str(path))
    with rdBase.BlockLogs():
        molecules, table, roles = _records(path, kind, roles, smiles, problems)
        if labels is not None:
            table, _ = label_table(labels, roles, None)
        elif table is None and (roles.targets or roles.group or roles.weight):
            raise DataError(
                f"{path}: labels are in a separate table with one row per molecule",
                "Give it with {0}.",
                ("labels", ...),
            )
        elif table is not None:
            roles.check_names(table.names, str(path))
        rows = match_rows(
            dict.fromkeys(molecules, path),
            table,
            roles,
            None,
            problems,
            ("molecule", "record"),
        )
        kept = {name: molecules[name] for name in rows if molecules[name].found}
        generated = _shapes_to_make(kept, conformers, problems)
        blocks, about = {}, {}
        for name, molecule in kept.items():
            found = _described(name, molecule, generated, problems)
            if found is not None:
                blocks[name], about[name] = found
    problems.report(on_missing)
    if not blocks:
        raise DataError(f"{path}: no molecule is left")
    return _assemble(blocks, about, table, rows, roles)


def _assemble(
    blocks: dict[str, npt.NDArray[Any]],
    about: dict[str, Any],
    table: Table | None,
    rows: dict[str, int],
    roles: Roles,
) -> tuple[Bags, Any, Any]:
    names = np.array(list(blocks), dtype=object)
    said = Annotations(None, None, None)
    if table is not None:
        first, order = np.arange(len(names)), [rows[name] for name in names]
        said = bag_annotations(table, order, roles, first, names, names)
    groups = said.groups
    if roles.group is None:
        groups = _scaffold_groups([scaffold for scaffold, _ in about.values()])
    sizes = [len(block) for block in blocks.values()]
    X = Bags(
        np.concatenate(list(blocks.values())),
        np.concatenate([[0], np.cumsum(sizes)]),
        ids=names,
        feature_names=np.array(FEATURES, dtype=object),
        groups=groups,
        instance_ids=np.array(
            [
                f"{n}_{k}"
                for n, size in zip(names, sizes, strict=True)
                for k in range(size)
            ],
            dtype=object,
        ),
        bag_rows=np.stack([bits for _, bits in about.values()]),
    )
    return X, said.y, said.weight


def _scaffold_groups(scaffolds: list[str]) -> npt.NDArray[Any] | None:
    """Return the scaffolds as groups, if there are enough for folds."""
    different = len(set(scaffolds))
    if different >= min(_FEWEST_SCAFFOLDS, len(scaffolds)):
        return np.array(scaffolds, dtype=object)
    text = f"there are only {different} Bemis-Murcko scaffolds, so that molecules are "
    text += "not grouped by them: similar ones may be split across folds"
    warnings.warn(DataWarning(text), stacklevel=6)
    return None


# ------------------------------------------------------------------------- records


def _records(
    path: Path, kind: str, roles: Roles, smiles: str | None, problems: Problems
) -> tuple[dict[str, _Molecule], Table | None, Roles]:
    """Return the molecules by name, what the file says of them, and the roles."""
    if kind == "sdf":
        return _of_sdf(path, roles, problems)
    if kind == "smiles":
        return _of_table(path, roles, str(smiles), problems)
    lines = [line for _, line in numbered_lines(read_text(path))]
    found: dict[str, _Molecule] = {}
    for place, line in enumerate(lines):
        text, _, name = line.partition("\t") if "\t" in line else line.partition(" ")
        if text.startswith("#") or (place == 0 and text.lower() == "smiles"):
            continue
        name = name.strip() or text
        if name in found:
            problems.add("two records of one molecule", repr(name))
            continue
        found[name] = _Molecule(_parsed(name, text, problems), text)
    if not found:
        raise DataError(f"{path}: there is no molecule in it")
    return found, None, roles


def _of_table(
    path: Path, roles: Roles, smiles: str, problems: Problems
) -> tuple[dict[str, _Molecule], Table, Roles]:
    """Read a table with one row per molecule; without names, SMILES are the names."""
    roles = replace(roles, bag=smiles if roles.bag is None else roles.bag)
    table, _ = label_table(path, roles, None, more=(smiles,))
    if smiles not in table.names:
        shown = ", ".join(map(repr, list(table.names)[:20]))
        raise UnknownColumnError(
            f"{path}: there is no column {smiles!r} of SMILES; the table has {shown}",
            columns=[smiles],
        )
    names = [name_of(v) for v in table.column(roles.bag).values.tolist()]
    texts = [name_of(v) for v in table.column(smiles).values.tolist()]
    found: dict[str, _Molecule] = {}
    for row, (name, text) in enumerate(zip(names, texts, strict=True)):
        if not name:
            problems.add("without a name", table.where(row))
        elif name not in found:  # (two rows of one molecule are reported later)
            found[name] = _Molecule(_parsed(name, text, problems), text)
    return found, table, roles


def _parsed(name: str, text: str, problems: Problems) -> list[Any]:
    """Return the molecule of a SMILES, or note why there is none."""
    from rdkit import Chem

    if not text or text in MISSING_WORDS:
        problems.add("without a SMILES", repr(name))
        return []
    molecule = Chem.MolFromSmiles(text) if len(text) <= _LONGEST else None
    if molecule is None:
        shown = "" if text == name else f" ({text[:60]!r})"
        problems.add("SMILES that cannot be parsed", f"{name!r}{shown}")
        return []
    return [molecule]


def _of_sdf(
    path: Path, roles: Roles, problems: Problems
) -> tuple[dict[str, _Molecule], Table, Roles]:
    """Read records of one name as conformers, and their properties as a table."""
    from rdkit import Chem

    text = read_text(path)
    supplier = Chem.SDMolSupplier()
    supplier.SetData(text, removeHs=False)
    molecules: dict[str, _Molecule] = {}
    properties: dict[str, dict[str, str]] = {}
    unnamed = []
    own = [*roles.targets.values(), roles.group, roles.weight]
    for i, record in enumerate(supplier):
        title = supplier.GetItemText(i).split("\n", 1)[0].strip()
        said = {_TITLE: title} if record is None else _properties(record, title)
        name = said.get(str(roles.bag), "") or title
        if not name:
            unnamed.append(f"record {i + 1}")
            continue
        if record is None:
            problems.add("cannot be read", f"{name!r} in record {i + 1}")
            molecules.setdefault(name, _Molecule([], name))
            continue
        molecule = molecules.setdefault(name, _Molecule([], name))
        if not molecule.found:
            properties[name] = said
            molecule.text = _flat(record)
        elif _flat(record) != molecule.text:
            problems.add("another molecule of the same name", f"{name!r}, {i + 1}")
            continue
        differs = [p for p in own if p and said.get(p) != properties[name].get(p)]
        if differs:
            told = f"{differs[0]} of {name!r} in record {i + 1}"
            problems.add("conformers with different properties", told)
        molecule.found.append(record)
    known = list(dict.fromkeys(p for said in properties.values() for p in said))
    if unnamed and not molecules:
        raise DataError(
            f"{path}: no record has a title; the properties are "
            f"{', '.join(map(repr, known[1:20])) or 'none'}",
            "Name the property with the ids of the molecules with {0}.",
            ("bag", ...),
        )
    for place in unnamed:
        problems.add("without a name", place)
    if not molecules:
        raise DataError(f"{path}: there is no molecule in it")
    bag = roles.bag if roles.bag in known else _TITLE
    table = _table_of(path, list(molecules), properties, known, bag)
    if roles.bag is None:
        roles = replace(roles, bag=bag)
    return molecules, table, roles


def _properties(record: Any, title: str) -> dict[str, str]:
    found = {name: record.GetProp(name) for name in record.GetPropNames()}
    return {_TITLE: title, **found}


def _table_of(
    path: Path,
    names: list[str],
    properties: dict[str, dict[str, str]],
    known: list[str],
    bag: str,
) -> Table:
    """Return the properties of molecules as a table of texts."""

    def column(name: str) -> Column:
        values = np.empty(len(names), dtype=object)
        if name == bag:
            values[:] = names
        else:
            values[:] = [properties.get(n, {}).get(name, "").strip() for n in names]
        return Column("text", values, "text")

    return Table(
        names=known,
        n_rows=len(names),
        column=column,
        where=lambda row: f"molecule {names[row]!r}",
        source=str(path),
        from_text=True,
    )


def _flat(molecule: Any) -> str:
    """Return the SMILES of a molecule without hydrogens and stereochemistry."""
    from rdkit import Chem

    return str(Chem.MolToSmiles(Chem.RemoveHs(molecule), isomericSmiles=False))


# ---------------------------------------------------------------------- conformers


def _shapes_to_make(
    molecules: dict[str, _Molecule], conformers: int | None, problems: Problems
) -> int | None:
    """Return how many conformers to generate; None if those of the file are used."""
    if conformers is not None:
        return conformers
    flat = [n for n, m in molecules.items() if not all(map(_has_shape, m.found))]
    if len(flat) == len(molecules):
        return _N_CONFORMERS
    for name in flat:
        problems.add("without 3-D coordinates, which others have", repr(name))
        molecules[name].found.clear()
    return None


def _has_shape(molecule: Any) -> bool:
    return bool(molecule.GetNumConformers() and molecule.GetConformer().Is3D())


def _described(
    name: str, molecule: _Molecule, generated: int | None, problems: Problems
) -> tuple[npt.NDArray[Any], Any] | None:
    """Return a row per conformer, and scaffold and fingerprint; None for a failure."""
    if not molecule.found:
        return None
    shapes = [_largest_fragment(one) for one in molecule.found]
    size = shapes[0].GetNumHeavyAtoms()
    if not 3 <= size <= _LARGEST:
        told = f"{name!r} has {size} heavy atoms, not 3 to {_LARGEST}"
        problems.add("cannot be described", told)
        return None
    if generated is not None:
        shapes = [_embedded(shapes[0], generated)]
        if not shapes[0].GetNumConformers():
            problems.add("no conformer can be generated", f"{name!r}")
            return None
    rows = np.array([row for shape in shapes for row in _rows(shape)])
    if not np.isfinite(rows).all():
        problems.add("descriptors are not finite", repr(name))
        return None
    return rows, (_scaffold(shapes[0]), _fingerprint(shapes[0]))


def _largest_fragment(molecule: Any) -> Any:
    """Return the molecule without the ions of a salt."""
    from rdkit import Chem

    parts = Chem.GetMolFrags(molecule, asMols=True)
    return max(parts, key=lambda part: part.GetNumHeavyAtoms(), default=molecule)


def _embedded(molecule: Any, n_conformers: int) -> Any:
    """Return the molecule with conformers by ETKDG, the same in every run."""
    from rdkit import Chem
    from rdkit.Chem import rdDistGeom

    molecule = Chem.AddHs(molecule)
    molecule.RemoveAllConformers()
    options: Any = rdDistGeom.ETKDGv3()
    options.randomSeed = _SEED
    options.numThreads = cpu_count()
    if hasattr(options, "timeout"):
        options.timeout = _TIMEOUT
    for random_start in (False, True):
        options.useRandomCoords = random_start
        if len(rdDistGeom.EmbedMultipleConfs(molecule, n_conformers, options)):
            break
    return Chem.RemoveHs(molecule)


def _rows(molecule: Any) -> list[list[float]]:
    """Return the descriptors of every conformer, without hydrogens."""
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors

    molecule = Chem.RemoveHs(molecule)
    shapes = [getattr(rdMolDescriptors, f"Calc{name}") for name in _SHAPES]
    found = []
    for conformer in molecule.GetConformers():
        place = conformer.GetId()
        own = [function(molecule, confId=place) for function in shapes]
        found.append([*own, *rdMolDescriptors.GetUSRCAT(molecule, confId=place)])
    return found


def _scaffold(molecule: Any) -> str:
    """Return the Bemis-Murcko scaffold; molecules without rings are their own."""
    from rdkit import Chem
    from rdkit.Chem.Scaffolds import MurckoScaffold

    found = MurckoScaffold.MurckoScaffoldSmiles(mol=Chem.RemoveHs(molecule))
    return found or _flat(molecule)


def _fingerprint(molecule: Any) -> npt.NDArray[np.uint8]:
    """Return the Morgan fingerprint of the 2-D structure."""
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    make = rdFingerprintGenerator.GetMorganGenerator(radius=_RADIUS, fpSize=_N_BITS)
    return np.asarray(make.GetFingerprintAsNumPy(Chem.RemoveHs(molecule)), np.uint8)
