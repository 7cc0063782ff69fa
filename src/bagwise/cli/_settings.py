"""Settings files: bagwise.toml next to the data, and a file named with --config.

A file that is merely found came with the data, perhaps from a stranger. It may say what
columns and labels mean and nothing else. A file that the user names may set any option.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

import typer
from rich.console import Console

from bagwise.cli._wording import UsageError

__all__ = ["SETTINGS", "Config", "with_settings_of_file"]

SETTINGS = "bagwise.toml"
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with options of any kind. A bagwise.toml next to DATA is read"
        " without it, but may only describe columns and labels.",
    ),
]
# What a file that was found may say. No paths, no methods, nothing that is run.
DESCRIBES_DATA = frozenset(
    {
        "bag",
        "coords",
        "drop",
        "event",
        "features",
        "format",
        "group",
        "impute",
        "instance_id",
        "label",
        "on_missing",
        "pool",
        "positive",
        "target",
        "task",
        "time",
        "weight",
    }
)


def with_settings_of_file(
    context: typer.Context, given: dict[str, Any], types: dict[str, Any]
) -> tuple[dict[str, Any], frozenset[str]]:
    """Fill in what settings files say and the command line does not, and tell what.

    The file named with --config goes before the one that is found next to the data.
    """
    path, named = Path(given["data"]), given.pop("config")
    found = path.parent / SETTINGS
    settled: set[str] = set()
    if named is not None:
        if not named.is_file():
            raise UsageError(f"--config: there is no file {named}")
        settled |= _fill_in(context, given, types, named, settled)
    if path.exists() and found.is_file():
        if named is None or not found.samefile(named):
            _refuse_more_than_data(context, found, path.name)
            settled |= _fill_in(context, given, types, found, settled)
    if "target" in settled:
        settled.add("label")
    return given, frozenset(settled)


def _fill_in(
    context: typer.Context,
    given: dict[str, Any],
    types: dict[str, Any],
    file: Path,
    before: set[str],
) -> set[str]:
    """Take options from a file into `given`; return the names of those taken."""
    used = {}
    for key, value in _read_settings(file, Path(given["data"]).name).items():
        option = _name(key)
        name = f"{option}_" if f"{option}_" in types else option  # words of Python
        if option == "config":
            raise UsageError(f"{file}: a settings file cannot name another one")
        if name not in types or name == "context":
            _refuse_unknown(context, option, key, file)
            continue  # an option of another command
        source = context.get_parameter_source(name)
        if option in before or (source is not None and source.name == "COMMANDLINE"):
            continue
        given[name] = _convert(types[name], key, value, file)
        used[key] = value
    if used and not given.get("json"):
        told = ", ".join(f"{key} = {_shown(value)}" for key, value in used.items())
        console = Console(stderr=True, highlight=False)
        console.print(f"{file}: {told}", markup=False, style="dim", soft_wrap=True)
    return {_name(key) for key in used}


def _refuse_more_than_data(context: typer.Context, file: Path, data: str) -> None:
    """Refuse a file that was found and says more than what columns and labels mean."""
    keys = _read_settings(file, data)
    more = [key for key in keys if _name(key) not in DESCRIBES_DATA]
    for key in more:
        _refuse_unknown(context, _name(key), key, file)
    if more:
        raise UsageError(
            f"{file} was found next to the data and may only describe columns and"
            f" labels, but sets {', '.join(more)}: give that on the command line, or in"
            " a file named with --config"
        )


def _name(key: str) -> str:
    return key.replace("-", "_")


def _shown(value: Any) -> str:
    """Return a value as text without control characters, which terminals obey."""
    text = str(value)
    return text if text.isprintable() else ascii(text)


def _read_settings(file: Path, name: str) -> dict[str, Any]:
    """Return the settings for a data file: the general ones, then its own."""
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from None
    general = {k: v for k, v in found.items() if not isinstance(v, dict)}
    own = found.get(name)
    return general | (own if isinstance(own, dict) else {})


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
