"""Command line of the studies: `python -m studies reproduce | leaderboard | pages`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from studies.leaderboard import leaderboard
from studies.leaderboard_page import write_leaderboard
from studies.pages import write_results_page
from studies.reproduce import RESULTS, reproduce
from studies.tables import list_tables, load_table


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    main = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    commands = main.add_subparsers(required=True)

    one = commands.add_parser("reproduce", help="re-run a published table")
    one.set_defaults(action=_reproduce)
    one.add_argument("table", nargs="?", help="a table, or `all`")
    one.add_argument("--list", action="store_true", help="list the tables")
    one.add_argument("--repeats", type=int, default=1, help="of the protocol, 1 to 10")
    one.add_argument("--datasets", type=_names, help="columns to run, comma-separated")
    one.add_argument("--methods", type=_names, help="rows to run, comma-separated")
    one.add_argument("--folds", type=int, help="run only this many folds per repeat")
    one.add_argument(
        "--store",
        type=Path,
        default=Path("papers.sqlite"),
        help="SQLite file of the runs; finished runs are not repeated",
    )
    one.add_argument("--out", type=Path, default=RESULTS, help="folder of the pages")
    one.add_argument(
        "--stored", action="store_true", help="run nothing, report what is stored"
    )
    one.add_argument("--time-limit", type=float, help="seconds per run")
    one.add_argument("--retry-failed", action="store_true", help="repeat failed runs")
    one.add_argument(
        "--optimistic",
        action="store_const",
        const=True,
        default=False,
        help="also choose parameters on the reported folds, as many papers did",
    )
    one.add_argument(
        "--only-optimistic",
        dest="optimistic",
        action="store_const",
        const="only",
        help="the same, and keep the other figures that are in the folder",
    )
    one.add_argument(
        "--jobs", "-j", type=int, default=1, help="processes; -1: all cores"
    )
    one.add_argument("--seed", type=int, default=0, help="random seed")
    one.add_argument("--json", action="store_true", help="write JSON")

    two = commands.add_parser("leaderboard", help="rank the methods of a store")
    two.set_defaults(action=_leaderboard)
    two.add_argument("store", type=Path, help="SQLite file of `compare` or `reproduce`")
    two.add_argument("--metric", default="accuracy")
    two.add_argument("--methods", type=_names, help="comma-separated")
    two.add_argument("--datasets", type=_names, help="comma-separated")
    two.add_argument(
        "--min-methods", type=int, default=2, help="leave out smaller data sets"
    )
    two.add_argument("--out", type=Path, default=RESULTS / "leaderboard.html")

    three = commands.add_parser("pages", help="write results/README.md from CSV files")
    three.set_defaults(action=_pages)
    three.add_argument("--out", type=Path, default=RESULTS, help="folder of the tables")
    return main


def _reproduce(given: argparse.Namespace) -> int:
    if given.list or given.table is None:
        for name in list_tables():
            table = load_table(name)
            print(f"{name:16} {len(table.cells):4} cells  {table.title}")
        return 0
    failures, rows = [], []
    for name in list_tables() if given.table == "all" else [given.table]:
        result = reproduce(
            name,
            repeats=given.repeats,
            datasets=given.datasets,
            methods=given.methods,
            folds=given.folds,
            seed=given.seed,
            n_jobs=given.jobs,
            store=given.store,
            out=given.out,
            time_limit=given.time_limit,
            retry_failed=given.retry_failed,
            run=not given.stored,
            progress=not given.json,
            optimistic=given.optimistic,
        )
        failures += result.failures
        rows += result.rows()
        if not given.json:
            print(result.to_markdown())
            counts = [f"{n} {verdict}" for verdict, n in result.counts().items()]
            print(f"{', '.join(counts)}.")
            print(*(f"wrote {path}" for path in result.paths.values()), sep="\n")
    page = write_results_page(given.out)
    print(json.dumps(rows, indent=2) if given.json else f"wrote {page}")
    for row in failures[:5]:
        text = f"failed: {row['method']} on {row['dataset']}: {row['error']}"
        print(text, file=sys.stderr)
    return 1 if failures else 0


def _leaderboard(given: argparse.Namespace) -> int:
    board = leaderboard(
        given.store,
        metric=given.metric,
        methods=given.methods,
        datasets=given.datasets,
        min_methods=given.min_methods,
    )
    for row in board.rows():
        print(f"{row['mean_rank']:6.2f}  {row['mean']:.3f}  {row['method']}")
    print(
        f"{len(board.datasets)} data sets; critical difference"
        f" {board.critical_difference:.2f} ranks (Nemenyi, 5%); Friedman's test:"
        f" p = {board.p_friedman:.2g}."
    )
    print(*(f"left out: {line}" for line in board.left_out), sep="\n")
    print(f"wrote {write_leaderboard(board, given.out)}")
    return 0


def _pages(given: argparse.Namespace) -> int:
    print(f"wrote {write_results_page(given.out)}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status."""
    given = parser().parse_args(arguments)
    return int(given.action(given))


if __name__ == "__main__":
    sys.exit(main())
