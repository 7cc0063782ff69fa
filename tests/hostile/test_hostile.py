"""Changed data files and model files: every one is read or refused, none does harm.

``make test-hostile`` runs this; the normal run leaves it out. Every kind of file is
changed in processes of its own, because what is looked for ends a process. A failure
names the seed and the number of the change.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SEED = os.environ.get("BAGWISE_HOSTILE_SEED", "0")
DATA = ["csv", "arff", "svmlight", "musk", "npz", "parquet"]
DATA += ["h5", "zarr", "pt", "npy", "npz folder"]
DATA += ["xlsx", "h5ad", "airr", "sdf", "smi"]
MODELS = ["BagClassifier", "MiFV", "SlicedWasserstein", "MISVM", "BagSVC", "MILES"]
MODELS += ["SAFE", "MILBoost", "forest", "boosted trees", "network", "BoxKernelSVC"]
MODELS += ["CitationKNN", "TwoLevelClassifier", "BagRegressor", "MILDE"]
MODELS += ["transformer", "encoded"]
NEEDS = {"parquet": "pyarrow", "zarr": "zarr", "pt": "torch", "network": "torch"}
NEEDS |= {"xlsx": "openpyxl", "h5ad": "anndata", "sdf": "rdkit", "smi": "rdkit"}
NEEDS |= {"transformer": "torch"}
# 34 kinds: 2,006 changes.
N_CHANGES = 59
MOST_ENDED = 5  # processes, after which a kind is given up
SECONDS = 900


@pytest.mark.parametrize("kind", [*DATA, *MODELS])
def test_no_change_does_harm(tmp_path, kind):
    for module in ("h5py", NEEDS.get(kind, "numpy")):  # `test_folders` needs h5py
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    problems, first, counts = [], 0, None
    while counts is None and len(problems) < MOST_ENDED:
        number, found, counts, ended = run(tmp_path, kind, first)
        problems += found + ended
        first = number + 1
    assert not problems, "\n\n".join(problems)
    assert sum(counts.values()) == N_CHANGES
    assert counts.get("refused", 0) > N_CHANGES // 10
    print(kind, json.dumps(counts, sort_keys=True))


def run(folder, kind, first):
    """Run one process; return its last change, problems, counts and how it ended."""
    command = [kind, str(folder), SEED, str(first), str(N_CHANGES)]
    settings = {
        "PYTHONPATH": os.pathsep.join(
            [str(HERE.parent / "io"), os.environ.get("PYTHONPATH", "")]
        ),
        "BAGWISE_CACHE": str(folder / "cache"),
        "BAGWISE_MEMORY": "1GB",  # less than the limit: refused before it is taken
    }
    process = subprocess.Popen(
        [sys.executable, str(HERE / "worker.py"), *command],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    number, problems, counts = first, [], None
    for line in out.splitlines():
        said = json.loads(line) if line.startswith("{") else {}
        number = said.get("number", number)
        counts = said.get("counts", counts)
        if "unexpected" in said:
            problems.append(f"{kind}, seed {SEED}, {number}: {said['unexpected']}")
    ended = []
    if counts is None:
        code = process.returncode
        ended = [f"{kind}, seed {SEED}, {number}: exit code {code}\n{err[-3000:]}"]
    return number, problems, counts, ended
