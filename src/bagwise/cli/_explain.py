"""`bagwise explain`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli._common import Escape, Json, write_json
from bagwise.cli._source import Source, reads_data


@reads_data
def explain(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    source: Source,
    out: Annotated[Path, typer.Option(help="Folder.")] = Path("bagwise-explained"),
    by: Annotated[
        str, typer.Option(help="auto, native, single, leave_out or add_to.")
    ] = "auto",
    images: Annotated[
        Path | None, typer.Option(help="Pictures: .npz, .npy, or a folder of files.")
    ] = None,
    csv_escape: Escape = True,
    json: Json = False,
) -> int:
    """Score every instance of DATA, to see which ones made a bag positive.

    Writes instances.csv, instances.json and key_instances.png, and a heat map where
    instances have coordinates. Models that do not score instances are asked for the
    score of each instance alone (--by single), or for what is lost without it
    (--by leave_out). High scores speak for the positive class of two, of more classes
    for the one that is predicted; --positive names another one.
    """
    from bagwise.cli._model_files import explain_file

    found = explain_file(
        model,
        source.bags() if source.is_file else replace(source, positive=None).problem(),
        by=by,
        pos_label=source.positive,
        images=images,
    )
    paths = found.write(out, escape=csv_escape)
    if json:
        files = {name: str(path) for name, path in paths.items()}
        write_json({"files": files, "instances": found.rows()})
        return 0
    for name, path in paths.items():
        typer.echo(f"{name}: {path.absolute()}")
    return 0
