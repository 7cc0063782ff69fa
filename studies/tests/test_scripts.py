"""Every study script can be imported, and explains its options."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
NAMES = sorted(path.stem for path in SCRIPTS.glob("[!_]*.py"))
IMPORT_ALL = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def test_all_scripts_can_be_imported():
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *NAMES],
        cwd=SCRIPTS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_decision_values_are_compared(tmp_path):
    """Equal recordings have no differences; a changed one does."""
    import numpy as np

    sys.path.insert(0, str(SCRIPTS))
    try:
        from decision_values import compare
    finally:
        sys.path.remove(str(SCRIPTS))
    values = {"a/one": np.array([1.0, 2.0]), "a/two": np.array([0.5])}
    before, after = tmp_path / "before.npz", tmp_path / "after.npz"
    np.savez(before, **values)
    np.savez(after, **values)
    assert compare(str(before), str(after)) == 0
    np.savez(after, **values | {"a/two": np.array([0.5 + 1e-8])})
    assert compare(str(before), str(after)) == 1
