"""`bagwise compare` and `bagwise demo`."""

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from bagwise.cli._common import Jobs, Json, Seed, with_settings, write_json
from bagwise.cli._data import InputData, reads_data


@reads_data
def compare(
    source: InputData,
    methods: Annotated[
        str | None,
        typer.Option(
            help=(
                "Names of methods, separated by commas. The name default stands for the"
                " methods selected for the data, which are used without this option."
            )
        ),
    ] = None,
    folds: Annotated[
        int, typer.Option(help="Number of folds of the cross-validation.")
    ] = 5,
    repeats: Annotated[
        int | None,
        typer.Option(
            help="Number of repeats of the cross-validation; by default 2 with fewer"
            " than 200 bags."
        ),
    ] = None,
    leave_one_out: Annotated[
        bool,
        typer.Option(
            "--leave-one-out",
            help="Use leave-one-bag-out cross-validation instead of folds.",
        ),
    ] = False,
    half_splits: Annotated[
        int,
        typer.Option(help="Use this number of random half splits instead of folds."),
    ] = 0,
    test: Annotated[
        str | None, typer.Option(help="Test on the bags of this file instead of folds.")
    ] = None,
    test_labels: Annotated[
        str | None,
        typer.Option(help="Table of labels, if the test bags are a folder."),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="Metric of the ranking: auto, accuracy, auroc, "
            "average_precision, balanced_accuracy, log_loss, key_success, "
            "group_accuracy, group_auroc; r2, rmse, mae, spearman; "
            "concordance."
        ),
    ] = "auto",
    margin: Annotated[
        float, typer.Option(help="Difference that does not matter in practice.")
    ] = 0.02,
    grid: Annotated[
        str,
        typer.Option(
            help="Parameter grid: default, large, auto (extended if the best "
            "value is at its end) or none."
        ),
    ] = "default",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results; bagwise-NAME by default."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Images of instances: an .npz or .npy file, or a folder."),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Calibrate the probabilities of all methods."),
    ] = False,
    permute_features: Annotated[
        bool,
        typer.Option(
            "--permute-features", help="Measure the importance of features (slow)."
        ),
    ] = False,
    conformal: Annotated[
        float | None,
        typer.Option(
            help="Store prediction sets with the model, with this error rate: "
            "0.1 for 90% coverage."
        ),
    ] = None,
    conformal_per_class: Annotated[
        bool,
        typer.Option(
            "--conformal-per-class",
            help="Reach the coverage of prediction sets in each class.",
        ),
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Set a parameter: METHOD.PARAM=VALUE; may be repeated.",
        ),
    ] = None,
    jobs: Jobs = -1,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a dask scheduler.")
    ] = None,
    time_limit: Annotated[
        float, typer.Option(help="Time limit of one run in seconds; 0 for none.")
    ] = 900.0,
    time_budget: Annotated[
        float | None,
        typer.Option(
            help="Time limit of the whole comparison in seconds; runs that have "
            "not ended are stopped."
        ),
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(help="Memory limit of one run, such as 4GB.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Repeat the runs that failed.")
    ] = False,
    seed: Seed = 0,
    json: Json = False,
) -> int:
    """Compare methods on DATA by nested cross-validation and write a report.

    The same command continues where it was stopped.
    """
    from bagwise import comparison
    from bagwise.comparison.choose import choose_methods

    problem = source.problem()
    names: list[str] | None = None
    if methods is not None:
        names = [name.strip() for name in methods.split(",") if name.strip()]
    choices = choose_methods(problem, names)
    if set_:
        taken = [choice.method for choice in choices if choice.chosen]
        found = iter(with_settings(taken, set_))
        choices = [
            replace(choice, method=next(found)) if choice.chosen else choice
            for choice in choices
        ]
    if not json:
        _announce(problem, choices if names is None else [])
    folder = Path(f"bagwise-{_safe(problem.name)}") if out is None else out
    result = comparison.compare(
        problem,
        methods=choices,
        protocol=_protocol(folds, repeats, len(problem.y), leave_one_out, half_splits),
        metric=metric,
        margin=margin,
        grid=grid,
        random_state=seed,
        n_jobs=jobs,
        scheduler=scheduler,
        time_limit=time_limit if time_limit > 0 else None,
        time_budget=time_budget,
        memory_limit=memory_limit,
        out=folder,
        retry_failed=retry_failed,
        progress=not json,
        test=None if test is None else _test_bags(source, test, test_labels),
        images=images,
        calibrate=calibrate,
        impute=source.impute,
        task=source.task,
        permute_features=permute_features,
        conformal=conformal,
        conformal_per_class=conformal_per_class,
        command=shlex.join(["bagwise", *sys.argv[1:]]),
    )
    return write_outcome(result, folder, as_json=json)


def _test_bags(source: InputData, test: str, labels: str | None) -> Any:
    """Return the test bags; a folder may have a table of labels of its own."""
    if labels is not None:
        source = replace(source, columns={**source.columns, "labels": labels})
    return source.problem(test)


def _protocol(
    folds: int, repeats: int | None, n_bags: int, leave_one_out: bool, halves: int
) -> Any:
    from bagwise import comparison
    from bagwise.comparison.inference import repeats_for

    if leave_one_out:
        return comparison.LeaveOneBagOut()
    if halves:
        return comparison.Halves(halves)
    repeats = repeats_for(n_bags) if repeats is None else repeats
    return comparison.CrossValidation(folds, repeats)


