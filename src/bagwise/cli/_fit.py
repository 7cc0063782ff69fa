"""`bagwise fit`."""

from pathlib import Path
from typing import Annotated, Any

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
    from bagwise.cli._model_files import DEFAULTS, fit_file

    problem = source.problem()
    name = DEFAULTS[problem.task] if method is None else method
    fixed = with_settings([name], set_ or [], skip="set" in source.settled)[0]
    found = fit_file(
        problem,
        fixed,
        out=out,
        grid=grid,
        random_state=seed,
        impute=source.impute,
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
        typer.echo(f"inner cross-validation: {_figure(problem, found.tune_score)}")
    typer.echo(f"model: {out.absolute()}")
    return 0


def _figure(problem: Any, score: float) -> str:
    """Say what the inner folds measured; errors are negative scores there."""
    from bagwise.comparison import METRICS
    from bagwise.comparison.tasks import task_of

    name = METRICS[task_of(problem).default_metric()[0]].scoring
    text = name.removeprefix("neg_").replace("_", " ")
    return f"{text} {-score:.4g}" if name.startswith("neg_") else f"{text} {score:.3f}"
