"""`bagwise predict`."""

from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli._common import Bag, Json, Label, write_json, write_rows


def predict(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    data: Annotated[str, typer.Argument(help="A file, or the name of a known set.")],
    out: Annotated[
        Path | None, typer.Option(help="CSV file; standard output if absent.")
    ] = None,
    bag: Bag = None,
    label: Label = None,
    json: Json = False,
) -> int:
    """Predict the label of every bag of DATA.

    Name the label column with --label if the file has one, so that it is no feature.
    """
    from bagwise import comparison

    rows = comparison.predict_file(model, data, bag=bag, label=label)
    if json:
        write_json(rows)
    else:
        write_rows(rows, out)
        if out is not None:
            typer.echo(f"predictions: {out.absolute()}")
    return 0