def _announce(problem: Any, choices: list[Any]) -> None:
    """Print what the data are, which methods were chosen, and why others were not."""
    from bagwise.comparison.choose import excluded

    console = Console(stderr=True, highlight=False)

    def say(text: str, style: str = "") -> None:
        console.print(text, markup=False, soft_wrap=True, style=style)

    say(f"{problem.name}: {problem.X!r}")
    say(_what_is_predicted(problem))
    taken = [choice.method.name for choice in choices if choice.chosen]
    if taken:
        say(f"methods: {', '.join(taken)}")
    for choice in choices:
        if choice.chosen and not choice.method.default:
            say(f"  + {choice.method.name}: {choice.reason}")
    left = excluded(choices, problem)
    for choice in left:
        say(f"  - {choice.method.name}: {choice.reason}", "dim")
    if left:
        name = left[0].method.name
        say(f"  (--methods 'default,{name}' adds the excluded method)", "dim")


def _what_is_predicted(problem: Any) -> str:
    """Describe the labels, which one is positive, and what is kept together."""
    if problem.task == "regression":
        text = f"values from {problem.y.min():.4g} to {problem.y.max():.4g}"
    elif problem.task == "survival":
        times, seen = problem.y["time"], int(problem.y["event"].sum())
        text = f"times from {times.min():.4g} to {times.max():.4g}, {seen} events and"
        text += f" {len(times) - seen} censored; ranked by the concordance index"
    elif problem.task == "multilabel":
        text = f"{problem.y.shape[1]} labels per bag"
        if problem.label_names:
            text += f": {', '.join(problem.label_names)}"
    else:
        labels, counts = np.unique(problem.y, return_counts=True)
        named = [f"{label} {n}" for label, n in zip(labels, counts, strict=True)]
        if problem.positive is not None:
            named[problem.positive] += " (positive)"
        more = f" and {len(named) - 8} more" if len(named) > 8 else ""
        text = f"classes: {', '.join(named[:8])}{more}"
    if problem.groups is not None:
        n_groups = len(np.unique(problem.groups.astype(str)))
        text += f"; {n_groups} groups, never split"
    n_copies = problem.n_copies
    if n_copies:
        text += f"; {n_copies} bags are copies of others, never split"
    if problem.sample_weight is not None:
        low, high = problem.sample_weight.min(), problem.sample_weight.max()
        text += f"; weights from {low:.4g} to {high:.4g}"
    return text


def _safe(name: str) -> str:
    kept = [c if c.isalnum() or c in "-_." else "-" for c in name]
    return "".join(kept).strip(".") or "data"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path(
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


def _ends(low: float, high: float, show: Callable[[float], str]) -> str:
    return "" if low != low else f"{show(low)} to {show(high)}"


def print_ranking(result: Any) -> None:
    """Print the ranking of a comparison as a table."""
    from bagwise.comparison import METRICS
    from bagwise.comparison.choose import time_note
    from bagwise.comparison.ranking import explain_test
    from bagwise.report.view import seconds

    console = Console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", justify="right")
    table.add_column("Method")
    grouped = result.has_group_figures and result.metric != "group_auroc"
    if grouped:
        table.add_column(METRICS["group_auroc"].title, justify="right")
        table.add_column("95% interval", justify="right")
    table.add_column(METRICS[result.metric].title, justify="right")
    table.add_column("95% interval", justify="right")
    table.add_column("p", justify="right")
    table.add_column("against the best")
    table.add_column("fit", justify="right")
    show = METRICS[result.metric].show
    for row in result.ranking:
        interval = _ends(row.low, row.high, show)
        groups = [show(row.group_auroc), _ends(row.group_low, row.group_high, show)]
        failed = f" ({row.n_failed} failed)" if row.n_failed else ""
        style = {"best": "bold green", "worse": "dim"}.get(row.verdict, "")
        table.add_row(
            str(row.rank),
            row.method + failed,
            *(groups if grouped else ()),
            show(row.mean),
            interval,
            "" if row.p_holm != row.p_holm else f"{row.p_holm:.3f}",
            row.verdict,
            seconds(row.fit_time),
            style=style,
        )
    console.print(table)
    for text in result.cautions:
        console.print(f"\n{text}", markup=False, highlight=False)
    console.print(f"\n{explain_test(result)}", style="dim", highlight=False)
    if note := time_note(result.ranking):
        console.print(note, style="dim", highlight=False)
    for row in result.ranking:
        for note in result.grid_ends(row.method, share=0.5):
            text = f"{row.method}: {note}".replace('grid="auto"', "--grid auto")
            console.print(text, markup=False, highlight=False)
        told = result.disagreement(row.method)
        if told.get("warn"):
            text = f"{row.method}: {told['text']}"
            console.print(text, markup=False, highlight=False)
    for text in result.unconverged:
        console.print(f"{text}: see the warnings in the report", highlight=False)
    for name in ("time budget", "tuned on a part of the training bags", "weights"):
        if name in result.provenance:
            text = f"{name}: {result.provenance[name]}"
            console.print(text, markup=False, highlight=False)


def write_outcome(result: Any, out: Path, *, as_json: bool) -> int:
    """Write and summarize the report of a comparison; return the exit status."""
    from bagwise.report import write_report

    result.paths["report"] = write_report(result, out / "report.html")
    if as_json:
        write_json(result.to_json())
        return 1 if result.failures else 0
    console = Console(highlight=False)
    print_ranking(result)
    console.print(f"\n{result.summary()}", markup=False)
    for failure in result.failures[:5]:
        where = f"repeat {failure['repeat'] + 1}, fold {failure['fold'] + 1}"
        text = f"failed: {failure['method']}, {where}: {failure['error']}"
        Console(stderr=True).print(text, markup=False, highlight=False)
    for name in ("results", "model", "report"):
        if name in result.paths:
            path = Path(result.paths[name]).absolute()
            console.print(f"{name}: {path}", markup=False, soft_wrap=True)
    return 1 if result.failures else 0
