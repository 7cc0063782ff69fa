"""The outputs in the guide are those of the code."""

import doctest
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "explaining.md"


def test_examples_of_the_guide():
    pytest.importorskip("mapie")
    found = doctest.testfile(str(GUIDE), module_relative=False)
    assert found.attempted > 20
    assert found.failed == 0
