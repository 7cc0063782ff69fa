"""Seconds for bags of conformers: 100 molecules with 10 conformers each.

The molecules are the first 100 of a list of compounds from screening that RDKit
contains (``Data/Pains/test_data/wehi_mols.csv``), which `read_bags` embeds and
describes with at most two processors.

    python studies/scripts/conformers.py

writes ``studies/results/conformers/README.md``.
"""

import csv
import os
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results" / "conformers"
N_MOLECULES, N_CONFORMERS, N_CORES = 100, 10, 2


def molecules():
    """Return the SMILES of the molecules."""
    from rdkit import RDConfig

    path = Path(RDConfig.RDDataDir) / "Pains" / "test_data" / "wehi_mols.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return [row[0] for row in islice(csv.reader(file), N_MOLECULES)]


def main():
    """Write the page."""
    from rdkit import Chem

    import bagwise

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:N_CORES])
    texts = molecules()
    atoms = [Chem.MolFromSmiles(text).GetNumHeavyAtoms() for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "molecules.csv"
        path.write_text("smiles\n" + "\n".join(texts) + "\n", encoding="utf-8")
        wall, cpu = time.perf_counter(), time.process_time()
        X, _ = bagwise.read_bags(path, smiles="smiles", conformers=N_CONFORMERS)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    lines = [
        "# Seconds for bags of conformers",
        "",
        "`python studies/scripts/conformers.py`, whose docstring describes the data.",
        "",
        f"{X.n_bags} molecules with {min(atoms)} to {max(atoms)} heavy atoms (median"
        f" {np.median(atoms):g}), {N_CONFORMERS} conformers each: {X.n_instances:,}"
        f" instances with {X.n_features} descriptors. {cpu:.1f} CPU seconds in total,"
        f" {wall:.1f} s elapsed on {N_CORES} cores that were shared with other work.",
    ]
    print("\n".join(lines))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
