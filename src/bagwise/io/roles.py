"""Which column of a table has which role, and which of two labels is positive."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.base.survival import survival_target
from bagwise.exceptions import (
    DataError,
    DataWarning,
    ParameterError,
    UnknownColumnError,
)
from bagwise.io.files import label_values

__all__ = [
    "Roles",
    "join_targets",
    "leave_out",
    "positive_or_not",
    "same_label",
    "sounds_like_a_group",
    "which_excluded",
]

_SHOWN = 20
_SINGLE = (
    *("bag", "label", "time", "event", "group"),
    *("instance_id", "instance_type", "weight"),
)
_GROUP_NAME = re.compile(
    "patient|subject|case|donor|compound|family|group|site|scaffold|participant|person"
    "|animal|mouse",
    re.I,
)


@dataclass(frozen=True)
class Roles:
    """The columns by their role; see `read_bags`."""

    bag: str | None = None
    label: str | None = None
    more_labels: tuple[str, ...] = ()
    exclude_label: tuple[str, ...] = ()
    time: str | None = None
    event: str | None = None
    group: str | None = None
    instance_id: str | None = None
    instance_type: str | None = None
    weight: str | None = None
    coords: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    missing: str = "error"
    encode: str | tuple[str, ...] | None = None
    text: tuple[str, ...] = ()

    @classmethod
    def of(cls, **given: Any) -> Roles:
        """Check the arguments of `from_frame` and `read_bags`."""
        if isinstance(given.get("text"), str):
            given["text"] = [given["text"]]
        if isinstance(given.get("label"), list | tuple):
            labels = _list_of_names(given["label"] or "none", "label")
            given["label"], given["more_labels"] = labels[0], labels[1:]
        excluded = given.get("exclude_label")
        excluded = [] if excluded is None else excluded
        excluded = [excluded] if isinstance(excluded, str) else list(excluded)
        given["exclude_label"] = tuple(map(_as_text, excluded))
        for name in ("coords", "features", "drop", "encode", "text"):
            if name == "features" and _names_a_matrix(given.get(name)):
                given[name] = (given[name],)
            elif given.get(name) is not None and given[name] != "auto":
                given[name] = _list_of_names(given[name], name)
        if given.get("encode") == ("auto",):  # the form on the command line
            given["encode"] = "auto"
        given["text"] = given.get("text") or ()
        given["coords"] = given.get("coords") or ()
        given["drop"] = given.get("drop") or ()
        if given.get("missing", "error") not in ("error", "keep"):
            problem = f"must be 'error' or 'keep', got {given['missing']!r}"
            raise ParameterError("missing", problem)
        roles = cls(**given)
        roles._refuse_half_a_target()
        return roles

    def _refuse_half_a_target(self) -> None:
        given = [part for part in ("time", "event") if getattr(self, part) is not None]
        if len(given) == 1:
            other = "event" if given == ["time"] else "time"
            raise ParameterError(
                given[0],
                "is given alone, but a time has a meaning only if it is known whether "
                "the event was observed",
                "Give {0} as well.",
                (other, ...),
            )
        if given and self.label is not None:
            problem = "cannot be combined with a time and an event"
            raise ParameterError("label", problem, "Omit {0}.", ("label", None))

    @property
    def targets(self) -> dict[str, str]:
        """The columns that say what is to be predicted, by role."""
        found = {part: getattr(self, part) for part in ("label", "time", "event")}
        found |= {f"label {name}": name for name in self.more_labels}
        return {part: name for part, name in found.items() if name is not None}

    @property
    def encoded(self) -> tuple[str, ...]:
        """The columns that are named to be encoded."""
        return self.encode if isinstance(self.encode, tuple) else ()

    def encoding_of(self, name: str, doubt: str | None) -> str | None:
        """Return as what a column is to be encoded; None if it is not.

        By itself ("auto") only what cannot be a mistake is encoded: dates, texts and
        categories, but neither numbers with a few words among them nor a name for every
        row.

        Parameters
        ----------
        name : str
            The column.
        doubt : str or None
            What it can be encoded as, if it is not numeric; empty if that is doubtful.
        """
        if name in self.text:
            return "text"
        if name in self.encoded:
            return "date" if doubt == "date" else "category"
        return doubt or None if self.encode == "auto" else None

    def used(self) -> dict[str, str]:
        """Return the columns that are not features, with the role of each."""
        parts = {getattr(self, part): part for part in _SINGLE}
        parts |= dict.fromkeys(self.coords, "coords")
        parts |= dict.fromkeys(self.more_labels, "label")
        return {name: part for name, part in parts.items() if name is not None}

    def feature_columns(self, names: Sequence[str], source: str) -> list[str]:
        """Return the feature columns, or report names that do not fit."""
        self.check_names(names, source)
        if self.features is not None:
            return list(self.features)
        left_out = {*self.used(), *self.drop}
        kept = [name for name in names if name not in left_out]
        if not kept:
            raise DataError(
                f"{_prefix(source)}there is no feature column besides the "
                "bag and the label"
            )
        return kept

    def dropped_groups(self, names: Sequence[Any]) -> list[Any]:
        """Return the columns that are dropped although they are named like groups."""
        if not self.targets or self.group is not None or self.features is not None:
            return []  # nothing is learned, or the user chose the features
        known = {*names}
        return [n for n in self.drop if n in known and sounds_like_a_group(n)]

    def only(self, names: Sequence[Any]) -> Roles:
        """Return the roles of the columns of one of two tables."""
        return self._kept(lambda name: name in names)

    def without(self, names: Any) -> Roles:
        """Return the roles without those of columns of another table."""
        return self._kept(lambda name: name not in names)

    def _kept(self, keep: Callable[[Any], bool]) -> Roles:
        changed: dict[str, Any] = {
            part: None
            for part in _SINGLE[1:]
            if getattr(self, part) is not None and not keep(getattr(self, part))
        }
        for part in ("more_labels", "coords", "features", "drop", "encode", "text"):
            given = getattr(self, part)
            if isinstance(given, tuple):
                changed[part] = tuple(name for name in given if keep(name))
        changed["features"] = changed.get("features") or None
        return replace(self, **changed)

    def check_names(self, names: Sequence[str], source: str) -> None:
        """Report given names that are not columns, or that have two roles."""
        source = _prefix(source)
        shown = ", ".join(repr(name) for name in list(names)[:_SHOWN])
        if self.bag is None:
            raise DataError(
                f"{source}the column with the ids of the bags is not given; the table "
                f"has {shown}",
                "Name it with {0}.",
                ("bag", ...),
            )
        wanted = [
            *(getattr(self, part) for part in _SINGLE),
            *self.more_labels,
            *self.coords,
            *self.drop,
            *(self.features or ()),
            *self.encoded,
            *self.text,
        ]
        known = {None, *names}
        unknown = [name for name in dict.fromkeys(wanted) if name not in known]
        if unknown:
            raise UnknownColumnError(
                f"{source}there is no column {', '.join(map(repr, unknown))}; the "
                f"table has {shown}",
                columns=unknown,
            )
        self._refuse_two_roles(source)

    def _refuse_two_roles(self, source: str) -> None:
        single = [getattr(self, part) for part in _SINGLE]
        for name in self.more_labels:
            if [*self.more_labels, *single, *self.coords].count(name) > 1:
                problem = f"{name!r} is a label and has another role"
                raise DataError(source + problem, columns=[name])
        for name in [n for n in (*single, *self.coords) if n is not None]:
            roles = [part for part in _SINGLE if getattr(self, part) == name]
            roles += ["coords"] * self.coords.count(name)
            # A bag may be its own group; any other second role is a mistake.
            if len(roles) > 1 and roles != ["bag", "group"]:
                problem = f"{' and '.join(roles)} are the same column, {name!r}"
                raise DataError(source + problem, columns=[name])
        encoded = [("encode", name) for name in self.encoded]
        for option, name in [*encoded, *(("text", name) for name in self.text)]:
            if name in self.used() or name in self.drop:
                role = self.used().get(name, "drop")
                problem = f"{name!r} is given as {option} and as {role}"
                raise DataError(source + problem, columns=[name])
        roles_of = self.used()
        for name in self.features or ():
            part = roles_of.get(name)
            if part in ("bag", "weight", *self.targets):
                problem = f"{name!r} is given as a feature and as the {part}"
                raise DataError(source + problem, columns=[name])
        listed = self.features or ()
        doubled = [name for name, count in Counter(listed).items() if count > 1]
        if doubled or self.features == ():
            what = f"{doubled[0]!r} twice" if doubled else "no column"
            raise DataError(f"{source}features lists {what}", columns=doubled)


def _names_a_matrix(features: Any) -> bool:
    """Whether features are one matrix of AnnData, such as "obsm:X_pca"."""
    return isinstance(features, str) and (features == "X" or ":" in features)


def _prefix(source: str) -> str:
    return f"{source}: " if source else ""


def _list_of_names(value: Any, argument: str) -> tuple[str, ...]:
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise TypeError(f"{argument} must be a list of column names, got {value!r}.")
    return tuple(value)


def sounds_like_a_group(name: Any) -> bool:
    """Whether a name suggests something that bags share, such as a patient."""
    return _GROUP_NAME.search(str(name)) is not None


def same_label(pos_label: Any, classes: npt.NDArray[Any]) -> Any:
    """Return the class whose text is `pos_label`, if classes are not text."""
    if not isinstance(pos_label, str) or pos_label in classes.astype(object).tolist():
        return pos_label
    same = [label for label in classes.tolist() if str(label) == pos_label]
    return same[0] if same else pos_label


def join_targets(
    found: dict[str, npt.NDArray[Any]], source: str
) -> npt.NDArray[Any] | None:
    """Return the labels, or times and events as one array, or None."""
    if "event" not in found:
        return _several(found, source) if len(found) > 1 else found.get("label")
    try:
        return survival_target(found["event"], found["time"])
    except ValueError as error:
        raise DataError(f"{source}: {error}" if source else str(error)) from None


def _several(found: dict[str, npt.NDArray[Any]], source: str) -> npt.NDArray[Any]:
    """Return several labels, each yes or no, as columns of zeros and ones."""
    for part, values in found.items():
        if values.ndim != 1 or not np.isin(values, [0, 1]).all():
            shown = ", ".join(map(repr, np.unique(values).tolist()[:4]))
            text = f"each of several labels must be 1 or 0, but {part!r} is "
            text += shown
            raise DataError(f"{source}: {text}" if source else text)
    return np.column_stack([values.astype(np.int64) for values in found.values()])


def which_excluded(
    labels: npt.NDArray[Any], excluded: Sequence[str], source: str
) -> npt.NDArray[np.bool_]:
    """Return which labels are to be left out; warn of those that no bag has."""
    texts = [_as_text(label) for label in labels.tolist()]
    unknown = [label for label in excluded if label not in texts]
    if unknown:
        shown = ", ".join(map(repr, sorted({*texts})[:6]))
        text = f"no bag has the label {unknown[0]!r} that is to be excluded, "
        text += f"{_prefix(source)}the labels are {shown}"
        warnings.warn(DataWarning(text), stacklevel=4)
    return np.array([text in excluded for text in texts], dtype=bool)


def leave_out(found: Any, excluded: Sequence[str], source: str, from_text: bool) -> Any:
    """Return bags, labels and weights without the bags of some labels."""
    X, y, *more = found
    if y is None or y.dtype.names is not None or y.ndim > 1:
        problem = "excludes bags by their label, but there is no single label"
        raise ParameterError("exclude_label", problem)
    kept = np.flatnonzero(~which_excluded(y, excluded, source))
    if not kept.size:
        raise DataError(f"{_prefix(source)}all bags have a label that is excluded")
    y = y[kept]
    if from_text and y.dtype.kind == "U":
        read = label_values(y.tolist())  # labels may all be numbers
        y = y if read.dtype.kind == "O" else read
    weights = [None if part is None else part[kept] for part in more]
    return X[kept], y, *weights


def _as_text(label: Any) -> str:
    """Return a label as a table shows it."""
    whole = isinstance(label, float) and label.is_integer()
    return str(int(label)) if whole else str(label).strip()


def positive_or_not(y: Any, pos_label: Any, source: str = "") -> npt.NDArray[np.int64]:
    """Return 1 for bags with the positive one of two labels and 0 for the others."""
    place = _prefix(source)
    if y is None:
        raise DataError(
            f"{place}the positive label {pos_label!r} is given, but no label column",
            "Give {0}.",
            ("label", ...),
        )
    y = np.asarray(y)
    classes = np.unique(y)
    shown = ", ".join(repr(label) for label in classes.tolist()[:6])
    shown += ", ..." if len(classes) > 6 else ""
    where = f" ({source})" if source else ""
    if y.ndim != 1 or len(classes) > 2:
        raise ParameterError(
            "pos_label",
            f"names one of two labels, {pos_label!r}, but there are {len(classes)}: "
            f"{shown}{where}",
        )
    label = same_label(pos_label, classes)
    if label not in classes.tolist():
        problem = f"is {pos_label!r}, which is not one of the labels {shown}{where}"
        raise ParameterError("pos_label", problem)
    return (y == label).astype(np.int64)
