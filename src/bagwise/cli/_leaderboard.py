"""`bagwise leaderboard`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bagwise.cli._common import Json, write_json


def leaderboard(
    store: Annotated[
        Path, typer.Argument(help="SQLite file of `compare` or `reproduce`.")
    ] = Path("papers.sqlite"),
    metric: Annotated[
        str, typer.Option(help="accuracy, auroc, balanced_accuracy, log_loss.")
    ] = "accuracy",
    methods: Annotated[
        str | None, typer.Option(help="Only these, separated by commas.")
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Only these, separated by commas.")
    ] = None,
    min_methods: Annotated[
        int, typer.Option(help="Leave out data sets with fewer methods.")
    ] = 2,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path(
        "leaderboard.html"
    ),
    json: Json = False,
) -> int:
    """Rank all methods over all data sets of a STORE and write one page."""
    from bagwise import report, reproduction

    board = reproduction.leaderboard(
        store,
        metric=metric,
        methods=_split(methods),
        datasets=_split(datasets),
        min_methods=min_methods,
    )
    report.write_leaderboard(board, out)
    if json:
        write_json(board.rows())
        return 0
    view = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("Mean rank", "Method", "Mean", "Wins", "p", "Fit, s"):
        left = heading == "Method"
        view.add_column(heading, justify="left" if left else "right")
    for row in board.rows():
        p = "" if row["p_holm"] != row["p_holm"] else f"{row['p_holm']:.3f}"
        view.add_row(
            f"{row['mean_rank']:.2f}",
            row["method"],
            f"{row['mean']:.3f}",
            str(row["wins"]),
            p,
            f"{row['fit_seconds']:.3f}",
            style="" if row["with_best"] else "dim",
        )
    console = Console(highlight=False)
    console.print(view)
    console.print(
        f"\n{len(board.datasets)} data sets; critical difference"
        f" {board.critical_difference:.2f} ranks (Nemenyi, 5%); Friedman's test:"
        f" p = {board.p_friedman:.2g}."
    )
    for line in board.left_out:
        console.print(f"left out: {line}", style="dim", markup=False)
    console.print(f"page: {out.absolute()}", markup=False, soft_wrap=True)
    return 0


def _split(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]
