"""`bagwise predict`."""

from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli._common import Escape, Json, write_json, write_rows
from bagwise.cli._source import Source, reads_data


@reads_data
def predict(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    source: Source,
    out: Annotated[
        Path | None, typer.Option(help="CSV file; standard output if absent.")
    ] = None,
    csv_escape: Escape = True,
    json: Json = False,
) -> int:
    """Predict the label of every bag of DATA.

    Name the label column with --label if the file has one, so that it is no feature.
    """
    from bagwise.cli._model_files import predict_file

    rows = predict_file(model, source.bags())
    if json:
        write_json(rows)
    else:
        write_rows(rows, out, escape=csv_escape)
        if out is not None:
            typer.echo(f"predictions: {out.absolute()}")
    return 0
