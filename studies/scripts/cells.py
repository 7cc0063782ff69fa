"""Memory for 100,000 cells x 2,000 genes in an h5ad file, sparse.

A process writes a file of 100 donors with 1,000 cells each. A gene is expressed in 5%
of the cells on average, in each donor in another share (log-normal). In half of the
donors, 20 genes are expressed in a twentieth of the cells more. Other processes read
the file, and compare two methods by nested cross-validation. Peak memory is that of a
process and of all workers it starts, imports included.

    python studies/scripts/cells.py

writes ``studies/results/cells/README.md``.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from _memory import run_watched

RESULTS = Path(__file__).parents[1] / "results" / "cells"
N_DONORS, N_CELLS, N_GENES, DENSITY = 100, 1_000, 2_000, 0.05
MARKED_GENES, MARKED_SHARE, SPREAD = 20, 0.05, 0.5
METHODS = ["Mean + logistic", "Mean + L1 SVM"]


def simulate(path):
    """Write the file."""
    import anndata
    import numpy as np
    import pandas as pd
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    blocks = []
    for donor in range(N_DONORS):
        share = DENSITY * np.exp(SPREAD * rng.normal(size=N_GENES) - SPREAD**2 / 2)
        counts = (rng.random((N_CELLS, N_GENES)) < share).astype(np.float32)
        if donor % 2:
            rows = rng.choice(N_CELLS, int(MARKED_SHARE * N_CELLS), replace=False)
            counts[np.ix_(rows, np.arange(MARKED_GENES))] = 1.0
        blocks.append(sp.csr_matrix(counts))
    donors = np.repeat(np.arange(N_DONORS), N_CELLS)
    obs = pd.DataFrame(
        {
            "donor": [f"d{donor}" for donor in donors],
            "disease": np.where(donors % 2, "ill", "well"),
        },
        index=[f"c{k}" for k in range(len(donors))],
    )
    var = pd.DataFrame(index=[f"g{k}" for k in range(N_GENES)])
    found = anndata.AnnData(sp.vstack(blocks, format="csr"), obs=obs, var=var)
    found.write_h5ad(path)
    return {"cells": len(donors), "entries": int(found.X.nnz)}


def read(path):
    """Return bags and labels."""
    import bagwise

    return bagwise.read_bags(path, "donor", "disease", pos_label="ill")


def measure_reading(path):
    """Read the file."""
    X, _ = read(path)
    assert X.is_sparse
    return {"shape": [X.n_bags, X.n_instances, X.n_features]}


def measure_comparison(path):
    """Read the file and compare."""
    from bagwise import compare
    from bagwise.comparison import CrossValidation

    X, y = read(path)
    found = compare(
        X,
        y,
        methods=METHODS,
        protocol=CrossValidation(5),
        metric="auroc",
        n_jobs=1,
        progress=False,
    )
    assert not found.failures
    return {name: mean_auroc(found.runs(name)) for name in METHODS}


def mean_auroc(runs):
    return round(sum(run["auroc"] for run in runs) / len(runs), 3)


PARTS = {
    "simulate": simulate,
    "read": measure_reading,
    "compare": measure_comparison,
}


def run_part(name, path):
    """Run a part and print what it found, and its CPU seconds."""
    started = time.process_time()
    found = PARTS[name](path)
    print(json.dumps({"found": found, "seconds": time.process_time() - started}))


def row(name, part):
    return f"| {name} | {part['memory_gb']:.2f} | {part['seconds']:.0f} |"


def main():
    if sys.argv[1:]:
        run_part(*sys.argv[1:])
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "cells.h5ad")
        parts = {}
        for name in PARTS:
            written, peak = run_watched([sys.executable, __file__, name, path])
            parts[name] = json.loads(written.splitlines()[-1]) | {"memory_gb": peak}
            print(name, parts[name], flush=True)
        size = Path(path).stat().st_size / 1e9
    of = parts["simulate"]["found"]
    lines = [
        "# Memory for 100,000 cells",
        "",
        "`python studies/scripts/cells.py`, whose docstring describes the data:"
        f" {of['cells']:,} cells x {N_GENES:,} genes of {N_DONORS} donors,"
        f" {of['entries']:,} entries, {size:.2f} GB on disk.",
        "",
        "| step | peak memory (GB) | CPU seconds |",
        "|---|---|---|",
        *(row(name, parts[name]) for name in ("read", "compare")),
        "",
        "Compared by nested 5-fold cross-validation, one job; mean AUROC over folds: "
        + ", ".join(f"{k} {v:.3f}" for k, v in parts["compare"]["found"].items())
        + ".",
    ]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
