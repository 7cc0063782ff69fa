"""The dependencies between subpackages, read from the sources."""

import ast
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bagwise

ROOT = Path(bagwise.__file__).parent
# From the bottom up. A subpackage imports from its own layer and from lower ones.
LAYERS = [
    [
        "_version",
        "_compat",
        "_config",
        "_jit",
        "_later",
        "_signals",
        "_sizes",
        "exceptions",
    ],
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
    ["report"],
    ["cli"],
]
# Entry points, which no other subpackage imports.
OUTSIDE = {"bagwise", "__main__", "compile", "distributed", "testing"}
LEVEL = {package: level for level, row in enumerate(LAYERS) for package in row}


@cache
def modules():
    """Return the path of every module by its name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def subpackage(module):
    """Return the subpackage of a module; the package itself is its own."""
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


def crossing():
    """Yield imports between subpackages: place, importing and imported module."""
    for module, names in graph().items():
        for name, line in names.items():
            if subpackage(module) != subpackage(name):
                yield f"{modules()[module]}:{line} imports {name}", module, name


def test_every_subpackage_has_a_layer():
    found = {subpackage(module) for module in modules()} - OUTSIDE
    assert found <= set(LEVEL), f"add {found - set(LEVEL)} to LAYERS"


def test_modules_do_not_import_each_other_in_a_cycle():
    assert first_cycle(graph()) is None


def test_subpackages_do_not_import_each_other_in_a_cycle():
    edges = defaultdict(set)
    for _, module, name in crossing():
        if subpackage(module) not in OUTSIDE:
            edges[subpackage(module)].add(subpackage(name))
    assert first_cycle(edges) is None


def test_imports_go_down():
    wrong = [
        where
        for where, module, name in crossing()
        if subpackage(module) not in OUTSIDE
        and (
            subpackage(name) in OUTSIDE
            or LEVEL[subpackage(name)] > LEVEL[subpackage(module)]
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_private_modules_are_private_to_their_subpackage():
    """What two subpackages share is in a module without a leading underscore."""
    wrong = [
        where
        for where, _, name in crossing()
        if any(part.startswith("_") for part in name.split(".")[2:])
    ]
    assert not wrong, "\n".join(wrong)


def test_modules_are_of_a_readable_size():
    long = {
        str(path.relative_to(ROOT)): n
        for path in modules().values()
        if (n := len(path.read_text(encoding="utf-8").splitlines())) > 600
    }
    assert not long, f"more than 600 lines: {long}"


def test_class_names_are_used_once():
    places = defaultdict(list)
    for module, path in modules().items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not twice, f"one name for two classes: {twice}"


def test_the_library_can_be_surveyed():
    """The numbers of files and of exported names stay within limits."""
    assert len(modules()) <= 300
    names = 0
    for path in modules().values():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            public = path.name == "__init__.py" and isinstance(node, ast.Assign)
            if public and getattr(node.targets[0], "id", "") == "__all__":
                names += len(ast.literal_eval(node.value))
    assert 50 < names <= 170


def test_compiled_loops_are_in_their_modules():
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
            subpackage(module) == "solvers"
            or path.stem == "_loops"
            or "loops" in path.parts
        )
        if compiles and not place:
            wrong.append(str(path.relative_to(ROOT)))
    assert not wrong, f"move compiled loops to a module _loops or to solvers: {wrong}"


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
        ("from ._compare import compare", {"bagwise.comparison._compare"}),
        ("importlib.import_module('bagwise.cli')", {"bagwise.cli"}),
    ],
)
def test_every_kind_of_import_is_read(source, expected):
    tree = ast.parse(source)
    found = imported(tree, "bagwise.comparison._compare", is_package=False)
    assert {name for name, _ in found} == expected
    assert expected <= set(modules())


def test_a_cycle_is_found():
    assert first_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert first_cycle({"a": {"b", "c"}, "b": {"c"}}) is None


def test_test_files_have_different_names():
    """Pytest imports test files by their name, and cannot import two of one name."""
    root = Path(__file__).parents[1]
    folders = (root / "tests", root / "studies" / "tests")
    names = [path.name for folder in folders for path in folder.rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
