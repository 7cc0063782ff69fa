"""What works without the packages that a light install leaves out."""

import subprocess
import sys

import pytest

# Nothing of the core but NumPy, SciPy, scikit-learn (with joblib and threadpoolctl),
# numba and narwhals; and no extra.
SETUP = """
import sys

LEFT_OUT = {
    "ot", "pooch", "typer", "click", "rich", "jinja2", "matplotlib", "pandas",
    "polars", "pyarrow", "dask", "distributed", "torch", "h5py", "zarr", "clarabel",
    "sksurv",
} - set(sys.argv[1:])
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: (
    None if name.partition(".")[0] in LEFT_OUT else find(name, *more)
)
import bagwise
from bagwise.datasets import make_bags

X, y = make_bags(12, n_features=2, random_state=0)
"""
ESTIMATORS = """
import bagwise.compose, bagwise.decomposition, bagwise.density, bagwise.embedding
import bagwise.ensemble, bagwise.inspection, bagwise.io, bagwise.least_squares
import bagwise.linear_model, bagwise.metrics, bagwise.neighbors, bagwise.rectangles
from bagwise.linear_model import MILogisticRegression
from bagwise.svm import BagSVC

for model in (BagSVC(), MILogisticRegression()):
    labels = model.fit(X, y).predict(X)
    bagwise.save(model, "model.bagwise")
    assert (bagwise.load("model.bagwise").predict(X) == labels).all()
BagSVC(kernel="emd").fit(X, y)
large = [[[k]] * (50 + k % 2) for k in range(12)]
try:
    BagSVC(kernel="emd", kernel_params={"max_instances": None}).fit(large, y)
except ImportError as error:
    assert "pip install POT" in str(error), error
else:
    raise AssertionError("POT is there")
"""
COMPARE = """
options = {"methods": ["SimpleMI"], "grid": "none", "n_jobs": 1, "progress": False}
result = bagwise.compare(X, y, **options)
"""
REPORT = """
from bagwise.report import write_report
write_report(result, "report.html")
"""
COMMAND = """
from bagwise.cli import main
main(["methods", "--json"])
"""


@pytest.mark.parametrize(
    ("code", "packages"),
    [
        (ESTIMATORS, []),
        (COMPARE, ["rich"]),
        (COMPARE + REPORT, ["rich", "jinja2"]),
        (COMMAND, ["typer", "click", "rich", "jinja2", "pooch"]),
    ],
    ids=["estimators", "compare", "report", "command"],
)
def test_a_light_install_is_enough(tmp_path, code, packages):
    done = subprocess.run(
        [sys.executable, "-c", SETUP + code, *packages],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
