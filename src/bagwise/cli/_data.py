"""The data of a command: options for columns and labels, settings files, reading.

Commands that read data are declared with `reads_data`; they get an `InputData` instead
of many options. A file ``bagwise.toml`` next to the data may set the options that
describe columns and labels, and nothing else, as it may come from a stranger. A file
named with ``--config`` may set any option. The command line takes precedence.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import tomllib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from rich.console import Console

from bagwise.cli._common import UsageError
from bagwise.cli._options import DESCRIBES_DATA, OPTIONS, SETTINGS, Config, Data
from bagwise.exceptions import (
    DroppedGroupWarning,
    MissingValuesError,
    NotNumericError,
    UnknownColumnError,
)

__all__ = ["InputData", "reads_data"]


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
        name = f"{option}_" if f"{option}_" in types else option  # Python keywords
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
    """Refuse a found file that does more than describe columns and labels."""
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
    known = {option.rstrip("_") for option in every}  # Python keywords end in "_"
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


# ------------------------------------------------------------------------- reading


@dataclass
class InputData:
    """Data, and what the columns of its table mean.

    Attributes
    ----------
    data : str
        A file, or the name of a known set.
    columns : dict
        Options of `bagwise.read_bags`.
    settled : frozenset of str
        Those that a settings file gave.
    positive, task, impute : str or None
        The positive label, what the labels hold, and how gaps are filled.
    survival : dict of str to str, or None
        The columns `time` and `event`, instead of a label.
    """

    data: str
    columns: dict[str, Any] = field(default_factory=dict)
    settled: frozenset[str] = frozenset()
    positive: str | None = None
    task: str = "auto"
    impute: str | None = None
    survival: dict[str, str] | None = None

    @property
    def is_file(self) -> bool:
        """Whether the data are a file or a folder."""
        return _on_disk(self.data)

    def read(self, data: str | None = None) -> tuple[Any, Any, Any]:
        """Return bags, labels and weights (None without) of a file."""
        from bagwise.io import read_bags

        columns = {**self.columns, **(self.survival or {})}
        if self.impute is not None:
            columns["missing"] = "keep"
        name = self.data if data is None else data
        try:
            found = read_bags(name, **columns)
        except UnknownColumnError as error:
            parts = _at_commas(columns, error.columns)
            if parts == columns:
                raise
            found = read_bags(name, **parts)
        if isinstance(found, dict):
            return found["X"], found["y"], None
        return (*found, None)[:3]

    def problem(self, data: str | None = None) -> Any:
        """Return the labeled problem."""
        from bagwise.comparison.problem import as_problem

        name = self.data if data is None else data
        if not _on_disk(name):
            self._refuse_columns(name)
            return as_problem(name, pos_label=self.positive, task=self.task)
        other = name != self.data  # test bags, whose weights are not used
        X, y, weight = self.labeled(name, ("weight",) if other else ())
        found = as_problem(
            X,
            y,
            name=Path(name).stem,
            pos_label=self.positive,
            task=self.task,
            missing=self.impute is not None,
            sample_weight=weight,
        )
        found.check_positive()
        label = self.columns.get("label", "")
        names = label.split(",") if isinstance(label, str) else label
        several = found.task == "multilabel" and found.y.shape[1] == len(names)
        names = [word.strip() for word in names] if several else None
        return replace(found, path=name, label_names=names)

    def labeled(self, name: str, may_lack: Sequence[str]) -> tuple[Any, Any, Any]:
        """Read a file with its labels, or say that their column is not given."""
        no_label = (
            f"{name}: the label column is not given: name it with --label (real values:"
        )
        no_label += " --target)"
        try:
            X, y, weight = self._read_known(name, may_lack)
        except NotNumericError:
            if self.survival is not None or "label" in self.columns:
                raise
            # The column named in the error may be the label.
            raise UsageError(no_label) from None
        if y is None:
            raise UsageError(no_label)
        return X, y, weight

    def bags(self) -> Any:
        """Return the bags, without labels."""
        from bagwise.comparison.problem import as_problem

        # Nothing is split here, so groups are irrelevant.
        warnings.simplefilter("ignore", DroppedGroupWarning)
        if self.is_file:
            parts = sorted(self.settled & {"label", "group", "weight"})
            try:
                return self._read_known(self.data, parts)[0]
            except MissingValuesError:
                # The model decides whether missing values are allowed.
                return replace(self, impute="median")._read_known(self.data, parts)[0]
        self._refuse_columns(self.data)
        return as_problem(self.data).X

    def _read_known(self, data: str, may_lack: Sequence[str]) -> tuple[Any, Any, Any]:
        """Read a file; of the named columns, those that it lacks are forgotten.

        New bags have no label as a rule, and test bags no weight.
        """
        try:
            return self.read(data)
        except UnknownColumnError as error:
            gone = [p for p in may_lack if self._lacks(p, error.columns)]
            if not gone:
                raise
            kept = {k: v for k, v in self.columns.items() if k not in gone}
            return replace(self, columns=kept).read(data)

    def _lacks(self, part: str, unknown: Sequence[Any]) -> bool:
        """Whether the columns of a role are among those that a file lacks."""
        named = self.columns.get(part)
        names = named if isinstance(named, list) else str(named).split(",")
        return named in unknown or {*names} <= {*unknown}

    def _refuse_columns(self, name: str) -> None:
        from bagwise.comparison.problem import as_problem

        if self.columns:
            as_problem(name)  # raises a better message if there is no such file or set
            given = ", ".join(f"--{key.replace('_', '-')}" for key in self.columns)
            raise UsageError(
                f"{name} is the name of a data set, not a table: omit {given}"
            )


def _at_commas(columns: dict[str, Any], unknown: Sequence[Any]) -> dict[str, Any]:
    """Split lists like ``--drop a,b`` if there is no column of that name."""
    found = dict(columns)
    label = found.get("label", ())
    named = [label] if isinstance(label, str) else label
    split = [w for n in named for w in (n.split(",") if n in unknown else [n])]
    if len(split) > len(named):
        found["label"] = [word.strip() for word in split]
    for part in ("drop", "features", "coords", "encode", "text"):
        names = [
            name.split(",") if name in unknown else [name]
            for name in columns.get(part, ())
        ]
        if names:
            found[part] = [word.strip() for split in names for word in split]
    return found


def _on_disk(name: str) -> bool:
    """Whether a name is that of a file, or of a folder and of no known set."""
    from bagwise.datasets import available

    path = Path(name)
    return path.is_file() or (path.is_dir() and name not in available())


def reads_data(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of a table; it gets them as its `source`.

    The command takes `source` first. Where the parameter stands in the signature, the
    argument DATA comes instead. The options of `OPTIONS` and --config follow the
    command's own.
    """
    hints = get_type_hints(command, include_extras=True)
    own = [
        p.replace(annotation=hints[name])
        for name, p in inspect.signature(command).parameters.items()
    ]
    shown: list[inspect.Parameter] = []
    for parameter in own:
        if parameter.name == "source":
            shown.append(parameter.replace(name="data", annotation=Data))
        else:
            shown.append(parameter)
    for name, (annotation, default) in {**OPTIONS, "config": (Config, None)}.items():
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        shown.append(
            inspect.Parameter(name, kind, default=default, annotation=annotation)
        )
    context = inspect.Parameter(
        "context",
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        annotation=typer.Context,
    )

    @functools.wraps(command)
    def run(context: typer.Context, **given: Any) -> int:
        given, settled = with_settings_of_file(context, given, run.__annotations__)
        columns = {name: given.pop(name) for name in OPTIONS}
        columns = {name: value for name, value in columns.items() if value}
        if len(columns.get("label", ())) == 1:
            (columns["label"],) = columns["label"]
        what = {name: columns.pop(name, None) for name in ("positive", "impute")}
        task = columns.pop("task", "auto")
        if "target" in columns:
            if "label" in columns:
                raise UsageError(
                    "--label is for classes and --target for values: give one of them"
                )
            columns["label"], task = columns.pop("target"), "regression"
        survival = _survival_columns(columns)
        if survival is not None:
            what["survival"], task = survival, "survival"
        elif task == "survival":
            raise UsageError("survival needs two columns: --time and --event")
        source = InputData(given.pop("data"), columns, settled, task=task, **what)
        return command(source=source, **given)

    run.__signature__ = inspect.Signature([context, *shown])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in [context, *shown]}
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def _survival_columns(columns: dict[str, Any]) -> dict[str, str] | None:
    """Take the columns of times and events out of the options."""
    found = {n: columns.pop(n) for n in ("time", "event") if n in columns}
    if not found:
        return None
    if len(found) == 1:
        missing = "event" if "time" in found else "time"
        raise UsageError(
            f"--{next(iter(found))} needs --{missing}: a time has a meaning only with "
            "the column that says whether the event was observed"
        )
    if "label" in columns:
        raise UsageError(
            "--time and --event replace --label and --target; give only one of the two"
        )
    return found
