"""What is wrong with many files or records, reported together."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from bagwise.exceptions import DataError, DataWarning, ParameterError

_LISTED = 5


@dataclass
class Problems:
    """The problems of slides, molecules or repertoires, by kind."""

    source: str
    kinds: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, name: str) -> None:
        """Note a problem."""
        self.kinds.setdefault(kind, []).append(name)

    def describe(self) -> str:
        """Return all problems as one text."""
        told = []
        for kind, names in self.kinds.items():
            shown = ", ".join(names[:_LISTED])
            more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
            told.append(f"{kind} ({len(names)}): {shown}{more}")
        return "; ".join(told)

    def report(self, on_missing: str) -> None:
        """Raise if there is a problem, or warn of what was left out."""
        if not self.kinds:
            return
        if on_missing == "error":
            raise DataError(
                f"{self.source}: {self.describe()}",
                "Correct them, or exclude them with {0}.",
                ("on_missing", "drop"),
            )
        warning = DataWarning(f"{self.source}: left out: {self.describe()}")
        warnings.warn(warning, stacklevel=5)
        self.kinds = {}


def check_on_missing(on_missing: str) -> None:
    """Refuse an unknown choice before anything is read."""
    if on_missing not in ("error", "drop"):
        problem = f"must be 'error' or 'drop', got {on_missing!r}"
        raise ParameterError("on_missing", problem)
