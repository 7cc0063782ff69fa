"""The versions that pyproject.toml promises are those that are tried."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LISTED = {
    name.lower(): Version(version)
    for name, version in re.findall(
        r"^([\w-]+)==(\S+)$", (ROOT / ".ci" / "lowest.txt").read_text("utf-8"), re.M
    )
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Released first as what `make setup` installs: a smaller one has no small wheel.
UNTRIED = {"torch"}


def promised():
    extras = PROJECT["optional-dependencies"]
    users = ("solvers", "dask", "h5", "arrow", "survival")
    texts = [*PROJECT["dependencies"], *(r for name in users for r in extras[name])]
    for requirement in map(Requirement, texts):
        (bound,) = [s for s in requirement.specifier if s.operator == ">="]
        yield requirement.name.lower(), Version(bound.version)


def test_lowest_versions_are_the_ones_that_are_tried():
    wrong = {
        name: (str(LISTED.get(name)), str(bound))
        for name, bound in promised()
        if name not in UNTRIED and LISTED.get(name) != bound
    }
    assert not wrong, "listed in .ci/lowest.txt, promised by pyproject.toml"
