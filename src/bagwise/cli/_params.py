"""Parameters of methods on the command line: METHOD.PARAM=VALUE."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from bagwise.cli._wording import UsageError

__all__ = ["parse_setting", "with_settings"]


def parse_setting(text: str) -> tuple[str, str, Any]:
    """Split ``METHOD.PARAM=VALUE``.

    Values are numbers, true, false, lists and quoted text as in TOML; what is none of
    these is text.

    Examples
    --------
    >>> parse_setting("MI-SVM.C=10")
    ('MI-SVM', 'C', 10)
    >>> parse_setting("SimpleMI.pooling=max")
    ('SimpleMI', 'pooling', 'max')
    """
    left, sign, value = text.partition("=")
    method, _, name = left.strip().rpartition(".")
    if not sign or not method or not name:
        raise UsageError(f"--set takes METHOD.PARAM=VALUE, got {text!r}")
    if value.strip().lower() in ("none", "null"):
        return method, name, None
    try:
        return method, name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return method, name, value.strip()


def with_settings(
    methods: Sequence[Any], settings: Sequence[str], *, skip: bool = False
) -> list[Any]:
    """Return methods with the parameters that were set for them.

    Settings of methods that are not there are refused, or skipped.
    """
    from bagwise.comparison import find_method

    found = [find_method(method) for method in methods]
    for text in settings:
        name, parameter, value = parse_setting(text)
        wanted = find_method(name).name
        places = [k for k, method in enumerate(found) if method.name == wanted]
        if not places and skip:
            continue
        if not places:
            raise UsageError(f"--set {text}: {wanted} is not among the methods")
        found[places[0]] = found[places[0]].with_params(**{parameter: value})
    return found
