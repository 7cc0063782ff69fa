"""What several commands share: options, output, messages, parameters of methods."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]
Seed = Annotated[int, typer.Option(help="Random seed of splits and methods.")]
Escape = Annotated[
    bool,
    typer.Option(
        "--csv-escape/--no-csv-escape",
        help="Put an apostrophe in front of text cells that a spreadsheet would run as"
        " a formula.",
    ),
]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", help="Number of processes; -1 for all cores.")
]


def write_json(value: Any) -> None:
    """Write JSON to standard output."""
    print(json.dumps(value, indent=2, default=str))


def write_rows(
    rows: Sequence[dict[str, Any]], path: Path | None, *, escape: bool
) -> None:
    """Write rows as CSV to a file, or to standard output."""
    from bagwise.io.csv_files import write_csv

    names = list(rows[0]) if rows else []
    cells = [row.values() for row in rows]
    if path is None:
        write_csv(sys.stdout, names, cells, escape=escape)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        write_csv(file, names, cells, escape=escape)


# ------------------------------------------------------------------------ messages


class UsageError(ValueError):
    """A mistake on the command line or in a settings file."""


# Options whose names differ from the argument of the Python function.
_NAMES = {
    "pos_label": "positive",
    "groups": "group",
    "sample_weight": "weight",
    "n_jobs": "jobs",
    "random_state": "seed",
}


def in_options(message: BaseException | str) -> str:
    """Return a message in one line, with options in place of Python arguments."""
    render = getattr(message, "message", None)
    text = render(as_option) if callable(render) else str(message)
    return " ".join(text.split())


def as_option(name: str, value: Any) -> str:
    """Return an argument of a Python function as the command line calls it."""
    if name == "missing":  # the command line also imputes
        return "--impute median"
    option = "--" + _NAMES.get(name, name).replace("_", "-")
    if value is None:
        return option
    if value is ...:
        return f"{option} {'FILE' if name == 'labels' else name.upper()}"
    values = value if isinstance(value, list | tuple) else [value]
    return " ".join(f"{option} {shlex.quote(str(v))}" for v in values)


# ------------------------------------------------------------ parameters of methods


def parse_setting(text: str) -> tuple[str, str, Any]:
    """Split ``METHOD.PARAM=VALUE``.

    Values are numbers, true, false, lists and quoted text as in TOML; what is none of
    these is text.

    Examples
    --------
    >>> parse_setting("MI-SVM.C=10")
    ('MI-SVM', 'C', 10)
    >>> parse_setting("SimpleMI.pooling=max")
    ('SimpleMI', 'pooling', 'max')
    """
    left, sign, value = text.partition("=")
    method, _, name = left.strip().rpartition(".")
    if not sign or not method or not name:
        raise UsageError(f"--set takes METHOD.PARAM=VALUE, got {text!r}")
    if value.strip().lower() in ("none", "null"):
        return method, name, None
    try:
        return method, name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return method, name, value.strip()


def with_settings(
    methods: Sequence[Any], settings: Sequence[str], *, skip: bool = False
) -> list[Any]:
    """Return methods with the parameters that were set for them.

    Settings of methods that are not there are refused, or skipped.
    """
    from bagwise.comparison.choose import find_method

    found = [find_method(method) for method in methods]
    for text in settings:
        name, parameter, value = parse_setting(text)
        wanted = find_method(name).name
        places = [k for k, method in enumerate(found) if method.name == wanted]
        if not places and skip:
            continue
        if not places:
            raise UsageError(f"--set {text}: {wanted} is not among the methods")
        found[places[0]] = found[places[0]].with_params(**{parameter: value})
    return found
