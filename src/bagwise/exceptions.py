"""Errors and warnings with the parts that they are made of.

The text of such an error names arguments of Python functions. Its parts are attributes,
so that another front end can name its own options, and a program need not search the
text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "DataError",
    "DataWarning",
    "DroppedGroupWarning",
    "MissingValuesError",
    "NotNumericError",
    "ParameterError",
    "UnknownColumnError",
]

Spelling = Callable[[str, Any], str]


class _Advice(Exception):
    """A problem, and the arguments that would solve it."""

    def __init__(
        self,
        problem: str,
        remedy: str = "",
        *settings: tuple[str, Any],
        columns: Iterable[Any] = (),
        row: str | None = None,
        bag: Any = None,
    ) -> None:
        super().__init__(problem, remedy, *settings)
        self.problem = problem
        self.remedy = remedy
        self.settings = settings
        self.columns = tuple(columns)
        self.row = row
        self.bag = bag

    def message(self, spelling: Spelling) -> str:
        """Return the text with arguments in the notation of a front end.

        Parameters
        ----------
        spelling : callable
            ``spelling(name, value)`` returns an argument of a Python function, with a
            value that it may take, as text. The value is ``...`` if the user has to
            fill it in, and None if only the name is needed.

        Returns
        -------
        str
            The problem and the remedy.
        """
        if not self.remedy:
            return self.problem
        spelled = [spelling(name, value) for name, value in self.settings]
        return f"{self.problem}. {self.remedy.format(*spelled)}"

    def __str__(self) -> str:
        return self.message(_in_python)


class DataError(_Advice, ValueError):
    """Data that cannot be converted to bags with labels.

    Parameters
    ----------
    problem : str
        What is wrong and where.
    remedy : str, default=""
        What to do; ``{0}``, ``{1}``, ... stand for the settings.
    *settings : tuple of (str, object)
        Arguments of the functions that read data, with the values to give them; the
        value ``...`` means that the user has to fill it in.
    columns : iterable, default=()
        Names of the columns that are wrong.
    row : str, default=None
        The row or line that is wrong, such as ``"line 3"``.
    bag : object, default=None
        Id of the bag that is wrong.

    Attributes
    ----------
    problem, remedy, settings, columns, row, bag
        As given.

    Examples
    --------
    >>> from bagwise.exceptions import DataError
    >>> error = DataError("'smiles' is text", "Set {0}.", ("drop", ["smiles"]))
    >>> print(error)
    'smiles' is text. Set drop=['smiles'].
    >>> print(error.message(lambda name, value: f"--{name} {value[0]}"))
    'smiles' is text. Set --drop smiles.
    """


class UnknownColumnError(DataError):
    """Columns that were named do not exist; `columns` lists them."""


class NotNumericError(DataError):
    """Columns that should be features are not numeric; `columns` lists them."""


class MissingValuesError(DataError):
    """Features have missing values; `columns` lists them."""


class DataWarning(_Advice, UserWarning):
    """Data that were converted to bags, but contain a possible mistake.

    Has the parameters and attributes of :class:`DataError`.
    """


class DroppedGroupWarning(DataWarning):
    """A column that may define which bags belong together is excluded."""


class ParameterError(_Advice, ValueError):
    """An argument with an invalid value.

    Parameters
    ----------
    parameter : str
        Name of the argument.
    problem : str
        What is wrong with its value, as the rest of a sentence about it.
    remedy : str, default=""
        What to do; ``{0}``, ``{1}``, ... stand for the settings.
    *settings : tuple of (str, object)
        As in :class:`DataError`.

    Attributes
    ----------
    parameter, problem, remedy, settings
        As given.

    Examples
    --------
    >>> from bagwise.exceptions import ParameterError
    >>> print(ParameterError("time_limit", "must be positive, got -1"))
    time_limit must be positive, got -1
    """

    def __init__(
        self, parameter: str, problem: str, remedy: str = "", *settings: Any
    ) -> None:
        super().__init__(problem, remedy, *settings)
        self.args = (parameter, *self.args)
        self.parameter = parameter

    def message(self, spelling: Spelling) -> str:
        """Return the text with arguments in the notation of a front end.

        Parameters
        ----------
        spelling : callable
            As in :class:`DataError`.

        Returns
        -------
        str
            The argument, its problem, and the remedy.
        """
        return f"{spelling(self.parameter, None)} {super().message(spelling)}"


def _in_python(name: str, value: Any) -> str:
    if value is None:
        return name
    return f"{name}=..." if value is ... else f"{name}={value!r}"
