"""Which column of a table plays which part."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bagwise.io._errors import TableError

_SHOWN = 20
_GROUP_NAME = re.compile(
    "patient|subject|case|donor|compound|family|group|site|scaffold|participant|person"
    "|animal|mouse",
    re.I,
)


@dataclass(frozen=True)
class Roles:
    """The columns by the part they play; see `from_frame`."""

    bag: str | None = None
    label: str | None = None
    group: str | None = None
    instance_id: str | None = None
    weight: str | None = None
    coords: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    missing: str = "error"
    _single: tuple[str, ...] = field(
        default=("bag", "label", "group", "instance_id", "weight"), repr=False
    )

    @classmethod
    def of(cls, **given: Any) -> Roles:
        """Check the arguments of `from_frame` and `read_bags`."""
        for name in ("coords", "features", "drop"):
            if given.get(name) is not None:
                given[name] = _list_of_names(given[name], name)
        given["coords"] = given.get("coords") or ()
        given["drop"] = given.get("drop") or ()
        if given.get("missing", "error") not in ("error", "keep"):
            raise ValueError(
                f"missing must be 'error' or 'keep', got {given['missing']!r}."
            )
        return cls(**given)

    def used(self) -> dict[str, str]:
        """Return the columns that are no features, with the part each plays."""
        parts = {getattr(self, part): part for part in self._single}
        parts |= dict.fromkeys(self.coords, "coords")
        return {name: part for name, part in parts.items() if name is not None}

    def feature_columns(self, names: Sequence[str], source: str) -> list[str]:
        """Return the feature columns, or say which names make no sense."""
        self.check_names(names, source)
        if self.features is not None:
            return list(self.features)
        left_out = {*self.used(), *self.drop}
        kept = [name for name in names if name not in left_out]
        if not kept:
            place = f"{source}: " if source else ""
            raise TableError(
                f"{place}there is no feature column besides the bag and the label"
            )
        return kept

    def dropped_groups(self, names: Sequence[Any]) -> list[Any]:
        """Return the columns that are left out although they are called like groups."""
        if self.label is None or self.group is not None or self.features is not None:
            return []  # nothing is learned, or somebody knew what to take
        known = {*names}
        return [n for n in self.drop if n in known and sounds_like_a_group(n)]

    def check_names(self, names: Sequence[str], source: str) -> None:
        """Say which of the given names are no columns, or play two parts."""
        source = f"{source}: " if source else ""
        shown = ", ".join(repr(name) for name in list(names)[:_SHOWN])
        if self.bag is None:
            raise TableError(
                f"{source}say which column tells the bag, one of {shown}",
                "Give {0}.",
                ("bag", ...),
            )
        wanted = [
            *(getattr(self, part) for part in self._single),
            *self.coords,
            *self.drop,
            *(self.features or ()),
        ]
        known = {None, *names}
        unknown = [name for name in dict.fromkeys(wanted) if name not in known]
        if unknown:
            raise TableError(
                f"{source}there is no column {', '.join(map(repr, unknown))}; the "
                f"table has {shown}"
            )
        self._refuse_two_parts(source)

    def _refuse_two_parts(self, source: str) -> None:
        single = [getattr(self, p) for p in self._single]
        parts = [n for n in (*single, *self.coords) if n is not None]
        for name in parts:
            roles = [p for p in self._single if getattr(self, p) == name]
            roles += ["coords"] * self.coords.count(name)
            # A bag may be its own group; anything else twice is a slip.
            if len(roles) > 1 and roles != ["bag", "group"]:
                raise TableError(
                    f"{source}{' and '.join(roles)} are the same column, {name!r}"
                )
        for name in self.features or ():
            part = {getattr(self, p): p for p in ("bag", "label", "weight")}.get(name)
            if part is not None:
                raise TableError(
                    f"{source}{name!r} is given as a feature and as the {part}"
                )
        listed = self.features or ()
        doubled = [name for name, count in Counter(listed).items() if count > 1]
        if doubled or self.features == ():
            what = f"{doubled[0]!r} twice" if doubled else "no column"
            raise TableError(f"{source}features lists {what}")


def _list_of_names(value: Any, argument: str) -> tuple[str, ...]:
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise TypeError(f"{argument} must be a list of column names, got {value!r}.")
    return tuple(value)


def sounds_like_a_group(name: Any) -> bool:
    """Whether a column is called by what bags have in common, such as a patient."""
    return _GROUP_NAME.search(str(name)) is not None
