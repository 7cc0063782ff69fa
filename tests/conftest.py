"""Fixtures that several test files share."""

import os
from pathlib import Path

import hypothesis
import matplotlib
import pytest

matplotlib.use("Agg")

# The same examples every time; `HYPOTHESIS_PROFILE=explore` looks for new ones.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


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
