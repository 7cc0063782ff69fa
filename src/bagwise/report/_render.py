"""Write the report: one HTML file with everything inside."""

from __future__ import annotations

import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined
from markupsafe import Markup

from bagwise.comparison.comparison import Comparison
from bagwise.report._context import report_context

__all__ = ["render_report", "write_report"]


def render_report(context: dict[str, Any]) -> str:
    """Return the page of a context made by `report_context`.

    Everything that comes from data is escaped: by the template engine in the markup,
    and by replacing the characters that could end a script element in its data.

    Parameters
    ----------
    context : dict
        What the template shows.

    Returns
    -------
    str
        HTML.
    """
    folder = resources.files("bagwise.report") / "templates"
    read = {
        name: (folder / name).read_text(encoding="utf-8")
        for name in ("report.html", "report.css", "maps.js", "report.js")
    }
    environment = Environment(
        loader=BaseLoader(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.from_string(read["report.html"]).render(
        **{key: value for key, value in context.items() if key != "data"},
        style=Markup(read["report.css"]),
        script=Markup(read["maps.js"] + read["report.js"]),
        data=script_json(context["data"]),
    )


def script_json(value: Any) -> Markup:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def write_report(comparison: Comparison, path: str | os.PathLike[str]) -> Path:
    """Write the report of a comparison.

    Parameters
    ----------
    comparison : Comparison
        What `bagwise.compare` returned.
    path : path
        The file; folders are made. It is there whole or not at all.

    Returns
    -------
    Path
        The file: one page that opens offline.
    """
    path = Path(path)
    page = render_report(report_context(comparison))
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(page, encoding="utf-8")
    scratch.replace(path)  # a report is there whole or not at all
    return path
