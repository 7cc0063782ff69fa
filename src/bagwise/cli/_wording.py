"""Messages of the library in the words of the command line."""

from __future__ import annotations

import re
import shlex
from typing import Any

__all__ = ["UsageError", "in_options"]


class UsageError(ValueError):
    """Something on the command line, or in a settings file, that cannot be meant."""


# What arguments of Python functions are called on the command line.
_SPELLINGS = (
    (re.compile(r"LeaveOneBagOut\(\)"), "--leave-one-out"),
    (re.compile(r"switch tuning off"), "use --grid none"),
    (
        re.compile(r"^(time_limit|time_budget)(?= must be)"),
        lambda match: "--" + _option(match[1]),
    ),
    (
        re.compile(r"assumption='standard'"),
        "--set BagClassifier.assumption=standard",
    ),
    (re.compile(r"folds: widen it$"), "folds: --grid auto widens it"),
    (
        re.compile(r"Let them through with (--impute \w+) .*, or remove them"),
        r"Fill them inside the folds with \1, or remove them",
    ),
    (re.compile(r"the same call (continues|goes on)"), "the same command continues"),
    (
        re.compile(r"\b(impute|pos_label|task)='([^']*)'"),
        lambda match: f"--{_option(match[1])} {match[2]}",
    ),
    (
        re.compile(
            r"\b(bag|label|group|drop|features|instance_id|weight|format|pos_label"
            r"|coords|memory_limit|time_limit|scheduler|groups|task|impute|sample_weight)=(\.\.\.)?(?=[\s,;.)]|$)"
        ),
        lambda match: "--" + _option(match[1]),
    ),
)


def _option(name: str) -> str:
    names = {"pos_label": "positive", "groups": "group", "sample_weight": "weight"}
    return names.get(name, name.replace("_", "-"))


def in_options(message: BaseException | str) -> str:
    """Write a message in one line that speaks of options, not of Python arguments."""
    tell = getattr(message, "message", None)
    text = " ".join(str(message if tell is None else tell(as_option)).split())
    for pattern, option in _SPELLINGS:
        text = pattern.sub(option, text)
    return text.strip()


def as_option(name: str, value: Any) -> str:
    """Return an argument of a Python function as the command line calls it."""
    if name == "missing":
        return "--impute median"
    option = "--" + _option(name)
    if value is None:
        return option
    if value is ...:
        return f"{option} {'FILE' if name == 'labels' else name.upper()}"
    values = value if isinstance(value, list | tuple) else [value]
    return " ".join(f"{option} {shlex.quote(str(v))}" for v in values)
