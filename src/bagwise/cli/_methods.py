"""`bagwise methods`."""

from rich.console import Console
from rich.table import Table

from bagwise.cli._common import Json, write_json


def methods(json: Json = False) -> int:
    """List the methods that can be compared and fitted."""
    from bagwise.comparison.choose import list_methods, missing_methods

    found = list_methods()
    if json:
        write_json(
            [
                {
                    "name": m.name,
                    "class": m.path,
                    "task": m.task,
                    "paper": m.paper,
                    "note": m.note,
                    "assumption": m.assumption,
                }
                for m in found
            ]
        )
        return 0
    table = Table(box=None, pad_edge=False, header_style="dim")
    headings = ("Method", "Class", "Instances", "Standard assumption", "What it does")
    for heading in headings:
        table.add_column(heading)
    for method in found:
        scores = "scored" if method.instances else ""
        respected = method.assumption.partition(": ")[2].partition(" (")[0]
        table.add_row(method.name, method.path, scores, respected, method.note)
    console = Console(highlight=False)
    console.print(table)
    for method in missing_methods():
        console.print(f"Not listed: {method.missing}", markup=False, soft_wrap=True)
    return 0
