"""Every benchmark runs: its smallest case, once."""

import importlib
import inspect
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("bench_*.py"))  # none in an sdist
KINDS = ("time_", "peakmem_", "track_")
SLOW = {"track_compilation"}  # it compiles what it times


def first(cls):
    """Return the first combination of the parameters of a benchmark."""
    params = getattr(cls, "params", [])
    several = bool(params) and isinstance(params[0], list | tuple)
    return [axis[0] for axis in params] if several else list(params[:1])


def run(cls, name):
    """Run a benchmark as asv does; return what it found, None where it skips."""
    one, params = cls(), first(cls)
    try:
        one.setup(*params)
    except NotImplementedError:  # data or a package are not there
        return None
    try:
        return getattr(one, name)(*params)
    finally:
        getattr(one, "teardown", lambda *_: None)(*params)


@pytest.mark.parametrize("module", NAMES)
def test_smallest_cases(module):
    found = importlib.import_module(f"benchmarks.{module}")
    classes = [c for _, c in inspect.getmembers(found, inspect.isclass)]
    names = {
        getattr(cls, name): (cls, name)  # time_fit and peakmem_fit may be one function
        for cls in classes
        if cls.__module__ == found.__name__
        for name in dir(cls)
        if name.startswith(KINDS) and name not in SLOW
    }
    assert names
    for cls, name in names.values():
        value = run(cls, name)
        if name.startswith("track_"):
            assert value is None or value > 0, name
