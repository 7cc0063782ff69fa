"""A file bagwise.toml next to the data, with the options of the command line."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

import typer
from rich.console import Console

from bagwise.cli._wording import UsageError

__all__ = ["SETTINGS", "with_settings_of_file"]

SETTINGS = "bagwise.toml"


def with_settings_of_file(
    context: typer.Context, given: dict[str, Any], types: dict[str, Any]
) -> tuple[dict[str, Any], frozenset[str]]:
    """Fill in what bagwise.toml says and the command line does not, and tell what."""
    path = Path(given["data"])
    file = path.parent / SETTINGS
    if not path.exists() or not file.is_file():
        return given, frozenset()
    used = {}
    for key, value in _read_settings(file, path.name).items():
        name = key.replace("-", "_")
        name = f"{name}_" if f"{name}_" in types else name  # words of Python
        if name not in types:
            _refuse_unknown(context, name, key, file)
            continue  # an option of another command
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            continue
        given[name] = _convert(types[name], key, value, file)
        used[key] = value
    if used and not given.get("json"):
        told = ", ".join(f"{key} = {value}" for key, value in used.items())
        console = Console(stderr=True, highlight=False)
        console.print(f"{file}: {told}", markup=False, style="dim", soft_wrap=True)
    settled = {key.replace("-", "_") for key in used}
    if "target" in settled:
        settled.add("label")
    return given, frozenset(settled)


def _read_settings(file: Path, name: str) -> dict[str, Any]:
    """Return the settings for a data file: the general ones, then its own."""
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from None
    general = {k: v for k, v in found.items() if not isinstance(v, dict)}
    return general | found.get(name, {})


def _refuse_unknown(context: typer.Context, name: str, key: str, file: Path) -> None:
    """Refuse what is an option of no command."""
    group = context.parent.command if context.parent is not None else context.command
    commands = getattr(group, "commands", {})
    every = [p.name for command in commands.values() for p in command.params if p.name]
    known = {option.rstrip("_") for option in every}  # words of Python end in one
    if name in known:
        return
    near = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f"; did you mean {near[0].replace('_', '-')!r}?" if near else ""
    raise UsageError(f"{file}: there is no option {key!r}{hint}")


def _convert(annotation: Any, key: str, value: Any, file: Path) -> Any:
    """Turn a value of the file into what the option gives."""
    kind = annotation
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is UnionType:  # such as str | None
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is list:
        return [str(item) for item in (value if isinstance(value, list) else [value])]
    if isinstance(value, list):
        value = ",".join(str(item) for item in value)
    said = {bool: "true or false", int: "a whole number", float: "a number"}
    fits = isinstance(value, kind) if kind in (bool, int) else True
    try:
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise ValueError
        return kind(value)
    except ValueError:
        what = said.get(kind, "text")
        raise UsageError(f"{file}: {key} is {what}, got {value!r}") from None
