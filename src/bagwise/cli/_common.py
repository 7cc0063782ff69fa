"""Options and output that several commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bagwise.cli._wording import in_options
from bagwise.io.csv_files import write_csv

Json = Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")]
Seed = Annotated[int, typer.Option(help="Fixes splits and methods.")]
Escape = Annotated[
    bool,
    typer.Option(
        "--csv-escape/--no-csv-escape",
        help="Put an apostrophe in front of text cells that a spreadsheet would run as"
        " a formula.",
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Processes; -1: all cores.")]


def write_json(value: Any) -> None:
    """Write JSON to standard output."""
    print(json.dumps(value, indent=2, default=str))


def write_rows(
    rows: Sequence[dict[str, Any]], path: Path | None, *, escape: bool
) -> None:
    """Write rows as CSV to a file, or to standard output."""
    names = list(rows[0]) if rows else []
    cells = [row.values() for row in rows]
    if path is None:
        write_csv(sys.stdout, names, cells, escape=escape)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        write_csv(file, names, cells, escape=escape)


def print_ranking(result: Any) -> None:
    """Print the ranking of a comparison as a table."""
    from bagwise.comparison import METRICS
    from bagwise.comparison.ranking import explain_test
    from bagwise.report.view import seconds

    console = Console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", justify="right")
    table.add_column("Method")
    table.add_column(METRICS[result.metric].title, justify="right")
    table.add_column("95% interval", justify="right")
    table.add_column("p", justify="right")
    table.add_column("against the best")
    table.add_column("fit", justify="right")
    show = METRICS[result.metric].show
    for row in result.ranking:
        blank = row.low != row.low
        interval = "" if blank else f"{show(row.low)} to {show(row.high)}"
        failed = f" ({row.n_failed} failed)" if row.n_failed else ""
        style = {"best": "bold green", "worse": "dim"}.get(row.verdict, "")
        table.add_row(
            str(row.rank),
            row.method + failed,
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
    for row in result.ranking:
        for note in result.grid_ends(row.method):
            text = f"{row.method}: {in_options(note)}"
            console.print(text, markup=False, highlight=False)
        told = result.disagreement(row.method)
        if told.get("warn"):
            text = f"{row.method}: {in_options(told['text'])}"
            console.print(text, markup=False, highlight=False)
    for name in ("time budget", "weights"):
        if name in result.provenance:
            text = f"{name}: {result.provenance[name]}"
            console.print(text, markup=False, highlight=False)


def write_outcome(result: Any, out: Path, *, as_json: bool) -> int:
    """Write the report of a comparison, say what was found; return the exit status."""
    from bagwise.report import write_report

    for name, value in result.provenance.items():
        if isinstance(value, str) and name != "command":
            result.provenance[name] = in_options(value)
    result.paths["report"] = write_report(result, out / "report.html")
    if as_json:
        write_json(result.to_json())
        return 1 if result.failures else 0
    console = Console(highlight=False)
    print_ranking(result)
    console.print(f"\n{result.summary()}", markup=False)
    for failure in result.failures[:5]:
        where = f"repeat {failure['repeat'] + 1}, fold {failure['fold'] + 1}"
        text = f"failed: {failure['method']}, {where}: {in_options(failure['error'])}"
        Console(stderr=True).print(text, markup=False, highlight=False)
    for name in ("results", "model", "report"):
        if name in result.paths:
            path = Path(result.paths[name]).absolute()
            console.print(f"{name}: {path}", markup=False, soft_wrap=True)
    return 1 if result.failures else 0
