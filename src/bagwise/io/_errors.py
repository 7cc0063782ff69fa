"""What is wrong with a table, in Python's words or in those of the command line."""

from __future__ import annotations

import shlex
from typing import Any

# What the command line calls an argument when it is not the argument's own name.
_OPTIONS = {"missing": "--impute median", "labels": "--labels FILE"}


class _Advice(Exception):
    """A problem, and what to do about it with the arguments left open."""

    def __init__(self, problem: str, remedy: str = "", *arguments: Any) -> None:
        self.problem = problem
        self.remedy = remedy
        self.arguments = arguments
        super().__init__(self._say([_in_python(*a) for a in arguments]))

    def for_command(self) -> str:
        """Return the message with options of the command line in it."""
        return self._say([_on_the_command_line(*a) for a in self.arguments])

    def _say(self, spelt: list[str]) -> str:
        if not self.remedy:
            return self.problem
        return f"{self.problem}. {self.remedy.format(*spelt)}"

    def __reduce__(self) -> Any:
        """Travel between processes: exceptions are rebuilt from their parts."""
        return type(self), (self.problem, self.remedy, *self.arguments)


class TableError(_Advice, ValueError):
    """A table or folder that cannot become bags, with what would make it one.

    Parameters
    ----------
    problem : str
        What is wrong and where.
    remedy : str, default=""
        What to do; ``{0}``, ``{1}``, ... stand for the arguments.
    *arguments : tuple of (str, object)
        Arguments of `read_bags` or `from_frame` with the values to give them; the
        value ``...`` means that it is the user's to fill in.

    Attributes
    ----------
    problem, remedy, arguments
        As given.

    Examples
    --------
    >>> from bagwise.io import TableError
    >>> error = TableError("'smiles' is text", "Say {0}.", ("drop", ["smiles"]))
    >>> print(error)
    'smiles' is text. Say drop=['smiles'].
    >>> print(error.for_command())
    'smiles' is text. Say --drop smiles.
    """


class TableWarning(_Advice, UserWarning):
    """A table that became bags although something in it looks like a slip.

    Built and read like :class:`TableError`.
    """


def _in_python(name: str, value: Any) -> str:
    return f"{name}=..." if value is ... else f"{name}={value!r}"


def _on_the_command_line(name: str, value: Any) -> str:
    if name in _OPTIONS:
        return _OPTIONS[name]
    option = "--" + name.replace("_", "-")
    if value is ...:
        return f"{option} {name.upper()}"
    values = value if isinstance(value, list | tuple) else [value]
    return " ".join(f"{option} {shlex.quote(str(v))}" for v in values)
