r"""WEKA's ARFF with one relational attribute: one row per bag.

The relational value is a quoted string in which the instances are separated by an
escaped line break, as WEKA writes it::

    @relation toy
    @attribute id {a,b}
    @attribute bag relational
      @attribute f1 numeric
      @attribute f2 numeric
    @end bag
    @attribute class {0,1}
    @data
    a,"1,2\n3,4",1
    b,"5,6",0
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.io.files import (
    NO_LABELS,
    fail,
    label_values,
    numbered_lines,
    numbers,
    plain_values,
    read_text,
)

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_NUMERIC = ("numeric", "real", "integer")
_NAME = re.compile(r"""('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\s{}]+)\s*(.*)""", re.S)


@dataclass
class _Attribute:
    name: str
    kind: str  # "numeric", "nominal", "string" or "relational"
    values: set[str] = field(default_factory=set)
    inner: list[_Attribute] = field(default_factory=list)


def read_arff(path: Path, bag: str | None, label: str | None) -> Any:
    """Read a relational ARFF file; see `read_bags`."""
    lines = numbered_lines(read_text(path), comment="%")
    attributes = _header(lines, path)
    relation, id_column, label_column = _roles(attributes, bag, label, path)
    names = [a.name for a in attributes[relation].inner]
    bags: list[Any] = []
    ids: list[str] = []
    labels: list[str] = []
    for line, content in lines:
        row = _split(content, path, line)
        if len(row) != len(attributes):
            fail(
                path,
                f"the row has {len(row)} values, the header declares "
                f"{len(attributes)}; is the file truncated?",
                line,
            )
        for attribute, value in zip(attributes, row, strict=True):
            _check_value(attribute, value, path, line)
        bags.append(_instances(row[relation], names, path, line))
        if id_column is not None:
            ids.append(row[id_column])
            if not ids[-1]:
                fail(path, "the bag has no name", line)
        if label_column is not None:
            labels.append(row[label_column])
            if labels[-1] in NO_LABELS:
                fail(path, f"the label {labels[-1]!r} stands for a missing label", line)
    if not bags:
        fail(path, "there is a header, but no data")
    doubled = [name for name, count in Counter(ids).items() if count > 1]
    if doubled:
        fail(path, f"two rows are the bag {min(doubled)!r}")
    X = Bags.from_list(
        bags,
        ids=plain_values(ids) if ids else None,
        feature_names=np.array(names, dtype=object),
    )
    if label_column is None:
        return X, None
    y = label_values(labels)
    return X, y.astype(str) if y.dtype == object else y


def _header(lines: Iterator[tuple[int, str]], path: Path) -> list[_Attribute]:
    """Read the declarations up to @data."""
    attributes: list[_Attribute] = []
    outer: _Attribute | None = None
    names: set[tuple[str | None, str]] = set()
    line = 1
    for line, content in lines:
        keyword, rest = _keyword(content)
        if keyword == "@relation":
            continue
        if keyword == "@attribute":
            attribute = _declaration(rest, path, line)
            if outer is not None and attribute.kind == "relational":
                fail(path, "a relational attribute inside another", line)
            key = (outer.name if outer is not None else None, attribute.name)
            if key in names:
                fail(path, f"two attributes are called {attribute.name!r}", line)
            names.add(key)
            (attributes if outer is None else outer.inner).append(attribute)
            if attribute.kind == "relational":
                outer = attribute
        elif keyword == "@end":
            if outer is None or _unquote(rest) != outer.name:
                fail(path, f"@end {rest} has no matching @attribute", line)
            outer = None
        elif keyword == "@data":
            if outer is not None:
                fail(path, f"@end {outer.name} is missing before @data", line)
            return attributes
        else:
            fail(
                path, f"expected @attribute, @end or @data, got {content[:40]!r}", line
            )
    fail(path, "there is no @data; is the file truncated?", line)


def _keyword(content: str) -> tuple[str, str]:
    parts = content.split(None, 1)
    return parts[0].lower(), parts[1].strip() if len(parts) > 1 else ""


def _declaration(rest: str, path: Path, line: int) -> _Attribute:
    match = _NAME.fullmatch(rest)
    if not match or not match.group(2):
        fail(path, "an attribute needs a name and a type", line)
    name, kind = _unquote(match.group(1)), match.group(2).strip()
    if kind.startswith("{"):
        if not kind.endswith("}"):
            fail(path, f"the values of {name!r} have no closing brace", line)
        return _Attribute(name, "nominal", {*_split(kind[1:-1], path, line)})
    word = kind.split()[0].lower()
    if word in _NUMERIC:
        return _Attribute(name, "numeric")
    if word in ("relational", "string"):
        return _Attribute(name, word)
    fail(
        path, f"attribute {name!r} has the type {word!r}, which is not supported", line
    )


def _roles(
    attributes: list[_Attribute], bag: str | None, label: str | None, path: Path
) -> tuple[int, int | None, int | None]:
    """Find the columns of the instances, the bag names and the labels."""
    relations = [i for i, a in enumerate(attributes) if a.kind == "relational"]
    if len(relations) != 1:
        fail(path, f"expected one relational attribute, found {len(relations)}")
    inner = attributes[relations[0]].inner
    if not inner:
        fail(path, "the relational attribute declares no feature")
    for a in inner:
        if a.kind != "numeric":
            fail(path, f"feature {a.name!r} is {a.kind}; only numbers are supported")
    others = [i for i in range(len(attributes)) if i != relations[0]]
    names = {attributes[i].name: i for i in others}
    for name in (bag, label):
        if name is not None and name not in names:
            shown = ", ".join(map(repr, names))
            fail(path, f"there is no attribute {name!r}; there are {shown}")
    if label is not None:
        label_column: int | None = names[label]
    else:
        # In WEKA the class comes last.
        candidates = [i for i in others if attributes[i].name != bag]
        label_column = candidates[-1] if candidates else None
    if bag is not None:
        return relations[0], names[bag], label_column
    rest = [i for i in others if i != label_column]
    return relations[0], rest[0] if rest else None, label_column


def _check_value(attribute: _Attribute, value: str, path: Path, line: int) -> None:
    if attribute.kind == "relational":
        return
    if isinstance(value, _Missing):
        fail(path, f"attribute {attribute.name!r} is missing", line)
    if attribute.kind == "numeric":
        numbers([value], path, line, [attribute.name])
    elif attribute.kind == "nominal" and value not in attribute.values:
        fail(
            path, f"{value[:40]!r} is not a declared value of {attribute.name!r}", line
        )


def _instances(text: str, names: list[str], path: Path, line: int) -> Any:
    rows = [r for r in re.split(r"[\r\n]+", text) if r.strip()]
    if not rows:
        fail(path, "the bag is empty", line)
    matrix = []
    for row in rows:
        if row.lstrip().startswith("{"):
            fail(path, "sparse instances are not supported", line)
        values = _split(row, path, line)
        if len(values) != len(names):
            fail(
                path,
                f"an instance has {len(values)} values, {len(names)} are declared",
                line,
            )
        matrix.append(numbers(values, path, line, names))
    return np.array(matrix)


def _split(content: str, path: Path, line: int) -> list[str]:
    """Split at commas outside quotes; remove quotes and escapes."""
    if content.startswith("{"):
        fail(path, "sparse rows are not supported", line)
    values: list[str] = []
    current: list[str] = []
    quote, closed, blank, i = "", False, True, 0
    while i < len(content):
        c = content[i]
        if quote:
            if c == "\\" and i + 1 < len(content):
                i += 1
                current.append(_ESCAPES.get(content[i], content[i]))
            elif c == quote:
                quote, closed = "", True
            else:
                current.append(c)
        elif c == ",":
            values.append(_value(current, closed))
            current, closed, blank = [], False, True
        elif c in "'\"" and blank and not closed:
            quote, current = c, []
        elif closed and not c.isspace():
            fail(
                path,
                f"there is text after a closing quote: {content[i : i + 20]!r}",
                line,
            )
        elif not closed:
            current.append(c)
            blank = blank and c.isspace()
        i += 1
    if quote:
        fail(path, "a quotation mark is not closed; is the file truncated?", line)
    values.append(_value(current, closed))
    return values


class _Missing(str):
    """A question mark for a missing value; in quotes it is text."""


def _value(characters: list[str], quoted: bool) -> str:
    text = "".join(characters)
    if quoted:
        return text
    return _Missing("?") if text.strip() == "?" else text.strip()


def _unquote(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0]:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text
