"""The table of methods of the README, made from the catalogue.

``python -m bagwise.comparison.readme`` rewrites the table in ``README.md``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bagwise.comparison.catalogue import Method, list_methods

BEGIN, END = "<!-- methods: begin -->", "<!-- methods: end -->"


def methods_table() -> str:
    """Return the methods of the catalogue as a Markdown table."""
    lines = ["| method | class | what it does | paper |", "|---|---|---|---|"]
    lines += [_row(method) for method in list_methods()]
    return "\n".join(lines)


def _row(method: Method) -> str:
    package, _, name = method.path.removeprefix("bagwise.").rpartition(".")
    cells = (method.name, f"`{package}.{name}`", method.note, method.paper)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def with_table(text: str) -> str:
    """Return the text of a README with the table between its two marks renewed."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{methods_table()}\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "README.md")
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
