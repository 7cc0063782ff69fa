"""Tables of the site that are made from files, commands and installed packages."""

from __future__ import annotations

import ast
import re
from importlib import metadata
from pathlib import Path

import measured
import network_tables
from api_pages import underlined, write
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TEXTS = Path(__file__).parents[1] / "licences"
EXTRAS = ("dask", "torch", "h5", "survival", "arrow", "anndata", "chem")
AXES = ("bags", "instances", "features")


def list_table(
    heads: list[str], rows: list[list[str]], kind: str = "dense"
) -> list[str]:
    """Return a table as reStructuredText."""
    if not rows:
        return ["Not measured where this page was made.", ""]
    lines = [".. list-table::", "   :header-rows: 1", f"   :class: {kind}", ""]
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


def costs() -> list[str]:
    """Return the seconds of one fit and how they grow, the quickest method first."""
    seconds, growth = measured.seconds(), measured.growth()
    names = sorted({*seconds, *growth}, key=lambda name: (seconds.get(name, 1e9), name))
    rows = []
    for name in names:
        told = "--" if name not in seconds else f"{seconds[name]:.2f}"
        powers = (growth.get(name, {}).get(axis) for axis in AXES)
        cells = (
            "--" if p is None else f"{p:.1f}".replace("-0.0", "0.0") for p in powers
        )
        rows.append([name, "< 0.01" if told == "0.00" else told, *cells])
    return list_table(["Method", "Seconds", *(f"Growth: {a}" for a in AXES)], rows)


def _brackets(text: str | None) -> str:
    return f" ({text})" if text else ""


def peers() -> list[str]:
    """Return how many times longer others take on the same folds, with accuracies."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in measured.speed():
        own = f"{float(row['seconds']):.2f}{_brackets(row.get('accuracy'))}"
        if row["ratio"] and not row["other"].startswith("one "):
            ratio = float(row["ratio"])
            told = f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.2g} times"
            told += _brackets(row.get("other_accuracy"))
            found.setdefault((row["data"], row["method"], own), {})[row["other"]] = told
    others = sorted({other for entry in found.values() for other in entry})
    rows = [
        [*key, *(entry.get(other, "--") for other in others)]
        for key, entry in found.items()
    ]
    return list_table(["Data", "Method", "bagwise, s", *others], rows)


def scripts() -> list[str]:
    """Return the benchmarks and the study scripts with their first line."""
    rows = []
    for folder in ("benchmarks", "studies/scripts"):
        for path in sorted((ROOT / folder).glob("[!_]*.py")):
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            first = " ".join(text.split("\n\n")[0].split()).replace("*", "\\*")
            rows.append([f"``{folder}/{path.name}``", first or "--"])
    return list_table(["Script", "What it measures"], rows)


def licences() -> list[str]:
    """Return version, license and use of what is needed, with a link to the text."""
    needs = needed()
    rows = []
    for name in sorted(needs, key=str.lower):
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        about, texts = found.metadata, licence_texts(found)
        told = f":download:`text <licences/{name}.txt>`" if texts else "in the package"
        if texts:
            write(TEXTS / f"{name}.txt", texts)
        row = [about["Name"], about["Version"], _licence(about), told]
        rows.append([*row, ", ".join(sorted(needs[name]))])
    return list_table(["Package", "Version", "License", "Text", "Needed for"], rows)


def needed() -> dict[str, set[str]]:
    """Return what users of bagwise install, also for others, and for which extra."""
    found: dict[str, set[str]] = {}
    for use in ("", *EXTRAS):
        waiting, seen = [("bagwise", use)], {("bagwise", "")}
        while waiting:
            name, extra = waiting.pop()
            seen.add((name, extra))
            for requirement in _requirements(name, extra):
                other = canonicalize_name(requirement.name)
                found.setdefault(other, set()).add(use or "core")
                wanted = {(other, one) for one in (*requirement.extras, "")}
                waiting += wanted - seen
    return {name: {"core"} if "core" in uses else uses for name, uses in found.items()}


def _requirements(name: str, extra: str) -> list[Requirement]:
    try:
        texts = metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # of another system, or not installed
        return []
    found = [Requirement(text) for text in texts]
    return [
        one
        for one in found
        if one.marker is None or one.marker.evaluate({"extra": extra})
    ]


def licence_texts(found: metadata.Distribution) -> list[str]:
    """Return the lines of the licenses that a package brings along."""
    named = {Path(name).name for name in found.metadata.get_all("License-File") or []}
    paths = [
        path
        for path in found.files or []
        if ".dist-info" in str(path)
        and (path.name in named or re.match(r"(?i)licen[cs]e|copying", path.name))
    ]
    lines = []
    for path in sorted(paths, key=str):
        text = path.locate().read_text(encoding="utf-8", errors="replace")
        lines += [f"==== {path.name} ====", "", *text.splitlines(), ""]
    return lines


def _licence(about) -> str:
    told = about.get("License-Expression")
    classified = [
        line.rpartition("::")[2].strip()
        for line in about.get_all("Classifier") or []
        if line.startswith("License ::")
    ]
    first = (about.get("License") or "").strip().split("\n")[0]
    return told or ", ".join(classified) or first[:60] or "see the package"


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
            lines += list_table(["Option", "Meaning"], rows)
    return lines


def _plain(text: str | None) -> str:
    """Return help text on one line; nothing in it is markup, options are code."""
    text = re.sub(r"([*`|_\\])", r"\\\1", " ".join((text or "").split()))
    return re.sub(r"(?<![\w-])(--[a-z][a-z-]+)", r"``\1``", text)


def networks() -> list[str]:
    """Return networks next to the best others on the classic sets."""
    sets = [name.capitalize() for name in network_tables.SETS]
    return list_table(["Accuracy", *sets, "Mean"], network_tables.classic())


def network_images() -> list[str]:
    """Return networks next to the best others on bags of images."""
    heads = ["Images", "Accuracy", "50 bags", "100 bags", "200 bags", "400 bags"]
    return list_table(heads, network_tables.images())


TABLES = {
    "networks": networks,
    "network-images": network_images,
    "ranks": ranks,
    "costs": costs,
    "peers": peers,
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
