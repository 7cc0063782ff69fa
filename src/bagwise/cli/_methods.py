"""`bagwise methods`."""

from rich.console import Console
from rich.table import Table

from bagwise.cli._common import Json, write_json


def methods(json: Json = False) -> int:
    """List the methods that can be compared and fitted."""
    from bagwise import comparison

    found = comparison.list_methods()
    if json:
        write_json(
            [
                {"name": m.name, "class": m.path, "paper": m.paper, "note": m.note}
                for m in found
            ]
        )
        return 0
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("Method", "Class", "Instances", "What it does"):
        table.add_column(heading)
    for method in found:
        scores = "scored" if method.instances else ""
        table.add_row(method.name, method.path, scores, method.note)
    Console(highlight=False).print(table)
    return 0
