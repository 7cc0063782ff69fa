"""Where the data come from: the options that say what a table means, and bagwise.toml.

Commands that read data are declared with `reads_data`; they get a `Source` in place of
a dozen options. A file ``bagwise.toml`` next to the data may give the options that
describe columns and labels, and a file named with ``--config`` any option. The command
line wins.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_type_hints

import typer

from bagwise.cli._options import OPTIONS, Data
from bagwise.cli._settings import Config, with_settings_of_file
from bagwise.cli._wording import UsageError
from bagwise.exceptions import (
    DroppedGroupWarning,
    MissingValuesError,
    NotNumericError,
    UnknownColumnError,
)

__all__ = ["Source", "reads_data"]


@dataclass
class Source:
    """Data, and what the columns of its table mean.

    Attributes
    ----------
    data : str
        A file, or the name of a known set.
    columns : dict
        Options of `bagwise.io.read_bags`.
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
        """Return the labelled problem."""
        from bagwise.comparison.problem import as_problem

        name = self.data if data is None else data
        if not _on_disk(name):
            self._refuse_columns(name)
            return as_problem(name, pos_label=self.positive, task=self.task)
        other = name != self.data  # bags to test on, whose weights are not used
        no_label = f"{name}: say which column is the label, with --label (real values:"
        no_label += " --target)"
        try:
            X, y, weight = self._read_known(name, ("weight",) if other else ())
        except NotNumericError:
            if self.survival is not None or "label" in self.columns:
                raise
            # The label may well be among the columns that are complained of.
            raise UsageError(no_label) from None
        if y is None:
            raise UsageError(no_label)
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
        return found

    def bags(self) -> Any:
        """Return the bags, without labels."""
        from bagwise.comparison.problem import as_problem

        # Whatever belongs together, nothing is split here.
        warnings.simplefilter("ignore", DroppedGroupWarning)
        if self.is_file:
            parts = sorted(self.settled & {"label", "group", "weight"})
            try:
                return self._read_known(self.data, parts)[0]
            except MissingValuesError:
                # Whether gaps may stay is for the model to say.
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
            gone = [p for p in may_lack if self.columns.get(p) in error.columns]
            if not gone:
                raise
            kept = {k: v for k, v in self.columns.items() if k not in gone}
            return replace(self, columns=kept).read(data)

    def _refuse_columns(self, name: str) -> None:
        from bagwise.comparison.problem import as_problem

        if self.columns:
            as_problem(name)  # no such file or set is the better message
            given = ", ".join(f"--{key.replace('_', '-')}" for key in self.columns)
            raise UsageError(f"{name} is a known set and no table: leave out {given}")


def _at_commas(columns: dict[str, Any], unknown: Sequence[Any]) -> dict[str, Any]:
    """Split lists like ``--drop a,b`` if there is no column of that name."""
    found = dict(columns)
    for part in ("drop", "features", "coords"):
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
        what = {name: columns.pop(name, None) for name in ("positive", "impute")}
        task = columns.pop("task", "auto")
        if "target" in columns:
            if "label" in columns:
                raise UsageError("--label is for classes and --target for values")
            columns["label"], task = columns.pop("target"), "regression"
        survival = _survival_columns(columns)
        if survival is not None:
            what["survival"], task = survival, "survival"
        elif task == "survival":
            raise UsageError("survival needs two columns: --time and --event")
        source = Source(given.pop("data"), columns, settled, task=task, **what)
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
            f"--{next(iter(found))} needs --{missing}: times count only together with"
            " whether the event was seen"
        )
    if "label" in columns:
        raise UsageError("--time and --event take the place of --label and --target")
    return found
