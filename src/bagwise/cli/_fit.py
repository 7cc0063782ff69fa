"""`bagwise fit`."""

from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli._common import Json, Seed, write_json
from bagwise.cli._params import with_settings
from bagwise.cli._source import Source, reads_data


@reads_data
def fit(
    source: Source,
    method: Annotated[
        str | None,
        typer.Option(help="See `bagwise methods`; BagClassifier or BagRegressor."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the model goes.")] = Path(
        "model.bagwise"
    ),
    grid: Annotated[str, typer.Option(help="default, large or none.")] = "default",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="METHOD.PARAM=VALUE fixes a parameter."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> int:
    """Tune and fit one method on all bags of DATA, and save the model."""
    from bagwise import comparison
    from bagwise.comparison._own_files import DEFAULTS

    problem = source.problem()
    name = DEFAULTS[problem.task] if method is None else method
    fixed = with_settings([name], set_ or [], skip="set" in source.settled)[0]
    found = comparison.fit_file(
        problem, fixed, out=out, grid=grid, seed=seed, impute=source.impute
    )
    if json:
        write_json(
            {"model": str(out), "params": found.params, "tune_score": found.tune_score}
        )
        return 0
    if found.params:
        chosen = ", ".join(f"{name}={value}" for name, value in found.params.items())
        typer.echo(f"parameters: {chosen}")
    if found.tune_score is not None:
        typer.echo(f"inner cross-validation: {found.tune_score:.3f}")
    typer.echo(f"model: {out.absolute()}")
    return 0
