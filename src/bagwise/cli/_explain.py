"""`bagwise explain`."""

from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli._common import Bag, Json, Label, write_json


def explain(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    data: Annotated[str, typer.Argument(help="A file, or the name of a known set.")],
    out: Annotated[Path, typer.Option(help="Folder.")] = Path("bagwise-explained"),
    bag: Bag = None,
    label: Label = None,
    json: Json = False,
) -> int:
    """Score every instance of DATA, to see which ones made a bag positive.

    Writes instances.csv and key_instances.png.
    """
    from bagwise import comparison

    found = comparison.explain_file(model, data, bag=bag, label=label)
    paths = found.write(out)
    if json:
        files = {name: str(path) for name, path in paths.items()}
        write_json({"files": files, "instances": found.rows()})
        return 0
    for name, path in paths.items():
        typer.echo(f"{name}: {path.absolute()}")
    return 0
