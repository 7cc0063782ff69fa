"""`bagwise reproduce`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bagwise.cli._common import Jobs, Json, Seed, write_json


def reproduce(
    table: Annotated[
        str | None, typer.Argument(help="A table, or `all`; see --list.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the tables.")] = False,
    repeats: Annotated[
        int, typer.Option(help="How often the protocol is repeated, up to 10.")
    ] = 1,
    datasets: Annotated[
        str | None, typer.Option(help="Columns to run, separated by commas.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Rows to run, separated by commas.")
    ] = None,
    folds: Annotated[
        int, typer.Option(help="Only so many runs of each repeat, to see the cost.")
    ] = 0,
    store: Annotated[
        Path, typer.Option(help="SQLite file of the runs; they are not run twice.")
    ] = Path("papers.sqlite"),
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    stored: Annotated[
        bool, typer.Option("--stored", help="Run nothing, report what is stored.")
    ] = False,
    time_limit: Annotated[
        float, typer.Option(help="Seconds a run may take; 0: no limit.")
    ] = 0.0,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try failed runs again.")
    ] = False,
    optimistic: Annotated[
        bool,
        typer.Option(
            "--optimistic",
            help="Also choose parameters on the reported folds, as many papers did.",
        ),
    ] = False,
    only_optimistic: Annotated[
        bool,
        typer.Option(
            "--only-optimistic",
            help="The same, and keep the honest figures that are in the folder.",
        ),
    ] = False,
    jobs: Jobs = 1,
    seed: Seed = 0,
    json: Json = False,
) -> int:
    """Measure a paper's TABLE again and put it next to the published figures.

    The same command continues where it was stopped; more repeats add to those there.
    """
    from bagwise import reproduction

    if list_ or table is None:
        return _list(as_json=json)
    names = reproduction.list_tables() if table == "all" else [table]
    failed = 0
    shown: list[Any] = []
    for name in names:
        result = reproduction.reproduce(
            name,
            repeats=repeats,
            datasets=_split(datasets),
            methods=_split(methods),
            folds=folds or None,
            seed=seed,
            n_jobs=jobs,
            store=store,
            out=out,
            time_limit=time_limit or None,
            retry_failed=retry_failed,
            run=not stored,
            progress=not json,
            optimistic="only" if only_optimistic else optimistic,
        )
        failed += len(result.failures)
        shown += result.rows()
        if not json:
            _print(result)
    page = reproduction.write_results_page(out)
    if json:
        write_json(shown)
    else:
        Console(highlight=False).print(f"page: {page}", markup=False, soft_wrap=True)
    return 1 if failed else 0


def _split(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def _list(*, as_json: bool) -> int:
    from bagwise import reproduction

    tables = [reproduction.load_table(name) for name in reproduction.list_tables()]
    if as_json:
        write_json(
            [
                {"name": t.name, "title": t.title, "paper": t.paper, "where": t.where}
                for t in tables
            ]
        )
        return 0
    view = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("Name", "What", "Cells", "Paper"):
        view.add_column(heading, justify="right" if heading == "Cells" else "left")
    for table in tables:
        authors, _, rest = table.paper.partition(",")
        source = f"{authors}, {rest.rpartition(',')[2].strip()}, {table.where}"
        view.add_row(table.name, table.title, str(len(table.cells)), source)
    Console(highlight=False).print(view)
    return 0


def _print(result: Any) -> None:
    from bagwise.reproduction import RULE

    console = Console(highlight=False)
    view = Table(
        title=f"{result.table.name}: {result.table.title}", title_justify="left"
    )
    view.add_column("")
    for column in result.table.columns:
        view.add_column(column, justify="right")
    styles = {"reached": "green", "not reached": "red"}
    for label in result.table.rows:
        line = [item for item in result.cells if item.cell.row == label]
        view.add_row(label, *(_cell(item, styles) for item in line))
    console.print(view)
    looked = any(item.optimistic == item.optimistic for item in result.cells)
    third = "best on the reported folds / " if looked else ""
    text = f"measured ± standard error / {third}published, verdict"
    console.print(text, style="dim")
    console.print(RULE, style="dim")
    counts = ", ".join(f"{n} {verdict}" for verdict, n in result.counts().items())
    console.print(f"\n{counts}.")
    for failure in result.failures[:5]:
        text = (
            f"failed: {failure['method']} on {failure['dataset']}: {failure['error']}"
        )
        Console(stderr=True).print(text, markup=False, highlight=False)
    stale = sum(item.n_stale for item in result.cells)
    if stale:
        console.print(f"{stale} runs in the store are stale: other code made them.")
    for path in result.paths.values():
        console.print(f"wrote {path}", markup=False, soft_wrap=True)


def _cell(item: Any, styles: dict[str, str]) -> str:
    digits = 1 if item.cell.unit == "percent" else 3

    def number(value: float) -> str:
        return "-" if value != value else f"{value:.{digits}f}"

    shown = number(item.mean)
    if item.std_error == item.std_error:
        shown += f" ± {number(item.std_error)}"
    style = styles.get(item.verdict, "dim")
    published = number(item.cell.published)
    if item.optimistic == item.optimistic:
        published = f"{number(item.optimistic)} / {published}"
    gap = f": {item.cause}" if item.cause else ""
    if item.behind and item.verdict in styles:
        gap = f" ({item.difference:+.{digits}f}){gap}"
    return f"{shown} / {published}\n[{style}]{item.verdict}{gap}[/{style}]"
