"""Memory for 100,000 cells x 2,000 genes in an h5ad file, sparse.

A process writes a file of 100 donors with 1,000 cells each, 5% of the counts not zero;
in half of the donors, 20 genes are expressed more often in a tenth of the cells. Other
processes read it, and compare two methods by nested cross-validation. Peak memory is
that of the process and of the largest worker it starts, imports included.

    python studies/scripts/cells.py

writes ``studies/results/cells/README.md``.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results" / "cells"
N_DONORS, N_CELLS, N_GENES, DENSITY = 100, 1_000, 2_000, 0.05
MARKED_GENES, MARKED_SHARE = 20, 0.1
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
        counts = sp.random(
            N_CELLS, N_GENES, DENSITY, format="lil", dtype=np.float32, random_state=rng
        )
        if donor % 2:
            rows = rng.choice(N_CELLS, int(MARKED_SHARE * N_CELLS), replace=False)
            counts[np.ix_(rows, np.arange(MARKED_GENES))] = 1.0
        blocks.append(counts.tocsr())
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
    """Run a part and print what it found, its CPU seconds and its peak memory."""
    started = time.process_time()
    found = PARTS[name](path)
    who = [resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN]
    peak = sum(resource.getrusage(each).ru_maxrss for each in who) * 1024 / 1e9
    seconds = time.process_time() - started
    print(json.dumps({"found": found, "memory_gb": peak, "seconds": seconds}))


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
            command = [sys.executable, __file__, name, path]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            parts[name] = json.loads(done.stdout.splitlines()[-1])
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
