"""Tables of the site that are made from files, commands and installed packages."""

from __future__ import annotations

import ast
import re
from importlib import metadata
from pathlib import Path

import measured
from api_pages import underlined, write

ROOT = Path(__file__).parents[2]


def list_table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """Return a table as reStructuredText."""
    if not rows:
        return ["Not measured where this page was made.", ""]
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [heads, *rows]:
        lines += [f"   {'* -' if k == 0 else '  -'} {c}" for k, c in enumerate(row)]
    return [*lines, ""]


def ranks() -> list[str]:
    """Return mean ranks and figures of the study of all methods."""
    by_auroc, by_accuracy = measured.ranks("auroc"), measured.ranks("accuracy")
    rows = [
        [name, f"{rank:.1f}", f"{area:.3f}", *_pair(by_accuracy.get(name))]
        for name, (rank, area) in sorted(by_auroc.items(), key=lambda item: item[1][0])
    ]
    heads = ["Method", "Mean rank, AUROC", "AUROC", "Mean rank, accuracy", "Accuracy"]
    return list_table(heads, rows)


def _pair(found: tuple[float, float] | None) -> list[str]:
    return ["--", "--"] if found is None else [f"{found[0]:.1f}", f"{found[1]:.3f}"]


def seconds() -> list[str]:
    """Return the seconds of one fit, the quickest method first."""
    found = sorted(measured.seconds().items(), key=lambda item: (item[1], item[0]))
    rows = [[name, "< 0.01" if s < 0.01 else f"{s:.2f}"] for name, s in found]
    return list_table(["Method", "Seconds"], rows)


def growth() -> list[str]:
    """Return measured exponents by method."""
    found = measured.growth()
    if not found:
        return ["Not measured yet; the classes say what they are quadratic in.", ""]
    axes = sorted({axis for entry in found.values() for axis in entry})
    rows = [
        [name, *(f"{entry[a]:.2f}" if a in entry else "--" for a in axes)]
        for name, entry in found.items()
    ]
    told = (
        "The exponent p of seconds as a power of what grows: 1 is linear, 2 quadratic."
    )
    return [told, "", *list_table(["Method", *axes], rows)]


def scripts() -> list[str]:
    """Return the benchmark scripts with their first line."""
    rows = []
    for path in sorted((ROOT / "benchmarks").glob("[!_]*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        first = " ".join(text.split("\n\n")[0].split()).replace("*", "\\*")
        rows.append([f"``{path.name}``", first or "--"])
    return list_table(["Script", "What it measures"], rows)


def licences() -> list[str]:
    """Return name, version, licence and home of what the core and extras need."""
    wanted = [re.match(r"[\w.-]+", text) for text in metadata.requires("bagwise") or []]
    names = sorted({m.group(0).lower() for m in wanted if m} - {"bagwise"})
    rows = []
    for name in names:
        try:
            about = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue
        rows.append([about["Name"], _licence(about), _extra(name)])
    return list_table(["Package", "Licence", "Needed for"], rows)


def _licence(about) -> str:
    told = about.get("License-Expression")
    classified = [
        line.rpartition("::")[2].strip()
        for line in about.get_all("Classifier") or []
        if line.startswith("License ::")
    ]
    first = (about.get("License") or "").strip().split("\n")[0]
    return told or ", ".join(classified) or first[:60] or "see the package"


def _extra(name: str) -> str:
    extras = set()
    for text in metadata.requires("bagwise") or []:
        if re.match(r"[\w.-]+", text).group(0).lower() == name:
            extras |= set(re.findall(r"extra == ['\"](\w+)['\"]", text)) or {"core"}
    return ", ".join(sorted(extras))


def commands() -> list[str]:
    """Return the commands with their arguments and options."""
    import typer

    from bagwise.cli._main import app

    group = typer.main.get_command(app)
    lines = []
    for name, command in group.commands.items():
        lines += underlined(f"bagwise {name}", "-")
        lines += [_plain(command.help), ""]
        rows = []
        for param in command.params:
            names = ", ".join(f"``{option}``" for option in param.opts)
            if param.param_type_name == "argument":
                names = f"``{(param.metavar or param.name).upper()}``"
            rows.append([names, _plain(getattr(param, "help", "")) or "--"])
        if rows:
            lines += list_table(["Option", "What it says"], rows)
    return lines


def _plain(text: str | None) -> str:
    """Return help text on one line; nothing in it is markup."""
    return re.sub(r"([*`|_\\])", r"\\\1", " ".join((text or "").split()))


TABLES = {
    "ranks": ranks,
    "seconds": seconds,
    "growth": growth,
    "scripts": scripts,
    "licences": licences,
    "commands": commands,
}


def write_tables(app) -> None:
    """Write the tables that pages include."""
    for name, make in TABLES.items():
        write(Path(app.srcdir) / "_generated" / f"{name}.txt", make())


def setup(app):
    """Connect to Sphinx."""
    app.connect("builder-inited", write_tables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
