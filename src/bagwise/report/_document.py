"""Pages of sections with tables and figures: one description, HTML or Markdown."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined
from markupsafe import Markup

from bagwise.comparison.texts import markdown_table
from bagwise.comparison.texts import markdown_text as _plain

__all__ = ["Document", "Figure", "Section", "PageTable", "as_svg"]


@dataclass(frozen=True)
class PageTable:
    """A table: its head, and rows of text.

    Attributes
    ----------
    head : list of str
        Names of the columns.
    rows : list of list
        One list per row; the first entry is its name.
    numbers : bool
        Whether all columns but the first (and the last, unless `last_number`) are
        numbers.
    """

    head: list[str]
    rows: list[list[Any]]
    numbers: bool = True
    last_number: bool = True


@dataclass(frozen=True)
class Figure:
    """A figure of a page: an image as a data address, with title and caption."""

    title: str
    source: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A part of a page: paragraphs, a list, tables, figures and code, in this order."""

    title: str
    texts: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    tables: list[PageTable] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    code: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """A page.

    Attributes
    ----------
    title, kicker, lead : str
        Heading, what kind of page it is, and the result in a sentence.
    facts : list of dict
        `name`, `value` and `detail`, shown in boxes.
    sections : list of Section
        The parts.
    """

    title: str
    kicker: str
    lead: str
    facts: list[dict[str, Any]]
    sections: list[Section]

    def html(self) -> str:
        """Return one HTML page that opens offline; everything from data is escaped."""
        folder = resources.files("bagwise.report") / "templates"
        environment = Environment(
            loader=BaseLoader(),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        template = (folder / "document.html").read_text(encoding="utf-8")
        style = (folder / "report.css").read_text(encoding="utf-8")
        return environment.from_string(template).render(page=self, style=Markup(style))

    def markdown(self) -> str:
        """Return the page as Markdown, without its figures."""
        lines = [
            f"# {_plain(self.title)}",
            "",
            f"*{_plain(self.kicker)}*",
            "",
        ]
        lines += [_plain(self.lead), ""]
        for fact in self.facts:
            detail = f" ({_plain(fact['detail'])})" if fact.get("detail") else ""
            lines.append(f"- {_plain(fact['name'])}: {_plain(fact['value'])}{detail}")
        for section in self.sections:
            lines += ["", f"## {_plain(section.title)}", ""]
            for text in section.texts:
                lines += [_plain(text), ""]
            lines += [f"- {_plain(item)}" for item in section.items]
            for table in section.tables:
                lines += ["", *markdown_table(table.head, table.rows)]
            for text in section.code:
                lines += ["", "```", text, "```"]
        text = "\n".join(lines).rstrip() + "\n"
        return text.replace("\n\n\n", "\n\n")


def as_svg(figure: Any) -> str:
    """Return a matplotlib figure as a data address."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "bagwise"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()
