"""`bagwise datasets` and `bagwise methods`."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bagwise.cli._common import Json, write_json


def datasets(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A data set to load and describe; by default all are listed."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """List the known data sets, what is cached, and where to get the others."""
    from bagwise import datasets as known

    if name is not None:
        return _one(name, as_json=json)
    found = known.available()
    if json:
        write_json({key: dict(value) for key, value in found.items()})
        return 0
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("Name", "Bags", "Instances", "Features", "Status", "Where"):
        right = heading in ("Bags", "Instances", "Features")
        table.add_column(heading, justify="right" if right else "left")
    table.add_row("digits", "120", "1,222", "64", "built in", "scikit-learn's images")
    for key, entry in found.items():
        sizes = (entry.n_bags, entry.n_instances, entry.n_features)
        where = entry.path or entry.source or "provide the file in BAGWISE_DATA"
        table.add_row(key, *(f"{n:,}" for n in sizes), entry.status, str(where))
    Console(highlight=False).print(table)
    return 0


def _one(name: str, *, as_json: bool) -> int:
    from bagwise import datasets as known

    data = known.load_digit_bags() if name == "digits" else known.fetch(name)
    if as_json:
        X = data.X
        sizes = {"n_bags": X.n_bags, "n_instances": X.n_instances}
        write_json({"name": name, **sizes, "n_features": X.n_features})
        return 0
    console = Console(highlight=False)
    console.print(repr(data.X), markup=False)
    console.print(str(data.DESCR).strip(), markup=False)
    return 0


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
