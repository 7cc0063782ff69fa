"""`bagwise demo`."""

from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli._common import Jobs, Json, Seed, write_outcome


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path(
        "bagwise-demo"
    ),
    bags: Annotated[int, typer.Option(help="Number of bags.")] = 120,
    jobs: Jobs = -1,
    seed: Seed = 0,
    json: Json = False,
) -> int:
    """Compare methods on bags of digits and write a report. Nothing is downloaded."""
    from bagwise import comparison

    result = comparison.demo(
        out, n_bags=bags, n_jobs=jobs, random_state=seed, progress=not json
    )
    return write_outcome(result, out, as_json=json)
