"""The versions that pyproject.toml promises are those that are tried."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

import bagwise

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
    users = ("dask", "h5", "arrow", "survival", "anndata", "chem", "excel")
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


def test_one_version_everywhere():
    cited = re.search(
        r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M
    )
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert cited.group(1) == newest.group(1) == bagwise.__version__


def test_pythons_that_are_promised_are_tried():
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    tried = re.search(
        r"^PYTHONS \?= (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M
    )
    assert tried.group(1).split() == [f"python{version}" for version in promised]
    assert PROJECT["requires-python"] == f">={promised[0]}"
