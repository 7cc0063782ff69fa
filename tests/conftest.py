"""Fixtures that several test files share."""

import os
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture(scope="session")
def benchmark():
    """Load a real benchmark set, or skip where its file is not at hand."""
    from bagwise.datasets import fetch

    folder = os.environ.get("BAGWISE_DATA")

    def load(name):
        if not folder or not (Path(folder) / f"{name}.npz").exists():
            pytest.skip(f"{name}.npz is not in the folder named by BAGWISE_DATA")
        return fetch(name)

    return load
