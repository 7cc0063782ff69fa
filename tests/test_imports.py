"""The house as a picture: which room opens into which, read from the sources."""

import ast
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bagwise

ROOT = Path(bagwise.__file__).parent
# From the ground up. A room may use those below it and those beside it.
LAYERS = [
    ["_version", "_compat", "_config", "_jit", "_later", "_sizes"],
    ["bags"],
    ["base"],
    ["kernels", "solvers"],
    [
        "compose",
        "decomposition",
        "density",
        "embedding",
        "least_squares",
        "linear_model",
        "neighbors",
        "neural",
        "rectangles",
        "svm",
    ],
    ["ensemble"],
    ["metrics", "inspection", "io"],
    ["datasets"],
    ["comparison"],
    ["reproduction"],
    ["report"],
    ["cli"],
]
# Nobody imports these but themselves: the front doors, the batteries, the cluster, and
# what fits every method once.
OUTSIDE = {"bagwise", "__main__", "compile", "distributed", "testing"}
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


@cache
def modules():
    """Return the path of every module by its name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room(module):
    """Return the room of a module; the package itself is the front door."""
    return module.split(".")[1] if "." in module else module


def imported(tree, module, is_package):
    """Yield the names a module imports anywhere: in functions, for types, by string."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield (inner if inner in modules() else base), node.lineno
        elif isinstance(node, ast.Call) and getattr(
            node.func, "attr", getattr(node.func, "id", "")
        ) in ("import_module", "__import__"):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value), node.lineno


@cache
def graph():
    """Return for every module those of this library that it imports, with the line."""
    edges = {}
    for module, path in modules().items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = imported(tree, module, path.name == "__init__.py")
        edges[module] = {
            name: line for name, line in found if name in modules() and name != module
        }
    return edges


def first_cycle(edges):
    """Return the members of a cycle, or None."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_every_room_has_its_floor():
    rooms = {room(module) for module in modules()} - OUTSIDE
    assert rooms <= set(LEVEL), f"say in LAYERS where {rooms - set(LEVEL)} stand"


def test_no_module_imports_itself_by_a_detour():
    assert first_cycle(graph()) is None


def test_no_room_imports_itself_by_a_detour():
    rooms = defaultdict(set)
    for module, names in graph().items():
        if room(module) not in OUTSIDE:
            rooms[room(module)] |= {room(name) for name in names} - {room(module)}
    assert first_cycle(rooms) is None


def test_doors_open_downwards():
    wrong = []
    for module, names in graph().items():
        here = room(module)
        for name, line in names.items():
            there = room(name)
            if here == there or here in OUTSIDE:
                continue
            if there in OUTSIDE or LEVEL[there] > LEVEL[here]:
                wrong.append(f"{modules()[module]}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_compiled_loops_stand_in_their_places():
    wrong = []
    for module, path in modules().items():
        if module == "bagwise._jit":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        compiles = any(
            name.split(".")[0] == "numba" or name == "bagwise._jit"
            for name, _ in imported(tree, module, path.name == "__init__.py")
        )
        place = (
            room(module) == "solvers" or path.stem == "_loops" or "loops" in path.parts
        )
        if compiles and not place:
            wrong.append(str(path.relative_to(ROOT)))
    assert not wrong, f"move the loops into _loops.py or solvers: {wrong}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import bagwise.bags", {"bagwise.bags"}),
        ("def f():\n    from bagwise.bags import _bags", {"bagwise.bags._bags"}),
        (
            "if TYPE_CHECKING:\n    from bagwise.report import write_report",
            {"bagwise.report"},
        ),
        ("from .. import bags", {"bagwise.bags"}),
        ("from ._store import Store", {"bagwise.comparison._store"}),
        ("importlib.import_module('bagwise.cli')", {"bagwise.cli"}),
    ],
)
def test_the_reader_sees_every_kind_of_import(source, expected):
    tree = ast.parse(source)
    found = imported(tree, "bagwise.comparison._compare", is_package=False)
    assert {name for name, _ in found} == expected
    assert expected <= set(modules())


def test_a_cycle_is_seen():
    assert first_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert first_cycle({"a": {"b", "c"}, "b": {"c"}}) is None
